"""A plan: releases to be paid for at once and asked for one by one. No data, no randomness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from tacit.spec.budget import Number, delta_of
from tacit.spec.checks import number, one_of, set_fields, whole_number
from tacit.spec.errors import BudgetError
from tacit.spec.html import facts_html, table_html
from tacit.spec.mechanisms import (
    Exact,
    Exponential,
    Gaussian,
    Laplace,
    mechanism_from_dict,
    mechanism_to_dict,
)
from tacit.spec.wire import Record, facts_of, reading

Geometry = Literal["free", "nonnegative", "box", "simplex", "outer"]
GEOMETRIES: tuple[Geometry, ...] = ("free", "nonnegative", "box", "simplex", "outer")
_MOST_STEPS = 10**8


@dataclass(frozen=True)
class Everyone(Record):
    """Every unit takes part in every step."""

    rate = 1.0


@dataclass(frozen=True)
class Poisson(Record):
    """Each unit takes part in a step with probability `rate`, independently of all others."""

    rate: float

    def __post_init__(self) -> None:
        set_fields(self, rate=number(self.rate, "rate", 1e-6, 1, error=BudgetError))


@dataclass(frozen=True)
class WithoutReplacement(Record):
    """`size` of the `population` units take part, all subsets alike. Needs a public population."""

    size: int
    population: int

    def __post_init__(self) -> None:
        most = whole_number(self.population, "population", most=2**31, error=BudgetError)
        whole_number(self.size, "size", most=most, error=BudgetError)

    @property
    def rate(self) -> float:
        return self.size / self.population


Subsampling = Everyone | Poisson | WithoutReplacement
SUBSAMPLING: tuple[type[Subsampling], ...] = (Everyone, Poisson, WithoutReplacement)
_SAMPLING = {cls.__name__: cls for cls in SUBSAMPLING}


def check_subsampling(sampling: Any) -> None:
    """Refuse what does not say who takes part in a step."""
    if not isinstance(sampling, SUBSAMPLING):
        raise BudgetError(
            "Expected sampling to be Everyone(), Poisson(rate) or WithoutReplacement(size, "
            f"population) of tacit.subsampling, got {sampling!r}."
        )


@dataclass(frozen=True)
class Steps:
    """`count` releases with the same mechanism, sampling and shape of a unit's contribution.

    `numbers` is the most that one of them may hold.
    """

    count: int
    mechanism: Gaussian | Laplace | Exponential | Exact
    sampling: Subsampling = Everyone()
    geometry: Geometry = "free"
    numbers: int = 10**6

    def __post_init__(self) -> None:
        whole_number(self.count, "count", most=_MOST_STEPS, error=BudgetError)
        check_subsampling(self.sampling)
        one_of(self.geometry, "geometry", GEOMETRIES, BudgetError)
        whole_number(self.numbers, "numbers", most=10**8, error=BudgetError)
        match self.mechanism:
            case Gaussian(noise_multiplier=None):
                raise BudgetError(
                    "Expected Gaussian(noise_multiplier=...) in a plan: "
                    "tacit.accounting.noise_multiplier(epsilon=..., ...) finds it."
                )
            case Exponential(delta=delta) if delta:
                raise BudgetError("Expected Exponential(epsilon) in a plan, which has a delta.")
            case Laplace() | Exponential() if not isinstance(self.sampling, Everyone):
                raise BudgetError("Expected Gaussian noise where a step samples units.")
            case Gaussian() | Laplace() | Exponential() | Exact():
                pass
            case _:
                raise BudgetError(f"Expected a mechanism for the steps, got {self.mechanism!r}.")

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": self.count,
            "mechanism": mechanism_to_dict(self.mechanism),
            "sampling": self.sampling.to_dict(),
            "geometry": self.geometry,
            "numbers": self.numbers,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Steps:
        sampling = _SAMPLING[facts["sampling"]["type"]].from_dict(facts["sampling"])
        mechanism: Any = mechanism_from_dict(facts["mechanism"])
        return cls(facts["steps"], mechanism, sampling, facts["geometry"], facts["numbers"])


@dataclass(frozen=True)
class Plan:
    """Steps that are charged once, together, before the first of them.

    Parameters
    ----------
    *steps
        One or more `Steps`, taken in their order.
    delta
        Where the cost of all of them together is read off. May be 0 if all are Laplace or
        Exponential steps.

    Examples
    --------
    >>> from tacit.spec.mechanisms import Gaussian
    >>> plan = Plan(Steps(100, Gaussian(noise_multiplier=2.0), Poisson(0.01)), delta=1e-6)
    >>> plan.count
    100
    """

    steps: tuple[Steps, ...]
    delta: Decimal

    def __init__(self, *steps: Steps, delta: Number | None = None) -> None:
        if not steps or not all(isinstance(some, Steps) for some in steps):
            raise BudgetError(
                "Expected tacit.queries.Plan(tacit.queries.Steps(...), ..., delta=...)."
            )
        if delta is None:
            raise BudgetError("Expected a plan to name a delta, for example delta=1e-6.")
        pure = all(isinstance(some.mechanism, (Laplace, Exponential)) for some in steps)
        set_fields(self, steps=steps, delta=delta_of(delta, zero=pure))

    @property
    def count(self) -> int:
        return sum(some.count for some in self.steps)

    @property
    def events(self) -> tuple[dict[str, Any], ...]:
        """The facts of the steps, for a certificate."""
        families = {Gaussian: "discrete_gaussian", Laplace: "discrete_laplace", Exponential: "draw"}
        return tuple(
            {"noise": families.get(type(some.mechanism), "none"), **some.to_dict()}
            for some in self.steps
        )

    def _repr_html_(self) -> str:
        head = ("steps", "mechanism", "sampling", "numbers at most")
        rows = [(some.count, some.mechanism, some.sampling, some.numbers) for some in self.steps]
        return facts_html("Plan", {"delta": self.delta}, table_html(head, rows))

    def to_dict(self) -> dict[str, Any]:
        return facts_of(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Plan:
        with reading("plan", BudgetError):
            steps = [Steps.from_dict(some) for some in facts["steps"]]
            return cls(*steps, delta=facts["delta"])
