"""How each sampler by gradients asks and steps. Limits on step sizes keep errors near 5%.

`setting.batch` bounds the variance that sampling a batch adds to the gradient. It is not known, so
it is left to the limits, save where a thermostat absorbs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tacit.infer.langevin import (
    Moving,
    hamiltonian_step,
    langevin_step,
    scoring_step,
    thermostat_step,
)
from tacit.infer.second_moments import curvature_of, eigen_floored, packed_size, unpacked
from tacit.kernels import KERNELS
from tacit.methods.gradient_loop import Setting
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Contribution, Kernel
from tacit.spec.programs import trace
from tacit.spec.release import Release
from tacit.spec.sums import Bound, BoundedSum

_MOST_SQUARES = 500  # parameters: beyond it a step would release 125,000 numbers


def _gradient(value: np.ndarray, theta: np.ndarray, setting: Setting) -> np.ndarray:
    return value / setting.rate + setting.gradients.log_prior_gradient(theta)


@dataclass(frozen=True)
class LangevinWalker:
    def question(self, question: BoundedSum) -> BoundedSum:
        return question

    def limits(self, setting: Setting) -> tuple[float, float]:
        return 4 * setting.heat / setting.known, 0.2 / max(setting.precision, setting.batch)

    def begin(self, setting: Setting, theta: np.ndarray, rng: Any) -> np.ndarray:
        return theta

    def step(self, state: Any, release: Release, setting: Setting, eta: float, rng: Any) -> Any:
        gradient = _gradient(release.value, state, setting)
        return langevin_step(state, gradient, eta, setting.known, setting.heat, rng)

    def place(self, state: np.ndarray) -> np.ndarray:
        return state


@dataclass(frozen=True)
class MovingWalker:
    """With a velocity, whose friction is fixed or follows a thermostat."""

    friction: float
    thermostat: bool

    def question(self, question: BoundedSum) -> BoundedSum:
        return question

    def limits(self, setting: Setting) -> tuple[float, float]:
        quiet = 2 * self.friction * setting.heat / setting.known
        # A thermostat may grow to a few times its own friction; an unknown batch must stay small.
        batch = (4 if self.thermostat else 0.1) * self.friction / max(setting.batch, 1e-300)
        return quiet, min(0.1 / setting.precision, batch)

    def begin(self, setting: Setting, theta: np.ndarray, rng: Any) -> Moving:
        return Moving(theta, np.zeros_like(theta), self.friction)

    def step(self, state: Any, release: Release, setting: Setting, eta: float, rng: Any) -> Any:
        gradient = _gradient(release.value, state.theta, setting)
        noise = setting.known, setting.heat
        if self.thermostat:
            return thermostat_step(state, gradient, eta, *noise, self.friction, rng)
        return hamiltonian_step(state, gradient, eta, *noise, rng)

    def place(self, state: Moving) -> np.ndarray:
        return state.theta


class Scored(NamedTuple):
    theta: np.ndarray
    squares: np.ndarray
    steps: int
    precision: tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ScoringWalker:
    """Asks for the gradient and its uncentred second moment in one release."""

    def question(self, question: BoundedSum) -> BoundedSum:
        ((_, bound),) = question.blocks
        size = bound.numbers
        if size > _MOST_SQUARES:
            raise ModelError(f"Expected at most {_MOST_SQUARES} parameters for SGFS, got {size}.")
        return BoundedSum(
            with_squares(question.kernel, size),
            question.columns,
            # The same vectors: what is cut to the length clip has squares of norm clip^2.
            blocks={"sum": bound, "squares": Bound(packed_size(size), bound.clip**2)},
            state=question.state,
        )

    def limits(self, setting: Setting) -> tuple[float, float]:
        return np.inf, 1.0  # exact for a normal posterior, whatever the noise

    def begin(self, setting: Setting, theta: np.ndarray, rng: Any) -> Scored:
        size = theta.size
        flat = np.ones(size), np.eye(size), np.ones(size)
        return Scored(theta, np.zeros(packed_size(size)), 0, flat)

    def step(self, state: Any, release: Release, setting: Setting, eta: float, rng: Any) -> Any:
        theta, steps, precision = state.theta, state.steps + 1, state.precision
        size, rate = theta.size, setting.rate
        # Weights that grow with t: what was seen on the way to the posterior is soon forgotten.
        squares = state.squares + 2 / (steps + 1) * (release.value[size:] - state.squares)
        if steps <= 10 or steps % 10 == 0:  # an average over all steps changes slowly
            sd = release.noise[1].scale / rate * min(1.0, 4 / (3 * steps)) ** 0.5
            prior = curvature_of(setting.gradients.log_prior_gradient, theta)
            precision = eigen_floored(unpacked(squares / rate, size), sd, prior)
        values, ways, share = precision
        theta = scoring_step(
            theta,
            _gradient(release.value[:size], theta, setting),
            np.maximum(values, 1e-12),
            ways,
            share * (1 - rate) / rate,
            eta,
            setting.known,
            setting.heat,
            rng,
        )
        return Scored(theta, squares, steps, precision)

    def place(self, state: Scored) -> np.ndarray:
        return state.theta


@lru_cache(maxsize=64)
def with_squares(gradient: Contribution, size: int) -> Contribution:
    """A row's gradient g, and the upper triangle of g g' in a form of the same norm."""
    if isinstance(gradient, Kernel):
        name = f"{gradient.name}_and_squares"
        if name not in KERNELS:
            raise ModelError(f"Expected gradients as a program, or a kernel {name!r} for SGFS.")
        return Kernel(name)
    first, second = np.triu_indices(size)
    scale = np.where(first == second, 1.0, 2**0.5).astype(gradient.dtype)
    of_row = gradient.function()

    def both(row: Any, state: Any) -> Any:
        g = of_row(row, state)
        return {"sum": g, "squares": scale * g[first] * g[second]}

    state = tuple(np.zeros(shape, kind) for kind, shape in gradient.state)
    blocks = (("sum", (size,)), ("squares", (packed_size(size),)))
    with gradient.precision():
        return trace(both, gradient.columns, state, blocks=blocks)
