"""Which rows of each unit are kept, and in which order: functions of that unit's rows alone.

A unit's rows are put in the order of the bits of what the schema sees of them. Of a unit that has
more than k rows those with the least tickets are kept: hashes of its id, of the row's bits and of
how many equal rows stand before it. The rule is public, favours no value, and does not depend on
where a row stands or how a source stores it.
"""  # proof: rows-per-unit

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.compile_cache import cached
from tacit.sources.cells import TEXT, text

WHICH_ROWS = "least splitmix64"  # another rule would keep other rows: pinned in the ledger
_jit = cached(nogil=True, error_model="numpy")


def owner(cells: Any) -> pa.Array:
    """Whose row it is: a whole number, or text that differs for different ids; null for nobody's.

    A column has one of the two by its declared type, whatever its cells are.
    """
    if isinstance(cells, pa.Array) and pa.types.is_signed_integer(cells.type):
        return cells.cast(pa.int64())
    names = text(cells)
    named = pc.binary_length(names).cast(pa.bool_())
    return pc.if_else(named, names, pa.nulls(1, TEXT)[0])  # a scalar of Python would import pandas


def units_of(
    owners: Sequence[pa.Array], contents: Sequence[np.ndarray], most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows to keep, unit by unit, and a 1 at the first row of each unit, else 0."""
    ids = pa.chunked_array(owners).combine_chunks() if owners else pa.array([], TEXT)
    named = ids.dictionary_encode()
    person = named.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows, starts = _grouped(person, len(named.dictionary))
    counts = np.diff(starts)
    crowded = counts.max(initial=0) > most
    salts = hashes(named.dictionary) if crowded else np.zeros(len(counts), np.uint64)
    kept = _kept(rows, starts, salts, _bits(contents, person.size), most)
    first = np.zeros(int(np.minimum(counts, most).sum()), np.int64)
    first[np.cumsum(np.minimum(counts, most))[:-1]] = 1
    first[:1] = 1
    return kept, first


def shards_of(ids: pa.Array, shards: int) -> np.ndarray:
    """Where each row goes so that all of a unit go to one place, as small numbers."""
    if pa.types.is_integer(ids.type):
        words = ids.to_numpy(zero_copy_only=False).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    else:
        words = hashes(ids)
    return ((words >> np.uint64(32)) % np.uint64(shards)).astype(np.uint8)


def hashes(ids: pa.Array) -> np.ndarray:
    """A number for each id: the same for a whole number and for its text."""
    texts = ids.cast(pa.large_string()).view(TEXT) if pa.types.is_integer(ids.type) else ids
    texts = texts.fill_null(b"")
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(ids) + 1]
    return _hashed(np.frombuffer(texts.buffers()[2] or b"", np.uint8), ends)


def _bits(contents: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """The 64-bit words of each row, which are equal for rows that the schema sees as equal."""
    words = [
        np.ascontiguousarray(c).view(np.int64).reshape(rows, c.dtype.itemsize // 8)
        for c in contents
    ]
    return np.concatenate([np.zeros((rows, 0), np.int64), *words], axis=1)


@_jit
def _hashed(data, ends):
    out = np.empty(ends.size - 1, np.uint64)
    for i in range(out.size):
        found = np.uint64(ends[i + 1] - ends[i])
        for j in range(ends[i], ends[i + 1]):
            found = (found ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        out[i] = mixed(found)
    return out


@_jit
def mixed(word):
    """The finalizer of splitmix64, a bijection in which each bit depends on each."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@_jit
def _grouped(person, units):
    """Rows unit by unit, without those of nobody (-1), and where each unit's begin."""
    starts = np.zeros(units + 1, np.int64)
    for i in person:
        if i >= 0:
            starts[i + 1] += 1
    starts = np.cumsum(starts)
    ends, rows = starts[:-1].copy(), np.empty(starts[-1], np.int64)
    for row in range(person.size):
        if person[row] >= 0:
            rows[ends[person[row]]] = row
            ends[person[row]] += 1
    return rows, starts


@_jit
def _kept(rows, starts, salts, bits, most):
    out, at = np.empty(rows.size, np.int64), 0
    for unit in range(salts.size):
        mine = rows[starts[unit] : starts[unit + 1]]
        _sort(mine, bits)
        if mine.size <= most:
            out[at : at + mine.size] = mine
            at += mine.size
            continue
        tickets, twin = np.empty((mine.size, 2), np.int64), 0
        for i in range(mine.size):
            twin = twin + 1 if i > 0 and _order(bits, mine[i - 1], mine[i]) == 0 else 0
            word = salts[unit]
            for j in range(bits.shape[1]):
                word = mixed(word ^ np.uint64(bits[mine[i], j])) + np.uint64(0x9E3779B97F4A7C15)
            tickets[i, 0], tickets[i, 1] = np.int64(mixed(word ^ np.uint64(twin))), i
        drawn = np.arange(mine.size)
        _sort(drawn, tickets)
        for i in np.sort(drawn[:most]):
            out[at] = mine[i]
            at += 1
    return out[:at]


@_jit
def _order(bits, a, b):
    """Whether row a stands before b (-1), after it (1), or they are equal (0)."""
    for j in range(bits.shape[1]):
        if bits[a, j] != bits[b, j]:
            return -1 if bits[a, j] < bits[b, j] else 1
    return 0


@_jit
def _sort(index, bits):
    """Sort indices of rows in place, by heap: n log n comparisons whatever their order was."""
    size = index.size
    for turn in range(size // 2 - 1 + size - 1, -1, -1):
        if turn >= size - 1:
            root, end = turn - size + 1, size
        else:
            end = turn + 1
            index[0], index[end] = index[end], index[0]
            root = 0
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and _order(bits, index[child], index[child + 1]) < 0:
                child += 1
            if _order(bits, index[root], index[child]) >= 0:
                break
            index[root], index[child] = index[child], index[root]
            root = child
