"""Variational inference by noisy gradients, for any model with derivatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from tacit.methods.gradient_sampler import ChainState, GradientSampler, SamplerSetting
from tacit.methods.method import Spending, Task
from tacit.methods.schedules import Polynomial
from tacit.spec.checks import set_fields
from tacit.spec.errors import ModelError
from tacit.spec.release import Release

# Robbins and Monro: noise averages out, the start is forgotten.
_SCHEDULE = Polynomial(1.0, 1.0, 0.7)


class Guide(NamedTuple):
    """A normal over the parameters, and the draw of it at which the next gradient is asked."""

    theta: np.ndarray
    mean: np.ndarray
    root: np.ndarray


def ascend(at: Guide, gradient: np.ndarray, precision: float, eta: float, rng: Generator) -> Guide:
    """A natural gradient step of the mean, and a new draw of the guide.

    With the gradient at a draw of the guide this ascends the evidence lower bound, whose natural
    gradient for the mean of a normal is E[gradient] over the precision.
    """
    mean = at.mean + eta * gradient / precision
    return Guide(mean + at.root @ rng.standard_normal(mean.size), mean, at.root)


@dataclass(frozen=True)
class DPVI(GradientSampler):
    """Fit a normal guide by stochastic gradients of the evidence lower bound (Jälkö et al. 2017).

    The reparametrisation trick needs of the data only the gradient at a public draw of the guide,
    one number for each parameter; gradients for the guide's own parameters follow without a
    further release (as in Jälkö et al. 2022). Its precision is that of the pilot queries, and
    its covariance has the share of the privacy noise added, as a law of all gradients along the way
    tells. The other options are those of all samplers by gradients
    (`tacit.methods.gradient_sampler`); step sizes are shares of a natural gradient step.

    Parameters
    ----------
    guide
        "full_rank", or "mean_field" for independent parameters. It is applied to what was released,
        and costs nothing more.
    """

    guide: Literal["full_rank", "mean_field"] = "full_rank"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guide not in ("full_rank", "mean_field"):
            raise ModelError(
                f'Expected guide="full_rank" or "mean_field", got {self.guide!r}. Other guides and '
                "variables of single records are not for DPVI: under the gradients that are "
                "released the posterior is drawn exactly, with the model's own prior. Nothing was "
                "read or spent."
            )
        if self.pilot_share == 0:
            raise ModelError("Expected pilot_share > 0 for DPVI: the guide's scale is theirs.")
        if self.step_size is None:
            set_fields(self, step_size=_SCHEDULE)

    def plan(self, task: Task) -> Spending:
        if self.start(task).pilots is None:
            raise ModelError(
                "Expected a model of at most 30 parameters for DPVI: take "
                "tacit.methods.SGNHT(epsilon, delta). Nothing was read or spent."
            )
        return super().plan(task)

    def limits(self, setting: SamplerSetting) -> tuple[float, float]:
        return np.inf, 1.0

    def begin(self, theta: np.ndarray) -> Guide:
        return Guide(theta, theta, np.zeros((theta.size, theta.size)))

    def step(
        self, at: Guide, release: Release, setting: SamplerSetting, eta: float, rng: Generator
    ) -> Guide:
        if not at.root.any():
            at = at._replace(root=np.eye(at.theta.size) / setting.precision**0.5)
        gradient = setting.log_posterior_gradient(release.value, at.theta)
        # Noise alone moves the mean by half of a posterior standard deviation at most.
        quiet = 0.5 * (setting.precision / (setting.known + setting.batch)) ** 0.5
        return ascend(at, gradient, setting.precision, min(eta, quiet), rng)

    def posterior(self, state: ChainState) -> Any:
        made = super().posterior(state)
        if self.guide == "full_rank":
            return made
        return independent(made, state.task.rng(self.steps))


def independent(posterior: Any, rng: Generator) -> Any:
    """The posterior with the draws of each number in an order of their own."""
    draws = {}
    for name, values in posterior.draws.items():
        flat = values.reshape(values.shape[0] * values.shape[1], -1)
        draws[name] = rng.permuted(flat, axis=0).reshape(values.shape)
    return replace(posterior, draws=draws)
