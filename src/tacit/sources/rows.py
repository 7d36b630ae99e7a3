"""Rows as their schema sees them, at most k of each unit, in one read of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.sources import columns as domain
from tacit.sources.source import Snapshot
from tacit.sources.storage import ByUnit, Spool, cast, forget, pieces
from tacit.sources.units import owner, units_of
from tacit.spec.columns import Tokens
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class Batch:
    """Some rows: decoded columns by name, and a 1 at the first row of each unit, else 0.

    `single` says whether 32 bits hold all of their numbers, by types alone.
    """

    columns: dict[str, np.ndarray] = field(repr=False)
    first: np.ndarray = field(repr=False)
    single: bool


def bounded(snapshot: Snapshot, schema: Schema, names: Sequence[str]) -> Iterator[Batch]:
    """The decoded columns of at most k rows of each unit, a unit's rows side by side.

    Which rows are kept, and in which order, depends on that unit's own rows alone.
    """
    names = list(dict.fromkeys(names))
    if schema.unit is None:
        decoders = [domain.Decoder(schema[name]) for name in names]
        for raw in snapshot.batches(names):
            found = {n: read(cells) for n, read, cells in zip(names, decoders, raw)}
            single = all(decoder.single for decoder in decoders)
            yield Batch(found, np.ones(len(raw[0]), np.int64), single)
        return
    # Texts are read for themselves (`texts.py`), and do not decide which rows are kept here.
    everything = [column.name for column in schema.columns if not isinstance(column, Tokens)]
    rows, decoders = ByUnit(), [domain.Decoder(schema[name]) for name in everything]
    for *raw, who in snapshot.batches([*everything, schema.unit]):
        rows.append(owner(who), [read(cells) for read, cells in zip(decoders, raw, strict=True)])
    single = all(read.single for name, read in zip(everything, decoders) if name in names)
    for owners, contents in rows.parts():
        kept, first = units_of(owners, contents, schema.max_rows_per_unit)
        whole = dict(zip(everything, contents, strict=True))
        yield Batch({name: whole[name][kept] for name in names}, first, single)


class Cells(NamedTuple):
    """Decoded cells of one table of columns, how many rows have each, and how many units begin."""

    table: int
    columns: list[np.ndarray]
    rows: np.ndarray
    units: int


def tabulated(
    snapshot: Snapshot, schema: Schema, tables: Sequence[Sequence[str]]
) -> Iterator[Cells]:
    """All rows of several tables of columns, as an engine groups them or one by one.

    A unit's rows are bounded before they are counted, and never grouped by an engine.
    """
    if snapshot.groups is not None and schema.unit is None:
        for group in snapshot.groups(tables):
            names, units = tables[group.table], int(group.rows.sum()) * (group.table == 0)
            found = [domain.decoded(schema[n], cells) for n, cells in zip(names, group.cells)]
            yield Cells(group.table, found, group.rows, units)
        return
    for batch in bounded(snapshot, schema, [name for names in tables for name in names]):
        units, each = int(batch.first.sum()), np.ones(len(batch.first), np.int64)
        for table, names in enumerate(tables):
            found = [batch.columns[name] for name in names]
            yield Cells(table, found, each, units * (table == 0))


def count_units(snapshot: Snapshot, schema: Schema) -> int:
    """How many units there are."""
    if schema.unit is None:
        return sum(len(cells) for (cells,) in snapshot.batches([schema.columns[0].name]))
    rows = ByUnit()
    for (who,) in snapshot.batches([schema.unit]):
        rows.append(owner(who), [])
    return sum(
        int(pc.count_distinct(pa.chunked_array(owners), mode="only_valid").as_py())
        for owners, _ in rows.parts()
    )


@dataclass(frozen=True)
class Rows:
    """The columns of a query, a unit's rows side by side. No array can be written to.

    Unit i has the rows from `starts[i]` to `starts[i + 1]`; a row is `complete` if no value of it
    is missing.
    """

    values: np.ndarray = field(repr=False)
    complete: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)
    _by_dtype: dict[Any, np.ndarray] = field(default_factory=dict, repr=False, init=False)

    def __post_init__(self) -> None:
        for array in self.arrays:
            array.setflags(write=False)

    @property
    def units(self) -> int:
        return len(self.starts) - 1

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.values, self.complete, self.starts

    def part(self, first: int, stop: int) -> Rows:
        """Some units that follow one another."""
        begin, end = self.starts[[first, stop]]
        starts = self.starts[first : stop + 1] - begin
        return Rows(self.values[begin:end], self.complete[begin:end], starts)

    def pieces(self, units: int) -> int:
        """In how many pieces to look at so many units, so that each takes little memory."""
        return pieces(self.values, units)

    def forget(self, units: np.ndarray) -> None:
        """Give back the memory that the rows of these units, in order, take."""
        if units.size:
            forget(self.values, self.starts[units[0]], self.starts[units[-1] + 1])

    def cast(self, dtype: Any) -> np.ndarray:
        """The values in another precision, converted once."""
        if dtype == self.values.dtype:
            return self.values
        if dtype not in self._by_dtype:
            self._by_dtype[dtype] = cast(self.values, dtype).array()
        return self._by_dtype[dtype]


def load_rows(snapshot: Snapshot, schema: Schema, names: tuple[str, ...]) -> Rows:
    """Read the columns once, as numbers of 32 bits where these hold them all, else of 64."""
    values, completes, firsts = Spool(np.float32, len(names)), Spool(np.bool_), Spool(np.int64)
    rows = 0
    for batch in bounded(snapshot, schema, names):
        cells = [domain.values(schema[name], batch.columns[name]) for name in names]
        if not batch.single:
            values = values.cast(np.float64)
        values.append(np.column_stack(cells))
        completes.append(np.all(np.isfinite(cells), axis=0))
        firsts.append(np.flatnonzero(batch.first) + rows)
        rows += len(batch.first)
    firsts.append(np.array([rows]))
    return Rows(values.array(), completes.array(), firsts.array())
