"""What one row adds to what is asked for a mixture of normals: histograms, and a step's sums."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from tacit.infer.mixture_start import BINS
from tacit.spec.maps import NumbaMap

# (1 - u)^2, MIDDLE u (1 - u), u^2 for u in [0, 1] have norm 1 at both ends and at 1/2, and less
# between them: the largest factor for which this is so.
MIDDLE = math.sqrt(14)


def curves(row, state, out):
    """Each component's share of the row, times three curves of each number in its window.

    The state holds how rows are scaled, the components' weight on a log scale, their means and
    precisions, and half the width of their windows.
    """
    middle, slope, weight, mean, precision, window = state
    components, size = mean.shape
    x = np.zeros(size)
    for j in range(size):
        x[j] = (row[j] - middle[j]) * slope[j]
    share = np.zeros(components)
    for k in range(components):
        share[k] = weight[k]
        for j in range(size):
            share[k] -= 0.5 * precision[k, j] * (x[j] - mean[k, j]) ** 2
    share = np.exp(share - share.max())
    share /= share.sum()
    for k in range(components):
        for j in range(size):
            u = 0.5 + 0.5 * (x[j] - mean[k, j]) / window[k, j]
            u = min(max(u, 0.0), 1.0)
            at = 3 * (k * size + j)
            out[at] = share[k] * (1 - u) ** 2
            out[at + 1] = share[k] * MIDDLE * u * (1 - u)
            out[at + 2] = share[k] * u**2


def along(row, state, j):
    """How far a row is in a direction: 1 is as far as the frame reaches."""
    middle, slope, centre, axes, reach = state[:5]
    far = 0.0
    for i in range(centre.size):
        far += axes[j, i] * ((row[i] - middle[i]) * slope[i] - centre[i])
    return min(max(far / reach[j], -1.0), 1.0)


def histograms(row, state, out):
    """One in the bin of each direction, in the part that the row is of.

    The state holds how rows are scaled, a frame, and into how many slices each direction is cut.
    """
    slices = state[5]
    size = slices.size
    place = np.zeros(size, np.int64)
    part = 0
    for j in range(size):
        place[j] = min(int((along(row, state, j) + 1) * (BINS / 2)), BINS - 1)
        part = part * slices[j] + place[j] * slices[j] // BINS
    for j in range(size):
        out[(part * size + j) * BINS + place[j]] = 1.0


def products(row, state, out):
    """Products of 1 and how far the row is in each direction, off the diagonal times root 2."""
    size = state[2].size
    x = np.ones(size + 1)
    for j in range(size):
        x[j + 1] = along(row, state, j)
    at = 0
    for i in range(size + 1):
        for j in range(i, size + 1):
            out[at] = x[i] * x[j] * (1.0 if i == j else math.sqrt(2.0))
            at += 1


CURVES = NumbaMap(curves)
HISTOGRAMS, PRODUCTS = NumbaMap(histograms), NumbaMap(products)
