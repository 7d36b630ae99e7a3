"""Step sizes of gradient samplers, by the number of the step."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.spec.errors import ModelError


@dataclass(frozen=True)
class Constant:
    """Constant step size eta."""

    eta: float

    def __post_init__(self) -> None:
        positive(self.eta, "step_size")

    def sizes(self, steps: int, noise_limited: float, stable: float) -> np.ndarray:
        return np.full(steps, self.eta)


@dataclass(frozen=True)
class Polynomial:
    """a (b + t)^-gamma at step t = 1, 2, ...: for an exponent in (0.5, 1] it has a limit."""

    a: float
    b: float = 0.0
    gamma: float = 0.55

    def __post_init__(self) -> None:
        positive(self.a, "a")
        positive(self.gamma, "gamma")
        if not 0 <= self.b < 1e100:
            raise ModelError(f"Expected b={self.b} >= 0.")

    def sizes(self, steps: int, noise_limited: float, stable: float) -> np.ndarray:
        return self.a * (self.b + np.arange(1, steps + 1)) ** -self.gamma


@dataclass(frozen=True)
class PhaseTransition:
    """Wang et al. (2015, section 4.1): 1 / t, such that privacy noise is all the noise for a share
    `alpha` of the steps, at a high temperature, and less than a sampler needs for the rest of them.

    No step is longer than the default of a sampler without privacy noise.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ModelError(f"Expected 0 < alpha={self.alpha} < 1.")

    def sizes(self, steps: int, noise_limited: float, stable: float) -> np.ndarray:
        turn = max(self.alpha * steps, 1.0)
        return np.minimum(noise_limited * turn / np.arange(1, steps + 1), stable)


Schedule = Constant | Polynomial | PhaseTransition
SCHEDULES = {each.__name__: each for each in (Constant, Polynomial, PhaseTransition)}


def positive(value: Any, what: str) -> None:
    """Refuse what is not a number above zero."""
    real = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if not real or not 1e-100 < value < 1e100:
        raise ModelError(f"Expected {what}={value!r} to be a number > 0.")
