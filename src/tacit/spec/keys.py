"""What a question counts: a column, or whether a column is one of some levels."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.spec.checks import among, set_fields
from tacit.spec.columns import Integer, Label
from tacit.spec.errors import QueryError
from tacit.spec.schema import Schema
from tacit.spec.wire import Record


@dataclass(frozen=True)
class Is(Record):
    """Whether a column's value is one of `levels`: a column with the labels False and True."""

    column: str
    levels: tuple[Label, ...]

    def __post_init__(self) -> None:
        given = self.levels if isinstance(self.levels, (tuple, list)) else (self.levels,)
        set_fields(self, levels=tuple(given))
        if not self.levels:
            raise QueryError(f"Expected at least one level of {self.column!r} to ask for.")


Key = str | Is


def name_of(key: Key) -> str:
    return key if isinstance(key, str) else key.column


def labels_of(key: Key, schema: Schema) -> tuple[Label, ...]:
    """The public labels of a key, in order; the implicit missing cell is not among them."""
    if isinstance(key, str):
        return schema[key].labels
    known = schema[key.column].labels
    for level in key.levels:
        if not among(level, known):
            shown = ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
            raise QueryError(f"No level {level!r} in column {key.column!r}; it has {shown}.")
    return (False, True)


def first_number(name: str, schema: Schema) -> int:
    """What a kernel sees for a column's first label: values for integers, codes elsewhere."""
    column = schema[name]
    return column.low if isinstance(column, Integer) else 0
