"""Families of a bounded value with one parameter: how the sum of n values is distributed.

All are exponential families in the sum s, cut off at public bounds because a value beyond them is
missing: p(s | parameter, n) = h_n(s) exp(eta s - n K(eta)). Without bounds h_n is known; with them
it is corrected by the ratio of two saddlepoint approximations, which is one wherever the bounds are
not felt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

from tacit.infer.noise import Law
from tacit.laws.truncated_normal import log_mass

if TYPE_CHECKING:
    from scipy.interpolate import CubicHermiteSpline

_MOST_LEVELS = 4000  # of a capped count; a larger cap is taken as none


@dataclass(frozen=True)
class OneParameter:
    """A family with bounds. `at` is its parameter on the whole line: log rate, or mean."""

    low: float
    high: float
    natural: Callable[[np.ndarray], np.ndarray]
    at_mean: Callable[[float], float]
    log_partition: Callable[[np.ndarray], np.ndarray]
    log_measure: Callable[[np.ndarray, float], np.ndarray]
    free_partition: Callable[[np.ndarray], np.ndarray]
    free_natural: Callable[[np.ndarray], np.ndarray]
    free_variance: Callable[[np.ndarray], np.ndarray]
    scan: np.ndarray
    whole: bool = False

    @cached_property
    def _scanned(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Natural parameters with mean and variance of one value; means strictly increase."""
        eta = self.scan
        step = 1e-4 * np.maximum(np.abs(eta), 1e-3 / (self.high - self.low))
        up, down = self.log_partition(eta + step), self.log_partition(eta - step)
        mean = np.clip((up - down) / (2 * step), self.low, self.high)
        keep = np.concatenate([[True], np.diff(np.maximum.accumulate(mean)) > 0])
        keep &= (mean > self.low) & (mean < self.high)
        eta, mean = eta[keep], mean[keep]
        return eta, mean, np.maximum(np.gradient(mean, eta, edge_order=2), 1e-300)

    @cached_property
    def _correction(self) -> tuple[CubicHermiteSpline, np.ndarray]:
        """How the bounds change log h_n at each mean: n times the first, plus the second."""
        from scipy.interpolate import CubicHermiteSpline

        eta, mean, variance = self._scanned
        free = self.free_natural(mean)
        bounded = self.log_partition(eta) - eta * mean
        unbounded = self.free_partition(free) - free * mean
        rate = CubicHermiteSpline(mean, bounded - unbounded, free - eta)  # derivative: -eta each
        return rate, 0.5 * np.log(self.free_variance(mean) / variance)

    def moments(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of one value at natural parameters."""
        known, mean, variance = self._scanned
        return np.interp(eta, known, mean), np.exp(np.interp(eta, known, np.log(variance)))

    @property
    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """Means, and the variance of one value with each mean."""
        return self._scanned[1:]

    def window(self, at: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds that hold the sum of n values with probability near 1."""
        mean, variance = self.moments(self.natural(at))
        spread = np.sqrt(n * variance)
        low = np.maximum(n * mean - 10 * spread, n * self.low)
        return low, np.minimum(n * mean + 15 * spread + 10 * self.whole, n * self.high)

    def most_likely(self, eta: np.ndarray, n: float, y: float, law: Law) -> np.ndarray:
        """Return the most probable sum given y = sum + noise."""
        if law.heavy:  # e^(s/b) makes another natural parameter of the sum's
            below, above = (self.moments(eta + tilt / law.scale)[0] for tilt in (-1, 1))
            return np.clip(y, n * below, n * above)
        known, mean, _ = self._scanned
        return np.interp(y + law.scale**2 * eta, n * mean + law.scale**2 * known, n * mean)

    def log_density(self, s: np.ndarray, at: np.ndarray, n: float) -> np.ndarray:
        """Return log p(s | parameter, n); `at` has one entry for each row of `s`."""
        eta = self.natural(at)
        log = self.log_measure(s, n) + eta[:, None] * s - n * self.log_partition(eta)[:, None]
        return log + self._log_bounded(s, n)

    def _log_bounded(self, s: np.ndarray, n: float) -> np.ndarray:
        """Return log of h_n with bounds over h_n without, by saddlepoint approximations of both."""
        if n == 1:  # one value within the bounds has the same measure
            return np.zeros_like(s)
        _, mean, _ = self._scanned
        rate, spread = self._correction
        average = np.clip(s / n, mean[0], mean[-1])
        log = n * rate(average) + np.interp(average, mean, spread)
        if self.whole:  # where nearly all are at the cap, as few whole steps away as a Poisson has
            away = np.maximum(n * self.high - s, n * (self.high - mean[-1]))
            log += away * np.log(away) - away + 0.5 * np.log(2 * np.pi * away) - gammaln(away + 1)
            return log
        return log + self._log_beyond(s / n, average, n)

    def _log_beyond(self, average: np.ndarray, known: np.ndarray, n: float) -> np.ndarray:
        """Return the correction nearer to a bound than the table: values are exponential there."""
        if np.array_equal(average, known):
            return np.zeros_like(average)

        def unbounded(mean: np.ndarray) -> np.ndarray:
            free = self.free_natural(mean)
            return self.free_partition(free) - free * mean

        left, right = average - self.low, self.high - average
        gap = np.where(average < known, left / (known - self.low), right / (self.high - known))
        log = np.log(np.maximum(np.where(average == known, 1.0, gap), 1e-300))
        return (n - 1) * log + n * (unbounded(known) - unbounded(average))


def poisson(cap: float) -> OneParameter:
    """Counts from 0 to `cap`; `at` is the log rate."""
    levels = np.arange(min(cap, _MOST_LEVELS) + 1)
    weights = -gammaln(levels + 1)

    def log_partition(eta: np.ndarray) -> np.ndarray:
        if cap > _MOST_LEVELS:
            return np.exp(eta)
        flat = np.ravel(eta)
        parts = [
            logsumexp(chunk[:, None] * levels + weights, axis=1)
            for chunk in np.array_split(flat, 1 + flat.size * len(levels) // 10**6)
        ]
        return np.concatenate(parts).reshape(np.shape(eta))

    return OneParameter(
        low=0.0,
        high=float(cap),
        whole=True,
        natural=lambda at: at,
        at_mean=lambda mean: float(np.log(mean)),
        log_partition=log_partition,
        log_measure=lambda s, n: s * np.log(n) - gammaln(s + 1),
        free_partition=np.exp,
        free_natural=lambda mean: np.log(np.maximum(mean, 1e-300)),
        free_variance=lambda mean: np.maximum(mean, 1e-300),
        scan=np.linspace(-25.0, np.log(cap) + 12.0, 1500),
    )


def exponential(cap: float) -> OneParameter:
    """Waiting times from 0 to `cap`; `at` is the log rate."""

    def log_partition(eta: np.ndarray) -> np.ndarray:
        x = eta * cap  # K = log((e^x - 1) / x) + log(cap)
        size = np.maximum(np.abs(x), 1e-8)
        return np.log(cap) + np.maximum(x, 0) + np.log(-np.expm1(-size)) - np.log(size)

    sizes = np.geomspace(1e-6, 1e7, 1500) / cap
    return OneParameter(
        low=0.0,
        high=float(cap),
        natural=lambda at: -np.exp(at),
        at_mean=lambda mean: -float(np.log(mean)),
        log_partition=log_partition,
        log_measure=lambda s, n: (n - 1) * np.log(np.maximum(s, 1e-300)) - gammaln(n),
        free_partition=lambda eta: -np.log(-eta),
        free_natural=lambda mean: -1 / np.maximum(mean, 1e-300),
        free_variance=lambda mean: np.maximum(mean, 1e-150) ** 2,
        scan=np.concatenate([-sizes[::-1], sizes]),
    )


def normal(low: float, high: float, sd: float) -> OneParameter:
    """Values from `low` to `high` around an unknown mean; `at` is the mean."""

    def log_partition(eta: np.ndarray) -> np.ndarray:
        return 0.5 * (eta * sd) ** 2 + log_mass(eta * sd**2, sd, low, high)

    width = high - low
    reach = np.sinh(np.linspace(-12, 12, 3001)) / np.sinh(12)
    means = (low + high) / 2 + reach * (10 * width + 60 * sd + 20 * sd**2 / width)
    return OneParameter(
        low=low,
        high=high,
        natural=lambda at: at / sd**2,
        at_mean=lambda mean: mean,
        log_partition=log_partition,
        log_measure=lambda s, n: -0.5 * s**2 / (n * sd**2) - 0.5 * np.log(2 * np.pi * n * sd**2),
        free_partition=lambda eta: 0.5 * (eta * sd) ** 2,
        free_natural=lambda mean: mean / sd**2,
        free_variance=lambda mean: np.full_like(mean, sd**2),
        scan=means / sd**2,
    )
