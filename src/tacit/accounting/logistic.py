"""What draws and minima of a logistic regression cost, and the noise that they need.

A row moves the gradient of the objective by a vector of norm at most 1 and its curvature by at most
a quarter. All of it follows from the schema and the query: no data.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from tacit.accounting.calibrate import GRID_BITS, Calibration, discrete_loss, gaussian_noise
from tacit.accounting.draws import changed_rows, gaussian_temperature
from tacit.accounting.gaussian import bisect, gaussian_delta, gaussian_epsilon, gaussian_mu
from tacit.spec.budget import Budget
from tacit.spec.errors import BudgetError
from tacit.spec.logistic import LEAST_RIDGE, LogisticDraw, LogisticMinimum
from tacit.spec.mechanisms import Exponential, Gaussian
from tacit.spec.release import Noise
from tacit.spec.schema import Schema

CURVATURE = 0.25  # of one row's loss, for vectors of norm 1
TAPER = 0.125  # under add_remove, how much more one row may move than its own gradient
SHARE = 1 / 64  # of the budget, for what floating point may do
TOLERANCE = 2.0**-13  # of a row's gradient, to which an objective is minimised before output noise
_UNIT = 2.0**-53
_NORMAL = 2.0**-42  # how far a computed normal number is from an exact one
BLOCK = 1024  # rows whose gradients are added up in floating point
_ROUNDING = 1 + 1e-12
_LARGEST_EPSILON, _LEAST_DELTA = 50, Decimal("1e-15")  # beyond, rare events would matter


def gradient_gap(schema: Schema) -> float:
    """How far one unit moves the gradient of the sum of losses, tapered under add_remove."""
    # proof: logistic-rows
    # The last term is for the rounding of the weights, of fewer than 2^32 rows.
    more = 1.0 if schema.neighbours == "replace_one" else 1 + TAPER + 2.0**-18
    return changed_rows(schema) * more * _ROUNDING


def weighed_rows(schema: Schema, units: int) -> float:
    """The most that the weights of all rows can sum to; `units` as in `units_of`."""
    most = float(schema.max_rows_per_unit * units)
    return most if schema.neighbours == "replace_one" else most * (1 + TAPER) ** 2 / (4 * TAPER)


def row_weight(schema: Schema, units: int, rows: int) -> float:
    """The weight of each of `rows` rows: 1, and under add_remove less where they are too many."""
    if schema.neighbours == "replace_one":
        return 1.0
    most = schema.max_rows_per_unit * units
    return min(1.0, max(0.0, 1 + TAPER - TAPER * rows / most))  # proof: logistic-rows


def step_sizes(curvature: float, most: float, rows: float, size: int) -> np.ndarray:
    """Public step sizes: long ones to get there, then short ones, whose law is nearer.

    `most` is the largest curvature. As many as take some seconds, and no more than are needed.
    """
    limit = 2 / (curvature + most)  # proof: logistic-langevin
    count = int(min(max(3e9 / (rows * size), 500), 8_000, 200 + 5 * most / curvature))
    short = max(count // 4, 100)
    return limit * np.append(np.full(count, 0.9), np.full(short, 0.1))


def calibrate_logistic_draw(
    mechanism: Exponential, query: LogisticDraw, schema: Schema, size: int
) -> Calibration:
    """The lowest temperature, at least 1, at which the draws keep what is promised."""
    loss = _checked(mechanism.epsilon, mechanism.delta, query.draws * size)
    more = math.sqrt(query.draws * (1 + SHARE**2)) * _ROUNDING
    mu = gradient_gap(schema) / math.sqrt(query.law.precision) * more  # at temperature 1
    scale, cost = gaussian_temperature(mechanism, mu, query.temper_prior, loss)
    by = "Langevin, last state of a strongly convex potential: Gaussian profile"
    return Calibration((Noise("draw", scale, theta_grid(query, scale)),), cost, by)


def prior_curvature(query: LogisticDraw | LogisticMinimum, temperature: float) -> float:
    """The curvature of the prior that is drawn from."""
    tempered = isinstance(query, LogisticDraw) and query.temper_prior
    return query.law.precision / (temperature if tempered else 1.0)


def theta_grid(query: LogisticDraw | LogisticMinimum, temperature: float = 1.0) -> float:
    """The grid of released coefficients, some 2^-44 of the prior's standard deviation."""
    return 2.0 ** (math.floor(-math.log2(prior_curvature(query, temperature)) / 2) - 44)


def calibrate_minimum(
    mechanism: Gaussian, query: LogisticMinimum, schema: Schema, size: int
) -> Calibration:
    """The least noise on the gradient that keeps what the mechanism promises."""
    if mechanism.epsilon is None or mechanism.delta is None:
        raise BudgetError("Expected Gaussian(epsilon, delta) for a minimum, not noise_multiplier=.")
    loss = _checked(mechanism.epsilon, mechanism.delta, size)
    cost = Budget(mechanism.epsilon, mechanism.delta)
    epsilon, delta = float(mechanism.epsilon), float(mechanism.delta) * (1 - 1e-9)
    if query.noise == "output":
        # proof: logistic-output
        gap = changed_rows(schema) + 2 * TOLERANCE * schema.max_rows_per_unit
        mu = gaussian_mu(epsilon - 2 * loss, delta * math.exp(-loss))
        # What rounding to the grid adds: less than the grid, in each coordinate.
        sigma = gap / (mu - 2.0**-GRID_BITS * math.sqrt(size)) * _ROUNDING
        by = "minimum with output noise: exact Gaussian profile"
        return Calibration((gaussian_noise(sigma),), cost, by)
    rows = schema.max_rows_per_unit
    if query.regularizer is not None and not log_det_bound(query.regularizer, rows) < 0.9 * epsilon:
        least = CURVATURE / math.expm1(0.5 * epsilon / rows)
        raise BudgetError(
            f"Expected regularizer={query.regularizer} of {least:.2g} or more at "
            f"epsilon={mechanism.epsilon}."
        )
    sigma = objective_sigma(epsilon, delta, query, schema, loss) * _ROUNDING
    by = "objective perturbation: Gaussian profile, and the change of volume"
    return Calibration((Noise("objective", sigma, theta_grid(query)),), cost, by)


def log_det_bound(ridge: float, rows: int) -> float:
    """A bound on the log-determinant term of objective perturbation, for units of `rows` rows."""
    return rows * math.log1p(CURVATURE / ridge) * _ROUNDING  # proof: logistic-objective


def objective_delta(sigma: float, epsilon: float, rows: int) -> float:
    """delta of a minimum whose objective has a random gradient, when `rows` rows come and go.

    Without the log-determinant term, which is taken from epsilon before.
    """
    # proof: logistic-objective. Any set of the rows may be what moved.
    return sum(math.comb(rows, i) * gaussian_delta(i / sigma, epsilon) for i in range(1, rows + 1))


def objective_sigma(
    epsilon: float, delta: float, query: LogisticMinimum, schema: Schema, loss: float
) -> float:
    """The least noise on the gradient that makes minimum and rounding noise (epsilon, delta)."""
    rows = changed_rows(schema)
    if rows > 40:
        raise BudgetError(
            f"Expected max_rows_per_unit={schema.max_rows_per_unit} to be 20 or less for this "
            "method."
        )

    def enough(sigma: float) -> bool:
        # proof: logistic-floats. mu = SHARE / sigma is for the rounding noise.
        hidden = gaussian_epsilon(SHARE / sigma, delta * SHARE * math.exp(-loss)) + 2 * loss
        log_det = log_det_bound(query.regularizer or LEAST_RIDGE * sigma, schema.max_rows_per_unit)
        left = epsilon - hidden - log_det
        return left > 0 and objective_delta(sigma, left, rows) <= delta * (1 - SHARE)

    return bisect(enough, 1e-9, 1.0)


def rounding_noise(off: float, mu: float, grid: float, size: int) -> Noise:
    """The noise that hides errors of norm at most `off` in `size` numbers, at a cost of mu."""
    # proof: logistic-floats. Rounding to the grid moves them a little further.
    sigma = 2 * (off + grid * math.sqrt(size)) / mu
    return gaussian_noise(max(sigma, 2.0**GRID_BITS * grid), grid, grid)


def gradient_error(rows: float, size: int, radius: float) -> float:
    """How far floating point can move the sum of `rows` gradients, at |theta| <= radius."""
    # proof: logistic-floats
    return rows * _UNIT * 1.01 * (BLOCK + 32 + size * (radius + 1) / 4) * _ROUNDING


def normal_error(size: int) -> float:
    """How far `size` computed standard normal numbers are from exact ones, in norm."""
    return _NORMAL * math.sqrt(size)  # proof: logistic-normals


def state_error(
    sizes: np.ndarray, curvature: float, weight: float, rows: float, size: int, radius: float
) -> float:
    """How far a computed Langevin chain can be from the exact one that has the same noise.

    The potential is `weight` times the losses of `rows` rows; |theta| <= radius.
    """
    # proof: logistic-floats
    step = float(sizes.min())
    gradient = weight * gradient_error(rows, size, radius)
    noise = math.sqrt(2 / step) * normal_error(size)
    largest = 2 * radius / step + weight * rows + 32 * math.sqrt(2 * size / step)
    start = normal_error(size) / math.sqrt(curvature)
    return (gradient + noise + 8 * _UNIT * largest) / curvature + start


def _checked(epsilon: Decimal, delta: Decimal, coordinates: int) -> float:
    """Refuse what the proofs do not cover; the loss of discrete noise on `coordinates` numbers."""
    loss = discrete_loss(coordinates, 2.0**GRID_BITS)
    if not 256 * loss <= epsilon <= _LARGEST_EPSILON or delta < _LEAST_DELTA:
        raise BudgetError(
            f"Expected epsilon={epsilon} of at most {_LARGEST_EPSILON} and delta={delta} of at "
            f"least {_LEAST_DELTA} for a logistic regression, for example delta=1e-6."
        )
    return loss
