"""Strips of equal chance over the half of a discrete Gaussian, for its samplers.

A try picks one of 256 strips by eight bits, a place in it and a height, and is accepted below the
density. The last of them is cut into strips of width sigma for all of the tail, which are half as
likely from one to the next. `bulk` has the sampler in compiled code and `discrete` in plain Python.
Where the strips lie is computed in whole numbers, and is the same on all machines.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

STRIPS = 256
TAIL = STRIPS - 1
FRACTION = 55  # bits of two words that a sign and a strip leave
LEAST_SIGMA = 2**12  # below it strips would hold too few whole numbers
LARGEST_SIGMA = 2**30  # 2 sigma^2 must fit in 62 bits
# Strip times height in units of 2^-62 sigma: with it the tail begins where one box can hold it.
# With others the law is the same while the tail begins between s and 8 s; this one accepts most.
_AREA = 22_885_829 * 10**9


class Strips(NamedTuple):
    """Strip i has the sizes from left[i] to left[i] + width[i] - 1; the last entry is the tail's.

    A try at y is accepted with chance exp(-y^2 / 2 s^2) width[i] 2^32 / area, which is at most 1.
    """

    left: np.ndarray
    width: np.ndarray
    sure: np.ndarray  # fractions below it are accepted wherever in the strip
    area: int
    words: float  # a little more than a sample takes


def digits(precision: int) -> Context:
    """Decimal arithmetic of our own, whatever the process has set."""
    return Context(precision, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, traps=[])


@cache
def _shape() -> tuple[np.ndarray, np.ndarray]:
    """Left ends in units of 2^-30 sigma, and bounds of the density there in units of 2^-32."""
    ends, heights = [], []
    end = 0
    # The quotient is exact, and exp is rounded correctly, so never past a whole number of 2^-32.
    with localcontext(digits(100)):
        for _ in range(STRIPS):
            height = int((-Decimal(end * end) / 2**61).exp() * 2**32) + 1
            ends.append(end)
            heights.append(height)
            end += _AREA // height
    return np.array(ends, np.uint64), np.array(heights, np.uint64)


@lru_cache(maxsize=256)
def strips(s: int) -> Strips:
    """The strips for sigma = s."""  # proof: strips
    if not LEAST_SIGMA <= s <= LARGEST_SIGMA:
        raise ValueError(f"no strips for sigma {s}")
    ends, heights = _shape()
    # Rounded up, a left end is no further left than the one that its height was computed for.
    left = (ends * np.uint64(s) + np.uint64(2**30 - 1)) >> np.uint64(30)
    width = np.append(np.diff(left), np.uint64(s))
    area = max(int((width * heights)[:TAIL].max()), 2 * s * int(heights[TAIL]))
    # What a strip accepts at its right end, and less by far more than doubles err; compiled code
    # tries it first, and the law does not hang on it.
    lowest = (heights[1:] - np.uint64(2)).astype(float)
    least = lowest * width[:TAIL] * (2.0**FRACTION * (1 - 2.0**-40) / area)
    sure = np.append(np.maximum(least - width[:TAIL] - 1, 0), 0).astype(np.uint64)
    for table in (left, width, sure):
        table.flags.writeable = False
    tries = STRIPS * area / (2.0**32 * s * math.sqrt(math.pi / 2))
    return Strips(left, width, sure, area, 2.02 * tries)
