"""Maps in Numba, looped over units by the wall: one row at a time, into zeroed scratch.

A map cannot reach another unit's row. It is given one row, the public state and a vector of zeros;
the data and the state cannot be written to, and code that could carry something from one call to
the next (a random generator, memory that was not cleared, output) is refused before any charge.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import numba
import numpy as np

from tacit.spec.errors import QueryError
from tacit.spec.maps import NumbaMap, SparseMap
from tacit.wall._clip import add_unit, add_words, finite
from tacit.wall._documents import Documents
from tacit.wall._rows import Rows

_THREAD_WORK = 200_000  # numbers to compute from which a second thread pays
# Names that reach generators, uncleared memory, or the world outside.
_REFUSED = {"random", "empty", "empty_like", "objmode", "print", "carray", "farray"}


@dataclass(frozen=True)
class NumbaKernel:
    """A compiled map over rows, and the loop around it."""

    loop: Callable[..., None]

    def start(
        self, rows: Rows, units: np.ndarray, state: Any, limits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        size = int(limits[-1]["stop"])

        def part(some: np.ndarray) -> np.ndarray:
            total = np.zeros(size, np.int64)
            scratch = np.zeros(size), np.zeros(size), np.zeros(size, np.int32)
            self.loop(rows.values, rows.complete, rows.starts, some, state, *scratch, limits, total)
            return total

        return lambda: _threaded(part, units, size)

    def compile(self, columns: int, state: Any, limits: np.ndarray) -> None:
        """Run it over no one, so that code that does not compile is refused before a charge."""
        arrays = np.zeros((0, columns)), np.zeros(0, np.bool_), np.zeros(1, np.int64)
        nobody = Rows(*[_read_only(array) for array in arrays])
        self.start(nobody, np.zeros(0, np.int64), state, limits)()


@dataclass(frozen=True)
class SparseKernel:
    """A compiled map over documents, and the loop around it."""

    loop: Callable[..., None]
    width: int

    def start(
        self, documents: Documents, units: np.ndarray, state: Any, limits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        size = int(limits[-1]["stop"])
        longest = documents.longest * self.width

        def part(some: np.ndarray) -> np.ndarray:
            total = np.zeros(size, np.int64)
            several = size if documents.several else 0
            scratch = (
                np.zeros(longest),
                np.zeros(max(longest, several), np.int32),
                np.zeros(several),
                np.zeros(several),
                np.zeros(several // self.width, np.int64),
                np.zeros(several // self.width, np.bool_),
            )
            self.loop(*documents.arrays, some, state, self.width, *scratch, limits, total)
            return total

        return lambda: _threaded(part, units, documents.longest * self.width)

    def compile(self, columns: int, state: Any, limits: np.ndarray) -> None:
        arrays = (np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(1, np.int64))
        nobody = Documents(*[_read_only(array) for array in arrays])
        self.start(nobody, np.zeros(0, np.int64), state, limits)()


@lru_cache(maxsize=64)
def numba_kernel(map_: NumbaMap) -> NumbaKernel:
    """The loop for this map. Compiled when it first meets a state, once for each type of state."""
    kernel = _guarded(map_.function)

    @numba.njit(nogil=True, error_model="numpy")
    def loop(values, complete, starts, units, state, out, sums, steps, limits, total):
        for unit in units:
            sums[:] = 0.0
            for i in range(starts[unit], starts[unit + 1]):
                if not complete[i]:
                    continue
                out[:] = 0.0
                try:
                    kernel(values[i], state, out)
                except Exception:  # noqa: BLE001 - a row that fails contributes nothing
                    continue
                if finite(out):
                    sums += out
            add_unit(sums, steps, limits, total)

    return NumbaKernel(loop)


@lru_cache(maxsize=64)
def sparse_kernel(map_: SparseMap) -> SparseKernel:
    """The same for documents."""
    kernel = _guarded(map_.function)

    @numba.njit(nogil=True, error_model="numpy")
    def attempt(words, weights, state, out):
        try:
            kernel(words, weights, state, out)
        except Exception:  # noqa: BLE001 - a document that fails contributes nothing
            return False
        return finite(out.ravel())

    @numba.njit(nogil=True, error_model="numpy")
    def loop(
        offsets, words, weights, starts, units, state, width,
        out, steps, sums, gathered, touched, seen, limits, total,
    ):  # fmt: skip
        for unit in units:
            first, stop = starts[unit], starts[unit + 1]
            alone = stop == first + 1
            count = 0
            for i in range(first, stop):
                here = words[offsets[i] : offsets[i + 1]]
                flat = out[: here.size * width]
                flat[:] = 0.0
                block = flat.reshape(here.size, width)
                if not attempt(here, weights[offsets[i] : offsets[i + 1]], state, block):
                    continue
                if alone:
                    add_words(flat, here, width, steps[: flat.size], limits, total)
                    continue
                for j in range(here.size):
                    if not seen[here[j]]:
                        seen[here[j]] = True
                        touched[count] = here[j]
                        count += 1
                    at = here[j] * width
                    sums[at : at + width] += block[j]
            for j in range(count):  # gather the unit's words, and clear what it touched
                at = touched[j] * width
                gathered[j * width : (j + 1) * width] = sums[at : at + width]
                sums[at : at + width] = 0.0
                seen[touched[j]] = False
            flat = gathered[: count * width]
            add_words(flat, touched[:count], width, steps[: flat.size], limits, total)

    return SparseKernel(loop, map_.width)


def fixed_state(state: Any) -> Any:
    """The state as arrays that a map cannot write to."""
    if isinstance(state, (tuple, list)):
        parts = [fixed_state(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    array = np.array(0.0 if state is None else state, order="C")
    if array.dtype.kind not in "biuf":
        raise QueryError(f"Expected a state of numbers, got {type(state).__name__}.")
    return _read_only(array)


def compiling(compile_: Callable[[], None]) -> None:
    """Say what Numba says about a map's code, before anything is charged or read."""
    try:
        compile_()
    except numba.core.errors.NumbaError as error:
        raise QueryError(
            f"The map does not compile with Numba; nothing was charged or read.\n{error}"
        ) from None


def _guarded(function: Any) -> Callable[..., None]:
    """The map compiled by the wall: indices checked, no fast-math, nothing refused in it."""
    plain = getattr(function, "py_func", function)
    for name in _names(plain, set()):
        if name in _REFUSED:
            raise QueryError(
                f"A map may not use {name!r}: it could carry something from one row to another. "
                "Use np.zeros for scratch memory, and pass random numbers in the state."
            )
    return numba.njit(boundscheck=True, nogil=True)(plain)


def _names(function: Any, visited: set[int]) -> Iterator[str]:
    """All names in a function's code, and in that of the functions it refers to."""
    function = getattr(function, "py_func", function)
    code = getattr(function, "__code__", None)
    if code is None or id(code) in visited:
        return
    visited.add(id(code))
    stack: list[CodeType] = [code]
    while stack:
        here = stack.pop()
        yield from here.co_names
        stack += [constant for constant in here.co_consts if isinstance(constant, CodeType)]
        for name in here.co_names:
            yield from _names(function.__globals__.get(name), visited)
    for cell in function.__closure__ or ():
        yield from _names(cell.cell_contents, visited)


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
