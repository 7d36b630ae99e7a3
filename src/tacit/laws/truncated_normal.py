"""The normal law between two bounds: density and exact sampler."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from tacit.laws.log_gamma import Array, Uniform


def sample(mean: float, sd: float, low: float, high: float, size: int, uniform: Uniform) -> Array:
    """Independent draws, by the inverse of the distribution function in logarithms."""
    a, b = (low - mean) / sd, (high - mean) / sd
    flip = a > 0  # so that the shorter tail is the left one, where logarithms are accurate
    if flip:
        a, b = -b, -a
    u = uniform(size)
    log = np.logaddexp(log_ndtr(a) + np.log1p(-u), log_ndtr(b) + np.log(u))
    z = ndtri_exp(np.minimum(log, -0.0))
    z = np.clip(-z if flip else z, (low - mean) / sd, (high - mean) / sd)
    return np.clip(mean + sd * z, low, high)


def log_mass(mean: Array, sd: float, low: float, high: float) -> Array:
    """log of the probability of the interval."""
    a, b = (low - mean) / sd, (high - mean) / sd
    flip = a > 0
    first, second = np.where(flip, -a, b), np.where(flip, -b, a)
    upper, lower = log_ndtr(first), log_ndtr(second)
    return upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-300)))


def log_density(x: float, mean: Array, sd: float, low: float, high: float) -> Array:
    """The log density at x, for an array of means."""
    z = (x - mean) / sd
    return -0.5 * z**2 - np.log(sd) - 0.5 * np.log(2 * np.pi) - log_mass(mean, sd, low, high)
