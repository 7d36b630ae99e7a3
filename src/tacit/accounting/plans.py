"""The most that a plan of a given shape may do within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

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


def least_noise(
    make: Callable[[float], Plan], budget: Budget, neighbours: Neighbours, guess: float = 1.0
) -> Plan:
    """The plan `make(m)` with the smallest noise multiplier m, to one in a thousand of its cost.

    Cost must fall with m. On a log scale it is nearly a straight line, so that few costs have to be
    computed: those of many sampled steps take a while.
    """
    target = math.log(float(budget.epsilon)) - 5e-4
    low, high = (-math.inf, math.inf), (math.inf, -math.inf)  # log m, log cost
    here = math.log(guess)
    for turn in range(100):
        cost = _cost(make(math.exp(here)), neighbours)
        if cost <= budget.epsilon:
            high = here, math.log(float(cost))
            if high[1] >= target - 5e-4 or high[0] - low[0] < 1e-9:
                break
        else:
            low = here, math.log(float(cost))
        if math.isinf(low[0]) or math.isinf(high[0]):
            known = high if math.isinf(low[0]) else low
            move = known[1] - target if math.isfinite(known[1]) else 2.0
            here = known[0] + math.copysign(min(max(abs(1.1 * move), 0.01), 3.0), move)
            if not -7 < here < 20:
                raise BudgetError(f"Expected another budget than {budget} for so many steps.")
        elif math.isinf(low[1]) or turn % 3 == 2:
            here = (low[0] + high[0]) / 2
        else:
            share = (low[1] - target) / (low[1] - high[1])
            here = low[0] + share * (high[0] - low[0])
    return make(math.exp(high[0]))


def _cost(plan: Plan, neighbours: Neighbours) -> Decimal:
    """What the wall would charge, or more than anyone has."""
    try:
        spent, _ = plan_epsilon(plan, neighbours)
    except BudgetError:
        return Decimal("Infinity")
    return round_up(max(spent, 1e-9))
