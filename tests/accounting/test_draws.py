"""Ranges by brute force over the simplex, and what several draws cost."""

import math
from collections import Counter
from decimal import Decimal
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from tacit.accounting import exponential_epsilon
from tacit.accounting.draws import calibrate_draw, draw_range, range_of_each
from tacit.laws.bounded_rates import statistics
from tacit.spec.columns import Categorical, Integer, Real
from tacit.spec.draws import (
    BoundedMeanSd,
    BoundedRate,
    ConjugateDraw,
    TruncatedDirichlet,
    TruncatedTables,
)
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


@pytest.mark.parametrize("rows", [1, 2])
def test_the_range_of_a_network_is_the_largest_over_all_units(rows):
    """y given x, z given both: units are any rows or missing values, parameters any corner."""
    least, levels = 0.07, {"x": 2, "y": 3, "z": 2}
    families = ("x",), ("x", "y"), ("x", "y", "z")
    law = TruncatedTables(families, 1.0, least)
    columns = [Categorical(name, [str(i) for i in range(k)]) for name, k in levels.items()]
    rng = np.random.default_rng(0)
    values = [range(-1, k) for k in levels.values()]  # -1 is missing
    kinds = [dict(zip(levels, row, strict=True)) for row in product(*values)]

    def terms(row):
        """The cells of the tables whose logarithms a row adds."""
        at = [tuple(row[c] for c in family) for family in families]
        return [(f, cell) for f, cell in enumerate(at) if min(cell) >= 0]

    def spread(unit, other):
        """The largest minus the smallest change of the log-likelihood over all tables."""
        change = Counter(cell for row in unit for cell in terms(row))
        change.subtract(cell for row in other for cell in terms(row))
        total = 0.0
        for f, family in enumerate(families):
            k = levels[family[-1]]
            top, low = math.log(1 - (k - 1) * least), math.log(least)
            for parents in {cell[:-1] for g, cell in change if g == f}:
                n = [change[f, (*parents, j)] for j in range(k)]
                corners = [sum(n) * low + (top - low) * n[j] for j in range(k)]
                inside = [*corners]
                if sum(n) > 0 and min(n) >= 0:  # a concave score may have its maximum inside
                    inside.append(_largest(n, least))
                if sum(n) < 0 and max(n) <= 0:
                    inside.append(-_largest([-c for c in n], least))
                total += max(inside) - min(inside)
        return total

    options = {"unit": "who", "max_rows_per_unit": rows} if rows > 1 else {}
    for relation in RELATIONS:
        claimed = draw_range(law, Schema(*columns, neighbours=relation, **options))
        units = [tuple(rng.choice(kinds, rows)) for _ in range(150)]
        full, opposite = [dict.fromkeys(levels, v) for v in (0, 1)]
        units += [(full,) * rows, (opposite,) * rows]
        others = units if relation == "replace_one" else [()]
        worst = max(spread(unit, other) for unit in units for other in others)
        assert worst <= claimed
        assert worst == pytest.approx(claimed, rel=1e-9)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    ("law", "column"),
    [
        (BoundedRate("x", "poisson", (1.0, 1.0), 0.2, 9.0), Integer("x", 0, 5)),
        (BoundedRate("x", "poisson", (1.0, 1.0), 3.0, 4.0), Integer("x", 0, 2)),
        (BoundedRate("x", "exponential", (2.0, 1.0), 0.01, 3.0), Real("x", 0, 5)),
    ],
)
def test_the_range_of_a_rate_is_the_largest_over_all_units(law, column, rows):
    """A unit's rows have any values or none: sums of values and how many there are."""
    at = np.log(np.geomspace(law.low, law.high, 801))
    theta, partition = statistics(law.family, at, column.high)
    units = [
        (count, total)
        for count in range(rows + 1)
        for total in np.linspace(0, count * column.high, 5 * count + 1)
    ]
    changes = [total * theta - count * partition for count, total in units]
    for relation in RELATIONS:
        claimed = draw_range(law, described(column, relation, rows))
        others = changes if relation == "replace_one" else [0.0]
        worst = max(np.ptp(one - other) for one in changes for other in others)
        assert worst <= claimed
        assert worst == pytest.approx(claimed, rel=1e-5)  # points of a coarser list


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    ("mean", "sd"),
    [((-3.0, 5.0), (0.6, 4.0)), ((-1.0, 2.0), (0.5, 2.5)), ((4.5, 4.9), (1.2, 1.3)),
     ((1.3, 1.36), (3.0, 12.0))],
)  # fmt: skip
def test_the_range_of_a_mean_and_an_sd_is_the_largest_over_all_units(mean, sd, rows):
    """A unit's rows have any values or none; points are a coarser list with the same ends."""
    law = BoundedMeanSd("x", (1.0, 0.01, 0.8, 0.5), mean, sd)
    means, sds = np.meshgrid(np.linspace(*mean, 61), np.geomspace(*sd, 121))
    values = np.linspace(-3, 5, 41)
    logs = [(-np.log(sds) - (x - means) ** 2 / (2 * sds**2)).ravel() for x in values]
    worst = {
        "add_remove": rows * max(np.ptp(log) for log in logs),
        "replace_one": rows * max(np.ptp(one - other) for one, other in product(logs, logs)),
    }
    worst["replace_one"] = max(worst.values())  # a missing value
    for relation in RELATIONS:
        claimed = draw_range(law, described(Real("x", -3, 5), relation, rows))
        assert worst[relation] <= claimed
        assert worst[relation] == pytest.approx(claimed, rel=1e-3)


def _largest(counts, least):
    """The largest sum of counts times logarithms of probabilities, none below `least`."""
    n = np.array(counts, float)
    free, p = np.ones(len(n), bool), np.full(len(n), least)
    while True:
        room = 1 - least * np.sum(~free)
        p[free] = room * n[free] / n[free].sum()
        if np.all(p[free] >= least):
            return float(n @ np.log(p))
        free &= p > least
        p[~free] = least


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
