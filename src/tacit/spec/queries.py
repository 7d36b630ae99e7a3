"""Questions that may be asked of the data: a closed set, without data and without levels.

A query is symbolic. The wall looks up the public levels in the schema and derives the sensitivity
from what it enforces itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.spec.columns import Label
from tacit.spec.errors import QueryError
from tacit.spec.moments import Moments
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class Is:
    """Whether a column's value is one of `levels`: a column with the labels False and True."""

    column: str
    levels: tuple[Label, ...]

    def __post_init__(self) -> None:
        levels = self.levels
        given = levels if isinstance(levels, (tuple, list)) else (levels,)
        object.__setattr__(self, "levels", tuple(given))
        if not self.levels:
            raise QueryError(f"Expected at least one level of {self.column!r} to ask for.")

    @property
    def name(self) -> str:
        return self.column


Key = str | Is


@dataclass(frozen=True)
class Counts:
    """How many rows have each value of each column, within each combination of `by`.

    Every column gives one table (by..., column). A row adds one to a single cell of each table.

    Examples
    --------
    >>> Counts("ward").columns
    ('ward',)
    """

    columns: tuple[Key, ...]
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.columns,) if isinstance(self.columns, (str, Is)) else tuple(self.columns)
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "by", by)
        if not columns:
            raise QueryError("Expected at least one column to count.")
        names = [*map(name_of, columns), *by]
        if len(set(names)) < len(names):
            raise QueryError("Expected each column once, either counted or in by=.")

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "Counts",
            "columns": [
                c if isinstance(c, str) else {"is": c.column, "levels": list(c.levels)}
                for c in self.columns
            ],
            "by": list(self.by),
        }


Query = Counts | Moments | BoundedSum  # a union that grows: choices and draws join it


def query_from_dict(facts: Mapping[str, Any]) -> Query:
    """The query a saved release answers."""
    match facts.get("type"):
        case "BoundedSum":
            return BoundedSum.from_dict(facts)
        case "Moments":
            return Moments.from_dict(facts)
        case "Counts":
            return _counts(facts)
        case kind:
            raise QueryError(f"Unknown query type {kind!r}.")


def _counts(facts: Mapping[str, Any]) -> Counts:
    columns = tuple(
        c if isinstance(c, str) else Is(c["is"], tuple(c["levels"])) for c in facts["columns"]
    )
    return Counts(columns, tuple(facts["by"]))


def name_of(key: Key) -> str:
    return key if isinstance(key, str) else key.column


def labels_of(key: Key, schema: Schema) -> tuple[Label, ...]:
    """The public labels of a key, in order; the implicit missing cell is not among them."""
    if isinstance(key, str):
        return schema[key].labels
    known = schema[key.column].labels
    for level in key.levels:
        if not any(type(level) is type(k) and level == k for k in known):
            shown = ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
            raise QueryError(f"No level {level!r} in column {key.column!r}; it has {shown}.")
    return (False, True)


def key_level(key: Key, level: Label) -> Label:
    """The label of a key at a level of its column; None stays missing."""
    return level if isinstance(key, str) or level is None else level in key.levels
