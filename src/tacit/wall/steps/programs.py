"""Programs in JAX: rebuilt from their data, run over chunks of rows of one fixed shape.

The shape of a chunk follows from the program, and from the size of a batch where that is public.
With a shape that varied with the data, XLA could compute another unit's row differently in its last
bits. Whether a row's position changes its result is tried on synthetic rows: before any charge, and
at the length of chunks for many rows before these are first run.
"""  # proof: programs

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tacit.sources.rows import Rows
from tacit.sources.storage import forget
from tacit.spec.errors import QueryError
from tacit.spec.programs import Program
from tacit.wall.steps.clip import add_rows

ASSUMPTION = "XLA computes a row alike at every place of a chunk (tried on synthetic rows)"
_CHUNK, _WIDE = 512, 2048
MANY = 3072  # units from which longer chunks are faster
_CHUNK_NUMBERS = 2**22


@dataclass(frozen=True)
class Compiled:
    """A program compiled for rows in chunks, and how long these may be."""

    program: Program
    run: Callable[[np.ndarray, Any], Any] = field(repr=False)
    chunk: int

    @property
    def dtype(self) -> Any:
        return np.dtype(self.program.dtype)

    @cached_property
    def wide(self) -> int:
        """The length of chunks of many rows: compiled and tried when there first are as many.

        Budget may have been spent by then, so that what XLA cannot do is not refused.
        """
        try:
            good = self.chunk == _CHUNK and _alike(self.program, self.run, _WIDE)
        except Exception:  # noqa: BLE001 - whatever XLA raises, on synthetic rows
            good = False
        return _WIDE if good else self.chunk


@lru_cache(maxsize=64)
def compiled(program: Program) -> Compiled:
    """Compile a program, and try that position and other rows do not change a row's result."""
    import jax

    of_row = program.function()

    def one_by_one(rows: Any, leaves: Any) -> Any:
        # The barrier keeps XLA from merging the program's own slices with that of its row.
        alone = lambda row: of_row(jax.lax.optimization_barrier(row), leaves)  # noqa: E731
        return jax.lax.map(alone, rows)

    runs = [jax.jit(one_by_one)]
    # Side by side, when a row's loop has ended could depend on when the others' do.
    if not program.loops:
        runs.insert(0, jax.jit(jax.vmap(of_row, in_axes=(0, None))))
    most = max(1, _CHUNK_NUMBERS // max(program.size, program.largest))
    chunk = max(8, min(_CHUNK, 2 ** int(np.log2(most))))
    for run in runs:
        try:
            if _alike(program, run, chunk):
                return Compiled(program, run, chunk)
        except Exception:  # noqa: BLE001 - whatever XLA raises, on synthetic rows
            raise QueryError(
                "XLA cannot compile this program. Nothing was charged or read."
            ) from None
    raise QueryError("XLA computes this program differently at different places of a chunk.")


def started(
    compiled: Compiled,
    rows: Rows,
    units: np.ndarray,
    state: tuple[np.ndarray, ...],
    limits: np.ndarray,
    *,
    many: bool,
) -> Callable[[], np.ndarray]:
    """Start with the first chunk of these units' rows; return a function that waits for the sum."""
    which, last = _rows_of(rows.starts, units)
    values = rows.cast(compiled.dtype)
    chunk = compiled.wide if many else compiled.chunk
    chunks = range(0, len(which), chunk)
    # Two in turn, so that a chunk is mapped while the one before is clipped (a third faster from
    # 4,000 rows on). What is mapped from one has been waited for before it is written to again.
    buffers = [np.zeros((chunk, values.shape[1]), compiled.dtype) for _ in chunks[:2]]

    def begun(begin: int) -> Any:
        some = which[begin : begin + chunk]
        buffer = buffers[begin // chunk % 2]
        np.take(values, some, axis=0, out=buffer[: len(some)], mode="clip")
        forget(values, some[0], some[-1] + 1)
        buffer[len(some) :] = 0.0
        with compiled.program.precision():
            return compiled.run(buffer, state)

    ahead = begun(0) if chunks else None

    def total() -> np.ndarray:
        size = int(limits[-1]["stop"])
        result, integers, sums = np.zeros(size, np.int64), np.zeros(size, np.int32), np.zeros(size)
        running = ahead
        for begin in chunks:
            # The next chunk is mapped while this one is clipped and added.
            following = begun(begin + chunk) if begin != chunks[-1] else None
            mapped, running = np.asarray(running), following
            usable = rows.complete[which[begin : begin + chunk]]
            ends = last[begin : begin + len(usable) + 1]
            add_rows(mapped, usable, ends, sums, integers, limits, result)
        return result

    return total


def _rows_of(starts: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of these units, one unit after the other, and a mark on the last of each.

    The first mark stands before all rows.
    """
    if starts[-1] == len(starts) - 1:  # one row each
        return units, np.ones(len(units) + 1, np.bool_)
    counts = starts[units + 1] - starts[units]
    ends = np.cumsum(counts)
    rows = ends[-1] if len(ends) else 0
    which = np.arange(rows) + np.repeat(starts[units] - ends + counts, counts)
    last = np.zeros(len(which) + 1, np.bool_)
    last[0] = last[ends] = True
    return which, last


def refuse_debugging() -> None:
    """Refuse JAX's searches for NaN, which would report a row."""
    import jax

    if jax.config.jax_debug_nans or jax.config.jax_debug_infs:
        raise QueryError("Expected jax_debug_nans and jax_debug_infs off: they look at rows.")


def _alike(program: Program, run: Any, chunk: int) -> bool:
    """Whether synthetic rows give the same bits at every position, whatever the other rows are."""
    grid = np.arange(chunk * program.columns, dtype=np.float64).reshape(chunk, -1)
    rows = (np.sin(grid * 1.7) * 3).astype(program.dtype)
    with program.precision(), np.errstate(all="ignore"):
        return all(_alike_at(run, rows, state) for state in _states(program))


def _alike_at(run: Any, rows: np.ndarray, state: tuple[np.ndarray, ...]) -> bool:
    here, chunk = np.asarray(run(rows, state)), len(rows)
    for shift in (1, 3, chunk // 2 + 1):
        there = np.asarray(run(np.roll(rows, shift, axis=0), state))
        if np.roll(here, shift, axis=0).tobytes() != there.tobytes():
            return False
    for other in (0.0, 1e-30, 1e6, 3e37, np.inf, np.nan):
        others = np.full_like(rows, other)
        others[5:8] = rows[5:8]
        if np.asarray(run(others, state))[5:8].tobytes() != here[5:8].tobytes():
            return False
    return True


def _states(program: Program) -> list[tuple[np.ndarray, ...]]:
    """Two synthetic states: what holds at zeros need not hold elsewhere."""
    zeros = tuple(np.zeros(shape, dtype) for dtype, shape in program.state)
    return [zeros, tuple(_waves(leaf) if leaf.dtype.kind == "f" else leaf for leaf in zeros)]


def _waves(leaf: np.ndarray) -> np.ndarray:
    return (np.cos(np.arange(leaf.size) * 1.3 + 1) * 2).reshape(leaf.shape).astype(leaf.dtype)
