"""Who takes part in the next steps of a lease, drawn some steps at a time.

Batches are drawn without the data in sight, so drawing them early changes nothing but the speed. A
lease refuses to work in another process, so what is kept here is never used twice.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.laws import bulk
from tacit.spec.errors import SourceError
from tacit.spec.plan import Everyone, Poisson, Subsampling, WithoutReplacement
from tacit.wall.noise import Entropy, os_entropy, settled

_AHEAD = 16_384  # units to draw at once


class Batches:
    """Who takes part in the next step."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._drawn_for: tuple[Subsampling, int] | None = None
        self._ready: list[np.ndarray] = []
        self._order = np.zeros(0, np.int64)

    def next(self, sampling: Subsampling, n: int) -> np.ndarray:
        """The units of one batch out of n, in increasing order."""
        if self._drawn_for != (sampling, n):
            self._drawn_for, self._ready, self._order = (sampling, n), [], np.arange(n)
        match sampling:
            case Everyone():
                return self._order
            case Poisson(rate=rate):
                if not self._ready:
                    self._ready = self._several(n, rate)
                return self._ready.pop()
            case WithoutReplacement(size=size, population=population):
                # n is public here: the relation is replace_one, and neighbours have the same.
                if n != population:
                    raise SourceError(
                        f"The plan was for a population of {population} units, and there are {n}. "
                        "The budget of the lease is spent."
                    )
                return draw_subset(self._order, size, self._entropy)

    def _several(self, n: int, rate: float) -> list[np.ndarray]:
        """Batches of several steps: one sample from as many copies of the units."""
        steps = max(1, min(64, int(_AHEAD / (n * rate + 1))))
        taken = draw_poisson(n * steps, rate, self._entropy)
        ends = np.searchsorted(taken, n * np.arange(1, steps))
        return [part - n * i for i, part in enumerate(np.split(taken, ends))]


def draw_poisson(n: int, rate: float, entropy: Entropy = os_entropy) -> np.ndarray:
    """Which of n units take part, in order, each with a probability of at most `rate`."""
    if rate >= 1:
        return np.arange(n)
    k = skip_numerator(rate)
    expected = n * rate
    out = np.zeros(int(expected + 8 * math.sqrt(expected) + 16), np.int64)
    done, last, left = 0, -1, np.zeros(0, np.uint32)
    while last < n:
        if done + 1 >= out.size:
            out = np.concatenate([out, np.zeros_like(out)])
        if left.size < 2:
            left = np.concatenate([left, entropy(int(2.2 * (n - last) * rate) + 16)])
        done, last, used, doubt = bulk.fill_skips(out, done, last, n, np.uint64(k), left)
        left = left[used:]
        if doubt:
            passed, left = settled(lambda s: s.skip(k), left, entropy)
            last += 1 + passed
            if last < n:
                out[done] = last
                done += 1
    return out[:done]


def skip_numerator(rate: float) -> int:
    """The largest k for which 1 - exp(-k / 2^32) is at most `rate`, or a little less."""
    return max(1, math.floor(-math.log1p(-rate) * 2.0**bulk.SKIP_BITS * (1 - 1e-14)))


def draw_subset(order: np.ndarray, size: int, entropy: Entropy = os_entropy) -> np.ndarray:
    """A uniform subset, in increasing order. `order` is any permutation, shuffled in place."""
    done, left = 0, np.zeros(0, np.uint32)
    while done < size:
        stock = np.concatenate([left, entropy(2 * (size - done) + 16)])
        done, used = bulk.shuffle_front(order, done, size, stock)
        left = stock[used:]
    return np.sort(order[:size])
