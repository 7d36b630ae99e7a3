"""Logarithms of truncated gamma variables, by rejection from a three-piece envelope.

The density of z = log x, exp(a z - l e^z), is log-concave for every a > 0 and l >= 0. Around its
highest point a concave logarithm lies under a constant and under any two of its tangents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.laws.uniform import Array, Uniform, by_rejection, exponential

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True)
class LogGamma:
    """exp(shape z - rate e^z) for low <= z <= high, for arrays of shapes and rates.

    All is said relative to the highest point `top`: z = top + d, and the logarithm of the density
    is shape d - pull (e^d - 1), with `pull` = rate e^top.
    """

    shape: Array
    top: Array
    pull: Array
    left: Array  # the ends of the interval, relative to the top
    right: Array

    @classmethod
    def of(cls, shape: Array, rate: Array, low: float, high: float) -> LogGamma:
        shape, rate = np.broadcast_arrays(shape, rate)
        with np.errstate(divide="ignore"):
            free = np.log(shape) - np.log(rate)
        top = np.clip(free, low, high)
        # At an inner top the two are equal, and their difference must not be rounding.
        pull = np.where(top == free, shape, rate * np.exp(top))
        return cls(shape, top, pull, low - top, high - top)

    def log(self, d: Array) -> Array:
        return self.shape * d - self.pull * np.expm1(d)

    def slope(self, d: Array) -> Array:
        return (self.shape - self.pull) - self.pull * np.expm1(d)

    @property
    def touching(self) -> tuple[Array, Array]:
        """Where the tangents touch: the density has fallen by a factor of about e."""
        steep = np.abs(self.shape - self.pull)
        fall = 2 / (steep + np.sqrt(steep**2 + 2 * self.pull))
        with np.errstate(divide="ignore"):
            return -(fall + 1 / self.shape), np.log1p(fall + 1 / self.pull)

    def mean(self) -> Array:
        """The mean of e^z, roughly: only the speed of a sampler depends on it."""
        first, last = self.touching
        left, right = np.maximum(self.left, 8 * first), np.minimum(self.right, 8 * last)
        half = ((right - left) / 2)[..., None]
        d = ((right + left) / 2)[..., None] + half * _NODES
        shape, pull = self.shape[..., None], self.pull[..., None]
        weight = _WEIGHTS * np.exp(shape * d - pull * np.expm1(d))
        ratio = (weight * np.exp(d)).sum(axis=-1) / weight.sum(axis=-1)
        return np.exp(self.top) * ratio

    def sample(self, uniform: Uniform) -> Array:
        """One z for each shape and rate."""
        law = LogGamma(*(np.ravel(v) for v in vars(self).values()))
        first, last = law.touching
        # The envelope rises up to `start`, is constant to `end`, and falls from there. Beyond the
        # interval no tangent is needed.
        first, last = np.maximum(first, law.left), np.minimum(last, law.right)
        with np.errstate(divide="ignore", invalid="ignore"):
            rise, fall = law.slope(first), -law.slope(last)
            start = np.where(first < 0, np.minimum(first - law.log(first) / rise, 0.0), law.left)
            end = np.where(last > 0, np.maximum(last + law.log(last) / fall, 0.0), law.right)
            before = np.where(first < 0, -np.expm1(-rise * (start - law.left)) / rise, 0.0)
            after = np.where(last > 0, -np.expm1(-fall * (law.right - end)) / fall, 0.0)
        envelope = np.stack([before, end - start, after, start, end, rise, fall])

        def propose(rows: Array, _: int) -> tuple[Array, Array]:
            piece, inside, coin = uniform(3 * rows.size).reshape(3, -1)
            before, flat, after, start, end, rise, fall = envelope[:, rows]
            piece = piece * (before + flat + after)
            is_left = piece < before
            is_right = ~is_left & (piece >= before + flat)
            some = LogGamma(*(v[rows] for v in vars(law).values()))
            rate = np.where(is_left, rise, fall)
            length = np.where(is_left, start - some.left, some.right - end)
            away = exponential(inside, rate, length)
            d = np.where(is_left, start - away, end + away)
            d = np.where(is_left | is_right, d, start + inside * (end - start))
            above = np.where(is_left | is_right, -rate * away, 0.0)
            return d[:, None], (np.log(coin) <= some.log(d) - above)[:, None]

        z = law.top + by_rejection(law.shape.shape, propose)
        return np.clip(z, law.top + law.left, law.top + law.right).reshape(self.shape.shape)
