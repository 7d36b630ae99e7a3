"""Boxes and balls as images of the whole space, so that a chain in it never meets their edge.

A standard normal law is mapped onto the uniform one: of a box, by the normal distribution function
of each coordinate; of a ball, by that of the length. So a law on the region with density p has the
density p times a standard normal's, and no mode that many dimensions would leave empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln, ndtr

from tacit.laws.uniform import Array


def log_volume(u: Array) -> float:
    """The log density in u of the uniform law on the region, up to a constant."""
    return -0.5 * float(u @ u)


@dataclass(frozen=True)
class BoxMap:
    """Map from R^d to the box between two ends."""

    low: Array
    high: Array

    def point(self, u: Array) -> Array:
        return self.low + (self.high - self.low) * self.share(u)

    def share(self, u: Array) -> Array:
        """The fraction of the way from low to high: what a release counts in."""
        return ndtr(u)

    def pullback_gradient(self, u: Array, gradient: Array) -> Array:
        """The gradient in u of a function with this gradient at the point, log volume added."""
        return (self.high - self.low) * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) * gradient - u


@dataclass(frozen=True)
class BallMap:
    """Map from R^d to the ball around zero: directions stay, lengths become the uniform law's."""

    size: int
    radius: float

    def point(self, u: Array) -> Array:
        return self.radius * self.share(u)

    def share(self, u: Array) -> Array:
        return u * self._stretch(float(np.linalg.norm(u)))[0]

    def pullback_gradient(self, u: Array, gradient: Array) -> Array:
        r = float(np.linalg.norm(u))
        across, along = self._stretch(r)
        axis = u / max(r, 1e-300)
        part = float(axis @ gradient)
        return self.radius * (across * (gradient - part * axis) + along * part * axis) - u

    def _stretch(self, r: float) -> tuple[float, float]:
        """How much a small step at length r becomes, across and along: f / r and f'.

        f = F^(1/d), F the probability that a standard normal vector is no longer than r.
        """
        d, r = self.size, max(r, 1e-100)
        log_below = _log_gamma_cdf(d / 2, r**2 / 2)
        log_density = (d - 1) * np.log(r) - r**2 / 2 + (1 - d / 2) * np.log(2) - gammaln(d / 2)
        log_f = log_below / d
        along = log_f - np.log(d) + log_density - log_below
        return float(np.exp(log_f - np.log(r))), float(np.exp(along))


def _log_gamma_cdf(a: float, x: float) -> float:
    """log P(Gamma(a) <= x), where it is tiny too."""
    if x > 0.5 * a:
        return float(np.log(gammainc(a, x)))
    terms = np.cumprod(x / (a + np.arange(1, 60)))  # at most 1/2 of the one before
    return float(a * np.log(x) - x - gammaln(a + 1) + np.log1p(terms.sum()))
