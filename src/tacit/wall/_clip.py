"""One unit's contribution, bounded: clipped, rounded towards zero, checked and added in integers.

This is the step that every sum passes through, and where its sensitivity comes from.
"""

from __future__ import annotations

from functools import lru_cache

import numba
import numpy as np

from tacit.accounting.sums import steps_of
from tacit.spec.release import Noise
from tacit.spec.sums import Bound

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
# Into the loop over units: passing arrays to functions would cost more than they do.
_inlined = numba.njit(inline="always", nogil=True, error_model="numpy")


# The bound of a block for compiled code: `most` is the clip in steps of the grid.
LIMIT = np.dtype(
    [
        ("start", np.int64),
        ("stop", np.int64),
        ("clip", np.float64),
        ("per_step", np.float64),
        ("most", np.int64),
        ("by_l1", np.bool_),
        ("signed", np.bool_),
        ("box", np.bool_),
    ]
)


@lru_cache(maxsize=256)
def limits_of(bounds: tuple[Bound, ...], noise: tuple[Noise, ...]) -> np.ndarray:
    """What the compiled code needs to know of the bounds and grids, one entry a block."""
    limits = np.zeros(len(bounds), LIMIT)
    start = 0
    for limit, bound, law in zip(limits, bounds, noise, strict=True):
        limit["start"], limit["stop"] = start, start + bound.numbers
        limit["most"] = steps_of(bound.clip, law.grid)
        # The clip that is used lies on the grid, or rounding a vector of its length would pass it.
        limit["clip"], limit["per_step"] = limit["most"] * law.grid, 1 / law.grid
        limit["by_l1"] = bound.norm == "l1"
        limit["signed"], limit["box"] = bound.geometry == "free", bound.geometry == "box"
        start += bound.numbers
    limits.setflags(write=False)
    return limits


@_inlined
def _finite(values):
    """Without a branch, so that it is compiled to vector code."""
    strange = 0
    for i in range(values.size):
        strange += not abs(values[i]) < np.inf
    return strange == 0


@_compiled
def finite(values):
    """Whether all values are."""
    return _finite(values)


@_inlined
def _norm(values, by_l1):
    """Four running sums, so that it is compiled to vector code."""
    a = b = c = d = 0.0
    fours = values.size // 4 * 4
    for i in range(0, fours, 4):
        if by_l1:
            a += abs(values[i])
            b += abs(values[i + 1])
            c += abs(values[i + 2])
            d += abs(values[i + 3])
        else:
            a += values[i] * values[i]
            b += values[i + 1] * values[i + 1]
            c += values[i + 2] * values[i + 2]
            d += values[i + 3] * values[i + 3]
    for i in range(fours, values.size):
        a += abs(values[i]) if by_l1 else values[i] * values[i]
    total = (a + b) + (c + d)
    return total if by_l1 else np.sqrt(total)


@_inlined
def _fits(steps, most, by_l1):
    """Whether the norm in steps is at most `most`, compared exactly: no sum here can overflow."""
    if by_l1:
        length = np.int64(0)
        for i in range(steps.size):
            length += abs(np.int64(steps[i]))
        return length <= most
    low, high = np.int64(0), np.int64(0)  # of the sum of squares, 32 bits each
    for i in range(steps.size):
        square = np.int64(steps[i]) * np.int64(steps[i])
        low += square & 0xFFFFFFFF
        high += square >> 32
    high += low >> 32
    low &= 0xFFFFFFFF
    room = most * most
    return high < room >> 32 or (high == room >> 32 and low <= room & 0xFFFFFFFF)


@_inlined
def _clip(values, steps, clip, per_step, most, by_l1, signed, box):
    """Write a contribution to one block in steps of its grid; False if it cannot be bounded."""
    if not signed:
        for i in range(values.size):
            values[i] = max(values[i], 0.0)
    if box:
        # proof: sums-box. Every number lies between 0 and `most`.
        for i in range(values.size):
            steps[i] = min(np.int64(min(values[i], clip) * per_step), most)
        return True
    norm = _norm(values, by_l1)
    if not norm < np.inf:
        return False
    scale = 1.0 if norm <= clip else clip / norm
    for _ in range(8):
        factor = scale * per_step
        for i in range(values.size):
            steps[i] = np.int32(values[i] * factor)  # towards zero
        # proof: sums-norm. What is added has passed this comparison of integers.
        if _fits(steps, most, by_l1):
            return True
        scale *= 1 - 2.0**-40  # rounding had made the vector a hair too long
    return False


@_inlined
def clip_block(values, steps, limit):
    """The same with the limit of a block."""
    return _clip(
        values, steps, limit.clip, limit.per_step, limit.most,
        limit.by_l1, limit.signed, limit.box,
    )  # fmt: skip


@_inlined
def _add_block(values, steps, limit, total):
    if clip_block(values, steps, limit):
        for i in range(steps.size):
            total[i] += steps[i]


@_inlined
def _add_unit(values, steps, limits, total):
    if limits.size == 1:  # slices are not free
        _add_block(values, steps, limits[0], total)
        return
    for block in range(limits.size):
        limit = limits[block]
        start, stop = limit.start, limit.stop
        _add_block(values[start:stop], steps[start:stop], limit, total[start:stop])


@_compiled
def add_unit(values, steps, limits, total):
    """Add one unit's bounded contribution to all blocks of the total."""
    _add_unit(values, steps, limits, total)


@_compiled
def add_words(values, words, width, steps, limits, total):
    """The same for numbers that belong to words: `width` of them for each."""
    if clip_block(values, steps, limits[0]):
        for j in range(words.size):
            at = words[j] * width
            for i in range(width):
                total[at + i] += steps[j * width + i]


@_compiled
def add_rows(values, usable, last, sums, steps, limits, total):
    """Sum the mapped rows of each unit and add the sums; `last` marks a unit's last row.

    `sums` carries a unit over from one chunk of rows to the next.
    """
    for i in range(last.size):
        if usable[i] and _finite(values[i]):
            for j in range(sums.size):
                sums[j] += values[i, j]
        if last[i]:
            _add_unit(sums, steps, limits, total)
            for j in range(sums.size):
                sums[j] = 0.0
