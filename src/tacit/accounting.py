"""Trusted and data-free: from a mechanism and a sensitivity to a noise law and its cost.

Relation, geometry and rows per unit are already inside the sensitivity, which the wall derives from
what it enforces. Costs are rounded up, noise scales too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from scipy.special import log_ndtr

from tacit.spec.budget import Budget, round_up
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.release import Noise

# Gaussian noise sits on a grid 2^28 to 2^29 times finer than its standard deviation.
_GRID_BITS = 28
_LARGEST_EPSILON = 500.0  # beyond it the far tails of the proof would matter


@dataclass(frozen=True)
class Sensitivity:
    """How far one protected unit can move an integer statistic; `unit_l2` is its own norm."""

    l1: int
    l2_squared: int
    unit_l2_squared: int
    coordinates: int

    @property
    def l2(self) -> float:
        return math.sqrt(self.l2_squared)


@dataclass(frozen=True)
class Calibration:
    """A noise law, what it costs, and by which theorem."""

    noise: Noise
    cost: Budget
    accountant: str


def calibrate(mechanism: Laplace | Gaussian, sensitivity: Sensitivity) -> Calibration:
    """The smallest noise that keeps what the mechanism promises."""
    match mechanism:
        case Laplace(epsilon=epsilon):
            noise = Noise("discrete_laplace", laplace_scale(sensitivity.l1, epsilon), 1.0)
            return Calibration(noise, Budget(epsilon), "pure epsilon (discrete Laplace)")
        case Gaussian(noise_multiplier=None, epsilon=epsilon, delta=delta):
            assert epsilon is not None
            loss = _discrete_loss(sensitivity.coordinates)
            if not 4 * loss <= float(epsilon) <= _LARGEST_EPSILON:
                raise BudgetError(
                    f"Expected epsilon={epsilon} between {4 * loss:.1g} and {_LARGEST_EPSILON:g} "
                    f"for Gaussian noise on {sensitivity.coordinates} numbers."
                )
            target = float(delta) * math.exp(-loss) * (1 - 1e-9)
            sigma = sensitivity.l2 / gaussian_mu(float(epsilon) - 2 * loss, target)
            cost = Budget(epsilon, delta)
        case Gaussian(noise_multiplier=multiplier, delta=delta):
            assert multiplier is not None
            loss = _discrete_loss(sensitivity.coordinates)
            sigma = multiplier * math.sqrt(sensitivity.unit_l2_squared)
            target = float(delta) * math.exp(-loss) * (1 - 1e-9)
            spent = gaussian_epsilon(sensitivity.l2 / sigma, target) + 2 * loss
            if spent > _LARGEST_EPSILON:
                raise BudgetError(f"Expected a larger noise_multiplier than {multiplier}.")
            cost = Budget(round_up(max(spent, 1e-9)), delta)
    sigma = math.nextafter(sigma * (1 + 1e-12), math.inf)  # absorbs the rounding above
    # Never coarser than one, so that counts lie on it.
    grid = 2.0 ** min(0, math.floor(math.log2(sigma)) - _GRID_BITS)
    _check_scale(sigma / grid)
    return Calibration(Noise("discrete_gaussian", sigma, grid), cost, "exact Gaussian profile")


def laplace_scale(l1: int, epsilon: Decimal) -> float:
    """The smallest float b with l1 / b <= epsilon, exactly."""
    exact = Fraction(l1) / Fraction(epsilon)
    scale = float(exact)
    _check_scale(scale)
    while Fraction(scale) < exact:
        scale = math.nextafter(scale, math.inf)
    return scale


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of a Gaussian with mu = sensitivity / sigma (Balle and Wang 2018, Thm 8).

    Rounding errors are bounded and added: the result is never too small.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 4.887) * 1e6, 2)
    1.0
    """
    _check_positive("mu", mu)
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    rounding = 4e-15 * (1 + abs(upper) + abs(lower) + epsilon)
    return math.exp(upper + rounding) * min(rounding - math.expm1(min(lower - upper, 0.0)), 1.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which a Gaussian with this mu is (epsilon, delta)-private."""
    _check_positive("mu", mu)
    _check_delta(delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _bisect(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu = sensitivity / sigma that is (epsilon, delta)-private."""
    _check_positive("epsilon", epsilon)
    _check_delta(delta)
    return 1 / _bisect(lambda scale: gaussian_delta(1 / scale, epsilon) <= delta, 1e-9, 1.0)


def _discrete_loss(coordinates: int) -> float:
    """How far, in log probability, discrete noise is from rounded continuous noise.

    At most 201 / s^2 for each coordinate within forty standard deviations, s = sigma / grid.
    """  # proof: gaussian-discrete
    return 201 * coordinates * 2.0 ** (-2 * _GRID_BITS)


def _bisect(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The end of the bracket that is `enough`; grows `high` until it is."""
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e300:
            raise BudgetError("No finite noise reaches this guarantee.")
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _check_scale(steps: float) -> None:
    # Discrete noise beyond 2^61 steps, forty scales or more, would leave 64-bit integers.
    if steps > 2.0**55:
        raise BudgetError(f"Expected less noise than a scale of {steps:.3g}: spend more.")


def _check_delta(delta: float) -> None:
    if not (isinstance(delta, (int, float)) and 0 < delta < 1):
        raise BudgetError(f"Expected 0 < delta={delta} < 1.")


def _check_positive(what: str, value: float) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise BudgetError(f"Expected {what}={value} > 0 and finite.")
