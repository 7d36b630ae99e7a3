"""What all engines do: scan raw cells, and group equal raw cells and count them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.sources.cells import Raw
from tacit.sources.source import Group, Snapshot, Source, check_names
from tacit.sources.tables import plain
from tacit.spec.errors import SourceError

Run = Callable[[str], Iterable[pa.RecordBatch]]
_MOST_TOGETHER = 30  # columns that grouping() takes everywhere


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


# For each of several tables of columns, by its index: different cells, and their numbers of rows.
Grouping = Callable[[Sequence[Sequence[Column]]], Iterable[tuple[int, pa.RecordBatch]]]


@dataclass(frozen=True)
class Session:
    """A connection to an engine that sees one version of a table.

    `columns` are all of its columns; of a type that cells are not read from, the type's name.
    `check` has the engine plan a read of these columns, and refuse what it would fail for.
    """

    columns: Mapping[str, Column | str]
    check: Callable[[Sequence[str]], object] = field(repr=False)
    scan: Callable[[Sequence[Column]], Iterable[pa.RecordBatch]] = field(repr=False)
    group: Grouping | None = field(default=None, repr=False)

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
        columns = [session.wanted(names) for names in tables]
        together = [i for i, some in enumerate(columns) if all(each.grouped for each in some)]
        if group and together:
            for at, batch in group([columns[i] for i in together]):
                table = together[at]
                rows = batch.column(len(columns[table])).cast(pa.int64())
                yield Group(table, _cells(columns[table], batch), rows.to_numpy())
        for table in set(range(len(tables))) - set(together):
            for cells in batches(tables[table]):
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


def grouped(run: Run, table: str) -> Grouping:
    """Grouping in one scan: by GROUPING SETS where there are several tables of columns."""

    def group(tables: Sequence[Sequence[Column]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        columns = list(dict.fromkeys(column for some in tables for column in some))
        if len(columns) > _MOST_TOGETHER and len(tables) > 1:
            for i, some in enumerate(tables):
                yield from ((i, batch) for _, batch in group([some]))
            return
        wanted = [[columns.index(column) for column in some] for some in tables]
        # What grouping() says of a set: a bit for each column that is not in it, the first highest.
        bits = [
            sum(1 << len(columns) - 1 - i for i in range(len(columns)) if i not in some)
            for some in wanted
        ]
        sets = [_names(some) for some in dict(zip(bits, wanted)).values()]
        by = sets[0] if len(sets) == 1 else f"GROUPING SETS ({', '.join(f'({x})' for x in sets)})"
        every = _names(range(len(columns)))
        which = "0" if len(sets) == 1 else f"grouping({every})"
        for batch in run(
            f"SELECT {every}, count(*) AS n, {which} AS which "
            f"FROM ({select(table, columns)}) AS cells GROUP BY {by}"
        ):
            for i, (indices, bit) in enumerate(zip(wanted, bits, strict=True)):
                rows = batch.filter(pc.equal(batch.column("which"), bit))
                if rows.num_rows:
                    yield i, rows.select([*(f"c{j}" for j in indices), "n"])

    return group


def _names(indices: Iterable[int]) -> str:
    return ", ".join(f"c{i}" for i in indices)


def quoted(name: str) -> str:
    """A name as SQL has it, whatever letters it is made of."""
    return '"' + name.replace('"', '""') + '"'


def utc(cells: pa.Array) -> pa.Array:
    """Moments, whatever zone a session prints them in: that they have a date there, or not."""
    return plain(cells).view(pa.int64()).view(pa.timestamp("us", "UTC"))
