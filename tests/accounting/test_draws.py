"""Ranges by brute force over the simplex, and what several draws cost."""

import math
from decimal import Decimal
from itertools import combinations_with_replacement

import numpy as np
import pytest

from tacit.accounting import exponential_epsilon
from tacit.accounting.draws import calibrate_draw, draw_range, range_of_each
from tacit.spec.columns import Categorical
from tacit.spec.draws import ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential
from tacit.spec.plan import Steps
from tacit.spec.schema import Schema

RELATIONS = ("replace_one", "add_remove")


def described(column, neighbours, rows=1) -> Schema:
    unit = None if rows == 1 else "who"
    return Schema(
        column, neighbours=neighbours, unit=unit, max_rows_per_unit=None if unit is None else rows
    )


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
    column = Categorical("x", [str(i) for i in range(levels)])
    both = {relation: draw_range(law, described(column, relation, rows)) for relation in RELATIONS}
    worst = max(np.ptp(one - other) for one in units for other in units)
    assert worst == pytest.approx(both["replace_one"], rel=1e-9)
    assert worst <= both["replace_one"]
    worst = max(np.ptp(one) for one in units)
    assert worst == pytest.approx(both["add_remove"], rel=1e-9)
    assert worst <= both["add_remove"]


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
    law = TruncatedDirichlet("x", (1.0, 1.0), 0.05)
    schema = described(Categorical("x", ["a", "b"]), "replace_one")
    span = draw_range(law, schema)
    found = calibrate_draw(mechanism, ConjugateDraw(law, draws), schema)
    assert found.noise[0].scale == pytest.approx(span / each)
    assert span / found.noise[0].scale <= each
    assert found.cost.epsilon == 1
    assert found.cost.delta == mechanism.delta


def test_a_draw_that_is_private_enough_costs_what_it_costs():
    schema = described(Categorical("x", ["a", "b"]), "add_remove")
    law = TruncatedDirichlet("x", (1.0, 1.0), 1 / (1 + math.exp(1.25)))
    found = calibrate_draw(Exponential(10), ConjugateDraw(law, 3), schema)
    assert found.noise[0].scale == 1
    assert Decimal("3.75") <= found.cost.epsilon < Decimal("3.7501")
    law = TruncatedDirichlet("x", (1.0, 1.0), 1 / (1 + math.exp(0.1)))
    composed = calibrate_draw(Exponential(10, 1e-5), ConjugateDraw(law, 300), schema)
    assert float(composed.cost.epsilon) == pytest.approx(
        exponential_epsilon(0.1, 300, 1e-5, adaptive=False), rel=1e-5
    )
    assert composed.cost.epsilon < 30


def test_a_plan_has_its_own_delta():
    Steps(3, Exponential(1))
    with pytest.raises(BudgetError, match="Exponential"):
        Steps(3, Exponential(1, 1e-6))
