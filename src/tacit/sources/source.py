"""Where the raw rows are: one protocol for tables in memory, files and engines.

A source is checked by its header, and opened to be read: what is read until it is closed again is
one version of the data. Whatever the source, reading gives raw columns; `cells` and `columns` say
what a cell means, once for all sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tacit.sources.cells import Raw
from tacit.spec.errors import SourceError


class Group(NamedTuple):
    """Different raw cells of some columns, and in how many rows each combination stands."""

    table: int  # the index of the columns among those that were asked for
    cells: list[Raw]
    rows: np.ndarray


Batches = Callable[[Sequence[str]], Iterator[list[Raw]]]
# Equal cells may stand in several groups; different ones never share one.
Groups = Callable[[Sequence[Sequence[str]]], Iterator[Group]]


@dataclass(frozen=True)
class Snapshot:
    """One version of a table, read as often as it is asked until its source closes it.

    `batches(names)` reads these columns. `groups([names, ...])`, where an engine has it, gives the
    different raw cells of several tables of columns with their numbers of rows.
    """

    batches: Batches = field(repr=False)
    groups: Groups | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Source:
    """A table that has been checked but not read.

    `header` looks up names and types again: where they are not what they were, a read would take
    one column for another. `declared` is what the custodian calls this version, for the ledger.
    """

    snapshot: Callable[[], AbstractContextManager[Snapshot]] = field(repr=False)
    header: Callable[[], Any] = field(repr=False)
    declared: dict[str, Any] = field(default_factory=dict)
    opened_with: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "opened_with", self.header())

    def check(self) -> None:
        """Refuse a source whose header is gone or not the one it was opened with."""
        if self.header() != self.opened_with:
            raise SourceError(
                "The columns of the source are not those it had when the wall was made: open it "
                "again. Nothing was charged."
            )


def check_names(what: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table that lacks a column, or has it twice."""
    for name in wanted:
        if names.count(name) > 1:
            raise SourceError(f"{what} has more than one column {name!r}.")
        if name not in names:
            # No more than that: a file without a header would have its first record quoted.
            alike = [other for other in names if _letters(other) == _letters(name)]
            hint = f"; did you mean {alike[0]!r}?" if alike else "."
            raise SourceError(f"{what} has no column {name!r}{hint}")


def _letters(name: object) -> str:
    return "".join(letter for letter in str(name).casefold() if letter.isalnum())
