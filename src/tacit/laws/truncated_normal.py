"""The normal law, between two bounds or everywhere: density and exact samplers."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from tacit.laws.uniform import Array, Uniform, by_rejection, exponential, normal, normals


def shares(gradient: float, curvature: float, size: int, uniform: Uniform) -> Array:
    """Independent draws from exp(gradient s - curvature s^2 / 2) on [0, 1], by rejection.

    Proposals are uniform where the density hardly changes, exponential from the nearer end if the
    peak lies beyond it, and normal otherwise: at least one in eight is accepted. Neither a mean nor
    a distribution function is computed, so that nothing cancels however far the peak or flat the
    law is.
    """
    flip = gradient > curvature / 2  # then 1 - s has its peak in the lower half, or below 0
    if flip:
        gradient = curvature - gradient
    wide = np.sqrt(curvature)
    top = gradient**2 / (2 * curvature) if gradient > 0 else 0.0

    def propose(rows: Array, _: int) -> tuple[Array, Array]:
        u, coin = uniform(2 * rows.size).reshape(2, -1, 1)
        if wide <= 1 and -gradient <= 1:
            return u, np.log(coin) <= gradient * u - curvature * u**2 / 2 - top
        if -gradient >= wide:
            tried = exponential(u, -gradient, 1.0)
            return tried, np.log(coin) <= -0.5 * curvature * tried**2
        tried = (normal(u, coin) + gradient / wide) / wide  # the coin is used up
        return tried, (tried >= 0) & (tried <= 1)

    drawn = by_rejection((size,), propose)
    return 1 - drawn if flip else drawn


def everywhere(gradient: float, curvature: float, size: int, uniform: Uniform) -> Array:
    """Independent draws from exp(gradient s - curvature s^2 / 2) on the whole line."""
    return gradient / curvature + normals(size, uniform) / np.sqrt(curvature)


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
