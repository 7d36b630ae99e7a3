"""Variational inference by noisy gradients, for any model with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from tacit.infer.guides import check_guide, guide_name, guided_draws, try_guide
from tacit.infer.linearised import Linearised
from tacit.methods.gradient_sampler import ChainState, GradientSampler, SamplerSetting
from tacit.methods.method import Spending, Task
from tacit.methods.schedules import Polynomial
from tacit.spec.checks import set_fields
from tacit.spec.errors import ModelError
from tacit.spec.release import Release
from tacit.spec.walks import Derivatives

_LAWS = ("full_rank", "mean_field")
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
        "full_rank", which is the law itself under the model's own prior, or "mean_field" for its
        margins, on the unbounded scale. Or a guide of NumPyro's, which is fitted to that law: a
        class of `numpyro.infer.autoguide`, such as `AutoIAFNormal` (with options:
        `functools.partial`); or, for a `LogDensity` of a NumPyro model, a function without
        arguments of the model's variables. All are post-processing, and cost nothing more.
    """

    guide: Any = "full_rank"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guide not in _LAWS:
            if isinstance(self.guide, str):
                raise ModelError(
                    f'Expected guide="full_rank", "mean_field" or a guide of NumPyro\'s, got '
                    f"{self.guide!r}: pass the class, as in "
                    "guide=numpyro.infer.autoguide.AutoNormal."
                )
            check_guide(self.guide)
        if self.pilot_share == 0:
            raise ModelError("Expected pilot_share > 0 for DPVI: the guide's scale is theirs.")
        if self.step_size is None:
            set_fields(self, step_size=_SCHEDULE)

    def plan(self, task: Task) -> Spending:
        pilots = self.start(task).pilots
        if pilots is None:
            raise ModelError(
                "Expected a model of at most 30 parameters for DPVI: take "
                "tacit.methods.SGNHT(epsilon, delta). Nothing was read or spent."
            )
        if self.guide != "full_rank" and task.sampling.noise != "aware":
            raise ModelError(
                'Expected noise="aware" beside guide=: a plug-in posterior is the draws of the '
                "chain."
            )
        if self.guide not in _LAWS:
            try_guide(self.guide, pilots.derivatives, task.sampling.chains * task.sampling.draws)
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

    def remarks(self, state: ChainState, setting: SamplerSetting) -> tuple[str, ...]:
        if self.guide in _LAWS:
            return ()
        return (f"draws of {guide_name(self.guide)}, fitted to a law of what was released",)

    def drawn(self, law: Linearised, derivatives: Derivatives, task: Task) -> Any:
        sampling = task.sampling
        if self.guide not in _LAWS:
            count, seed = sampling.chains * sampling.draws, sampling.seed or 0
            return guided_draws(self.guide, law, derivatives, count, seed)
        vectors, warnings = super().drawn(law, derivatives, task)
        if self.guide == "mean_field":  # each column in an order of its own
            vectors = task.rng(self.steps).permuted(vectors, axis=0)
        return vectors, warnings
