"""The range of a draw's scores, the temperature it needs, and what a chain must assume."""

import math
from decimal import Decimal

import numpy as np
import pytest

import tacit
from tacit.accounting.bounded_range import exponential_epsilon
from tacit.accounting.draws import (
    calibrate_density,
    calibrate_range,
    chain_assumption,
    choice_range,
    temperature,
)
from tacit.accounting.latent import paths_range, profiles_range
from tacit.spec.hidden_states import Panel, StatePaths

PANEL = Panel("r", "t", ("a", "b"))


def schema(neighbours="replace_one", rows=None):
    columns = [tacit.Categorical(name, ["1", "2"]) for name in ("r", "t", "a")]
    unit = None if rows is None else "who"
    b = tacit.Categorical("b", ["1", "2", "3"])
    return tacit.Schema(*columns, b, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)


@pytest.mark.parametrize(
    ("neighbours", "rows", "factor"),
    [
        ("add_remove", None, 1),
        ("replace_one", None, 2),
        ("add_remove", 3, 3),
        ("replace_one", 3, 6),
    ],
)
def test_ranges_by_hand(neighbours, rows, factor):
    held = schema(neighbours, rows)
    a = np.array([[0.5, 0.5], [0.9, 0.1]])
    b = np.array([[0.2, 0.3, 0.5], [0.2, 0.4, 0.4]])
    query = StatePaths(PANEL, [0.5, 0.5], np.full((2, 2), 0.5), (a, b))
    by_hand = max(math.log(5) + math.log(5 / 4), math.log(9 / 5) + math.log(4 / 3))
    widths = math.log(0.95 / 0.05) + math.log((1 - 0.2 / 3) / (0.1 / 3))
    for span, exact in (
        (paths_range(query, held), factor * by_hand),
        (profiles_range(PANEL, 0.1, held), factor * widths),
        # a unit's scores are bounded together, however many rows it has
        (
            choice_range(tacit.queries.Bound(2, clip=0.7, geometry="box"), held),
            factor * 0.7 / (rows or 1),
        ),
    ):
        assert exact < span < exact * (1 + 1e-11)


def test_the_width_of_a_level():
    for levels in (1, 2, 5, 100):
        names = [tacit.Categorical(name, ["1"]) for name in "rt"]
        a = tacit.Categorical("a", [str(i) for i in range(levels)])
        held = tacit.Schema(*names, a, neighbours="add_remove")
        least = 0.3 / levels
        width = math.log((1 - (levels - 1) * least) / least) if levels > 1 else 0
        assert profiles_range(Panel("r", "t", ("a",)), 0.3, held) == pytest.approx(width)


def test_the_temperature_never_costs_more_than_epsilon():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        span = float(10 ** rng.uniform(-6, 6))
        epsilon = Decimal(repr(round(float(10 ** rng.uniform(-3, 3)), 6)))
        least = temperature(span, epsilon)
        assert least >= 1
        assert Decimal(span) / Decimal(least) <= epsilon  # in exact arithmetic
        assert least == 1 or Decimal(span) / Decimal(least) > epsilon * Decimal("0.99999999999")


def test_a_draw_at_temperature_one_costs_what_it_costs():
    hot = calibrate_range(tacit.queries.Exponential(1, "1e-6"), 4.0, 1.0, 2.0**-40)
    assert [law.scale for law in hot.noise] == pytest.approx([4, 4])
    assert [law.grid for law in hot.noise] == [1, 2.0**-40]
    assert (hot.cost.epsilon, hot.cost.delta) == (1, Decimal("1e-6"))
    cold = calibrate_range(tacit.queries.Exponential(9), 4.0, 1.0)
    assert cold.noise[0].scale == 1
    assert 4 <= cold.cost.epsilon <= Decimal("4.00001")
    nothing = calibrate_range(tacit.queries.Exponential(9), 0.0, 1.0)
    assert 0 < nothing.cost.epsilon <= Decimal("1e-5")


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_what_a_chain_assumes(epsilon):
    for delta, updates in (("1e-5", 400), ("0.02", 2)):
        text = chain_assumption(tacit.Budget(epsilon, delta), updates)
        assert f"{float(delta) / (1 + math.exp(epsilon)):.3g} of its target" in text
        assert f"epsilon {exponential_epsilon(epsilon, updates, 1e-6):.4g} at delta 1e-06" in text
        assert f"({updates * epsilon:.6g} with no delta)" in text
    assert "had converged" in chain_assumption(tacit.Budget(epsilon), 10)


def test_a_chain_is_refused_where_no_distance_would_be_near_enough():
    with pytest.raises(tacit.errors.BudgetError, match="at most 500"):
        chain_assumption(tacit.Budget(501, "1e-5"), 10)
    assert "total variation" in chain_assumption(tacit.Budget(500, "1e-5"), 10)


# Draws from a log-likelihood


@pytest.mark.parametrize(("relation", "both"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_log_likelihood_ranges_over_its_width_for_each_row(relation, both, rows):
    public = tacit.Schema(
        tacit.Real("x", 0, 1), unit="who", max_rows_per_unit=rows, neighbours=relation
    )
    for region in (
        tacit.queries.Points([0.0, 1.0]),
        tacit.queries.Box((0,), (1,)),
        tacit.queries.Ball(2, 1.0),
    ):
        query = tacit.queries.DensityDraw(
            tacit.queries.Kernel("logistic.log_likelihood"), "x", region, width=0.7
        )
        calibration = calibrate_density(tacit.queries.Exponential(0.5), query, public)
        assert calibration.noise[0].scale == pytest.approx(both * rows * 0.7 / 0.5)
        assert calibration.noise[0].scale >= both * rows * 0.7 / 0.5
        assert bool(calibration.assumptions) == (not isinstance(region, tacit.queries.Points))
        # where the model's own temperature is enough it costs what it costs
        offered = calibrate_density(tacit.queries.Exponential(50), query, public)
        assert offered.noise[0].scale == 1
        assert float(offered.cost.epsilon) == pytest.approx(both * rows * 0.7, abs=1e-4)
