"""What a Markov chain over parameters needs of a model: log-likelihood ratios, or gradients."""

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
    """What PrivateMetropolis needs of a model, on an unbounded scale.

    `ratio` is a kernel for the difference of a row's log-likelihoods at two points, and
    `state(here, there)` is its state. `max_gradient` bounds the change of the log-likelihood for a
    step of length one, by public bounds (a row beyond it is clipped). `start` and `scale` are the
    centre and the width of the prior.
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
        The initial value, from public knowledge.
    curvature
        A public guess of the curvature of one row's log-likelihood, or an upper bound where there
        is one. It sets the scale of default step sizes.
    prior_precision
        The curvature of the log prior near its centre.
    posterior
        The plug-in posterior of draws (chain, draw, parameter); `release` is the last answer.
    parameters
        The initial value from a posterior of the same model: its mean.
    """

    question: BoundedSum
    log_prior_gradient: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray
    curvature: float
    prior_precision: float
    posterior: Callable[[Release, np.ndarray], Any]
    parameters: Callable[[Any], np.ndarray]
