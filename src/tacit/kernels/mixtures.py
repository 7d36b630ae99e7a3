"""Mixtures of normals with independent features: expected statistics, and pilot queries.

A row of d numbers is scaled to z = (x - midpoint) * scale, which lies in [-1, 1] where `midpoint`
and `scale` are those of the columns' bounds. Pilot queries project z on d directions: t is
axes (z - centre) / reach, cut to [-1, 1].
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import Given, RowKernel

BINS = 16  # of a histogram, in each direction

# (1 - u)^2, MIDDLE u (1 - u), u^2 for u in [0, 1] have norm 1 at both ends and at 1/2, and less
# between them: the largest factor for which this is so.
MIDDLE = math.sqrt(14)


@compiled
def expected_statistics(row, state, out):
    """Add each component's responsibility for the row times three Bernstein curves of each number.

    u is where z lies in the component's window around its mean, cut to [0, 1]; the curves are
    (1 - u)^2, sqrt(14) u (1 - u) and u^2. One row contributes numbers of at least 0 in the order
    (component, feature, curve), together of norm at most sqrt(d).
    State: midpoint, scale f8[d]; log_weight f8[k]; mean, precision, window f8[k, d], the last one
    half a window's width. out has 3 k d numbers, and no index depends on the row's numbers.
    """
    midpoint, scale, log_weight, mean, precision, window = state
    components, size = mean.shape
    z = np.zeros(size)
    for j in range(size):
        z[j] = (row[j] - midpoint[j]) * scale[j]
    share = np.zeros(components)
    for k in range(components):
        share[k] = log_weight[k]
        for j in range(size):
            share[k] -= 0.5 * precision[k, j] * (z[j] - mean[k, j]) ** 2
    share = np.exp(share - share.max())
    share /= share.sum()
    for k in range(components):
        for j in range(size):
            u = 0.5 + 0.5 * (z[j] - mean[k, j]) / window[k, j]
            u = min(max(u, 0.0), 1.0)
            at = 3 * (k * size + j)
            out[at] = share[k] * (1 - u) ** 2
            out[at + 1] = share[k] * MIDDLE * u * (1 - u)
            out[at + 2] = share[k] * u**2


@compiled
def _project(row, midpoint, scale, centre, axes, reach, j):
    """The row's t in direction j, between -1 and 1; NaN counts as -1."""
    far = 0.0
    for i in range(centre.size):
        far += axes[j, i] * ((row[i] - midpoint[i]) * scale[i] - centre[i])
    t = far / reach[j]
    # Compared so that NaN is safe: t becomes an index of a bin.
    if not t > -1.0:
        return -1.0
    return t if t < 1.0 else 1.0


@compiled
def histograms(row, state, out):
    """Add 1 to the bin of the row in each direction, in the histogram of the row's part.

    Direction j is cut into slices[j] slices; a part is a slice in each. One row contributes d ones
    in the order (part, direction, bin), and zeros: norm sqrt(d), at least 0.
    State: midpoint, scale, centre f8[d]; axes f8[d, d]; reach f8[d]; slices i8[d]. t lies in
    [-1, 1] whatever the numbers, so a bin is below BINS and a slice below slices[j]; out has BINS d
    prod(slices) numbers.
    """
    midpoint, scale, centre, axes, reach, slices = state
    size = slices.size
    bins = np.zeros(size, np.int64)
    part = 0
    for j in range(size):
        t = _project(row, midpoint, scale, centre, axes, reach, j)
        bins[j] = min(int((t + 1) * (BINS / 2)), BINS - 1)
        part = part * slices[j] + bins[j] * slices[j] // BINS
    for j in range(size):
        out[(part * size + j) * BINS + bins[j]] = 1.0


@compiled
def products(row, state, out):
    """Add the upper triangle of (1, t)(1, t)', row by row, off the diagonal times the root of 2.

    One row contributes (d + 1)(d + 2) / 2 numbers of any sign, of norm |(1, t)|^2, at most 1 + d.
    State: midpoint, scale, centre f8[d]; axes f8[d, d]; reach f8[d]. out has as many numbers as the
    triangle, and no index depends on the row's numbers.
    """
    midpoint, scale, centre, axes, reach = state
    size = centre.size
    t = np.ones(size + 1)
    for j in range(size):
        t[j + 1] = _project(row, midpoint, scale, centre, axes, reach, j)
    at = 0
    for i in range(size + 1):
        for j in range(i, size + 1):
            out[at] = t[i] * t[j] * (1.0 if i == j else math.sqrt(2.0))
            at += 1


def _statistics_rules(given: Given) -> int:
    return 3 * given.sizes["components"] * given.expect_columns(given.sizes["features"])


def _histogram_rules(given: Given) -> int:
    size, slices = given.expect_columns(given.sizes["features"]), given.arrays["slices"]
    given.expect(slices.min() >= 1, "at least one slice in each direction")
    return BINS * size * math.prod(slices.tolist())  # Python's integers do not overflow


def _products_rules(given: Given) -> int:
    size = given.expect_columns(given.sizes["features"])
    return (size + 1) * (size + 2) // 2


_SCALING = "midpoint f8[features]; scale f8[features]; "
_COMPONENTS = "; ".join(f"{n} f8[components, features]" for n in ("mean", "precision", "window"))
_FRAME = f"{_SCALING}centre f8[features]; axes f8[features, features]; reach f8[features]"

KERNELS = tuple(
    RowKernel(f"normal_mixture.{function.__name__}", function, layout, rules)
    for function, layout, rules in (
        (
            expected_statistics,
            f"{_SCALING}log_weight f8[components]; {_COMPONENTS}",
            _statistics_rules,
        ),
        (histograms, f"{_FRAME}; slices i8[features]", _histogram_rules),
        (products, _FRAME, _products_rules),
    )
)
