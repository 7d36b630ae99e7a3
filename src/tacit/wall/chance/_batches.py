"""Who takes part in the next steps of a lease, drawn some steps at a time.

Batches are drawn without the data in sight, so drawing them early changes nothing but the speed. A
lease refuses to work in another process, so what is kept here is never used twice.
"""

from __future__ import annotations

import numpy as np

from tacit.spec.errors import SourceError
from tacit.spec.plan import Everyone, Poisson, Subsampling, WithoutReplacement
from tacit.wall.chance._noise import Words, draw_poisson, draw_subset

_AHEAD = 16_384  # units to draw at once


class Batches:
    """Who takes part in the next step."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._kind: tuple[Subsampling, int] | None = None
        self._ready: list[np.ndarray] = []
        self._order = np.zeros(0, np.int64)

    def next(self, sampling: Subsampling, n: int) -> np.ndarray:
        """The units of one batch out of n, in increasing order."""
        if self._kind != (sampling, n):
            self._kind, self._ready, self._order = (sampling, n), [], np.arange(n)
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
                return draw_subset(self._order, size, self._words)

    def _several(self, n: int, rate: float) -> list[np.ndarray]:
        """Batches of several steps: one sample from as many copies of the units."""
        steps = max(1, min(64, int(_AHEAD / (n * rate + 1))))
        taken = draw_poisson(n * steps, rate, self._words)
        ends = np.searchsorted(taken, n * np.arange(1, steps))
        return [part - n * i for i, part in enumerate(np.split(taken, ends))]
