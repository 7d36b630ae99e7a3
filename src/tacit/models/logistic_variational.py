"""Logistic regression by Polya-Gamma weights: given these, coefficients are normal.

A row x, of norm 1 at most, with log odds c = x' theta has the expected weight
w = tanh(c / 2) / (2 c). Given weights the coefficients solve

    (sum w x x') theta = sum x (y - 1/2)

of which the right side is asked once and the weighted squares at each step. Since w c is the row's
probability minus 1/2, the squares times theta are the rest of the log-likelihood's gradient there.
Weights exceed the curvature p (1 - p), the more the larger log odds are: plain steps are too short
and their errors too small. Both are corrected here as if log odds were normal (`_ratios`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from scipy.special import expit

from tacit.infer.newton import (
    Curvature,
    NoisyGradient,
    best_ridge,
    draw,
    estimate_spread,
    next_iterate,
)
from tacit.spec.design import Design
from tacit.spec.kernels import Kernel
from tacit.spec.packing import symmetric, upper
from tacit.spec.sampling import Sampling
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, PilotQuery, Sums, Variational, VIPSSchedule

_MOST_OF_FEW = 30  # coefficients: with more, the noise of the squares dominates: average it
_ROUNDS = 5  # fixed-point iterations of ridge, coefficients and spread


@dataclass(frozen=True)
class Augmented:
    """A normal approximation: a gradient of the log-likelihood, its curvature, and a ridge."""

    gradient: NoisyGradient
    curvature: Curvature
    ridge: float
    prior: float

    @cached_property
    def theta(self) -> np.ndarray:
        """The coefficients at which the next weights are computed."""
        return next_iterate(self.gradient, self.curvature, self.ridge, intermediate=False)


def augmented(
    design: Design, columns: tuple[str, ...], rows: int, prior: float, setting: FitSetting
) -> Variational:
    """Return the variational fit: one pilot query, then weighted squares at each step."""
    size = design.size
    numbers, encoding = size * (size + 1) // 2, tuple(design.encoding)
    constant = Kernel("logistic.gradient_constant")
    constant_part = BoundedSum(constant, columns, size=size, clip=0.5 * rows, state=encoding)
    # Off the diagonal times the root of 2: the norm of a row's part is that of the matrix, 1/4.
    start_state = (np.zeros(numbers), *encoding)
    weighted = Kernel("logistic.polya_gamma_squares")
    squares = BoundedSum(
        weighted, columns, size=numbers, clip=0.25 * rows, geometry="outer", state=start_state
    )

    def start(rng: np.random.Generator) -> Sums:
        most = upper(0.25 * setting.units * np.eye(size))  # they cannot be larger
        zero = np.zeros(size)
        values = {"squares": most, "product": zero, "at": zero}
        return Sums(values, dict.fromkeys(values, 0.0))

    def question(parameters: Augmented) -> BoundedSum:
        theta = parameters.theta
        return squares.at((upper(np.outer(theta, theta)), *encoding))

    def read(sums: Sums, parameters: Augmented) -> Sums:
        at, vector, sd = parameters.theta, sums.values["sum"], sums.sd["sum"]
        values = {"squares": vector, "product": symmetric(vector, size) @ at, "at": at}
        # Noise matrix times coefficients, across them: off-diagonal noise has half the variance.
        noise = {"squares": sd, "product": sd * np.linalg.norm(at) / np.sqrt(2), "at": 0.0}
        return Sums(values, noise, sums.pilots)

    few = size <= _MOST_OF_FEW
    schedule = VIPSSchedule(8, kappa=0.7) if few else VIPSSchedule(12, kappa=1.0)
    schedule = schedule if setting.noise else VIPSSchedule(30)
    maximise = partial(_maximised, prior, design.radius)
    pilots = (PilotQuery(constant_part, 1 / 3 if few else 0.4),)
    return Variational(start, question, maximise, schedule, pilots, read, preview=squares)


def _maximised(prior: float, radius: float, sums: Sums) -> Augmented:
    """Return the normal approximation given noisy sums."""
    at, product = sums.values["at"], sums.values["product"]
    matrix = symmetric(sums.values["squares"], at.size)
    along = float(at @ product)
    # The first number of each row is the same: the weights' own sum is the first of the squares.
    total = max(float(matrix[0, 0]) * radius**2, float(sums.sd["squares"]) * radius**2, 1e-9)
    across, along_ratio = _ratios(max(along, 0.0) / total)
    scaled = across * matrix
    if along > 0:
        scaled += (along_ratio - across) * np.outer(product, product) / along
    least = 1e-9 * (1 + abs(float(np.trace(matrix))))  # without noise there is still rounding
    curvature = Curvature(scaled, max(across * float(sums.sd["squares"]), least))
    (constant_part,) = sums.pilots
    product_sd = float(sums.sd["product"])
    # Symmetric noise times the coefficients has twice the variance along them (steps near the end
    # are at nearly equal coefficients).
    along_noise = product_sd * at / max(float(np.linalg.norm(at)), 1e-300)
    gradient = NoisyGradient(
        at,
        constant_part.value - product,
        constant_part.noise[0].scale ** 2 + product_sd**2,
        along_noise,
    )
    isotropic, along_axes = gradient.noise(curvature.eigen[1])
    variance, spread, ridge = isotropic + along_axes**2, prior, 0.0
    for _ in range(_ROUNDS):
        ridge = best_ridge(curvature, variance, spread)
        theta = curvature.step(gradient, ridge)
        spread, _ = estimate_spread(theta, curvature, variance, ridge, prior)
        spread = min(spread, prior)  # noise grows with the coefficients: no feedback
    return Augmented(gradient, curvature, ridge, prior)


def _ratios(square: float) -> tuple[float, float]:
    """Return E p(1 - p) / E w across the coefficients and along them.

    Log odds are taken as normal, with this weighted mean square.
    """
    squares, across, along = _table()
    return float(np.interp(square, squares, across)), float(np.interp(square, squares, along))


@lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-(z**2) / 2)
    c = np.geomspace(1e-3, 30, 200)[:, None] * z
    weight = np.where(np.abs(c) < 1e-4, 0.25, np.tanh(c / 2) / np.where(c == 0, 1.0, 2 * c))
    curvature = expit(c) * expit(-c)
    total, across = weight @ density, curvature @ density
    along, curvature_along = (weight * z**2) @ density, (curvature * z**2) @ density
    squares = ((weight * c**2) @ density) / total
    return squares, across / total, curvature_along / along


def drawn(parameters: Augmented, sampling: Sampling) -> np.ndarray:
    """Return draws (chain, draw, parameter) of the coefficients of the design vectors."""
    return draw(
        parameters.gradient, parameters.curvature, parameters.ridge, parameters.prior, sampling
    )
