"""The exponential mechanism: the closed formula against brute force, and its relatives."""

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import exponential_epsilon
from tacit.accounting.bounded_range import optimal_delta, zcdp_epsilon
from tacit.accounting.pairs import Ranged
from tacit.accounting.pld import pld_epsilon
from tacit.spec.errors import BudgetError


def two_outcomes(epsilon, t):
    """The extreme pair with losses t and t - epsilon: probabilities under P and under Q."""
    q = (math.exp(-t) - math.exp(-epsilon)) / (1 - math.exp(-epsilon))
    p = (1 - math.exp(t - epsilon)) / (1 - math.exp(-epsilon))
    return (p, 1 - p), (q, 1 - q)


def brute_force(epsilon, shifts, total):
    """delta(total) of a product of such pairs, every outcome enumerated."""
    pairs = [two_outcomes(epsilon, t) for t in shifts]
    delta = 0.0
    for outcome in itertools.product((0, 1), repeat=len(pairs)):
        p = math.prod(pair[0][o] for pair, o in zip(pairs, outcome))
        q = math.prod(pair[1][o] for pair, o in zip(pairs, outcome))
        delta += max(p - math.exp(total) * q, 0.0)
    return delta


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_the_optimum_is_what_brute_force_finds(count, epsilon, share):
    total = share * count * epsilon
    formula = optimal_delta(epsilon, count, total)
    grid = np.linspace(0, epsilon, {1: 4001, 2: 101, 3: 25}[count])
    every = (brute_force(epsilon, s, total) for s in itertools.product(grid, repeat=count))
    common = max(brute_force(epsilon, (t,) * count, total) for t in np.linspace(0, epsilon, 4001))
    assert max(every) <= formula + 1e-12
    assert common == pytest.approx(formula, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1), (1.0, 5), (0.1, 100), (0.5, 300)])
def test_knowing_more_never_costs_more(epsilon, count):
    fixed = exponential_epsilon(epsilon, count, 1e-6, adaptive=False)
    adaptive = exponential_epsilon(epsilon, count, 1e-6)
    assert fixed <= adaptive <= count * epsilon
    assert fixed <= pld_epsilon(((Ranged(epsilon), count),), 1e-6)
    assert optimal_delta(epsilon, count, fixed) <= 1e-6


def test_zcdp_conversion_is_the_best_order():
    orders = np.linspace(1.001, 60, 200_000)
    spread = (math.log(1e-5) + np.log(orders)) / (orders - 1)
    best = (orders * 0.4 + np.log1p(-1 / orders) - spread).min()
    assert zcdp_epsilon(0.4, 1e-5) == pytest.approx(best, rel=1e-6)


def test_many_draws_of_almost_nothing_cost_nothing():
    assert exponential_epsilon(1e-9, 3, 1e-5, adaptive=False) == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": math.nan},
        {"epsilon": 0},
        {"count": 0},
        {"count": 2.0},
        {"count": True},
        {"delta": 0},
        {"delta": 1.0},
    ],
)
def test_bad_numbers_are_refused(bad):
    with pytest.raises(BudgetError):
        exponential_epsilon(**{"epsilon": 1.0, "count": 3, "delta": 1e-5, **bad})


def test_the_exact_formula_has_its_limits():
    with pytest.raises(BudgetError, match="adaptive=True"):
        exponential_epsilon(0.1, 1001, 1e-5, adaptive=False)
