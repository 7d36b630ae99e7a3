"""Ranges by brute force over the simplex, and what several draws cost."""

from decimal import Decimal
from itertools import combinations_with_replacement

import numpy as np
import pytest

from tacit.accounting import exponential_epsilon
from tacit.accounting.draws import calibrate_draw, draw_range, range_of_each
from tacit.spec.draws import TruncatedDirichlet
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential
from tacit.spec.plan import Steps


def simplex(levels: int, truncation: float, parts: int = 24) -> np.ndarray:
    cuts = combinations_with_replacement(range(parts + 1), levels - 1)
    shares = np.diff([(0, *cut, parts) for cut in cuts], axis=1) / parts
    return truncation + (1 - levels * truncation) * shares


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("levels", "truncation"), [(2, 0.1), (3, 0.05), (3, 0.3), (4, 0.1)])
def test_the_range_is_the_largest_over_all_units(levels, truncation, rows):
    """A unit's rows are any levels or missing; its neighbour has others, or is not there."""
    logs = np.log(simplex(levels, truncation))
    padded = np.column_stack([logs, np.zeros(len(logs))])  # a missing value has likelihood one
    units = [
        padded[:, list(unit)].sum(axis=1)
        for unit in combinations_with_replacement(range(levels + 1), rows)
    ]
    law = TruncatedDirichlet("x", (1.0,) * levels, truncation)
    worst = max(np.ptp(one - other) for one in units for other in units)
    assert worst == pytest.approx(draw_range(law, "replace_one", rows), rel=1e-9)
    assert worst <= draw_range(law, "replace_one", rows)
    worst = max(np.ptp(one) for one in units)
    assert worst == pytest.approx(draw_range(law, "add_remove", rows), rel=1e-9)
    assert worst <= draw_range(law, "add_remove", rows)


@pytest.mark.parametrize("draws", [1, 2, 20, 200])
@pytest.mark.parametrize("delta", [0, 1e-6, 0.01])
def test_draws_together_cost_what_was_offered(draws, delta):
    mechanism = Exponential(1, delta)
    each = range_of_each(mechanism, draws)
    assert each >= 1 / draws * (1 - 1e-9)
    if delta:
        together = exponential_epsilon(each, draws, delta, adaptive=False)
        assert 0.999 < together <= 1 + 1e-9
        more = exponential_epsilon(1.001 * each, draws, delta, adaptive=False)
        assert more > 1
    span = 5.0
    found = calibrate_draw(mechanism, span, draws)
    assert found.noise[0].scale == pytest.approx(span / each)
    assert span / found.noise[0].scale <= each
    assert found.cost.epsilon == 1
    assert found.cost.delta == mechanism.delta


def test_a_draw_that_is_private_enough_costs_what_it_costs():
    found = calibrate_draw(Exponential(10), 1.25, 3)
    assert found.noise[0].scale == 1
    assert Decimal("3.75") <= found.cost.epsilon < Decimal("3.7501")
    composed = calibrate_draw(Exponential(10, 1e-5), 0.1, 300)
    assert float(composed.cost.epsilon) == pytest.approx(
        exponential_epsilon(0.1, 300, 1e-5, adaptive=False), rel=1e-5
    )
    assert composed.cost.epsilon < 30


def test_a_plan_has_its_own_delta():
    Steps(3, Exponential(1))
    with pytest.raises(BudgetError, match="Exponential"):
        Steps(3, Exponential(1, 1e-6))
