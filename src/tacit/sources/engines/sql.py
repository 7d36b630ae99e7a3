"""What all engines do: scan raw cells, and group equal raw cells and count them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tacit.sources.cells import Raw
from tacit.sources.source import Group, Snapshot, Source, check_names
from tacit.sources.tables import plain
from tacit.spec.errors import SourceError

Run = Callable[[str], Iterable[pa.RecordBatch]]


class Column(NamedTuple):
    """How cells are asked for: an expression that is exact for each, and what its values mean.

    `type` is what the engine declares. Cells are grouped only where equal values of the expression
    are equal bytes; else they are pulled. `alone` is how a text is asked for with at most one other
    column, where that may be longer.
    """

    type: pa.DataType
    expression: str
    decode: Callable[[pa.Array], Raw] = plain
    grouped: bool = True
    alone: str | None = None


@dataclass(frozen=True)
class Session:
    """A connection to an engine that sees one version of a table.

    `columns` are all of its columns; of a type that cells are not read from, the type's name.
    `check` has the engine plan a read of these columns, and refuse what it would fail for.
    """

    columns: Mapping[str, Column | str]
    check: Callable[[Sequence[str]], object] = field(repr=False)
    scan: Callable[[Sequence[Column]], Iterable[pa.RecordBatch]] = field(repr=False)
    group: Callable[[Sequence[Column]], Iterable[pa.RecordBatch]] | None = field(
        default=None, repr=False
    )

    def wanted(self, names: Sequence[str]) -> list[Column]:
        """These columns; one that is not there, or of another type, is refused by name."""
        check_names("The table", list(self.columns), names)
        found = []
        for name in names:
            column = self.columns[name]
            if isinstance(column, str):
                raise SourceError(
                    f"Column {name!r} has type {column}; expected text, numbers or dates."
                )
            found.append(column)
        return found

    def header(self, names: Sequence[str]) -> pa.Schema:
        """The declared types of columns that the engine has agreed to read."""
        found = self.wanted(names)
        self.check(names)
        return pa.schema([(name, column.type) for name, column in zip(names, found, strict=True)])


def source(
    session: Callable[[], AbstractContextManager[Session]],
    names: Sequence[str],
    version: str | None = None,
) -> Source:
    """A table that is looked up before each charge, and read in one session."""

    def header() -> pa.Schema:
        with session() as now:
            return now.header(names)

    @contextmanager
    def opened() -> Iterator[Snapshot]:
        with session() as now:
            # What the charge was for: another type would be read by another rule.
            if now.header(names) != found.opened_with:
                raise SourceError("The columns have changed since the charge.")
            yield snapshot(now)

    found = Source(opened, header, {} if version is None else {"version": version})
    return found


def snapshot(session: Session) -> Snapshot:
    """One version of a table, as batches of raw cells or as groups of them."""

    def batches(names: Sequence[str]) -> Iterator[list[Raw]]:
        columns = session.wanted(names)
        for batch in session.scan(columns):
            yield _cells(columns, batch)

    group = session.group

    def groups(tables: Sequence[Sequence[str]]) -> Iterator[Group]:
        for table, names in enumerate(tables):
            columns = session.wanted(names)
            if group and all(column.grouped for column in columns):
                for batch in group(columns):
                    rows = batch.column(len(columns)).cast(pa.int64())
                    yield Group(table, _cells(columns, batch), rows.to_numpy())
            else:
                for cells in batches(names):
                    yield Group(table, cells, np.ones(len(cells[0]), np.int64))

    return Snapshot(batches, groups if group else None)


def _cells(columns: Sequence[Column], batch: pa.RecordBatch) -> list[Raw]:
    return [column.decode(batch.column(i)) for i, column in enumerate(columns)]


def select(table: str, columns: Sequence[Column]) -> str:
    """Each row's cells. `table` is a full name, quoted."""
    few = len(columns) <= 2
    asked = [(few and column.alone) or column.expression for column in columns]
    listed = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(asked))
    return f"SELECT {listed} FROM {table}"


def grouped(table: str, columns: Sequence[Column]) -> str:
    """The different cells and in how many rows each combination stands."""
    listed = [column.expression for column in columns]
    named = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(listed))
    return f"SELECT {named}, count(*) AS n FROM {table} GROUP BY {', '.join(listed)}"


def quoted(name: str) -> str:
    """A name as SQL has it, whatever letters it is made of."""
    return '"' + name.replace('"', '""') + '"'


def utc(cells: pa.Array) -> pa.Array:
    """Moments, whatever zone a session prints them in: that they have a date there, or not."""
    return plain(cells).view(pa.int64()).view(pa.timestamp("us", "UTC"))
