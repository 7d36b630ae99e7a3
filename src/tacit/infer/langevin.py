"""Steps of samplers that walk along noisy gradients, as pure functions.

Each takes an estimate of the gradient of the log posterior whose noise has the variance `known` in
every coordinate, and adds only what is missing to the noise that its step needs: privacy noise is
Langevin noise. Drift and noise are such that for small steps the target is the posterior to the
power 1 / heat. A step `eta` is the square of a length; velocities are lengths a step, of variance
eta * heat / (1 - friction / 2) at rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Moving(NamedTuple):
    """A place, a velocity, and the friction that a thermostat has settled on."""

    theta: np.ndarray
    velocity: np.ndarray
    friction: float


def langevin_step(
    theta: np.ndarray,
    gradient: np.ndarray,
    eta: float,
    known: float,
    heat: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """theta + eta/2 gradient + N(0, eta): half the drift that Wang et al. (2015, 4.1) print.

    With all of it the variance would be half the posterior's.
    """
    missing = eta * heat - (eta / 2) ** 2 * known
    return theta + eta / 2 * gradient + _normal(missing, theta.size, rng)


def hamiltonian_step(
    at: Moving,
    gradient: np.ndarray,
    eta: float,
    known: float,
    heat: float,
    rng: np.random.Generator,
) -> Moving:
    """Chen et al. (2014), friction on the velocity. The place moves by the new velocity."""
    missing = 2 * at.friction * eta * heat - eta**2 * known
    velocity = (1 - at.friction) * at.velocity + eta * gradient
    velocity += _normal(missing, at.theta.size, rng)
    return Moving(at.theta + velocity, velocity, at.friction)


def thermostat_step(
    at: Moving,
    gradient: np.ndarray,
    eta: float,
    known: float,
    heat: float,
    friction: float,
    rng: np.random.Generator,
) -> Moving:
    """Ding et al. (2014): the friction adapts until the velocity has the variance it should.

    So it absorbs noise of a variance that nobody knows, that of a batch. The papers' thermostat
    has a mass of 1 in the parameters' units; this one has friction^2 / 4 in those of the velocity,
    and fluctuates by half of `friction` at most.
    """
    missing = 2 * friction * eta * heat - eta**2 * known
    velocity = (1 - at.friction) * at.velocity + eta * gradient
    velocity += _normal(missing, at.theta.size, rng)
    energy = float(velocity @ velocity) / at.theta.size
    warmth = (1 - min(max(at.friction, 0.0), 1.0) / 2) * energy / (eta * heat)
    # No more than 10 at once: a start far from the mode is not a fever.
    adapted = at.friction + friction**2 / 4 * min(warmth - 1, 10.0)
    return Moving(at.theta + velocity, velocity, adapted)


def scoring_step(
    theta: np.ndarray,
    gradient: np.ndarray,
    precision: np.ndarray,
    ways: np.ndarray,
    batch: np.ndarray,
    eta: float,
    known: float,
    heat: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Stochastic gradient Fisher scoring (Ahn et al. 2012), with 4 B / eta at least `known`.

    `precision` are the eigenvalues of the posterior's precision, `ways` its eigenvectors and
    `batch` the variance that sampling a batch adds to the gradient along them. With noise Q in the
    gradient, theta + 2 (P + Q / heat)^-1 (gradient + noise) leaves N(., heat P^-1) as it is,
    however long the step.
    """
    noise = np.maximum(4 / eta * precision * heat, known)
    along = ways.T @ gradient
    along += np.sqrt(noise - known) * rng.standard_normal(theta.size)
    return theta + ways @ (2 / (precision + (noise + batch) / heat) * along)


def _normal(variance: float, size: int, rng: np.random.Generator) -> np.ndarray | float:
    return math.sqrt(variance) * rng.standard_normal(size) if variance > 0 else 0.0
