"""Kernels looped over units: one row or one document at a time, into zeroed scratch.

A kernel is given a copy of one row, the public state, which cannot be written to, and a vector of
zeros, so that it cannot reach another unit's data. It comes from the closed registry
(`tacit.kernels`); that other rows do not change its result is tested over the whole registry.
"""  # proof: kernels

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import numba
import numpy as np

from tacit.kernels import KERNELS, DocumentKernel
from tacit.kernels.compiling import compiled, uncounted, with_kernel
from tacit.sources.data import Data
from tacit.sources.documents import Documents
from tacit.sources.rows import Rows
from tacit.wall.steps import clip
from tacit.wall.steps.clip import add_alone, add_row, add_unit, add_words, finite, plain

kernel: Any = None  # of a loop: each is compiled with its own
_THREAD_WORK = 200_000  # numbers to compute from which a second thread pays


def sum_rows(
    name: str, rows: Rows, units: np.ndarray, state: tuple[np.ndarray, ...], limits: np.ndarray
) -> np.ndarray:
    """The sum over some units of what a kernel of rows gives, in grid units."""
    size, kernel = int(limits[-1]["stop"]), KERNELS[name].function

    def part(some: np.ndarray) -> np.ndarray:
        total = np.zeros(size, np.int64)
        row, out, sums = np.zeros(rows.values.shape[1]), np.zeros(size), np.zeros(size)
        scratch = row, out, sums, np.zeros(size, np.int32)
        given = rows.values, rows.complete, rows.starts, some, state, *scratch, limits, total
        _compiled(_row_loop, kernel, given)(*given)
        return total

    return _threaded(part, rows, units, size)


def sum_documents(
    name: str,
    documents: Documents,
    units: np.ndarray,
    state: tuple[np.ndarray, ...],
    limits: np.ndarray,
    width: int,
) -> np.ndarray:
    """The sum over some units of what a kernel of documents gives, in grid units."""
    size, known = int(limits[-1]["stop"]), KERNELS[name]
    rows = size // width  # as many different words as a document can have: public
    assert isinstance(known, DocumentKernel)
    index_map = state[0] if known.vocabulary_subset else np.arange(rows)
    index_map.setflags(write=False)

    def part(some: np.ndarray) -> np.ndarray:
        total = np.zeros(size, np.int64)
        copies = np.zeros(rows, np.int32), np.zeros(rows, np.int32), np.zeros(rows), index_map
        several = size if documents.several else 0
        scratch = (
            np.zeros(size),
            np.zeros(size, np.int32),
            np.zeros(several),
            np.zeros(several),
            np.zeros(several // width, np.int64),
            np.zeros(several // width, np.bool_),
        )
        shape = width, known.pairs
        given = *documents.arrays, some, state, *shape, *copies, *scratch, limits, total
        _compiled(_document_loop, known.function, given)(*given)
        return total

    return _threaded(
        part, documents, units, min(rows, 100) * (min(rows, 100) if known.pairs else width)
    )


def _row_loop(rows, usable, starts, units, state, row, out, sums, integers, limits, total):
    only = plain(limits)
    for unit in units:
        first, stop = starts[unit], starts[unit + 1]
        alone = only and stop == first + 1
        for i in range(first, stop):
            if not usable[i]:
                continue
            for j in range(row.size):
                row[j] = rows[i, j]
            out[:] = 0.0
            kernel(row, state, out)
            if alone:
                add_alone(out, integers, limits, total)
            elif finite(out):
                add_row(out, limits, sums)
        if not alone:
            add_unit(sums, integers, limits, total)
            sums[:] = 0.0


def _document_loop(
    offsets, words, weights, starts, units, state, width, pairs, kept, my_words, my_weights,
    index_map, out, integers, sums, gathered, touched, seen, limits, total,
):  # fmt: skip
    """A unit with several documents has its words gathered before they are clipped."""
    for unit in units:
        first, stop = starts[unit], starts[unit + 1]
        alone = stop == first + 1
        count = 0
        for i in range(first, stop):
            length = 0
            for j in range(offsets[i], offsets[i + 1]):
                index = index_map[words[j]]
                # Words and indices differ, so there is room; were they not, memory is safe.
                if index >= 0 and length < kept.size:
                    kept[length] = my_words[length] = index
                    my_weights[length] = weights[j]
                    length += 1
            here = kept[:length]
            across = length if pairs else width
            flat = out[: length * across]
            block = flat.reshape(length, across)
            kernel(my_words[:length], my_weights[:length], state, block)
            worked = finite(flat)
            if worked and alone:
                add_words(flat, here, width, pairs, integers[: flat.size], limits, total)
            elif worked:
                for j in range(here.size):
                    if not seen[here[j]]:
                        seen[here[j]] = True
                        touched[count] = here[j]
                        count += 1
                    at = here[j] * width
                    if pairs:
                        for k in range(here.size):
                            sums[at + here[k]] += block[j, k]
                    else:
                        sums[at : at + width] += block[j]
            flat[:] = 0.0
        for j in range(count):  # gather the unit's words, and clear what it touched
            at = touched[j] * width
            gathered[j * width : (j + 1) * width] = sums[at : at + width]
            sums[at : at + width] = 0.0
            seen[touched[j]] = False
        flat = gathered[: count * width]
        add_words(flat, touched[:count], width, False, integers[: flat.size], limits, total)


def _compiled(loop: Any, kernel: Any, given: tuple[Any, ...]) -> Any:
    """A loop with one kernel in it, compiled when it first meets data, or read from the disk.

    The types of what is given are those of `RowKernel.frozen` and of sources, and the same for
    rows of one precision.
    """
    key = loop, kernel, given[0].dtype
    if key not in _LOOPS:
        compiling = uncounted if loop is _row_loop else compiled
        types = numba.void(*map(numba.typeof, given))
        _LOOPS[key] = compiling(with_kernel(loop, kernel, clip.__file__), signature=types)
    return _LOOPS[key]


_LOOPS: dict[Any, Any] = {}


def _threaded(
    part: Callable[[np.ndarray], np.ndarray], data: Data, units: np.ndarray, size: int
) -> np.ndarray:
    """The sum over all units, by as many threads as pay; integers add up the same in any order."""
    threads = min(os.cpu_count() or 1, 1 + units.size * size // _THREAD_WORK)

    def piece(some: np.ndarray) -> np.ndarray:
        total = part(some)
        data.forget(some)
        return total

    several = np.array_split(units, max(threads, data.pieces(units.size)))
    if threads == 1:
        return reduce(np.add, map(piece, several))
    with ThreadPoolExecutor(threads) as pool:
        return reduce(np.add, pool.map(piece, several))
