"""Multivariate normal laws within a ball around zero: an exact sampler.

Proposals come from the law times e^(-g |x|^2), which is normal too, and are accepted inside the
ball with probability e^(g (|x|^2 - R^2)): exact for every g >= 0. The g that brings the mean square
of the proposals to the ball's edge wastes least.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.laws.uniform import Array, Uniform, by_rejection, normals

_AT_ONCE = 2**15  # proposals, where few are accepted: far outside, about 1 in sqrt(precision)


def sample(mean: Array, precision: Array, radius: float, uniform: Uniform) -> Array:
    """One draw for each mean and precision, shape (rows, dimensions)."""
    curvatures, axes = np.linalg.eigh(precision)
    curvatures = np.maximum(curvatures, 1e-300)
    centre = np.einsum("nij,ni->nj", axes, mean)
    tilt = _tilt(centre, curvatures, radius)
    sharper = curvatures + 2 * tilt[:, None]
    middle, spread = curvatures * centre / sharper, 1 / np.sqrt(sharper)

    def propose(rows: Array, times: int) -> tuple[Array, Array]:
        shape = (rows.size, times, centre.shape[1])
        noise = normals(math.prod(shape), uniform).reshape(shape)
        x = middle[rows, None] + spread[rows, None] * noise
        square = (x**2).sum(axis=2)
        coin = np.log(uniform(square.size)).reshape(square.shape)
        return x, (square <= radius**2) & (coin <= tilt[rows, None] * (square - radius**2))

    return np.einsum("nij,nj->ni", axes, by_rejection(centre.shape, propose, _AT_ONCE))


def _tilt(centre: Array, curvatures: Array, radius: float) -> Array:
    """The g at which proposals have a mean square of at most the ball's."""

    def outside(g: Array) -> Array:
        sharper = curvatures + 2 * g[:, None]
        return ((curvatures * centre / sharper) ** 2 + 1 / sharper).sum(axis=1) > radius**2

    low, high = np.zeros(len(centre)), np.full(len(centre), 1 / radius**2)
    felt = outside(low)
    if not felt.any():
        return low
    while np.any(far := outside(high)):
        high = np.where(far, 2 * high, high)
    for _ in range(40):
        middle = (low + high) / 2
        far = outside(middle)
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return np.where(felt, high, 0.0)
