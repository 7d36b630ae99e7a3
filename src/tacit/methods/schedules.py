"""Step sizes of a walk, one for each step, from public quantities alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.spec.errors import ModelError


@dataclass(frozen=True)
class Constant:
    """The same step size throughout."""

    eta: float

    def __post_init__(self) -> None:
        _positive(self.eta, "eta")

    def sizes(self, steps: int, quiet: float, stable: float) -> np.ndarray:
        return np.full(steps, self.eta)


@dataclass(frozen=True)
class Polynomial:
    """a (b + t)^-gamma at step t = 1, 2, ...: for an exponent in (0.5, 1] it has a limit."""

    a: float
    b: float = 0.0
    gamma: float = 0.55

    def __post_init__(self) -> None:
        _positive(self.a, "a")
        _positive(self.gamma, "gamma")
        if not 0 <= self.b < 1e100:
            raise ModelError(f"Expected b={self.b} >= 0.")

    def sizes(self, steps: int, quiet: float, stable: float) -> np.ndarray:
        return self.a * (self.b + np.arange(1, steps + 1)) ** -self.gamma


@dataclass(frozen=True)
class PhaseTransition:
    """Wang et al. (2015, section 4.1): 1 / t, such that privacy noise is all the noise for a share
    `alpha` of the steps, a hot start, and less than a sampler needs for the rest of them.

    No step is longer than the default of a sampler without privacy noise.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ModelError(f"Expected 0 < alpha={self.alpha} < 1.")

    def sizes(self, steps: int, quiet: float, stable: float) -> np.ndarray:
        turn = max(self.alpha * steps, 1.0)
        return np.minimum(quiet * turn / np.arange(1, steps + 1), stable)


Schedule = Constant | Polynomial | PhaseTransition
SCHEDULES = {kind.__name__: kind for kind in (Constant, Polynomial, PhaseTransition)}


def schedule_of(value: float | Schedule | None) -> Schedule | None:
    """A number is a constant; None is left to the method."""
    if value is None or isinstance(value, Schedule):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ModelError(
            "Expected step_size as a number or a schedule such as "
            f"tacit.methods.Polynomial(a, b, gamma), got {value!r}."
        )
    return Constant(float(value))


def _positive(value: float, what: str) -> None:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not 1e-100 < value < 1e100:
        raise ModelError(f"Expected {what}={value!r} > 0.")
