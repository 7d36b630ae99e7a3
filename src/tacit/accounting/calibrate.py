"""From a mechanism and a sensitivity to a noise law and its cost, for one release.

Relation, geometry and rows per unit are already inside the sensitivity, which the wall derives from
what it enforces. Costs are rounded up, noise scales too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tacit.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tacit.spec.budget import Budget, round_up
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.release import Noise

# Gaussian noise sits on a grid 2^28 to 2^29 times finer than its standard deviation.
GRID_BITS = 28
_LARGEST_EPSILON = 500.0  # beyond it the far tails of the proof would matter


@dataclass(frozen=True)
class Sensitivity:
    """How far one protected unit can move the integers of `tables` tables, taken together.

    `unit_l2_squared` is the largest norm of what one unit puts into them.
    """

    l1: int
    l2_squared: int
    unit_l2_squared: int
    coordinates: int
    tables: int = 1

    @property
    def l2(self) -> float:
        return math.sqrt(self.l2_squared)


@dataclass(frozen=True)
class Calibration:
    """The noise law of each block, what they cost together, by which theorem, assuming what."""

    noise: tuple[Noise, ...]
    cost: Budget
    accountant: str
    assumptions: tuple[str, ...] = ()


def calibrate(mechanism: Laplace | Gaussian, sensitivity: Sensitivity) -> Calibration:
    """The smallest noise on counts that keeps what the mechanism promises."""
    if isinstance(mechanism, Laplace):
        noise = Noise("discrete_laplace", laplace_scale(sensitivity.l1, mechanism.epsilon), 1.0)
        return pure(mechanism, (noise,) * sensitivity.tables)
    loss = discrete_loss(sensitivity.coordinates, 2.0**GRID_BITS)
    unit = math.sqrt(sensitivity.unit_l2_squared)
    multiplier, cost = price(mechanism, sensitivity.l2 / unit, loss)
    sigma = multiplier * unit
    # Never coarser than one, so that counts lie on it.
    noise = gaussian_noise(sigma, 2.0 ** min(0, math.floor(math.log2(sigma)) - GRID_BITS))
    return Calibration((noise,) * sensitivity.tables, cost, "exact Gaussian profile")


def pure(mechanism: Laplace, noise: tuple[Noise, ...]) -> Calibration:
    return Calibration(noise, Budget(mechanism.epsilon), "pure epsilon (discrete Laplace)")


def price(mechanism: Gaussian, sensitivity: float, loss: float) -> tuple[float, Budget]:
    """The noise multiplier that a Gaussian release uses, and its cost.

    `sensitivity` is relative to one unit's norm, and `loss` the bound of `discrete_loss`.
    """
    if mechanism.delta is None:
        raise BudgetError("Expected Gaussian to name a delta, for example delta=1e-6.")
    target = float(mechanism.delta) * math.exp(-loss) * (1 - 1e-9)
    if mechanism.noise_multiplier is not None:
        multiplier = mechanism.noise_multiplier
        spent = gaussian_epsilon(sensitivity / multiplier, target) + 2 * loss
        if spent > _LARGEST_EPSILON:
            raise BudgetError(f"Expected a larger noise_multiplier than {multiplier}.")
        return multiplier, Budget(round_up(max(spent, 1e-9)), mechanism.delta)
    assert mechanism.epsilon is not None
    if not 4 * loss <= float(mechanism.epsilon) <= _LARGEST_EPSILON:
        raise BudgetError(
            f"Expected epsilon={mechanism.epsilon} between {4 * loss:.1g} and "
            f"{_LARGEST_EPSILON:g} for Gaussian noise on so many numbers."
        )
    mu = gaussian_mu(float(mechanism.epsilon) - 2 * loss, target)
    return sensitivity / mu, Budget(mechanism.epsilon, mechanism.delta)


def gaussian_noise(sigma: float, grid: float) -> Noise:
    """A Gaussian law with at least this sigma, a whole number of steps."""
    steps = math.ceil(sigma / grid * (1 + 1e-12))  # absorbs the rounding before
    check_scale(steps)
    return Noise("discrete_gaussian", steps * grid, grid)


def laplace_scale(l1: int, epsilon: Decimal) -> float:
    """The smallest float b with l1 / b <= epsilon, exactly."""  # proof: laplace
    exact = Fraction(l1) / Fraction(epsilon)
    scale = float(exact)
    check_scale(scale)
    while Fraction(scale) < exact:
        scale = math.nextafter(scale, math.inf)
    return scale


def discrete_loss(coordinates: int, sigma_steps: float) -> float:
    """How far, in log probability, discrete noise is from rounded continuous noise.

    At most 201 / s^2 for each coordinate within forty standard deviations, s = sigma / grid.
    """  # proof: gaussian-discrete
    return 201 * coordinates / sigma_steps**2


def check_scale(steps: float) -> None:
    # Discrete noise beyond 2^61 steps, forty scales or more, would leave 64-bit integers.
    if steps > 2.0**55:
        raise BudgetError(f"Expected less noise than a scale of {steps:.3g}: spend more.")
