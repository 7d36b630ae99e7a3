"""Latent classes: labels that are independent of one another given a class nobody recorded."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import Given, RowKernel


@compiled
def responsibilities(row, state, out):
    """Add P(class | row), for each class, to the cell of the row's label in each feature.

    One row contributes numbers of at least 0 in the order (class, cell), where a cell is a label of
    a feature: for d features of norm at most sqrt(d).
    State: log_weight f8[classes]; log_table f8[classes, cells], the expected log probability of
    each label in each class; start i8[d], the cell of each feature's first label. A label's cell
    lies in the table, since `check` compares start with the columns' numbers of labels; out has
    classes * cells numbers.
    """
    log_weight, log_table, start = state
    classes, cells = log_table.shape
    share = log_weight.copy()
    for j in range(start.size):
        cell = start[j] + int(row[j])
        for k in range(classes):
            share[k] += log_table[k, cell]
    share = np.exp(share - share.max())
    share /= share.sum()
    for j in range(start.size):
        cell = start[j] + int(row[j])
        for k in range(classes):
            out[k * cells + cell] = share[k]


def _rules(given: Given) -> int:
    start, cells = given.arrays["start"].tolist(), given.sizes["cells"]
    given.expect_columns(len(start))
    for j, first in enumerate(start):
        low, high = given.range_of(j, whole=True)
        given.expect(
            first + low >= 0 and first + high < cells,
            f"cells from 0 to {cells - 1} for the labels of column {j}",
        )
    return given.sizes["classes"] * cells


KERNELS = (
    RowKernel(
        "latent_classes.responsibilities",
        responsibilities,
        "log_weight f8[classes]; log_table f8[classes, cells]; start i8[features]",
        _rules,
    ),
)
