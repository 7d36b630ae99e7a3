"""Questions that may be asked of the data: a closed set, without data and without levels.

A query is symbolic. The wall looks up the public levels in the schema and derives the sensitivity
from what it enforces itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.spec.checks import set_fields
from tacit.spec.choice import Choice
from tacit.spec.columns import Column, column_to_dict
from tacit.spec.density import DensityDraw
from tacit.spec.draws import ConjugateDraw
from tacit.spec.errors import QueryError
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles
from tacit.spec.keys import Is, Key, name_of
from tacit.spec.latent_tables import LatentTables
from tacit.spec.logistic import LogisticDraw, LogisticMinimum
from tacit.spec.moments import Moments
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.wire import Record


@dataclass(frozen=True)
class Counts(Record):
    """How many rows have each value of each column, within each combination of `by`.

    Every entry of `columns` gives one table: (by..., column), or (by..., column, column, ...) where
    the entry is a tuple of columns, counted together. A row adds one to a single cell of each
    table.

    Examples
    --------
    >>> Counts("ward").columns
    ('ward',)
    >>> Counts([("ward", "smoker"), ("ward", "age")]).names
    ('ward & smoker', 'ward & age')
    """

    columns: tuple[Key | tuple[Key, ...], ...]
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.columns,) if isinstance(self.columns, (str, Is)) else tuple(self.columns)
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        set_fields(self, columns=tuple(map(_entry, columns)), by=by)
        if not columns:
            raise QueryError("Expected at least one column to count.")
        if not all(isinstance(name, str) for name in by):
            raise QueryError(f"Expected by= to be columns, got {by!r}.")
        seen: set[frozenset[str]] = set()
        for table in self.tables:
            together = [*map(name_of, table), *by]
            if len(set(together)) < len(together) or frozenset(together) in seen:
                raise QueryError("Expected each column once, either counted or in by=.")
            seen.add(frozenset(together))
        if len(set(self.names)) < len(self.names):
            # Tables are asked for by name: ("a", "b") must not be taken for a column "a & b".
            raise QueryError(f"Expected tables with different names, got {list(self.names)}.")

    @property
    def tables(self) -> tuple[tuple[Key, ...], ...]:
        """The keys that each table counts together."""
        return tuple(c if isinstance(c, tuple) else (c,) for c in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """What each table is called in a release."""
        return tuple(" & ".join(map(name_of, table)) for table in self.tables)


def _entry(entry: Any) -> Key | tuple[Key, ...]:
    """A key, or several that are counted together."""
    if isinstance(entry, (str, Is)):
        return entry
    keys = tuple(entry) if isinstance(entry, (tuple, list)) else ()
    if not keys or not all(isinstance(key, (str, Is)) for key in keys):
        raise QueryError(f"Expected a column or a tuple of columns to count, got {entry!r}.")
    return keys if len(keys) > 1 else keys[0]


Query = (
    Counts
    | Moments
    | BoundedSum
    | ConjugateDraw
    | LogisticDraw
    | LogisticMinimum
    | Choice
    | DensityDraw
    | StatePaths
    | StateProfiles
    | StateChain
    | LatentTables
)
_NOT_COLUMNS = ("type", "geometry", "norm", "levels", "jax", "format")
QUERIES: Mapping[str, type[Query]] = {query.__name__: query for query in Query.__args__}


def columns_of(query: Query, schema: Schema) -> tuple[Column, ...]:
    """The columns of a schema that a query names, in the schema's order."""
    names = set(_texts(query.to_dict()))
    return tuple(column for column in schema.columns if column.name in names)


def asked_of(query: Query, schema: Schema) -> list[Any]:
    """The facts of these columns: a question is another one where their levels or bounds are."""
    return [column_to_dict(column) for column in columns_of(query, schema)]


def _texts(facts: Any) -> list[str]:
    """All texts in facts, but for those under a name under which no column is named."""
    match facts:
        case str():
            return [facts]
        case Mapping():
            parts = [part for key, part in facts.items() if key not in _NOT_COLUMNS]
        case list() | tuple():
            parts = list(facts)
        case _:
            return []
    return [text for part in parts for text in _texts(part)]


def query_from_dict(facts: Mapping[str, Any]) -> Query:
    """A query from what its `to_dict` gave; whoever wrote it, what is wrong is refused in words."""
    name = str(facts.get("type")) if isinstance(facts, Mapping) else "?"
    if name not in QUERIES:
        raise QueryError(f"Unknown query type {name[:40]!r}.")
    return QUERIES[name].from_dict(facts)
