"""What a walk through a model's parameters needs of it: log-likelihood ratios, or gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.kernels import Kernel
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum


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


@dataclass(frozen=True)
class Gradients:
    """A model as its gradients, over one vector of parameters without bounds.

    Attributes
    ----------
    question
        The sum over rows of the gradient of a row's log-likelihood, one block of as many numbers
        as there are parameters, each unit's contribution clipped. The first array of its state is
        the parameters.
    log_prior_gradient
        The gradient of the log prior; public.
    start
        Where to begin, from public knowledge.
    curvature
        A public guess of how curved one row's log-likelihood is (an upper bound where the model
        knows one). It sets the scale of default step sizes.
    prior_precision
        The curvature of the log prior near its middle.
    posterior
        The posterior of draws (chain, draw, parameter), taken at face value; `release` is the last
        answer.
    parameters
        Where a walk begins at a posterior of the same model: its mean.
    """

    question: BoundedSum
    log_prior_gradient: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray
    curvature: float
    prior_precision: float
    posterior: Callable[[Release, np.ndarray], Any]
    parameters: Callable[[Any], np.ndarray]
