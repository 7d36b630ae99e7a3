"""The normal law between two bounds: density and exact sampler."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri

from tacit.laws.log_gamma import Array, Uniform


def sample(mean: float, sd: float, low: float, high: float, size: int, uniform: Uniform) -> Array:
    """Independent draws, by rejection.

    Distances are in standard deviations. Proposals are uniform where the density hardly changes,
    exponential from the nearer end if the mean lies beyond it, and normal otherwise: at least one
    in eight is accepted, and nothing cancels however far the mean or narrow the interval is.
    """
    wide = (high - low) / sd
    start, end = (low - mean) / sd, (high - mean) / sd
    beyond = max(start, -end)  # from the nearer end to the mean
    flat = wide <= 1 and beyond * wide <= 1
    share = np.empty(size)  # of the way from the nearer end to the other
    left = np.arange(size)
    while left.size:
        u, coin = uniform(2 * left.size).reshape(2, -1)
        if flat:
            tried = u
            log = -wide * u * (beyond + wide * u / 2) - min(beyond, 0.0) ** 2 / 2
        elif beyond >= 1:
            rate = beyond * wide
            tried = -np.log1p(u * np.expm1(-rate)) / rate
            log = -0.5 * (wide * tried) ** 2
        else:
            tried = (ndtri(u) - beyond) / wide
            log = np.where((tried >= 0) & (tried <= 1), 0.0, -np.inf)
        accepted = np.log(coin) <= log
        share[left[accepted]] = tried[accepted]
        left = left[~accepted]
    away = (high - low) * share
    return np.clip(low + away if start >= -end else high - away, low, high)


def log_mass(mean: Array, sd: float, low: float, high: float) -> Array:
    """log of the probability of the interval."""
    a, b = (low - mean) / sd, (high - mean) / sd
    flip = a > 0
    first, second = np.where(flip, -a, b), np.where(flip, -b, a)
    upper, lower = log_ndtr(first), log_ndtr(second)
    return upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-300)))


def log_density(x: float | Array, mean: Array, sd: float, low: float, high: float) -> Array:
    """The log density at x, for an array of means, or of one mean at several x."""
    z = (x - mean) / sd
    return -0.5 * z**2 - np.log(sd) - 0.5 * np.log(2 * np.pi) - log_mass(mean, sd, low, high)
