"""What a random walk through a model's parameters needs: a row's log-likelihood ratio, a prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.kernels import Kernel


@dataclass(frozen=True)
class Walk:
    """A model on a scale without bounds.

    `ratio` is a kernel for how much better one place explains a row than another, as a difference
    of log-likelihoods; `state(here, there)` is what it needs to know of the two places.
    `max_gradient` is the most that this can change for a step of length one, by public bounds (a
    row that changes it more is clipped). `start` and `scale` are the prior's middle and width.
    """

    columns: tuple[str, ...]
    ratio: Kernel
    state: Callable[[np.ndarray, np.ndarray], Any]
    max_gradient: float
    start: np.ndarray
    scale: float
    log_prior: Callable[[np.ndarray], float]
