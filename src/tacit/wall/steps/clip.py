"""One unit's contribution, bounded: clipped, rounded towards zero, checked and added in integers.

This is the step that every sum passes through, and where its sensitivity comes from.
"""

from __future__ import annotations

from functools import lru_cache

import numba
import numpy as np

from tacit.accounting.calibrate import steps_of
from tacit.spec.release import Noise
from tacit.spec.sums import Bound

# No counting of references: nothing is made here, and who calls holds on to what it passes.
_compiled = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
# Into the loop over units: passing arrays to functions would cost more than they do.
_inlined = numba.njit(inline="always", nogil=True, error_model="numpy")
_looped = numba.njit(nogil=True, error_model="numpy")
# Adds floats in an order that the compiler chooses by their number: to vector code.
_reordered = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


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


@_reordered
def _length(values, signed, by_l1):
    """The sum of magnitudes or of squares; what is negative counts as 0 unless `signed`.

    Not finite if a value is undefined, or infinite and counts.
    """
    least = -np.inf if signed else 0.0
    total = 0.0
    if by_l1:
        for i in range(values.size):
            value = np.float64(values[i])
            total += abs(least if value < least else value)
    else:
        for i in range(values.size):
            value = np.float64(values[i])
            counted = least if value < least else value
            total += counted * counted
    return total


@_inlined
def _step(value, factor, least, most):
    """One number in steps, towards zero. Cut first: what is too large has no cast."""
    step = np.float64(value) * factor
    step = step if step > least else least
    return np.int32(step if step < most else most)


@_looped
def _round(values, factor, least, most, steps):
    """Write a contribution in steps."""
    for i in range(values.size):
        steps[i] = _step(values[i], factor, least, most)


@_looped
def _add_rounded(values, factor, least, most, total):
    """Add a contribution in steps: the same as `_round` writes."""
    for i in range(values.size):
        total[i] += _step(values[i], factor, least, most)


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
def _surely_fits(length, factor, size, most, by_l1):
    """Whether numbers of this length fit after rounding, whatever was rounded on the way here."""
    room = 1 + (size + 8) * 2.0**-52
    length += size * 2.0**-1000  # what was too small for a double to hold
    if by_l1:
        return length * factor * room <= most
    return length * factor * factor * room <= most * most


@_inlined
def _factor(values, steps, limit, least, most):
    """What to multiply a contribution by so that it fits after rounding; 0 if nothing does."""
    if limit.box:
        return limit.per_step  # proof: sums-box. Every number lies between 0 and `most`.
    length = _length(values, limit.signed, limit.by_l1)
    if not length < np.inf:
        return 0.0
    norm = length if limit.by_l1 else np.sqrt(length)
    scale = 1.0
    if norm > limit.clip:
        scale = limit.clip / norm * (1 - (values.size + 16) * 2.0**-52)  # so that it surely fits
    factor = scale * limit.per_step
    # proof: sums-norm. What is added has passed this comparison, or the one of integers below.
    if _surely_fits(length, factor, values.size, most, limit.by_l1):
        return factor
    for _ in range(8):
        _round(values, factor, least, most, steps)
        if _fits(steps, limit.most, limit.by_l1):
            return factor
        factor *= 1 - 2.0**-40  # rounding had made the vector a hair too long
    return 0.0


@_inlined
def _add_block(values, steps, limit, total):
    most = np.float64(limit.most)
    least = -most if limit.signed else 0.0
    factor = _factor(values, steps, limit, least, most)
    if factor > 0:
        _add_rounded(values, factor, least, most, total)


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
    """Add one unit's bounded contribution to all blocks of the total: finite numbers."""
    _add_unit(values, steps, limits, total)


@_inlined
def _add_alone(row, steps, limits, total):
    # Where all numbers of a single block count, its length tells whether they are finite.
    if (limits.size == 1 and limits[0].signed) or _finite(row):
        _add_unit(row, steps, limits, total)


@_compiled
def add_alone(row, steps, limits, total):
    """The same for a unit with one row, of any numbers."""
    _add_alone(row, steps, limits, total)


@_compiled
def add_words(values, words, width, pairs, steps, limits, total):
    """Add one unit's bounded numbers of its words: `width` for each, or one for each of `pairs`."""
    limit = limits[0]
    most = np.float64(limit.most)
    least = -most if limit.signed else 0.0
    factor = _factor(values, steps, limit, least, most)
    if factor > 0:
        _round(values, factor, least, most, steps)
        for j in range(words.size):
            at = words[j] * width
            if pairs:
                for i in range(words.size):
                    total[at + words[i]] += steps[j * words.size + i]
            else:
                for i in range(width):
                    total[at + i] += steps[j * width + i]


@_looped
def _add(values, sums):
    for j in range(sums.size):
        sums[j] += values[j]


@_compiled
def add_rows(values, usable, last, sums, steps, limits, total):
    """Sum the mapped rows of each unit and add the sums; `last` marks a unit's last row.

    `sums` carries a unit over from one chunk of rows to the next; `last` begins before the chunk.
    """
    for i in range(usable.size):
        row = values[i]
        if last[i] and last[i + 1]:  # a unit's only row
            if usable[i]:
                _add_alone(row, steps, limits, total)
            continue
        if usable[i] and _finite(row):
            _add(row, sums)
        if last[i + 1]:
            _add_unit(sums, steps, limits, total)
            sums[:] = 0.0
