"""A symmetric matrix packed as a vector of the same norm.

The vector is the upper triangle row by row, with entries off the diagonal times the root of 2.
"""

from __future__ import annotations

import numpy as np


def packed_size(size: int) -> int:
    return size * (size + 1) // 2


def upper(matrix: np.ndarray) -> np.ndarray:
    """The packed vector of a symmetric matrix."""
    full = np.sqrt(2) * matrix - (np.sqrt(2) - 1) * np.diag(np.diag(matrix))
    return np.asarray(full[np.triu_indices(len(matrix))])


def symmetric(vector: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix of a packed vector."""
    first, second = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[first, second] = vector / np.where(first == second, 1.0, np.sqrt(2))
    return matrix + np.triu(matrix, 1).T
