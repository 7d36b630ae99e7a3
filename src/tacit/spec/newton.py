"""What a private Newton method needs to know of a model: what is asked once, and at each place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.spec.packing import symmetric
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
    """The gradient and the negative Hessian, which is packed, from `gradient_and_hessian_at`."""
    return vector[:size], symmetric(vector[size:] / CURVATURE, size)
