"""Normal laws on a finite set of means and standard deviations: log-likelihoods, and a sampler.

Values u are in [-1, 1]. Up to a constant, a value's log-likelihood is f(u) = -log s - (u - m)^2 /
(2 s^2) at the mean m and the standard deviation s; both have public points of their own, means with
equal distances and standard deviations with equal ratios.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.laws.bounded_rates import sample as gumbel
from tacit.laws.uniform import Array, Uniform

MEANS, SDS = 2**12, 2**9  # steps from the smallest to the largest
SD_STEP = MEANS // SDS  # in multiples of the grid that both leave on
_CANCELLING = 1 + 1e-6  # where log-likelihoods of points are taken from each other
_SCAN = 2**12  # steps from -1 to 1 in the search for the range

Ends = tuple[float, float]


def points(mean: Ends, sd: Ends) -> tuple[Array, Array]:
    """All means and all standard deviations that can be drawn."""
    means = mean[0] + (mean[1] - mean[0]) * np.arange(MEANS + 1) / MEANS
    return means, sd[0] * (sd[1] / sd[0]) ** (np.arange(SDS + 1) / SDS)


def coefficients(means: Array, sds: Array, at: tuple[int, int]) -> tuple[Array, Array, Array]:
    """f as coefficients of 1, u and u^2, less those at one point: shape (sd, mean), or (sd, 1)."""
    m, s = means[None, :], sds[:, None]
    parts = -np.log(s) - m**2 / (2 * s**2), m / s**2, -0.5 / s**2
    row, column = at
    return parts[0] - parts[0][row, column], parts[1] - parts[1][row, column], parts[2] - parts[2][
        row, 0
    ]  # fmt: skip


def ranges(mean: Ends, sd: Ends) -> tuple[float, float]:
    """How far apart the points' log-likelihoods move by one value more, or by another value.

    Bounds for all means and standard deviations between the ends: the largest over a grid of
    values, and what can lie between two neighbours of the grid.
    """
    (low, high), (least, most) = mean, sd
    u = np.linspace(-1, 1, _SCAN + 1)
    near = np.maximum(np.maximum(low - u, u - high), 0.0)
    far = np.maximum(np.abs(u - low), np.abs(u - high))
    best = np.clip(near, least, most)
    top = -np.log(best) - near**2 / (2 * best**2)
    bottom = np.minimum(*(-math.log(s) - far**2 / (2 * s**2) for s in sd))
    # Two values u > v: (u - v) (m - c) / s^2, c their middle; linear in m, in 1 / s^2 and in c.
    gap = u + 1
    spreads = []
    for c in (gap / 2 - 1, 1 - gap / 2):
        corners = [(m - c) / s**2 for m in mean for s in sd]
        spreads.append(gap * (np.maximum.reduce(corners) - np.minimum.reduce(corners)))
    between = (2 / _SCAN) ** 2 / (8 * least**2)
    one = (float((top - bottom).max()) + between) * _CANCELLING
    return one, max((float(np.max(spreads)) + between) * _CANCELLING, one)


def sample(log_weights: Array, draws: int, uniform: Uniform) -> tuple[Array, Array]:
    """Indices of standard deviations and of means, each pair in proportion to its weight."""
    top = log_weights.max(axis=1)
    marginal = top + np.log(np.exp(log_weights - top[:, None]).sum(axis=1))
    rows = gumbel(marginal, draws, uniform)
    columns = [gumbel(log_weights[row], 1, uniform)[0] for row in rows]
    return rows, np.array(columns, np.int64)
