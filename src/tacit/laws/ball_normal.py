"""Multivariate normal laws within a ball around zero: an exact sampler.

Proposals come from the law times e^(-g |x|^2), which is normal too, and are accepted inside the
ball with chance e^(g (|x|^2 - R^2)): exact for every g >= 0. The g that brings the mean square of
the proposals to the ball's edge wastes least.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.laws import standard_normal
from tacit.laws.arrays import Array, Uniform

_AT_ONCE = 2**15  # proposals, where few are accepted: far outside, about 1 in sqrt(precision)


def sample(mean: Array, precision: Array, radius: float, uniform: Uniform) -> Array:
    """One draw for each mean and precision, shape (rows, dimensions)."""
    curves, axes = np.linalg.eigh(precision)
    curves = np.maximum(curves, 1e-300)
    centre = np.einsum("nij,ni->nj", axes, mean)
    tilt = _tilt(centre, curves, radius)
    sharper = curves + 2 * tilt[:, None]
    middle, spread = curves * centre / sharper, 1 / np.sqrt(sharper)
    drawn = np.empty_like(centre)
    left, times = np.arange(len(centre)), 1
    while left.size:
        shape = (left.size, times, centre.shape[1])
        noise = standard_normal.sample(math.prod(shape), uniform).reshape(shape)
        x = middle[left, None] + spread[left, None] * noise
        square = (x**2).sum(axis=2)
        chance = tilt[left, None] * (square - radius**2)
        coin = np.log(uniform(square.size)).reshape(square.shape)
        accepted = (square <= radius**2) & (coin <= chance)
        done, first = accepted.any(axis=1), accepted.argmax(axis=1)
        drawn[left[done]] = x[done, first[done]]
        left = left[~done]
        times = max(times, min(2 * times, _AT_ONCE // max(left.size, 1)))
    return np.einsum("nij,nj->ni", axes, drawn)


def _tilt(centre: Array, curves: Array, radius: float) -> Array:
    """The g at which proposals have a mean square of at most the ball's."""

    def outside(g: Array) -> Array:
        sharper = curves + 2 * g[:, None]
        return ((curves * centre / sharper) ** 2 + 1 / sharper).sum(axis=1) > radius**2

    none = np.zeros(len(centre))
    felt = outside(none)
    if not felt.any():
        return none
    low, high = none, np.full(len(centre), 1 / radius**2)
    while np.any(far := outside(high)):
        high = np.where(far, 2 * high, high)
    for _ in range(40):
        middle = (low + high) / 2
        far = outside(middle)
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return np.where(felt, high, 0.0)
