"""What methods know of the data: a releaser, which `Wall` and `Public` are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from tacit.spec.budget import Budget, Left
from tacit.spec.certificate import Certificate
from tacit.spec.mechanisms import Mechanism
from tacit.spec.plan import Plan
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class Quote:
    """What a release would cost and how noisy it would be. Nothing is read or charged."""

    cost: Budget | None
    noise: tuple[Noise, ...]

    @property
    def variance(self) -> float | None:
        """Geometric-mean noise variance per number, as blocks differ in units; None for draws."""
        parts = [law.variance for law in self.noise if law.variance is not None]
        if not parts or min(parts) == 0:
            return 0.0 if parts else None
        return math.exp(sum(map(math.log, parts)) / len(parts))


class Releaser(Protocol):
    """All that methods know of the data."""

    @property
    def schema(self) -> Schema: ...

    @property
    def remaining(self) -> Left | None:
        """What is left of the budget; None where there is none to spend."""
        ...

    @property
    def n_units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        ...

    def quote(self, query: Query, mechanism: Mechanism) -> Quote: ...

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Charge, then read, then answer with noise."""
        ...

    def prepay(self, plan: Plan, *, name: str | None = None) -> StepReleaser:
        """Charge for all steps of a plan at once."""
        ...


class StepReleaser(Protocol):
    """What `prepay` returns: it answers as many queries as the plan has steps."""

    @property
    def steps_left(self) -> int: ...

    @property
    def certificate(self) -> Certificate: ...

    def release(self, query: Query) -> Release: ...
