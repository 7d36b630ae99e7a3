"""A symmetric matrix as a vector of the same norm, and its noisy sum back as a precision."""

from __future__ import annotations

from collections.abc import Callable

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
    matrix: np.ndarray, sd: float, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The precision of a posterior: eigenvalues, eigenvectors, and the data's share of the former.

    `matrix` is the data's information with noise of this sd in each number. None of its eigenvalues
    is left below the largest that the noise alone would have, about sd * sqrt(2 size): what is
    hidden there may be as large, and a step that thinks it small would be too long. `prior` is the
    prior's precision.
    """
    values, ways = np.linalg.eigh(matrix)
    values = np.maximum(values, sd * (2 * len(values)) ** 0.5)
    total, both = np.linalg.eigh(ways * values @ ways.T + prior)
    share = np.einsum("ji,ji->i", both, ways * values @ (ways.T @ both))
    return total, both, share


def curvature_of(gradient: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """How curved a log density is, by differences of its gradient; nowhere less than flat."""
    step = 0.01
    bend = np.array(
        [gradient(at - step * one) - gradient(at + step * one) for one in np.eye(at.size)]
    )
    values, ways = np.linalg.eigh((bend + bend.T) / (4 * step))
    return ways * np.maximum(values, 0.0) @ ways.T
