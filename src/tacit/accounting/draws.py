"""From a draw's law to the temperature it needs: bounded range, and what several draws cost."""

from __future__ import annotations

import math
from decimal import Decimal

from tacit.accounting.bounded_range import exponential_epsilon, optimal_delta
from tacit.accounting.calibrate import Calibration
from tacit.spec.budget import Budget, round_up
from tacit.spec.draws import DrawLaw, TruncatedDirichlet
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential
from tacit.spec.release import Noise
from tacit.spec.schema import Neighbours

GRID = 2.0**-40
_ROUNDING = 1 + 1e-12  # far more than the arithmetic here can lose


def draw_range(law: DrawLaw, neighbours: Neighbours, rows: int = 1) -> float:
    """The range over the parameter of the log-likelihood's change when one unit changes.

    Parameters
    ----------
    law
        What is drawn.
    neighbours
        `"replace_one"` or `"add_remove"`.
    rows
        The most that a unit has.

    Examples
    --------
    >>> law = TruncatedDirichlet("smoker", (1, 1), truncation=0.1)
    >>> round(draw_range(law, "replace_one"), 3), round(draw_range(law, "add_remove"), 3)
    (4.394, 2.197)
    """
    match law:
        case TruncatedDirichlet(prior=prior, truncation=least):
            # proof: draw-range. One row's log-probability lies between log a0 and the log of
            # what the other levels leave; a replaced row moves two of them, against each other.
            most = 1 - (len(prior) - 1) * least
            one = math.log(most / least)
    return (2 if neighbours == "replace_one" else 1) * rows * one * _ROUNDING


def calibrate_draw(mechanism: Exponential, span: float, draws: int) -> Calibration:
    """The lowest temperature, at least 1, at which so many draws keep what is promised.

    Where temperature 1 is enough, the draws cost what they cost and not what was offered.
    """
    each = range_of_each(mechanism, draws)
    by = "bounded range, pure epsilon" if mechanism.delta == 0 else "bounded range, exact optimum"
    if span > each:
        noise = Noise("draw", span / each * _ROUNDING, GRID)
        return Calibration((noise,), Budget(mechanism.epsilon, mechanism.delta), by)
    spent = together(span, draws, mechanism.delta)
    cost = min(round_up(max(spent, 1e-9)), mechanism.epsilon)
    return Calibration((Noise("draw", 1.0, GRID),), Budget(cost, mechanism.delta), by)


def together(each: float, draws: int, delta: Decimal) -> float:
    """Epsilon of so many draws from one law, each with the same range."""
    if delta == 0:
        return draws * each * _ROUNDING
    # proof: draw-together
    return exponential_epsilon(each, draws, float(delta), adaptive=False)


def range_of_each(mechanism: Exponential, draws: int) -> float:
    """The largest range of one draw that so many draws from one law can afford."""
    total, delta = float(mechanism.epsilon), float(mechanism.delta) * (1 - 1e-9)
    plain = total / draws / _ROUNDING
    if delta == 0:
        return plain

    def affordable(each: float) -> bool:
        return optimal_delta(each, draws, total) <= delta  # proof: draw-together

    low = high = plain
    while affordable(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise BudgetError(f"Expected a smaller delta than {mechanism.delta}.")
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low / _ROUNDING
