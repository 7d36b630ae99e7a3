"""The most that a plan of a given shape may do within a budget."""

from __future__ import annotations

from collections.abc import Callable

from tacit.accounting.compose import plan_epsilon
from tacit.spec.budget import Budget, round_up
from tacit.spec.errors import BudgetError
from tacit.spec.plan import Plan
from tacit.spec.schema import Neighbours

_HALVINGS = 40


def largest_plan(make: Callable[[float], Plan], budget: Budget, neighbours: Neighbours) -> Plan:
    """The plan `make(x)` with the largest x that the budget affords. Cost must grow with x."""

    def affordable(x: float) -> bool:
        try:
            spent, _ = plan_epsilon(make(x), neighbours)
        except BudgetError:
            return False
        return round_up(max(spent, 1e-9)) <= budget.epsilon

    low, high = 1e-6, 1e-5
    if not affordable(low):
        raise BudgetError(f"Expected a larger budget than {budget} for so many steps.")
    while affordable(high):
        low, high = high, 4 * high
        if high > 1e6:
            raise BudgetError(f"Expected a smaller budget than {budget} for so few steps.")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
        if high - low < 1e-7 * high:
            break
    return make(low)
