"""Maps in Numba, looped over units by the wall: one row at a time, into zeroed scratch.

A map cannot reach another unit's row. It is given a copy of one row, the public state, which cannot
be written to, and a vector of zeros. What it is made of has been checked (`_guard`), and before any
charge it is tried on made-up rows: alone, in company and in another order it must compute the same.
"""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from tacit.spec.columns import Column, Integer, Real, Tokens
from tacit.spec.errors import QueryError
from tacit.spec.maps import NumbaMap, SparseMap, fingerprint_of
from tacit.wall.data._documents import Documents
from tacit.wall.data._rows import Rows
from tacit.wall.sums._clip import add_alone, add_unit, add_words, finite
from tacit.wall.sums._guard import guarded
from tacit.wall.sums._typed import REFUSED

_THREAD_WORK = 200_000  # numbers to compute from which a second thread pays
_TRIED = 12  # made-up units


@dataclass(frozen=True)
class NumbaKernel:
    """A compiled map over rows, the loop around it, and which trials it has passed."""

    loop: Callable[..., None]
    passed: set[Any] = field(default_factory=set)

    def start(
        self, rows: Rows, units: np.ndarray, state: Any, limits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        size = int(limits[-1]["stop"])

        def part(some: np.ndarray) -> np.ndarray:
            total = np.zeros(size, np.int64)
            scratch = np.zeros(rows.values.shape[1]), *_scratch(size)
            self.loop(rows.values, rows.complete, rows.starts, some, state, *scratch, limits, total)
            return total

        return lambda: _threaded(part, units, size)

    def made_up(self, columns: Sequence[Column], state: Any) -> Rows:
        """Rows within the public domains, one a unit."""
        values = np.column_stack([_made_up(column, i) for i, column in enumerate(columns)])
        arrays = values, np.ones(_TRIED, np.bool_), np.arange(_TRIED + 1)
        return Rows(*[_read_only(array) for array in arrays])


@dataclass(frozen=True)
class SparseKernel:
    """A compiled map over documents, the loop around it, and which trials it has passed."""

    loop: Callable[..., None]
    width: int
    some: bool
    passed: set[Any] = field(default_factory=set)

    def start(
        self, documents: Documents, units: np.ndarray, state: Any, limits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        size = int(limits[-1]["stop"])
        rows = size // self.width  # as many different words as a document can have: public
        places = places_of(state) if self.some else np.arange(rows)

        def part(some: np.ndarray) -> np.ndarray:
            total = np.zeros(size, np.int64)
            copies = *np.zeros((2, rows), np.int32), np.zeros(rows), places
            several = size if documents.several else 0
            scratch = (
                np.zeros(size),
                np.zeros(size, np.int32),
                np.zeros(several),
                np.zeros(several),
                np.zeros(several // self.width, np.int64),
                np.zeros(several // self.width, np.bool_),
            )
            self.loop(*documents.arrays, some, state, self.width, *copies, *scratch, limits, total)
            return total

        return lambda: _threaded(part, units, min(rows, 100) * self.width)

    def made_up(self, columns: Sequence[Column], state: Any) -> Documents:
        """Short documents, one a unit, of words that have a place."""
        (column,) = columns
        assert isinstance(column, Tokens)
        known = np.arange(len(column.vocabulary))
        if self.some:
            known = known[places_of(state) >= 0] if np.any(places_of(state) >= 0) else known
        size = min(5, len(known))
        words = known[np.arange(_TRIED * size) * 7 % len(known)]
        words = np.sort(words.reshape(_TRIED, size), axis=1).ravel().astype(np.int32)
        weights = 1.0 + np.arange(_TRIED * size) % 3
        arrays = np.arange(_TRIED + 1) * size, words, weights, np.arange(_TRIED + 1)
        return Documents(*[_read_only(array) for array in arrays])


@lru_cache(maxsize=64)
def numba_kernel(map_: NumbaMap) -> NumbaKernel:
    """The loop for this map. Compiled when it first meets a state, once for each type of state."""
    kernel = guarded(map_.function)

    @numba.njit(nogil=True, error_model="numpy")
    def loop(values, complete, starts, units, state, row, out, sums, steps, limits, total):
        for unit in units:
            first, stop = starts[unit], starts[unit + 1]
            for i in range(first, stop):
                if not complete[i]:
                    continue
                row[:] = values[i]
                out[:] = 0.0
                try:
                    kernel(row, state, out)
                except Exception:  # noqa: BLE001 - a row that fails contributes nothing
                    continue
                if stop == first + 1:
                    add_alone(out, steps, limits, total)
                elif finite(out):
                    sums += out
            if stop > first + 1:
                add_unit(sums, steps, limits, total)
                sums[:] = 0.0

    return NumbaKernel(loop)


@lru_cache(maxsize=64)
def sparse_kernel(map_: SparseMap) -> SparseKernel:
    """The same for documents."""
    kernel = guarded(map_.function)

    @numba.njit(nogil=True, error_model="numpy")
    def attempt(words, weights, state, out):
        try:
            kernel(words, weights, state, out)
        except Exception:  # noqa: BLE001 - a document that fails contributes nothing
            return False
        return finite(out.ravel())

    @numba.njit(nogil=True, error_model="numpy")
    def loop(
        offsets, words, weights, starts, units, state, width, kept, my_words, my_weights, places,
        out, steps, sums, gathered, touched, seen, limits, total,
    ):  # fmt: skip
        for unit in units:
            first, stop = starts[unit], starts[unit + 1]
            alone = stop == first + 1
            count = 0
            for i in range(first, stop):
                length = 0
                for j in range(offsets[i], offsets[i + 1]):
                    place = places[words[j]]
                    # Words and places differ, so there is room; were they not, memory is safe.
                    if place >= 0 and length < kept.size:
                        kept[length] = my_words[length] = place
                        my_weights[length] = weights[j]
                        length += 1
                here = kept[:length]
                flat = out[: length * width]
                block = flat.reshape(length, width)
                worked = attempt(my_words[: here.size], my_weights[: here.size], state, block)
                if worked and alone:
                    add_words(flat, here, width, steps[: flat.size], limits, total)
                elif worked:
                    for j in range(here.size):
                        if not seen[here[j]]:
                            seen[here[j]] = True
                            touched[count] = here[j]
                            count += 1
                        at = here[j] * width
                        sums[at : at + width] += block[j]
                # Nothing of a document lies beside the next one, wherever a map may look.
                my_words[:length] = 0
                my_weights[:length] = 0.0
                flat[:] = 0.0
            for j in range(count):  # gather the unit's words, and clear what it touched
                at = touched[j] * width
                gathered[j * width : (j + 1) * width] = sums[at : at + width]
                sums[at : at + width] = 0.0
                seen[touched[j]] = False
            flat = gathered[: count * width]
            add_words(flat, touched[:count], width, steps[: flat.size], limits, total)

    return SparseKernel(loop, map_.width, map_.some)


def fixed_state(state: Any) -> Any:
    """The state as arrays that a map cannot write to."""
    if isinstance(state, (tuple, list)):
        parts = tuple(fixed_state(part) for part in state)
        names = getattr(state, "_fields", None)
        # Not the caller's own kind of tuple, which could put other arrays in.
        return _named_tuple(tuple(names))(*parts) if names else parts
    # Twice: the first may be memory that an object of the caller's own kind shares.
    array = np.array(np.asarray(0.0 if state is None else state), order="C", copy=True)
    if array.dtype.kind not in "biuf":
        raise QueryError(f"Expected a state of numbers, got {type(state).__name__}.")
    return _read_only(array)


@lru_cache(maxsize=64)
def _named_tuple(names: tuple[str, ...]) -> Any:
    return namedtuple("State", names)


def places_of(state: Any) -> np.ndarray:
    """The table that a state begins with, whatever a tuple of the caller's own kind would say."""
    return tuple.__getitem__(state, 0) if isinstance(state, tuple) and state else np.zeros(0)


def kind_of(state: Any) -> Any:
    """What a map was compiled for."""
    if isinstance(state, tuple):
        return type(state), tuple(kind_of(part) for part in state)
    return state.dtype, state.ndim


def tried(
    kernel: NumbaKernel | SparseKernel, columns: Sequence[Column], state: Any, limits: np.ndarray
) -> None:
    """Compile a map and run it over made-up units, before anything is charged or read."""
    units: Any = kernel.made_up(columns, state)
    before = fingerprint_of(state)
    try:
        alone = [kernel.start(units, np.array([i]), state, limits)() for i in range(_TRIED)]
    except Exception as error:  # noqa: BLE001 - whatever the compiler says, of made-up units
        refused = [line for line in str(error).splitlines() if line.startswith(REFUSED)]
        reason = refused[0] if refused else f"The map does not compile with Numba.\n{error}"
        raise QueryError(f"{reason}\nNothing was charged or read.") from None
    for order in (np.arange(_TRIED), np.arange(_TRIED)[::-1].copy()):
        together = kernel.start(units, order, state, limits)()
        again = [kernel.start(units, np.array([i]), state, limits)() for i in order]
        if not (
            np.array_equal(together, sum(alone))
            and all(np.array_equal(alone[i], other) for i, other in zip(order, again))
        ):
            raise QueryError(
                "The map computes something else for the same row when it is asked again: it "
                "remembers other rows. Nothing was charged or read."
            )
    if fingerprint_of(state) != before:
        raise QueryError("The map changes its state. Nothing was charged or read.")


def _made_up(column: Column, place: int) -> np.ndarray:
    """Values within a column's domain, as a map sees them."""
    spread = (np.arange(_TRIED) * (2 * place + 3) % _TRIED) / (_TRIED - 1)
    match column:
        case Real(low=low, high=high):
            return low + spread * (high - low)
        case Integer(low=low, high=high):
            return np.floor(low + spread * (high - low))
        case _:
            return np.floor(spread * (len(column.labels) - 1))


def _scratch(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(size), np.zeros(size), np.zeros(size, np.int32)


def _threaded(part: Callable[[np.ndarray], np.ndarray], units: np.ndarray, size: int) -> np.ndarray:
    """The sum over all units, by as many threads as pay; integers add up the same in any order."""
    threads = min(os.cpu_count() or 1, 1 + units.size * size // _THREAD_WORK)
    if threads == 1:
        return part(units)
    with ThreadPoolExecutor(threads) as pool:
        total: np.ndarray = sum(pool.map(part, np.array_split(units, threads)))  # type: ignore[assignment]
    return total


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
