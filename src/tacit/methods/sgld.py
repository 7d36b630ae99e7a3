"""Stochastic gradient Langevin dynamics (Welling and Teh 2011): privacy noise as Langevin noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tacit.accounting import gaussian_epsilon, sensitivity_factor
from tacit.methods.gradient_sampler import (
    ChainState,
    GradientSampler,
    Position,
    SamplerSetting,
    normal_noise,
)
from tacit.spec.release import Release


def langevin_step(
    theta: np.ndarray,
    gradient: np.ndarray,
    eta: float,
    known: float,
    temperature: float,
    rng: Generator,
) -> np.ndarray:
    """theta + eta/2 gradient + N(0, eta temperature), less the noise `known` in the gradient.

    Half the drift that Wang et al. (2015, 4.1) print: with all of it the variance would be half the
    posterior's.
    """
    missing = eta * temperature - (eta / 2) ** 2 * known
    return theta + eta / 2 * gradient + normal_noise(missing, theta.size, rng)


@dataclass(frozen=True)
class SGLD(GradientSampler):
    """Langevin steps: half a step size times the gradient, and noise of that variance.

    The options are those of all samplers by gradients (see `tacit.methods.gradient_sampler`), among
    them `constants="paper"` for the noise of Wang et al. (2015, Algorithm 2), on `tacit.Public`
    alone.
    """

    def limits(self, setting: SamplerSetting) -> tuple[float, float]:
        noise_limited = 4 * setting.temperature / setting.known
        batch = setting.batch / setting.temperature
        return noise_limited, self.most_batch / max(setting.precision, batch)  # errors near 5%

    def step(
        self, at: Position, release: Release, setting: SamplerSetting, eta: float, rng: Generator
    ) -> Position:
        gradient = setting.log_posterior_gradient(release.value, at.theta)
        noise = setting.known, setting.temperature
        return Position(langevin_step(at.theta, gradient, eta, *noise, rng))

    def remarks(self, state: ChainState, setting: SamplerSetting) -> tuple[str, ...]:
        """What the last draw alone would cost if it were one of the posterior."""
        if state.pilots is not None:  # the start of the chain is not independent of the data
            return ()
        ((_, bound),) = setting.gradients.question.blocks
        gradient = sensitivity_factor("free", state.task.schema.neighbours) * bound.clip
        mu = gradient / (setting.temperature * setting.gradients.prior_precision) ** 0.5
        epsilon = gaussian_epsilon(mu, float(self.delta))
        return (
            f"for comparison, not claimed: had the chain converged, and were the last draw alone "
            f"published and the log-likelihood concave, that draw would cost epsilon {epsilon:.3g} "
            f"at delta {self.delta}",
        )
