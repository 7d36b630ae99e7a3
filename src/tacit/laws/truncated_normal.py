"""The normal law, between two bounds or everywhere: density and exact samplers."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from tacit.laws.uniform import Array, Uniform, by_rejection, exponential, normal, normals


def shares(slope: float, curve: float, size: int, uniform: Uniform) -> Array:
    """Independent draws from exp(slope s - curve s^2 / 2) on [0, 1], by rejection.

    Proposals are uniform where the density hardly changes, exponential from the nearer end if the
    peak lies beyond it, and normal otherwise: at least one in eight is accepted. Neither a mean nor
    a distribution function is computed, so that nothing cancels however far the peak or flat the
    law is.
    """
    flip = slope > curve / 2  # then 1 - s has its peak in the lower half, or below 0
    if flip:
        slope = curve - slope
    wide = np.sqrt(curve)
    top = slope**2 / (2 * curve) if slope > 0 else 0.0

    def propose(rows: Array, _: int) -> tuple[Array, Array]:
        u, coin = uniform(2 * rows.size).reshape(2, -1, 1)
        if wide <= 1 and -slope <= 1:
            return u, np.log(coin) <= slope * u - curve * u**2 / 2 - top
        if -slope >= wide:
            tried = exponential(u, -slope, 1.0)
            return tried, np.log(coin) <= -0.5 * curve * tried**2
        tried = (normal(u, coin) + slope / wide) / wide  # the coin is used up
        return tried, (tried >= 0) & (tried <= 1)

    drawn = by_rejection((size,), propose)
    return 1 - drawn if flip else drawn


def everywhere(slope: float, curve: float, size: int, uniform: Uniform) -> Array:
    """Independent draws from exp(slope s - curve s^2 / 2) on the whole line."""
    return slope / curve + normals(size, uniform) / np.sqrt(curve)


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
