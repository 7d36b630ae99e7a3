"""Questions that may be asked of the data: a closed set, without data and without levels.

A query is symbolic. The wall looks up the public levels in the schema and derives the sensitivity
from what it enforces itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.spec.choice import Choice
from tacit.spec.draws import ConjugateDraw
from tacit.spec.errors import QueryError
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles
from tacit.spec.keys import Is, Key, key_from_plain, key_to_plain, name_of
from tacit.spec.moments import Moments
from tacit.spec.sums import BoundedSum


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
        columns = [key_to_plain(column) for column in self.columns]
        return {"type": "Counts", "columns": columns, "by": list(self.by)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Counts:
        return cls(tuple(key_from_plain(c) for c in facts["columns"]), tuple(facts["by"]))


Query = (
    Counts | Moments | BoundedSum | ConjugateDraw | Choice | StatePaths | StateProfiles | StateChain
)
_QUERIES: Mapping[str, type[Query]] = {query.__name__: query for query in Query.__args__}


def query_from_dict(facts: Mapping[str, Any]) -> Query:
    """The query a saved release answers."""
    name = str(facts.get("type"))
    if name not in _QUERIES:
        raise QueryError(f"Unknown query type {name!r}.")
    return _QUERIES[name].from_dict(facts)
