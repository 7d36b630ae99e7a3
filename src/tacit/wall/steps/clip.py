"""One unit's contribution, bounded: clipped, rounded towards zero, checked and added in integers.

This is the step that every sum passes through, and where its sensitivity comes from.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numba
import numpy as np

from tacit.accounting.calibrate import bound_units
from tacit.compile_cache import cached
from tacit.spec.release import Noise
from tacit.spec.sums import Bound, side_of

# No counting of references: nothing is made here, and who calls holds on to what it passes.
_compiled = cached(nogil=True, error_model="numpy", _nrt=False)
# Into the loop over units: passing arrays to functions would cost more than they do.
# By LLVM: Numba's own inlining copies and types them anew at every call.
_inlined = numba.njit(forceinline=True, nogil=True, error_model="numpy", _nrt=False)
_looped = numba.njit(nogil=True, error_model="numpy")
# Adds floats in an order that the compiler chooses by their number: to vector code.
_reordered = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


_ROOT, _UNROOT = math.sqrt(2.0), math.sqrt(0.5)

# The bound of a block for compiled code: `most` is the clip in multiples of the grid, and `side` is
# the p of p by p outer products, 0 for other geometries.
LIMIT = np.dtype(
    [
        ("start", np.int64),
        ("stop", np.int64),
        ("clip", np.float64),
        ("per_grid", np.float64),
        ("most", np.int64),
        ("by_l1", np.bool_),
        ("signed", np.bool_),
        ("box", np.bool_),
        ("side", np.int64),
    ]
)


@lru_cache(maxsize=256)
def limits_of(bounds: tuple[Bound, ...], noise: tuple[Noise, ...]) -> np.ndarray:
    """What the compiled code needs to know of the bounds and grids, one entry a block."""
    limits = np.zeros(len(bounds), LIMIT)
    start = 0
    for limit, bound, law in zip(limits, bounds, noise, strict=True):
        limit["start"], limit["stop"] = start, start + bound.numbers
        limit["most"] = bound_units(bound, law.grid)
        # The clip that is used lies on the grid, or rounding a vector of its length would pass it.
        limit["clip"], limit["per_grid"] = limit["most"] * law.grid, 1 / law.grid
        limit["by_l1"] = bound.norm == "l1"
        limit["signed"], limit["box"] = bound.geometry in ("free", "outer"), bound.geometry == "box"
        limit["side"] = side_of(bound.numbers) if bound.geometry == "outer" else 0
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
    """Return whether all values are finite."""
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
def _integer(value, factor, least, most):
    """One number in grid units, towards zero. Cut first: what is too large has no cast."""
    scaled = np.float64(value) * factor
    scaled = scaled if scaled > least else least
    return np.int32(scaled if scaled < most else most)


@_looped
def _round(values, factor, least, most, integers):
    """Write a contribution in grid units."""
    for i in range(values.size):
        integers[i] = _integer(values[i], factor, least, most)


@_looped
def _add_rounded(values, factor, least, most, total):
    """Add a contribution in grid units: the integers that `_round` writes."""
    for i in range(values.size):
        total[i] += _integer(values[i], factor, least, most)


@_inlined
def _fits(integers, most, by_l1):
    """Whether the norm is at most `most`, compared exactly: no sum here can overflow."""
    if by_l1:
        length = np.int64(0)
        for i in range(integers.size):
            length += abs(np.int64(integers[i]))
        return length <= most
    low, high = np.int64(0), np.int64(0)  # of the sum of squares, 32 bits each
    for i in range(integers.size):
        square = np.int64(integers[i]) * np.int64(integers[i])
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
def _factor(values, integers, limit, least, most):
    """What to multiply a contribution by so that it fits after rounding; 0 if nothing does."""
    if limit.box:
        return limit.per_grid  # proof: sums-box. Every number lies between 0 and `most`.
    length = _length(values, limit.signed, limit.by_l1)
    if not length < np.inf:
        return 0.0
    norm = length if limit.by_l1 else np.sqrt(length)
    scale = 1.0
    if norm > limit.clip:
        scale = limit.clip / norm * (1 - (values.size + 16) * 2.0**-52)  # so that it surely fits
    factor = scale * limit.per_grid
    # proof: sums-norm. What is added has passed this comparison, or the one of integers below.
    if _surely_fits(length, factor, values.size, most, limit.by_l1):
        return factor
    for _ in range(8):
        _round(values, factor, least, most, integers)
        if _fits(integers, limit.most, limit.by_l1):
            return factor
        factor *= 1 - 2.0**-40  # rounding had made the vector a hair too long
    return 0.0


@_inlined
def _add_block(values, integers, limit, total):
    most = np.float64(limit.most)
    least = -most if limit.signed else 0.0
    factor = _factor(values, integers, limit, least, most)
    if factor > 0:
        _add_rounded(values, factor, least, most, total)


@_inlined
def _add_unit(values, integers, limits, total):
    if limits.size == 1:  # slices are not free
        _add_block(values, integers, limits[0], total)
        return
    for block in range(limits.size):
        limit = limits[block]
        start, stop = limit.start, limit.stop
        _add_block(values[start:stop], integers[start:stop], limit, total[start:stop])


@_compiled
def add_unit(values, integers, limits, total):
    """Add one unit's bounded contribution to all blocks of the total: finite numbers."""
    _add_unit(values, integers, limits, total)


@_inlined
def _add_alone(row, integers, limits, total):
    # Where all numbers of a single block count, its length tells whether they are finite.
    if (limits.size == 1 and limits[0].signed) or _finite(row):
        _add_unit(row, integers, limits, total)


@_compiled
def add_alone(row, integers, limits, total):
    """Add one unit that has a single row, of any numbers, finite or not."""
    _add_alone(row, integers, limits, total)


@_compiled
def add_words(values, words, width, pairs, integers, limits, total):
    """Add one unit's bounded numbers of its words: `width` for each, or one for each of `pairs`."""
    limit = limits[0]
    most = np.float64(limit.most)
    least = -most if limit.signed else 0.0
    factor = _factor(values, integers, limit, least, most)
    if factor > 0:
        _round(values, factor, least, most, integers)
        for j in range(words.size):
            at = words[j] * width
            if pairs:
                for i in range(words.size):
                    total[at + words[i]] += integers[j * words.size + i]
            else:
                for i in range(width):
                    total[at + i] += integers[j * width + i]


@_looped
def _add_outer(values, side, sums):
    """Add r r' / r_k, packed, for r the row of the largest diagonal entry r_k of packed `values`.

    It is what `values` are if they are an outer product, and an outer product if they are not.
    """  # proof: sums-outer
    at, pivot, first = 0, 0, 0
    for i in range(side):
        if values[at] > values[first]:
            pivot, first = i, at
        at += side - i
    largest = np.float64(values[first])
    if not largest > 0:
        return
    at, own = 0, pivot  # where entry (i, pivot) is: above the diagonal, and then along the row
    for i in range(side):
        mine = values[own] / largest * (1.0 if i == pivot else _UNROOT)
        other = own
        for j in range(i, side):
            if mine != 0.0:
                both = mine * values[other] * (1.0 if j == pivot else _UNROOT)
                sums[at + j - i] += both if i == j else both * _ROOT
            other += side - j - 1 if j < pivot else 1
        at += side - i
        own += side - i - 1 if i < pivot else 1


@_compiled
def add_row(values, limits, sums):
    """Add one of a unit's rows, of finite numbers, to the unit's sums."""
    for block in range(limits.size):
        start, stop, side = limits[block].start, limits[block].stop, limits[block].side
        if side > 0:
            _add_outer(values[start:stop], side, sums[start:stop])
        else:
            for j in range(start, stop):
                sums[j] += values[j]


@_compiled
def plain(limits):
    """Return whether no block is of outer products, so that a unit's only row is its sum."""
    total = 0
    for block in range(limits.size):
        total += limits[block].side
    return total == 0


@_compiled
def add_rows(values, usable, last, sums, integers, limits, total):
    """Sum the mapped rows of each unit and add the sums; `last` marks a unit's last row.

    `sums` carries a unit over from one chunk of rows to the next; `last` begins before the chunk.
    """
    alone = plain(limits)
    for i in range(usable.size):
        row = values[i]
        if alone and last[i] and last[i + 1]:  # a unit's only row
            if usable[i]:
                _add_alone(row, integers, limits, total)
            continue
        if usable[i] and _finite(row):
            add_row(row, limits, sums)
        if last[i + 1]:
            _add_unit(sums, integers, limits, total)
            sums[:] = 0.0
