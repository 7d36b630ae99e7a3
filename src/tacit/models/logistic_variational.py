"""Logistic regression by Polya-Gamma weights: given these, coefficients are normal.

With theta the coefficients of vectors of norm at most 1, and c^2 = x' E[theta theta'] x, a row has
the expected weight w(c) = tanh(c / 2) / (2 c), and the coefficients the precision sum w x x' and
the mean that solves (sum w x x') theta = sum x (y - 1/2), with a ridge for the prior and the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tacit.infer.newton import Curvature, Slope, best_ridge, draw, likely_spread
from tacit.models.logistic_maps import PULL, WEIGHTED
from tacit.spec.design import Design
from tacit.spec.newton import symmetric, upper
from tacit.spec.sampling import Sampling
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Course, Setting, Sums, Variational

_RIDGE = 0.25  # of the one that would be best if coefficients were alike in size
_ROUNDS = 5  # in which the ridge, the coefficients and their spread agree


@dataclass(frozen=True)
class Augmented:
    """Normal beliefs: the slope at zero, the weighted squares, and the ridge between them."""

    slope: Slope
    squares: Curvature
    ridge: float
    prior: float

    @property
    def mean(self) -> np.ndarray:
        return self.squares.step(self.slope, self.ridge)

    @property
    def moments(self) -> np.ndarray:
        """E[theta theta'], which the weights of rows follow from."""
        axes = self.squares.axes
        known = axes / (self.squares.likely + self.ridge) @ axes.T
        return known + np.outer(self.mean, self.mean)


def augmented(
    design: Design, columns: tuple[str, ...], rows: int, prior: float, setting: Setting
) -> Variational:
    """What is asked once, and at each step."""
    size = design.size
    numbers = size * (size + 1) // 2
    pull = BoundedSum(PULL, columns, size=size, clip=0.5 * rows, state=tuple(design.encoding))
    zero = np.zeros(numbers)
    # Off the diagonal times the root of 2: the norm of a row's part is that of the matrix, 1/4.
    squares = BoundedSum(
        WEIGHTED, columns, size=numbers, clip=0.25 * rows, state=(zero, *design.encoding)
    )

    def start(rng: np.random.Generator) -> Sums:
        most = upper(0.25 * setting.units * np.eye(size))  # they cannot be larger
        return Sums({"sum": most}, {"sum": 0.0})

    def question(beliefs: Augmented | None) -> BoundedSum:
        moments = zero if beliefs is None else upper(beliefs.moments)
        return squares.at((moments, *design.encoding))

    course = Course(12, once=0.35, tau0=0.0, kappa=1.0) if setting.noise else Course(50)
    return Variational(start, question, partial(_believed, prior, size), course, once=pull)


def _believed(prior: float, size: int, sums: Sums) -> Augmented | None:
    """The normal that sums make, whatever noise they have; None before anything was asked."""
    if sums.once is None:
        return None
    matrix = symmetric(sums.values["sum"], size)
    least = 1e-9 * (1 + abs(float(np.trace(matrix))))  # without noise there is still rounding
    squares = Curvature(matrix, max(float(sums.sd["sum"]), least))
    noise = sums.once.noise[0].scale ** 2
    slope, spread = Slope(np.zeros(size), sums.once.value, noise), prior
    for _ in range(_ROUNDS):
        ridge = _RIDGE * best_ridge(squares, slope.variance, spread)
        theta = squares.step(slope, ridge)
        spread, _seen = likely_spread(theta, squares, slope.variance, ridge, prior)
        # What noise in the squares does to their product with the coefficients.
        blurred = squares.sd**2 * float(theta @ theta) / 2
        slope = Slope(slope.at, slope.value, noise + blurred)
    return Augmented(slope, squares, ridge, prior)


def drawn(beliefs: Augmented, sampling: Sampling) -> np.ndarray:
    """Draws (chain, draw, parameter) of the vectors' coefficients."""
    theta = draw(
        beliefs.slope,
        beliefs.squares,
        beliefs.ridge,
        beliefs.prior,
        sampling.chains * sampling.draws,
        np.random.default_rng(sampling.seed),
        aware=sampling.noise == "aware",
    )
    return theta.reshape(sampling.chains, sampling.draws, -1)
