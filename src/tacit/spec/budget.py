"""Privacy parameters as exact decimals: fifty charges of 0.02 fit in a budget of 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation

from tacit.spec.checks import set_fields
from tacit.spec.errors import BudgetError
from tacit.spec.html import facts_html

Number = float | int | str | Decimal

_MAX_DIGITS = 50
# Sums and differences of numbers with at most 50 digits each are exact here, or they raise.
_EXACT = Context(prec=400, traps=[Inexact, InvalidOperation])


def decimal(value: Number, what: str) -> Decimal:
    """The decimal a person wrote: 0.1 means one tenth, not the nearest binary fraction."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise BudgetError(f"Expected a number for {what}, got {value!r}.")
    try:
        number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        raise BudgetError(f"Expected a number for {what}, got {value!r}.") from None
    if not number.is_finite():
        raise BudgetError(f"Expected a finite {what}, got {value!r}.")
    exponent = number.as_tuple().exponent
    if len(number.as_tuple().digits) > _MAX_DIGITS or not -150 <= int(exponent) <= 100:
        raise BudgetError(f"Expected at most {_MAX_DIGITS} digits for {what}, got {value!r}.")
    return number


def epsilon_of(value: Number | None, what: str = "epsilon") -> Decimal:
    """A finite, positive epsilon; there is no default."""
    if value is None:
        raise BudgetError(f"Expected {what}: say how much to spend, for example {what}=0.5.")
    number = decimal(value, what)
    if number <= 0:
        raise BudgetError(f"Expected {what}={number} > 0.")
    # Mechanisms compute with the float: it must be neither 0 nor infinite.
    if not 1e-9 <= float(number) <= 1e6:
        raise BudgetError(f"Expected {what}={number} between 1e-9 and 1e6.")
    return number


def delta_of(value: Number, what: str = "delta", *, zero: bool = True) -> Decimal:
    """A delta in [0, 1), or in (0, 1) where the mechanism needs one."""
    number = decimal(value, what)
    if not 0 <= number < 1:
        raise BudgetError(f"Expected 0 <= {what}={number} < 1.")
    if number == 0 and not zero:
        raise BudgetError(f"Expected {what} > 0 for this mechanism, for example {what}=1e-6.")
    if number and float(number) < 1e-100:
        raise BudgetError(f"Expected {what}={number} to be 0 or at least 1e-100.")
    return number


def round_up(value: float, digits: int = 6) -> Decimal:
    """The next decimal above a computed float: what is charged is never less than the cost."""
    if not math.isfinite(value) or value < 0:
        raise BudgetError(f"Expected a finite cost, got {value!r}.")
    return Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value))


def plain(value: Decimal) -> str:
    """A decimal as people write it, exactly: 0.5 for 0.50000."""
    short = value.normalize(_EXACT)
    return format(short, "f") if short > Decimal("1e-12") else str(short + 0)


@dataclass(frozen=True)
class Budget:
    """An amount of privacy loss, (epsilon, delta), in exact decimals.

    Examples
    --------
    >>> Budget(1.0, 1e-6).split(4)
    Budget(epsilon=0.25, delta=2.5E-7)
    """

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: Number | None = None, delta: Number = 0) -> None:
        set_fields(self, epsilon=epsilon_of(epsilon), delta=delta_of(delta))

    def __repr__(self) -> str:
        return f"Budget(epsilon={self.epsilon}, delta={self.delta})"

    def __str__(self) -> str:
        # Part of what a ledger knows a question by: written otherwise, stored answers are lost.
        return f"epsilon {self.epsilon}, delta {self.delta}"

    def _repr_html_(self) -> str:
        return facts_html("Budget", {"epsilon": self.epsilon, "delta": self.delta})

    def split(self, parts: int) -> Budget:
        """One of `parts` equal shares, rounded down so that together they fit."""
        if parts < 1:
            raise BudgetError(f"Expected parts={parts} >= 1.")
        down = Context(prec=28, rounding=ROUND_FLOOR)
        return Budget(down.divide(self.epsilon, parts), down.divide(self.delta, parts))


@dataclass(frozen=True)
class Spent:
    """A running total; unlike a Budget it may be nothing at all."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)

    def __add__(self, cost: Budget) -> Spent:
        return Spent(_EXACT.add(self.epsilon, cost.epsilon), _EXACT.add(self.delta, cost.delta))

    def within(self, budget: Budget) -> bool:
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    def left_of(self, budget: Budget) -> Left:
        return Left(
            _EXACT.subtract(budget.epsilon, self.epsilon),
            _EXACT.subtract(budget.delta, self.delta),
        )

    def __str__(self) -> str:
        return f"epsilon {plain(self.epsilon)}, delta {plain(self.delta)}"


@dataclass(frozen=True)
class Left:
    """What remains of a budget.

    Examples
    --------
    >>> Spent().left_of(Budget(0.5))
    Left(epsilon=0.5, delta=0)
    """

    epsilon: Decimal
    delta: Decimal

    def __repr__(self) -> str:
        return f"Left(epsilon={self.epsilon}, delta={self.delta})"

    def __str__(self) -> str:
        return f"epsilon {plain(self.epsilon)}, delta {plain(self.delta)}"

    def _repr_html_(self) -> str:
        return facts_html("Left", {"epsilon": self.epsilon, "delta": self.delta})
