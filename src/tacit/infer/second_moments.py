"""A symmetric matrix as a vector of the same norm, and its noisy sum back as a precision."""

from __future__ import annotations

import numpy as np


def packed_size(size: int) -> int:
    return size * (size + 1) // 2


def unpacked(vector: np.ndarray, size: int) -> np.ndarray:
    """The matrix whose upper triangle it is, row by row, off the diagonal times the root of 2."""
    upper = np.triu_indices(size)
    scale = np.where(upper[0] == upper[1], 1.0, 0.5**0.5)
    matrix = np.zeros((size, size))
    matrix[upper] = vector * scale
    return matrix + np.triu(matrix, 1).T


def eigen_floored(
    matrix: np.ndarray, sd: float, prior_precision: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and -vectors of a positive matrix seen with noise of this sd in each number.

    None below the largest eigenvalue that the noise alone would have, about sd * sqrt(2 size): what
    is hidden there may be as large, and a step that thinks it small would be too long.
    """
    values, ways = np.linalg.eigh(matrix)
    return np.maximum(values, sd * (2 * len(values)) ** 0.5) + prior_precision, ways
