"""What one row adds to the expected statistics of a mixture of normals."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

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


CURVES = NumbaMap(curves)
