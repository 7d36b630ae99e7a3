"""The largest plan that a budget affords."""

from decimal import Decimal

import pytest

import tacit
from tacit.accounting.bounded_range import exponential_epsilon
from tacit.accounting.plans import largest_plan, least_noise, plan_epsilon


def draws(count, delta):
    return lambda x: tacit.queries.Plan(
        tacit.queries.Steps(count, tacit.queries.Exponential(x)), delta=delta
    )


def sums(count, delta):
    def make(x):
        noise = tacit.Gaussian(noise_multiplier=1 / x)
        return tacit.queries.Plan(tacit.queries.Steps(count, noise, numbers=1), delta=delta)

    return make


def mixed(count, delta):
    def make(x):
        parts = [
            tacit.queries.Steps(count, tacit.queries.Exponential(round(x * r, 12)))
            for r in (0.5, 1)
        ]
        return tacit.queries.Plan(
            *parts, tacit.queries.Steps(1, tacit.Laplace(round(x, 12))), delta=delta
        )

    return make


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("make", "budget"),
    [
        (draws(1, 0), (1, 0)),
        (draws(400, 0), ("0.3", 0)),
        (draws(400, "1e-6"), (5, "1e-6")),
        (draws(20, "1e-6"), (30, "1e-6")),
        (sums(200, "1e-6"), (2, "1e-6")),
        (mixed(3, 0), (1, 0)),
        (mixed(3, "1e-5"), (1, "1e-5")),
    ],
)
def test_a_plan_is_within_the_budget_and_close_to_it(make, budget, relation):
    plan = largest_plan(make, tacit.Budget(*budget), relation)
    spent, _ = plan_epsilon(plan, relation)
    assert 0.999 * float(budget[0]) < spent <= float(budget[0])
    # and the wall, which rounds up, charges no more
    schema = tacit.Schema(tacit.Real("x", 0, 1), neighbours=relation)
    wall = tacit.Wall({"x": [1.0]}, schema, budget=tacit.Budget(*budget), ledger=":memory:")
    lease = wall.prepay(plan)
    assert lease.certificate.epsilon <= Decimal(budget[0])


def test_without_a_delta_epsilons_add_up_and_with_one_they_do_not():
    (plain,) = largest_plan(draws(400, 0), tacit.Budget(4), "replace_one").steps
    assert float(plain.mechanism.epsilon) == pytest.approx(0.01, rel=1e-5)
    (composed,) = largest_plan(draws(400, "1e-5"), tacit.Budget(4, "1e-5"), "replace_one").steps
    each = float(composed.mechanism.epsilon)
    assert each > 0.08
    assert exponential_epsilon(each, 400, 1e-5) == pytest.approx(4, rel=2e-3)


def test_budgets_out_of_reach_are_refused():
    with pytest.raises(tacit.errors.BudgetError, match="larger budget"):
        largest_plan(draws(10**6, 0), tacit.Budget("0.5"), "replace_one")
    with pytest.raises(tacit.errors.BudgetError, match="smaller budget"):
        largest_plan(draws(1, 0), tacit.Budget(10**6), "replace_one")


@pytest.mark.parametrize("guess", [0.3, 1.0, 200.0])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("epsilon", "steps", "rate"), [(0.01, 50, 0.1), (1, 1000, 1.0), (1, 200, 0.02), (60, 40, 0.5)]
)
def test_the_least_noise_is_affordable_and_hardly_any_less_is(
    epsilon, steps, rate, neighbours, guess
):
    def make(multiplier):
        sampling = tacit.subsampling.Everyone() if rate == 1 else tacit.subsampling.Poisson(rate)
        noise = tacit.Gaussian(noise_multiplier=multiplier)
        return tacit.queries.Plan(
            tacit.queries.Steps(steps, noise, sampling, numbers=10), delta=1e-6
        )

    plan = least_noise(make, tacit.Budget(epsilon, 1e-6), neighbours, guess)
    spent, _ = plan_epsilon(plan, neighbours)
    assert 0.998 * epsilon < spent <= epsilon


def test_a_budget_that_no_noise_suits_is_refused():
    def make(multiplier):
        noise = tacit.Gaussian(noise_multiplier=multiplier)
        return tacit.queries.Plan(tacit.queries.Steps(10**8, noise, numbers=1), delta=1e-6)

    with pytest.raises(tacit.errors.BudgetError, match="another budget"):
        least_noise(make, tacit.Budget("1e-6", 1e-6), "replace_one")
