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

from tacit.spec.budget import Budget, delta_of, round_up
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.release import Noise

# Gaussian noise sits on a grid 2^24 to 2^25 times finer than its standard deviation.
_GRID_BITS = 24


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
            target = float(delta) - _discrete_slack(float(epsilon), sensitivity.coordinates)
            if target <= 0:
                raise BudgetError(
                    f"Expected a larger delta than {delta}: below it discrete noise on "
                    f"{sensitivity.coordinates} numbers at epsilon {epsilon} proves nothing."
                )
            sigma = sensitivity.l2 / gaussian_mu(float(epsilon), target)
            cost = Budget(epsilon, delta)
        case Gaussian(noise_multiplier=multiplier, delta=delta):
            assert multiplier is not None
            sigma = multiplier * math.sqrt(sensitivity.unit_l2_squared)
            cost = Budget(_gaussian_cost(sensitivity, sigma, delta), delta)
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

    Examples
    --------
    >>> round(gaussian_delta(1.0, 4.887) * 1e6, 2)
    1.0
    """
    _check_positive("mu", mu)
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(upper) * -math.expm1(min(lower - upper, 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which a Gaussian with this mu is (epsilon, delta)-private."""
    _check_positive("mu", mu)
    delta_of(delta, zero=False)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _bisect(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu = sensitivity / sigma that is (epsilon, delta)-private."""
    _check_positive("epsilon", epsilon)
    delta_of(delta, zero=False)
    inverse = _bisect(lambda scale: gaussian_delta(1 / scale, epsilon) <= delta, 0.0, 1.0)
    return 1 / inverse


def _gaussian_cost(sensitivity: Sensitivity, sigma: float, delta: Decimal) -> Decimal:
    # The slack grows with epsilon, so look for the smallest epsilon that pays for both.
    mu = sensitivity.l2 / sigma

    def enough(epsilon: float) -> bool:
        slack = _discrete_slack(epsilon, sensitivity.coordinates)
        return gaussian_delta(mu, epsilon) + slack <= float(delta)

    top = gaussian_epsilon(mu, float(delta) / 2)
    if not enough(top):
        raise BudgetError(
            f"Expected a larger delta than {delta} or a larger noise_multiplier: "
            "this much noise proves no useful epsilon."
        )
    return round_up(max(_bisect(enough, 0.0, top), 1e-9))


def _discrete_slack(epsilon: float, coordinates: int) -> float:
    """What discrete noise adds to the delta of the continuous Gaussian.

    One coordinate is within KL 1/(576 s^4) of a rounded continuous one, s = sigma / grid >= 2^24;
    doubled for the remainder, then Pinsker over all coordinates.
    """  # proof: gaussian-slack
    if epsilon > 700:
        return math.inf
    return (1 + math.exp(epsilon)) * math.sqrt(coordinates / 576) * 2.0 ** (-2 * _GRID_BITS)


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


def _check_positive(what: str, value: float) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise BudgetError(f"Expected {what}={value} > 0 and finite.")
