"""Stochastic gradient Fisher scoring: steps scaled by a running estimate of the precision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from tacit.infer.newton import curvature_of, eigen_floored
from tacit.kernels import KERNELS
from tacit.methods.gradient_sampler import GradientSampler, SamplerSetting
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Contribution, Kernel
from tacit.spec.packing import packed_size, symmetric
from tacit.spec.programs import trace
from tacit.spec.release import Release
from tacit.spec.sums import Bound, BoundedSum

_MOST_SQUARES = 500  # parameters: beyond it a step would release 125,000 numbers


def scoring_step(
    theta: np.ndarray,
    gradient: np.ndarray,
    precision: np.ndarray,
    axes: np.ndarray,
    batch: np.ndarray,
    eta: float,
    known: float,
    temperature: float,
    rng: Generator,
) -> np.ndarray:
    """Stochastic gradient Fisher scoring (Ahn et al. 2012), with 4 B / eta at least `known`.

    `precision` are the eigenvalues of the posterior's precision, `axes` its eigenvectors and
    `batch` the variance that sampling a batch adds to the gradient along them. With noise Q in the
    gradient, theta + 2 (P + Q / temperature)^-1 (gradient + noise) leaves N(., temperature P^-1)
    invariant, however long the step.
    """
    noise = np.maximum(4 / eta * precision * temperature, known)
    along = axes.T @ gradient
    along += np.sqrt(noise - known) * rng.standard_normal(theta.size)
    return theta + axes @ (2 / (precision + (noise + batch) / temperature) * along)


class Scored(NamedTuple):
    """Parameters, the average of squared gradients so far, and the precision that they give."""

    theta: np.ndarray
    squares: np.ndarray
    steps: int
    precision: tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SGFS(GradientSampler):
    """Fisher scoring: steps as long as the posterior is wide in each direction (Ahn et al. 2012).

    The gradient and its uncentred second moment go out together, each with noise for half of a
    step's share, and the running average of the latter stands for the posterior's precision. A
    step size is a pure number here, by default 1; a smaller one forgets more slowly. The other
    options are those of all samplers by gradients (`tacit.methods.gradient_sampler`).
    """

    def extended(self, question: BoundedSum) -> BoundedSum:
        ((_, bound),) = question.blocks
        size = bound.numbers
        if size > _MOST_SQUARES:
            raise ModelError(f"Expected at most {_MOST_SQUARES} parameters for SGFS, got {size}.")
        squares = Bound(packed_size(size), bound.clip**2, geometry="outer")
        return BoundedSum(
            with_squares(question.kernel, size),
            question.columns,
            # The same vectors: what is clipped to norm c has squares of norm c^2.
            blocks={"sum": bound, "squares": squares},
            state=question.state,
        )

    def limits(self, setting: SamplerSetting) -> tuple[float, float]:
        return np.inf, 1.0  # exact for a normal posterior, whatever the noise

    def begin(self, theta: np.ndarray) -> Scored:
        size = theta.size
        flat = np.ones(size), np.eye(size), np.ones(size)
        return Scored(theta, np.zeros(packed_size(size)), 0, flat)

    def step(
        self, at: Scored, release: Release, setting: SamplerSetting, eta: float, rng: Generator
    ) -> Scored:
        theta, steps, precision = at.theta, at.steps + 1, at.precision
        size, rate = theta.size, setting.rate
        # Weights that grow with t: what was seen before the posterior is soon forgotten.
        squares = at.squares + 2 / (steps + 1) * (release.value[size:] - at.squares)
        if steps <= 10 or steps % 10 == 0:  # an average over all steps changes slowly
            sd = release.noise[1].scale / rate * min(1.0, 4 / (3 * steps)) ** 0.5
            prior = curvature_of(setting.gradients.log_prior_gradient, theta)
            precision = eigen_floored(symmetric(squares / rate, size), sd, prior)
        values, axes, share = precision
        gradient = setting.log_posterior_gradient(release.value[:size], theta)
        batch = share * (1 - rate) / rate
        noise = setting.known, setting.temperature
        theta = scoring_step(
            theta, gradient, np.maximum(values, 1e-12), axes, batch, eta, *noise, rng
        )
        return Scored(theta, squares, steps, precision)


@lru_cache(maxsize=64)
def with_squares(gradient: Contribution, size: int) -> Contribution:
    """A row's gradient g, and the upper triangle of g g' packed with the same norm."""
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

    state = tuple(np.zeros(shape, dtype) for dtype, shape in gradient.state)
    blocks = (("sum", (size,)), ("squares", (packed_size(size),)))
    with gradient.precision():
        return trace(both, gradient.columns, state, blocks=blocks)
