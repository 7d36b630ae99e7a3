"""Logistic regression by Polya-Gamma weights: given these, coefficients are normal.

A row x, of norm 1 at most, with log odds c = x' theta has the expected weight
w = tanh(c / 2) / (2 c). Given weights the coefficients solve

    (sum w x x') theta = sum x (y - 1/2)

of which the right side is asked once and the weighted squares at each step. Since w c is the row's
probability less 1/2, the squares times theta are the rest of the log-likelihood's slope at theta.
Weights exceed the curvature p (1 - p), the more the larger log odds are: plain steps are too short
and their errors too small. Both are corrected here as if log odds were normal (`_ratios`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from scipy.special import expit

from tacit.infer.newton import Curvature, Slope, best_ridge, draw, likely_spread, next_place
from tacit.spec.design import Design
from tacit.spec.kernels import Kernel
from tacit.spec.newton import symmetric, upper
from tacit.spec.sampling import Sampling
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Course, Look, Setting, Sums, Variational

_MOST_OF_FEW = 30  # coefficients: with more the noise of all squares matters most, and is averaged
_ROUNDS = 5  # in which the ridge, the coefficients and their spread agree


@dataclass(frozen=True)
class Augmented:
    """Normal beliefs: a slope of the log-likelihood, its curvature, and a ridge."""

    slope: Slope
    curvature: Curvature
    ridge: float
    prior: float

    @cached_property
    def place(self) -> np.ndarray:
        """The coefficients that the next weights are for."""
        return next_place(self.slope, self.curvature, self.ridge, on_the_way=False)


def augmented(
    design: Design, columns: tuple[str, ...], rows: int, prior: float, setting: Setting
) -> Variational:
    """What is asked once, and at each step."""
    size = design.size
    numbers, encoding = size * (size + 1) // 2, tuple(design.encoding)
    constant = Kernel("logistic.gradient_constant")
    pull = BoundedSum(constant, columns, size=size, clip=0.5 * rows, state=encoding)
    # Off the diagonal times the root of 2: the norm of a row's part is that of the matrix, 1/4.
    start_state = (np.zeros(numbers), *encoding)
    weighted = Kernel("logistic.polya_gamma_squares")
    squares = BoundedSum(weighted, columns, size=numbers, clip=0.25 * rows, state=start_state)

    def start(rng: np.random.Generator) -> Sums:
        most = upper(0.25 * setting.units * np.eye(size))  # they cannot be larger
        zero = np.zeros(size)
        values = {"squares": most, "push": zero, "at": zero}
        return Sums(values, dict.fromkeys(values, 0.0))

    def question(beliefs: Augmented | None) -> BoundedSum:
        place = np.zeros(size) if beliefs is None else beliefs.place
        return squares.at((upper(np.outer(place, place)), *encoding))

    def read(sums: Sums, beliefs: Augmented) -> Sums:
        at, vector, sd = beliefs.place, sums.values["sum"], sums.sd["sum"]
        values = {"squares": vector, "push": symmetric(vector, size) @ at, "at": at}
        # Of noise times the coefficients, across them: half its variance is off the diagonal.
        noise = {"squares": sd, "push": sd * np.linalg.norm(at) / np.sqrt(2), "at": 0.0}
        return Sums(values, noise, sums.before)

    few = size <= _MOST_OF_FEW
    course = Course(8, kappa=0.7) if few else Course(12, kappa=1.0)
    course = course if setting.noise else Course(30)
    beliefs = partial(_believed, prior, design.radius)
    looks = (Look(pull, 1 / 3 if few else 0.4),)
    return Variational(start, question, beliefs, course, looks, read)


def _believed(prior: float, radius: float, sums: Sums) -> Augmented | None:
    """The normal that sums make, whatever noise they have; None before anything was asked."""
    if not sums.before:
        return None
    at, push = sums.values["at"], sums.values["push"]
    matrix = symmetric(sums.values["squares"], at.size)
    along = float(at @ push)
    # The first number of each row is the same: the weights' own sum is the first of the squares.
    total = max(float(matrix[0, 0]) * radius**2, float(sums.sd["squares"]) * radius**2, 1e-9)
    across, along_ratio = _ratios(max(along, 0.0) / total)
    curved = across * matrix
    if along > 0:
        curved += (along_ratio - across) * np.outer(push, push) / along
    least = 1e-9 * (1 + abs(float(np.trace(matrix))))  # without noise there is still rounding
    curvature = Curvature(curved, max(across * float(sums.sd["squares"]), least))
    (pull,) = sums.before
    pushed = float(sums.sd["push"])
    # Symmetric noise times the coefficients has twice the variance along them (steps near the end
    # are at about the same ones).
    more = pushed * at / max(float(np.linalg.norm(at)), 1e-300)
    slope = Slope(at, pull.value - push, pull.noise[0].scale ** 2 + pushed**2, more)
    same, along = slope.noise(curvature.axes)
    variance, spread, ridge = same + along**2, prior, 0.0
    for _ in range(_ROUNDS):
        ridge = best_ridge(curvature, variance, spread)
        theta = curvature.step(slope, ridge)
        spread, _seen = likely_spread(theta, curvature, variance, ridge, prior)
        spread = min(spread, prior)  # noise grows with the coefficients, and must not feed them
    return Augmented(slope, curvature, ridge, prior)


def _ratios(square: float) -> tuple[float, float]:
    """Curvature over weight, across the coefficients and along them.

    For normal log odds, of which the weighted mean square is this.
    """
    squares, across, along = _table()
    return float(np.interp(square, squares, across)), float(np.interp(square, squares, along))


@lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-(z**2) / 2)
    c = np.geomspace(1e-3, 30, 200)[:, None] * z
    weight = np.where(np.abs(c) < 1e-4, 0.25, np.tanh(c / 2) / np.where(c == 0, 1.0, 2 * c))
    curved = expit(c) * expit(-c)
    total, across = weight @ density, curved @ density
    along, curved_along = (weight * z**2) @ density, (curved * z**2) @ density
    squares = ((weight * c**2) @ density) / total
    return squares, across / total, curved_along / along


def drawn(beliefs: Augmented, sampling: Sampling) -> np.ndarray:
    """Draws (chain, draw, parameter) of the vectors' coefficients."""
    theta = draw(
        beliefs.slope,
        beliefs.curvature,
        beliefs.ridge,
        beliefs.prior,
        sampling.chains * sampling.draws,
        np.random.default_rng(sampling.seed),
        aware=sampling.noise == "aware",
    )
    return theta.reshape(sampling.chains, sampling.draws, -1)
