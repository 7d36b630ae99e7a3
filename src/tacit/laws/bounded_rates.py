"""Rates of counts and of waits on a finite set of points: log-likelihoods, and an exact sampler.

Both are exponential families of values from 0 to a cap: a value x has the log-likelihood
x theta(rate) - A(rate), up to a term without the rate.

    Poisson, up to the cap:      theta = log rate,  A = log sum_(j <= cap) rate^j / j!
    exponential, up to the cap:  theta = -rate,     A = log((1 - e^(-rate cap)) / rate)
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.special import gammaincc, gammaln

from tacit.laws.uniform import Array, Uniform

RateFamily = Literal["poisson", "exponential"]
PIECES = 2**16  # steps of equal ratio from the smallest rate to the largest
_TERMS = 1500  # of a series whose terms fall by 2% or more each


def log_rates(low: float, high: float) -> Array:
    """The logarithms of all rates that can be drawn."""
    return math.log(low) + math.log(high / low) * np.arange(PIECES + 1) / PIECES


def statistics(family: RateFamily, log_rate: Array, cap: float) -> tuple[Array, Array]:
    """theta and A at each point."""
    rate = np.exp(log_rate)
    if family == "exponential":
        return -rate, np.log(-np.expm1(-rate * cap)) - log_rate
    with np.errstate(divide="ignore"):
        partition = rate + np.log(gammaincc(cap + 1, rate))
    beyond = ~np.isfinite(partition) | (partition - rate < -600)
    # Far above the cap the last terms of the sum are the largest: they are added up from there.
    ratio, term, total = cap / rate[beyond], 1.0, 1.0
    for i in range(min(int(cap), _TERMS)):
        term = term * ratio * (1 - i / cap)
        total = total + term
    partition[beyond] = cap * log_rate[beyond] - gammaln(cap + 1) + np.log(total)
    return log_rate, partition


def ranges(family: RateFamily, low: float, high: float, cap: float) -> tuple[float, float]:
    """How far apart the points' log-likelihoods move by one value more, or by another value."""
    theta, partition = statistics(family, log_rates(low, high), cap)
    one = float(max(np.ptp(partition), np.ptp(cap * theta - partition)))
    return one, max(cap * float(np.ptp(theta)), one)


def sample(log_weights: Array, draws: int, uniform: Uniform) -> Array:
    """Indices of points, each with a probability in proportion to its weight, by Gumbel's trick.

    The largest of log-weights, each plus a Gumbel number: exact, and no point is out of reach whose
    probability is above 2^-120 or so.
    """
    found = np.empty(draws, np.int64)
    for i in range(draws):
        # -log of an exponential number, which is dense near 0 where the former is large
        found[i] = np.argmax(log_weights - np.log(-np.log1p(-uniform(log_weights.size))))
    return found
