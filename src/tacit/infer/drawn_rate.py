"""What private draws of a rate say about the sum of the values: the law on a list of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.infer.one_parameter import OneParameter
from tacit.laws import bounded_rates
from tacit.spec.draws import BoundedRate, ConjugateDraw
from tacit.spec.moments import bounds_of
from tacit.spec.release import Release

_KNOTS, _POINTS = 256, 2**12  # sums and rates at which normalisers are computed
_DEEP = 60.0  # of log-weights that matter, below the largest


@dataclass(frozen=True)
class DrawnRate:
    """Draws of a rate as log rates, and what a point adds to the log-likelihood of one sum.

    Given n rows with the sum s, the point j has the log-weight base_j + (s theta_j - n A_j) / T.
    """

    log_rates: np.ndarray
    drawn: np.ndarray  # numbers of points
    base: np.ndarray
    theta: np.ndarray
    partition: np.ndarray
    temperature: float

    @classmethod
    def of(cls, release: Release) -> DrawnRate:
        """Return the released draws and their law."""
        query, temperature = release.query, release.noise[0].scale
        assert isinstance(query, ConjugateDraw)
        law = query.law
        assert isinstance(law, BoundedRate)
        _, cap = bounds_of(release.schema[law.column])
        at = bounded_rates.log_rates(law.low, law.high)
        shape, per = law.prior
        prior = (shape - 1) * at - per * np.exp(at)
        base = at + prior / (temperature if query.temper_prior else 1.0)
        pair = bounded_rates.statistics(law.family, at, cap)
        return cls(at, release.integers, base, *pair, temperature)

    @property
    def rates(self) -> np.ndarray:
        return np.exp(self.log_rates[self.drawn])

    def exact(self, n: float) -> float | None:
        return None

    def guess(self, n: float) -> float:
        """The sum whose likelihood is largest at the draws' mean."""
        j = int(np.clip(round(float(self.drawn.mean())), 1, len(self.theta) - 2))
        rise = self.partition[j + 1] - self.partition[j - 1]
        return n * float(rise / (self.theta[j + 1] - self.theta[j - 1]))

    def window(
        self, family: OneParameter, at: np.ndarray, n: float
    ) -> tuple[np.ndarray, np.ndarray]:
        return family.window(at, n)  # the draw's likelihood is never narrower

    def log(self, s: np.ndarray, n: float) -> np.ndarray:
        """Return log p(draws | s, n)."""
        j = self.drawn
        log = self.base[j].sum() - n * self.partition[j].sum() / self.temperature
        log = log + s * self.theta[j].sum() / self.temperature
        return np.asarray(log - len(j) * self._log_normaliser(s, n))

    def _log_normaliser(self, s: np.ndarray, n: float) -> np.ndarray:
        """Return the log of the weights' sum, a smooth convex function of s, by a spline."""
        low, high = float(s.min()), float(s.max())
        knots = np.unique(np.linspace(low, high, _KNOTS))
        fixed = self.base - n * self.partition / self.temperature
        # Points that have weight at either end or between the two.
        ends = [fixed + end * self.theta / self.temperature for end in (low, high)]
        (kept,) = np.nonzero(np.maximum(*(log - log.max() for log in ends)) > -_DEEP)
        first, last = int(kept[0]), int(kept[-1])
        kept = np.append(np.arange(first, last, 1 + (last - first) // _POINTS), last)
        gaps = np.diff(kept)
        # Each stands for itself and for half of the points on either side.
        times = 1 + np.append(gaps - 1, 0) / 2 + np.insert(gaps - 1, 0, 0) / 2
        theta = self.theta[kept] / self.temperature
        weight = np.multiply.outer(knots, theta)  # of each point, in logs and then itself
        weight += fixed[kept] + np.log(times)
        top = weight.max(axis=1)
        weight -= top[:, None]
        np.exp(weight, out=weight)
        sums = weight.sum(axis=1)
        total, slopes = np.log(sums) + top, weight @ theta / sums
        if len(knots) == 1:
            return np.full(s.shape, total[0])
        from scipy.interpolate import CubicHermiteSpline

        return np.asarray(CubicHermiteSpline(knots, total, slopes)(s))
