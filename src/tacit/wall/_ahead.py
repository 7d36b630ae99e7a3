"""Who takes part in the next step of a lease, and its noise, which is drawn some steps ahead.

Noise is drawn without the data in sight, so drawing it early changes nothing but the speed. A
lease refuses to work in another process, so what is kept here is never used twice.
"""

from __future__ import annotations

import numpy as np

from tacit.spec.errors import SourceError
from tacit.spec.plan import Everyone, Poisson, Subsampling, WithoutReplacement
from tacit.spec.release import Noise
from tacit.wall._noise import Words, draw_bulk, draw_poisson, draw_subset

_AHEAD = 16_384  # numbers to draw at once


class Batches:
    """Who takes part in the next step."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._order = np.zeros(0, np.int64)

    def next(self, sampling: Subsampling, n: int) -> np.ndarray:
        """The units of one batch out of n, in increasing order."""
        match sampling:
            case Everyone():
                return np.arange(n)
            case Poisson(rate=rate):
                return draw_poisson(n, rate, self._words)
            case WithoutReplacement(size=size, population=population):
                # n is public here: the relation is replace_one, and neighbours have the same.
                if n != population:
                    raise SourceError(
                        f"The plan was for a population of {population} units, and there are {n}. "
                        "The budget of the lease is spent."
                    )
                if len(self._order) != n:
                    self._order = np.arange(n)
                return draw_subset(self._order, size, self._words)


class NoiseAhead:
    """The noise of the next steps, each number used once."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._ready: dict[Noise, np.ndarray] = {}

    def next(self, law: Noise, size: int) -> np.ndarray:
        """`size` integers of the law."""
        ready = self._ready.get(law)
        if ready is None or len(ready) < size:
            ready = draw_bulk(law, max(size, _AHEAD), self._words)
            if len(self._ready) > 16:  # a clip that adapts leaves laws behind
                self._ready.clear()
        self._ready[law] = ready[size:]
        return ready[:size]
