"""Rows as their schema sees them, at most so many of each unit, in one read of the source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.sources import columns as domain
from tacit.sources.cells import TEXT, text
from tacit.sources.source import Snapshot
from tacit.spec.columns import Tokens
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class Batch:
    """Some rows: decoded columns by name, and a 1 at the first row of each unit, else 0."""

    columns: dict[str, np.ndarray] = field(repr=False)
    first: np.ndarray = field(repr=False)


def bounded(snapshot: Snapshot, schema: Schema, names: Sequence[str]) -> Iterator[Batch]:
    """The decoded columns of at most k rows of each unit, a unit's rows side by side.

    Which rows are kept, and in which order, depends on that unit's own rows alone.
    """
    names = list(dict.fromkeys(names))
    if schema.unit is None:
        for raw in snapshot.batches(names):
            found = {n: domain.decoded(schema[n], cells) for n, cells in zip(names, raw)}
            yield Batch(found, np.ones(len(raw[0]), np.int64))
        return
    # Texts are read for themselves (`texts.py`), and do not decide which rows are kept here.
    everything = [column.name for column in schema.columns if not isinstance(column, Tokens)]
    owners: list[pa.Array] = []
    parts = {name: [domain.decoded(schema[name], [])] for name in everything}
    for *raw, who in snapshot.batches([*everything, schema.unit]):
        owners.append(owner(who))
        for name, cells in zip(everything, raw, strict=True):
            parts[name].append(domain.decoded(schema[name], cells))
    whole = {name: np.concatenate(some) for name, some in parts.items()}
    kept, first = units_of(owners, list(whole.values()), schema.max_rows_per_unit)
    yield Batch({name: whole[name][kept] for name in names}, first)


def owner(cells: Any) -> pa.Array:
    """Whose row it is: text that differs for different ids; null for nobody's."""
    names = text(cells)
    blank = pc.equal(names, pa.scalar(b"", TEXT))
    return pc.if_else(blank, pa.scalar(None, TEXT), names)


def units_of(
    owners: Sequence[pa.Array], contents: Sequence[np.ndarray], most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows to keep, unit by unit, and a 1 at the first row of each unit, else 0.

    A unit's rows are put in the order of what the schema sees of them. Of one that has more than
    `most`, those are kept whose tickets are least: hashes of the unit, the row's content and how
    often that was seen before. The rule is public, favours no value, and does not depend on where
    in the source a row stands.
    """  # proof: rows-per-unit
    names = pa.chunked_array(owners, TEXT).combine_chunks().dictionary_encode()
    person = names.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort((*contents, person))
    order = order[person[order] >= 0]  # rows without a unit are nobody's
    person = person[order]
    starts = np.flatnonzero(_begins(person))
    counts = np.diff(np.append(starts, person.size))
    crowded = np.flatnonzero(np.repeat(counts > most, counts))
    keep = np.ones(person.size, bool)
    if crowded.size:
        whose = person[crowded]
        tickets = _tickets(names.dictionary, whose, [c[order[crowded]] for c in contents])
        by_ticket = np.lexsort((tickets, whose))
        begins = np.flatnonzero(_begins(whose[by_ticket]))
        rank = np.arange(whose.size) - np.repeat(begins, np.diff(np.append(begins, whose.size)))
        keep[crowded[by_ticket]] = rank < most
    return order[keep], _begins(person[keep]).astype(np.int64)


def _begins(groups: np.ndarray) -> np.ndarray:
    """Where a group of equal neighbours begins."""
    return np.append(np.ones(1, bool), groups[1:] != groups[:-1])[: groups.size]


def _tickets(names: pa.Array, person: np.ndarray, contents: Sequence[np.ndarray]) -> np.ndarray:
    """A hash of each row: of its unit, its content, and how often that stands before it."""
    raw = [np.ascontiguousarray(c).view(np.uint8).reshape(person.size, -1) for c in contents]
    content = np.concatenate([np.zeros((person.size, 0), np.uint8), *raw], axis=1)
    again = np.zeros(person.size, bool)
    again[1:] = (person[1:] == person[:-1]) & (content[1:] == content[:-1]).all(axis=1)
    at = np.arange(person.size)
    twin = at - np.maximum.accumulate(np.where(again, 0, at))
    whose = {i: names[int(i)].as_py() for i in np.unique(person)}
    tickets = [
        hashlib.sha256(b"%d:%b:%d:" % (len(whose[i]), whose[i], t) + row.tobytes()).digest()
        for i, t, row in zip(person.tolist(), twin.tolist(), content, strict=True)
    ]
    return np.array(tickets, "S32")


def count_units(snapshot: Snapshot, schema: Schema) -> int:
    """How many units there are."""
    if schema.unit is None:
        return sum(len(cells) for (cells,) in snapshot.batches([schema.columns[0].name]))
    owners = [owner(who) for (who,) in snapshot.batches([schema.unit])]
    return int(pc.count_distinct(pa.chunked_array(owners, TEXT), mode="only_valid").as_py())


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
        for array in (self.values, self.complete, self.starts):
            array.setflags(write=False)

    @property
    def units(self) -> int:
        return len(self.starts) - 1

    def cast(self, dtype: Any) -> np.ndarray:
        """The values in another precision, converted once."""
        if dtype not in self._by_dtype:
            self._by_dtype[dtype] = self.values.astype(dtype)
        return self._by_dtype[dtype]


def load_rows(snapshot: Snapshot, schema: Schema, names: tuple[str, ...]) -> Rows:
    """Read the columns once, as doubles."""
    parts, firsts = [np.zeros((0, len(names)))], [np.zeros(0, np.int64)]
    for batch in bounded(snapshot, schema, names):
        cells = [domain.values(schema[name], batch.columns[name]) for name in names]
        parts.append(np.column_stack(cells))
        firsts.append(batch.first)
    values, first = np.concatenate(parts), np.concatenate(firsts)
    starts = np.append(np.flatnonzero(first), len(values))
    return Rows(np.ascontiguousarray(values), np.all(np.isfinite(values), axis=1), starts)
