"""Stochastic gradient Hamiltonian Monte Carlo, with a fixed friction or a thermostat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from tacit.methods.gradient_sampler import GradientSampler, SamplerSetting, normal_noise
from tacit.spec.errors import ModelError
from tacit.spec.release import Release


class Moving(NamedTuple):
    """Parameters, a velocity, and the friction that a thermostat has settled on.

    A step `eta` is the square of a length; velocities are lengths a step, of variance eta *
    temperature / (1 - friction / 2) at rest.
    """

    theta: np.ndarray
    velocity: np.ndarray
    friction: float


def hamiltonian_step(
    at: Moving,
    gradient: np.ndarray,
    eta: float,
    known: float,
    temperature: float,
    friction: float,
    rng: Generator,
) -> Moving:
    """Chen et al. (2014), friction on the velocity. The parameters move by the new velocity."""
    missing = 2 * friction * eta * temperature - eta**2 * known
    velocity = (1 - at.friction) * at.velocity + eta * gradient
    velocity += normal_noise(missing, at.theta.size, rng)
    return Moving(at.theta + velocity, velocity, at.friction)


def thermostat_step(
    at: Moving,
    gradient: np.ndarray,
    eta: float,
    known: float,
    temperature: float,
    friction: float,
    rng: Generator,
) -> Moving:
    """Ding et al. (2014): the friction adapts until the velocity has the variance it should.

    So it absorbs noise of unknown variance, that of a batch. The papers' thermostat has a mass of 1
    in the parameters' units; this one has friction^2 / 4 in those of the velocity, and fluctuates
    by half of `friction` at most.
    """
    moved = hamiltonian_step(at, gradient, eta, known, temperature, friction, rng)
    energy = float(moved.velocity @ moved.velocity) / at.theta.size
    ratio = (1 - min(max(at.friction, 0.0), 1.0) / 2) * energy / (eta * temperature)
    # At most 10 at once: a start far from the mode has a high energy for a few steps only.
    return moved._replace(friction=at.friction + friction**2 / 4 * min(ratio - 1, 10.0))


@dataclass(frozen=True)
class SGHMC(GradientSampler):
    """Steps with a velocity and a fixed friction, between 0 and 1 a step (Chen et al. 2014).

    The other options are those of all samplers by gradients (`tacit.methods.gradient_sampler`).
    """

    friction: float = 0.1

    # A thermostat may grow to a few times its own friction; an unknown batch must stay small.
    most_batch: ClassVar[float] = 0.2
    update: ClassVar[Any] = staticmethod(hamiltonian_step)

    def __post_init__(self) -> None:
        super().__post_init__()
        friction: Any = self.friction
        real = isinstance(friction, (int, float)) and not isinstance(friction, bool)
        if not real or not 0 < friction < 1:
            raise ModelError(f"Expected 0 < friction={friction!r} < 1, the share lost in a step.")

    def limits(self, setting: SamplerSetting) -> tuple[float, float]:
        noise_limited = 2 * self.friction * setting.temperature / setting.known
        batch = self.most_batch / 2 * self.friction * setting.temperature
        return noise_limited, min(0.1 / setting.precision, batch / max(setting.batch, 1e-300))

    def begin(self, theta: np.ndarray) -> Moving:
        return Moving(theta, np.zeros_like(theta), float(self.friction))

    def step(
        self, at: Moving, release: Release, setting: SamplerSetting, eta: float, rng: Generator
    ) -> Moving:
        gradient = setting.log_posterior_gradient(release.value, at.theta)
        noise = setting.known, setting.temperature
        return self.update(at, gradient, eta, *noise, float(self.friction), rng)


@dataclass(frozen=True)
class SGNHT(SGHMC):
    """Steps with a velocity whose friction adapts to noise of unknown size (Ding et al. 2014).

    `friction` is what it would be without such noise. The other options are those of all samplers
    by gradients (`tacit.methods.gradient_sampler`).
    """

    most_batch: ClassVar[float] = 8.0
    update: ClassVar[Any] = staticmethod(thermostat_step)
