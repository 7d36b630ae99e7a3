"""From noisy slopes and curvatures to a posterior: a Newton method that knows its noise.

Near a place `at`, the log-likelihood's slope s(theta) is about s(at) - H (theta - at), and at the
true parameters it is a normal draw of variance H. So a slope seen there with noise of variance w
has the law N(H (truth - at), H + w). The estimate that solves

    s(theta) = ridge * theta

is off by (H + ridge)^-1 (noise + ridge * truth), whatever the ridge, and that is the spread of the
draws here. With the best ridge in each direction it is the posterior's; one ridge for all needs no
more than the slopes themselves, which follow the true curvature where the noisy one is not known.
The draws take the likely curvature as known; that its noise does not matter for coverage is
measured in docs/logistic-regression.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_RIDGES = np.geomspace(1e-4, 1e5, 120)
# A normal prior with one variance makes too much of coefficients that differ in size.
_RIDGE_SHARE = 0.75
_PRIOR_WEIGHT = 2.0  # the prior's say on its own variance, in coefficients
_EDGE = 0.35  # of the largest eigenvalue that noise alone would have: what steps are damped by
_FARTHEST = 8.0  # of one step: no row's log odds move more


@dataclass(frozen=True)
class Seen:
    """A slope and a curvature of the log-likelihood at a place, and their noise.

    `curvature_sd` is the noise of an entry on the curvature's diagonal; others have it over the
    root of 2.
    """

    at: np.ndarray
    slope: np.ndarray
    slope_variance: float
    curvature: np.ndarray
    curvature_sd: float


@dataclass(frozen=True)
class Directions:
    """The axes of a noisy curvature, and what is known of the curvature along each.

    `raw` is what was seen. Noise pushes such numbers apart; `likely` are brought back together.
    """

    axes: np.ndarray
    raw: np.ndarray
    likely: np.ndarray
    sd: float

    @classmethod
    def of(cls, curvature: np.ndarray, sd: float) -> Directions:
        raw, axes = np.linalg.eigh(curvature)
        likely = np.maximum(_together(raw, sd), 0.1 * sd)
        return cls(axes, raw, likely, sd)

    @property
    def damping(self) -> float:
        return float(_EDGE * np.sqrt(2 * len(self.raw)) * self.sd)

    def step(self, theta: np.ndarray, slope: np.ndarray, ridge: float) -> np.ndarray:
        """Where a damped step leads from theta."""
        here = self.axes.T @ theta
        away = self.axes.T @ slope - ridge * here
        away /= np.maximum(self.raw, 0.0) + self.damping + ridge
        return theta + self.axes @ away


def best_ridge(known: Directions, variance: float, spread: float) -> float:
    """The ridge with the least expected error of predictions, for coefficients of this spread."""
    h = known.likely[:, None]
    risk = (h * (h + variance + (_RIDGES * spread) ** 2) / (h + _RIDGES) ** 2).sum(axis=0)
    return float(_RIDGE_SHARE * _RIDGES[risk.argmin()])


def likely_spread(
    theta: np.ndarray, known: Directions, variance: float, ridge: float, prior: float
) -> tuple[float, float]:
    """The coefficients' standard deviation, given an estimate; and in how many it was seen."""
    h = known.likely
    kept = float(((h / (h + ridge)) ** 2).sum())
    noise = float(((h + variance) / (h + ridge) ** 2).sum())
    seen = max(float(theta @ theta) - noise, 0.0)
    weight = _PRIOR_WEIGHT + kept
    return float(np.sqrt((_PRIOR_WEIGHT * prior**2 + seen) / weight)), weight


def next_place(seen: Seen, known: Directions, ridge: float) -> np.ndarray:
    """Where to look next."""
    there = known.step(seen.at, seen.slope, ridge)
    away = there - seen.at
    length = float(np.linalg.norm(away))
    return seen.at + away * min(1.0, _FARTHEST / max(length, 1e-300))


def draw(
    seen: Seen,
    ridge: float,
    prior: float,
    count: int,
    rng: np.random.Generator,
    *,
    aware: bool = True,
) -> np.ndarray:
    """Draws of the parameters, given the last look. Without `aware`, as if it had had no noise."""
    known = Directions.of(seen.curvature, seen.curvature_sd)
    middle = known.step(seen.at, seen.slope, ridge)
    variance = seen.slope_variance if aware else 0.0
    spread, weight = likely_spread(middle, known, variance, ridge, prior)
    spreads = spread * np.sqrt(weight / rng.chisquare(weight, count))
    h = known.likely
    sd = np.sqrt(h + variance + (ridge * spreads[:, None]) ** 2) / (h + ridge)
    return middle + (sd * rng.standard_normal(sd.shape)) @ known.axes.T


def averaged(looks: list[Seen], last: Seen) -> Seen:
    """The last look, its curvature averaged with those just before it by their precision."""
    weights = np.array([each.curvature_sd**-2.0 for each in (*looks, last)])
    curvatures = np.array([each.curvature for each in (*looks, last)])
    curvature = np.tensordot(weights / weights.sum(), curvatures, axes=1)
    sd = float(weights.sum() ** -0.5)
    return Seen(last.at, last.slope, last.slope_variance, curvature, sd)


def _together(raw: np.ndarray, sd: float) -> np.ndarray:
    """The true curvature along noisy axes, which noise had pushed apart (Bun et al. 2016, RIE)."""
    gap = raw[:, None] - raw[None, :]
    return raw - sd**2 * (gap / (gap**2 + sd**2)).sum(axis=1)
