"""Exact moments as a matrix, which draws of means, sds and coefficients are from."""

from __future__ import annotations

import numpy as np

from tacit.accounting.moments import grids
from tacit.wall.statistics.moments import MomentsAnswer
from tacit.wall.statistics.statistic import Statistic


def moment_values(resolved: MomentsAnswer, statistic: Statistic) -> np.ndarray:
    """The exact moments as a symmetric matrix, the number of rows in its corner."""
    what = resolved.what
    values = list(statistic.integers * np.array(grids(what)))
    size = what.width + 1
    entries = [(0, i) for i in range(0 if what.counted else 1, size)]
    if what.degree == 2:
        entries += [(i, j) for i in range(1, size) for j in range(i, size)]
    matrix = np.zeros((size, size))
    matrix[0, 0] = statistic.units  # unless it is counted
    for (i, j), moment in zip(entries, values, strict=True):
        matrix[i, j] = matrix[j, i] = moment
    return matrix
