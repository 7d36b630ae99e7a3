"""What a private Newton method needs to know of a model: what is asked once, and at each place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class Newton:
    """A model whose log-likelihood has the gradient `gradient_constant` - `gradient_at(theta)`.

    Attributes
    ----------
    gradient_constant
        The part of the gradient that does not depend on the parameters: `size` numbers, asked once.
    gradient_at
        The rest of it at some parameters.
    gradient_and_hessian_at
        The same, followed by `CURVATURE` times the negative Hessian: one block, each unit's share
        bounded as a whole, with no more noise than `gradient_at` has. It takes longer.
    size
        The number of parameters.
    spread
        The prior standard deviation of a parameter, before it is estimated.
    """

    gradient_constant: BoundedSum
    gradient_at: Callable[[np.ndarray], BoundedSum]
    gradient_and_hessian_at: Callable[[np.ndarray], BoundedSum]
    size: int
    spread: float


# The Hessian of a logistic row weighs p (1 - p) and its gradient |p - 1/2|, whose squares with this
# factor sum to at most 1/4: next to a gradient of norm 1/2 the Hessian costs nothing.
CURVATURE = 2.0


def unpacked(vector: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradient and the negative Hessian from a released `gradient_and_hessian_at`.

    The Hessian's upper triangle follows row by row, what is off the diagonal times the root of 2,
    so that its norm is that of the matrix.
    """
    return vector[:size], symmetric(vector[size:] / CURVATURE, size)


def upper(matrix: np.ndarray) -> np.ndarray:
    """The upper triangle of a symmetric matrix, as `unpacked` has it: the norm stays the same."""
    full = np.sqrt(2) * matrix - (np.sqrt(2) - 1) * np.diag(np.diag(matrix))
    return np.asarray(full[np.triu_indices(len(matrix))])


def symmetric(vector: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix of which this is the upper triangle, as `unpacked` has it."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = vector
    above = np.triu(matrix, 1) / np.sqrt(2)
    return np.diag(np.diag(matrix)) + above + above.T
