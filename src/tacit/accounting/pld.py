"""Privacy loss distributions, composed: the tightest accountant.

Transforms of a density p err by about 1e-16, far too much where delta is small. So p(l) e^(theta l)
is composed in place of p, with theta such that its bulk lies at the epsilon in question: the error
becomes one relative to delta, is bounded, and is added to delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.accounting.gaussian import gaussian_delta, gaussian_epsilon
from tacit.accounting.grid import Array, discretise, interval, resolvable
from tacit.accounting.pairs import Composition, Shift

_LOST = 1e-15  # tail mass cut off at each composition
_ERROR = 2e-13  # of a transform, for each step; about ten times what is seen


@lru_cache(maxsize=4096)
def pld_epsilon(composition: Composition, delta: float) -> float:
    """The smallest epsilon at which the composition is (epsilon, delta)-private.

    Examples
    --------
    >>> from tacit.accounting.pairs import Remove
    >>> round(pld_epsilon(((Remove(1.0, 0.01), 1000),), 1e-5), 3)
    1.829
    """
    match composition:
        case ((Shift(mu=mu), 1),):
            return gaussian_epsilon(mu, delta)
    law = _compose(composition, delta, lambda cumulant, t: (cumulant - math.log(delta)) / t)
    low, high = 0.0, 1.0
    if law.delta(low) <= delta:
        return low
    while law.delta(high) > delta:
        low, high = high, 2 * high
        if high > 1e18:
            return math.inf
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if law.delta(middle) <= delta else (middle, high)
    return high


def pld_delta(composition: Composition, epsilon: float) -> float:
    """The smallest delta at which the composition is (epsilon, delta)-private."""
    match composition:
        case ((Shift(mu=mu), 1),):
            return gaussian_delta(mu, epsilon)
    return min(
        1.0, _compose(composition, 1e-20, lambda cumulant, t: cumulant - t * epsilon).delta(epsilon)
    )


@dataclass(frozen=True)
class _Law:
    """The law of the summed loss, as masses times e^(log_scale - theta * loss)."""

    losses: Array
    masses: Array
    theta: float
    log_scale: float
    infinite: float
    error: float

    def delta(self, epsilon: float) -> float:
        """An upper bound on the expectation of (1 - e^(epsilon - loss))_+."""
        first, last = np.searchsorted(self.losses, [epsilon, epsilon + 60 / self.theta])
        over = self.losses[first:last] - epsilon
        kept = np.exp(-self.theta * over) * -np.expm1(-over)
        total = max(float(kept @ self.masses[first:last]), 0.0) + self.error
        return self.infinite + math.exp(min(self.log_scale - self.theta * epsilon, 700.0)) * total


def _compose(
    composition: Composition, delta: float, bound: Callable[[float, float], float]
) -> _Law:
    """The composed law, tilted by the theta at which `bound` (Chernoff's) is the smallest."""
    from scipy.optimize import minimize_scalar
    from scipy.signal import fftconvolve

    composition = tuple((resolvable(pair), count) for pair, count in composition)
    steps = sum(count for _, count in composition)
    tail = math.sqrt(2 * math.log(1e4 * steps / delta))  # deviations kept of each normal law
    width, deviation = interval(composition, tail)
    grids = [(*discretise(pair, width, tail), count) for pair, count in composition]
    points = [width * (first + np.arange(len(masses))) for first, masses, *_ in grids]
    with np.errstate(divide="ignore"):
        logs = [np.log(masses) for _, masses, *_ in grids]
    counts = [count for *_, count in grids]

    def moments(theta: float) -> list[float]:
        return [_log_sum_exp(log + theta * loss) for log, loss in zip(logs, points)]

    def worst(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return bound(math.fsum(n * m for n, m in zip(counts, moments(theta))), theta)

    widest = max(loss[-1] - loss[0] for loss in points)
    # Larger tilts are of no use and, where losses have a largest value, of no end.
    largest = min(4 * tail / deviation, 50 / width)
    limits = math.log(1e-3 / (widest * math.sqrt(steps))), math.log(largest)
    found = minimize_scalar(worst, bounds=limits, method="bounded", options={"xatol": 0.05})
    theta = math.exp(found.x)
    total, start, scale = np.ones(1), 0, moments(theta)
    for (first, _, _, count), log, loss, moment in zip(grids, logs, points, scale):
        tilted = np.exp(log + theta * loss - moment)
        tilted[tilted < 1e-200] = 0.0  # self_convolve divides by what is not zero
        offset, power = _power(tilted, count, _LOST)
        total = fftconvolve(total, power)
        start += first * count + offset
    return _Law(
        losses=width * (start + np.arange(len(total))),
        masses=total,
        theta=theta,
        log_scale=math.fsum(n * m for n, m in zip(counts, scale)),
        infinite=-math.expm1(math.fsum(n * math.log1p(-lost) for *_, lost, n in grids)),
        error=_ERROR * steps + 4 * _LOST * len(grids),
    )


def _log_sum_exp(exponents: Array) -> float:
    top = exponents.max()
    return float(top + np.log(np.exp(exponents - top).sum()))


def _power(masses: Array, count: int, lost: float) -> tuple[int, Array]:
    """The sum of `count` draws, and the index at which its masses begin."""
    from dp_accounting.pld.common import self_convolve
    from scipy.signal import fftconvolve

    if count == 1:
        return 0, masses
    index = np.arange(len(masses))
    variance = float(masses @ (index - masses @ index) ** 2)
    # self_convolve's own bounds are wide for a sum far wider than one draw: then in two stages.
    if count * variance <= (8 * len(masses)) ** 2:
        offset, power = self_convolve(masses, count, lost)
        return offset, power
    root = math.isqrt(count)
    inner_offset, inner = _power(masses, root, lost / root)
    offset, power = _power(inner, root, lost)
    offset += inner_offset * root
    rest = count - root**2
    if rest:
        rest_offset, more = _power(masses, rest, lost)
        offset, power = offset + rest_offset, fftconvolve(power, more)
    return offset, power
