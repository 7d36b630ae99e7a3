"""From noisy slopes and curvatures to a posterior: a Newton method that knows its noise.

Near a place `at`, the log-likelihood's slope s(theta) is about s(at) - H (theta - at), and at the
true parameters it is a normal draw of variance H. So a slope seen there with noise of variance w
has the law N(H (truth - at), H + w). The estimate that solves

    s(theta) = ridge * theta

is off by (H + ridge)^-1 (noise + ridge * truth), whatever the ridge, and that is the spread of the
draws here. With the best ridge in each direction it is the posterior's; one ridge for all needs no
more than the slopes themselves, which follow the true curvature where the noisy one is not known.
The draws take the likely curvature as known and the slope as linear; where the intervals then cover
and where they do not is measured in docs/logistic-regression.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_RIDGES = np.geomspace(1e-4, 1e5, 120)
_PRIOR_WEIGHT = 2.0  # the prior's say on its own variance, in coefficients
_EDGE = 0.35  # of the largest eigenvalue that noise alone would have: what steps are damped by
_CLEAR, _LEAST = 1.5, 0.4  # curvatures so many times their noise need less damping, to this share
_FARTHEST = 8.0  # of one step: no row's log odds move more


@dataclass(frozen=True)
class Slope:
    """The slope of the log-likelihood as it was seen at a place, and the variance of its noise.

    `along` is further noise in one direction: a normal number times this vector.
    """

    at: np.ndarray
    value: np.ndarray
    variance: float
    along: np.ndarray | None = None

    def noise(self, axes: np.ndarray) -> tuple[float, np.ndarray]:
        """The variance in all directions, and what comes on top of it, along these axes."""
        along = np.zeros(len(axes)) if self.along is None else axes.T @ self.along
        return self.variance, along

    @classmethod
    def mean(cls, some: Sequence[Slope], shared: float) -> Slope:
        """Of several looks near each other, by the precision of what is not `shared` noise.

        Theirs is noise in all directions alike.
        """
        weights = np.array([1 / (each.variance - shared + 1e-300) for each in some])
        variance = shared + 1 / float(weights.sum())
        weights /= weights.sum()
        at = np.tensordot(weights, np.array([each.at for each in some]), axes=1)
        value = np.tensordot(weights, np.array([each.value for each in some]), axes=1)
        return cls(at, value, variance)


@dataclass(frozen=True)
class Curvature:
    """A curvature as it was seen. `sd` is the noise on its diagonal, elsewhere over the root of 2.

    Noise pushes the curvatures `raw` along its axes apart; `likely` are brought back together.
    """

    matrix: np.ndarray
    sd: float

    @classmethod
    def mean(cls, some: Sequence[Curvature]) -> Curvature:
        """Of several looks, by their precision."""
        weights = np.array([each.sd**-2.0 for each in some])
        matrices = np.array([each.matrix for each in some])
        matrix = np.tensordot(weights / weights.sum(), matrices, axes=1)
        return cls(matrix, float(weights.sum() ** -0.5))

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        raw, axes = np.linalg.eigh(self.matrix)
        return raw, axes

    @property
    def raw(self) -> np.ndarray:
        return self._eigen[0]

    @property
    def axes(self) -> np.ndarray:
        return self._eigen[1]

    @cached_property
    def likely(self) -> np.ndarray:
        """The true curvature along the noisy axes (Bun et al. 2016, for noise of this kind)."""
        gap = self.raw[:, None] - self.raw[None, :]
        pushed = self.sd**2 * (gap / (gap**2 + self.sd**2)).sum(axis=1)
        return np.maximum(self.raw - pushed, 0.1 * self.sd)

    def step(self, slope: Slope, ridge: float, *, on_the_way: bool = False) -> np.ndarray:
        """Where a damped step leads. On the way noise averages out, and steps may be bolder."""
        damping = _EDGE * np.sqrt(2 * len(self.raw)) * self.sd
        if on_the_way:
            damping *= np.clip(_CLEAR * self.sd / self.likely.mean(), _LEAST, 1.0)
        away = self.axes.T @ (slope.value - ridge * slope.at)
        away /= np.maximum(self.raw, 0.0) + damping + ridge
        return slope.at + self.axes @ away


def best_ridge(curvature: Curvature, variance: float | np.ndarray, spread: float) -> float:
    """The ridge with the least expected error of predictions, for coefficients of this spread.

    The variance of the slope's noise is one number, or one for each of the curvature's axes.
    """
    h, noise = curvature.likely[:, None], np.reshape(variance, (-1, 1))
    risk = (h * (h + noise + (_RIDGES * spread) ** 2) / (h + _RIDGES) ** 2).sum(axis=0)
    return float(_RIDGES[risk.argmin()])


def likely_spread(
    theta: np.ndarray,
    curvature: Curvature,
    variance: float | np.ndarray,
    ridge: float,
    prior: float,
) -> tuple[float, float]:
    """The coefficients' standard deviation, given an estimate; and in how many it was seen.

    The variance is as in `best_ridge`.
    """
    h = curvature.likely
    kept = float(((h / (h + ridge)) ** 2).sum())
    noise = float(((h + variance) / (h + ridge) ** 2).sum())
    seen = max(float(theta @ theta) - noise, 0.0)
    weight = _PRIOR_WEIGHT + kept
    return float(np.sqrt((_PRIOR_WEIGHT * prior**2 + seen) / weight)), weight


def next_place(
    slope: Slope, curvature: Curvature, ridge: float, *, on_the_way: bool = True
) -> np.ndarray:
    """Where to look next."""
    away = curvature.step(slope, ridge, on_the_way=on_the_way) - slope.at
    length = float(np.linalg.norm(away))
    return slope.at + away * min(1.0, _FARTHEST / max(length, 1e-300))


def draw(
    slope: Slope,
    curvature: Curvature,
    ridge: float,
    prior: float,
    count: int,
    rng: np.random.Generator,
    *,
    aware: bool = True,
) -> np.ndarray:
    """Draws of the parameters, given the last look. Without `aware`, as if it had had no noise."""
    middle = curvature.step(slope, ridge)
    variance, along = slope.noise(curvature.axes) if aware else (0.0, np.zeros(len(middle)))
    spread, weight = likely_spread(middle, curvature, variance + along**2, ridge, prior)
    spreads = spread * np.sqrt(weight / rng.chisquare(weight, count))
    h = curvature.likely
    sd = np.sqrt(h + variance + (ridge * spreads[:, None]) ** 2)
    off = sd * rng.standard_normal(sd.shape) + rng.standard_normal((count, 1)) * along
    return middle + off / (h + ridge) @ curvature.axes.T
