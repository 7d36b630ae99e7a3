"""The exact privacy profile of Gaussian noise, never rounded the wrong way."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import log_ndtr

from tacit.spec.errors import BudgetError


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of a Gaussian with mu = sensitivity / sigma (Balle and Wang 2018, Thm 8).

    Rounding errors are bounded and added: the result is never too small.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 4.887) * 1e6, 2)
    1.0
    """
    check_positive("mu", mu)
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    rounding = 4e-15 * (1 + abs(upper) + abs(lower) + epsilon)
    return math.exp(upper + rounding) * min(rounding - math.expm1(min(lower - upper, 0.0)), 1.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which a Gaussian with this mu is (epsilon, delta)-private."""
    check_positive("mu", mu)
    check_delta(delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return bisect(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu = sensitivity / sigma that is (epsilon, delta)-private."""
    check_positive("epsilon", epsilon)
    check_delta(delta)
    return 1 / bisect(lambda scale: gaussian_delta(1 / scale, epsilon) <= delta, 1e-9, 1.0)


def bisect(
    enough: Callable[[float], bool], low: float, high: float, tolerance: float = 1e-13
) -> float:
    """The end of the bracket that is `enough`; grows `high` until it is."""
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e300:
            raise BudgetError("No finite noise reaches this guarantee.")
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def check_delta(delta: float) -> None:
    if not (isinstance(delta, (int, float)) and 0 < delta < 1):
        raise BudgetError(f"Expected 0 < delta={delta} < 1.")


def check_positive(what: str, value: float) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise BudgetError(f"Expected {what}={value} > 0 and finite.")
