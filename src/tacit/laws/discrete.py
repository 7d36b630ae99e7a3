"""The samplers of `bulk` in plain Python and long arithmetic: slow, short, and never in doubt.

Canonne, Kamath and Steinke (2020), and strips for wide Gaussians, on a stream of random bits,
32 at a time. The compiled samplers come here for the rare sample in which a double cannot decide,
and tests compare the two bit by bit.

Strips of equal probability cover the half of a discrete Gaussian. A try picks one of 256 by eight
bits, a position in it and a height, and is accepted below the density. The last of them is cut into
strips of width sigma for all of the tail, which are half as likely from one to the next. Where the
strips lie is computed in whole numbers, and is the same on all machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

STRIPS = 256
TAIL = STRIPS - 1
FRACTION = 55  # of 64 bits, those that a sign and a strip leave
LEAST_SIGMA = 2**12  # below it strips would hold too few whole numbers
LARGEST_SIGMA = 2**30  # 2 sigma^2 must fit in 62 bits
# Strip times height in units of 2^-62 sigma: with it the tail begins where one box can hold it.
# With others the law is the same while the tail begins between s and 8 s; this one accepts most.
_AREA = 22_885_829 * 10**9


class Strips(NamedTuple):
    """Strip i has the sizes from left[i] to left[i] + width[i] - 1; the last entry is the tail's.

    A try at y is accepted with probability exp(-y^2 / 2 s^2) width[i] 2^32 / area <= 1.
    """

    left: np.ndarray
    width: np.ndarray
    sure: np.ndarray  # fractions below it are accepted wherever in the strip
    area: int
    entropy: float  # 32-bit entries, a little more than a sample takes


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
    # tries it first, and the law does not depend on it.
    lowest = (heights[1:] - np.uint64(2)).astype(float)
    least = lowest * width[:TAIL] * (2.0**FRACTION * (1 - 2.0**-40) / area)
    sure = np.append(np.maximum(least - width[:TAIL] - 1, 0), 0).astype(np.uint64)
    for table in (left, width, sure):
        table.flags.writeable = False
    tries = STRIPS * area / (2.0**32 * s * math.sqrt(math.pi / 2))
    return Strips(left, width, sure, area, 2.02 * tries)


class OutOfRandomBitsError(Exception):
    """The stream has ended in the middle of a sample."""


class Stream:
    """Random bits, read 32 at a time."""  # proof: samplers

    def __init__(self, entropy: np.ndarray) -> None:
        self._entropy: Iterator[int] = map(int, entropy)
        self.used = 0

    def next_32(self) -> int:
        self.used += 1
        for bits in self._entropy:
            return bits
        raise OutOfRandomBitsError

    def below(self, n: int) -> int:
        """A uniform integer from 0 to n - 1: Lemire (2019), or rejection for large n."""
        if n <= 2**32:
            product = self.next_32() * n
            while product % 2**32 < (2**32 - n) % n:
                product = self.next_32() * n
            return product >> 32
        mask = 2 ** (n - 1).bit_length() - 1
        while True:
            value = 0
            for _ in range(max(2, -(-mask.bit_length() // 32))):
                value = value << 32 | self.next_32()
            if value & mask < n:
                return value & mask

    def coin(self, numerator: int, denominator: int, doublings: int = 0) -> bool:
        """True with probability exp(-numerator / denominator) 2^doublings: digits against digits.

        It must be at most 1.
        """
        drawn, bits = self.next_32(), 32
        while True:
            with localcontext(digits(bits // 3 + 25)):  # decimal's exp is rounded correctly
                power = (-Decimal(numerator) / Decimal(denominator)).exp()
                threshold = power * 2 ** (bits + doublings)
                rounding = threshold * Decimal(10) ** -(bits // 3 + 20)
                if drawn + 1 <= threshold - rounding:
                    return True
                if drawn >= threshold + rounding:
                    return False
            drawn, bits = drawn << 32 | self.next_32(), bits + 32

    def geometric(self, t: int) -> tuple[int, int]:
        """A pair (u, v) for which u + t v is k with probability proportional to exp(-k / t)."""
        u = self.below(t)
        while not self.coin(u, t):
            u = self.below(t)
        v = 0
        while self.coin(1, 1):
            v += 1
        return u, v

    def laplace(self, t: int, shift: int) -> int:
        """Algorithm 2: P(x) proportional to exp(-|x| 2^shift / t)."""
        while True:
            u, v = self.geometric(t)
            size, negative = (u + t * v) >> shift, self.next_32() >> 31 == 1
            if not (negative and size == 0):
                return -size if negative else size

    def gaussian(self, s: int) -> int:
        """P(y) proportional to exp(-y^2 / 2 s^2), for a whole s: by strips where they fit.

        Elsewhere Algorithm 3, and s as the scale of its proposal: |y| - s = k s + r up to sign, so
        exp(-(|y| - s)^2 / 2 s^2) is a product of coins.
        """
        while LEAST_SIGMA <= s <= LARGEST_SIGMA:
            y = self._try_strip(s)
            if y is not None:
                return y
        while True:
            u, v = self.geometric(s)
            negative = self.next_32() >> 31 == 1
            if negative and u == v == 0:
                continue
            k, r = divmod(abs(u + s * v - s), s)
            if (
                self.coin(r * r, 2 * s * s)
                and all(self.coin(r, s) for _ in range(k))
                and all(self.coin(1, 2) for _ in range(k * k))
            ):
                return -(u + s * v) if negative else u + s * v

    def _try_strip(self, s: int) -> int | None:
        """A sign, a strip, a position in it and a fraction: None if that is not accepted."""
        # proof: strips
        table = strips(s)
        high, low = self.next_32(), self.next_32()
        negative, i = high >> 31 == 1, high >> FRACTION - 32 & TAIL
        drawn, bits = (high << 32 | low) % 2**FRACTION, FRACTION
        left, width, doublings = int(table.left[i]), int(table.width[i]), 0
        if i == TAIL:
            v = self._zeros()
            left, doublings = left + s * v, v + 1
        while True:
            # Digits to come add less than `width` to the product.
            position, fraction = divmod(drawn * width, 2**bits)
            if fraction + width <= 2**bits:
                y = left + position
                # Far out the exponent is large, and more digits of it matter.
                with localcontext(digits(bits // 3 + doublings // 3 + 25)):
                    density = (-Decimal(y * y) / Decimal(2 * s * s)).exp()
                    threshold = density * width * 2 ** (32 + doublings + bits) / table.area
                    rounding = threshold * Decimal(10) ** -(bits // 3 + 20)
                    if fraction + width <= threshold - rounding:
                        if negative:
                            return -y if y else None  # zero is counted once
                        return y
                    if fraction >= threshold + rounding:
                        return None
            drawn, bits = drawn << 32 | self.next_32(), bits + 32

    def _zeros(self) -> int:
        """How many bits are 0 before the first that is 1; the rest of the 32 is not used."""
        zeros, bits = 0, self.next_32()
        while not bits:
            zeros, bits = zeros + 32, self.next_32()
        return zeros + 32 - bits.bit_length()

    def skip(self, k: int) -> int:
        """floor(-log(W) 2^32 / k) for a uniform W, as many digits of it as it takes."""
        drawn, bits = self.next_32() << 32 | self.next_32(), 64
        while True:
            if drawn:
                with localcontext(digits(bits // 3 + 25)):
                    least, most = (
                        int(-(Decimal(end) / 2**bits).ln() * 2**32 / k)
                        for end in (drawn + 1, drawn)
                    )
                if least == most:
                    return least
            drawn, bits = drawn << 32 | self.next_32(), bits + 32
