"""Precisions from noisy second moments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def eigen_floored(
    matrix: np.ndarray, sd: float, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of a posterior precision, and the data's share of each.

    `matrix` is the data's information with noise of this sd in each entry, `prior` the prior's
    precision. Eigenvalues of `matrix` are floored at the noise edge sd * sqrt(2 size): the true
    ones may be as large, and steps scaled by underestimates are too long.
    """
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, sd * (2 * len(values)) ** 0.5)
    total, both = np.linalg.eigh(vectors * values @ vectors.T + prior)
    share = np.einsum("ji,ji->i", both, vectors * values @ (vectors.T @ both))
    return total, both, share


def curvature_of(gradient: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Return the negative Hessian of a log density, by differences of its gradient.

    Negative eigenvalues are set to 0.
    """
    step = 0.01
    differences = np.array(
        [gradient(at - step * one) - gradient(at + step * one) for one in np.eye(at.size)]
    )
    values, vectors = np.linalg.eigh((differences + differences.T) / (4 * step))
    return vectors * np.maximum(values, 0.0) @ vectors.T
