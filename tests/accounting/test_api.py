"""The questions people ask, the plans the wall prices, and what is refused."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import (
    epsilon,
    exponential_epsilon,
    gaussian_epsilon,
    noise_multiplier,
    plan_epsilon,
    sensitivity_factor,
)
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential, Gaussian, Laplace
from tacit.spec.plan import GEOMETRIES, Plan, Poisson, Steps, WithoutReplacement

RELATIONS = ("add_remove", "replace_one")
cases = st.fixed_dictionaries(
    {
        "noise_multiplier": st.floats(0.5, 20),
        "steps": st.integers(1, 400),
        "sampling_rate": st.floats(0.005, 1.0),
        "delta": st.floats(1e-9, 1e-2),
        "neighbours": st.sampled_from(RELATIONS),
        "sampling": st.sampled_from(["poisson", "wor"]),
        "geometry": st.sampled_from(GEOMETRIES),
    }
)
BIT = 1.0005  # the grid's own inaccuracy


@settings(max_examples=25, deadline=None)
@given(cases, st.floats(1.05, 2))
def test_more_of_anything_costs_more(case, factor):
    cost = epsilon(**case)

    def change(**other):
        return epsilon(**{**case, **other})

    assert change(noise_multiplier=case["noise_multiplier"] * factor) <= cost * BIT
    assert change(steps=math.ceil(case["steps"] * factor)) * BIT >= cost
    assert change(sampling_rate=min(1.0, case["sampling_rate"] * factor)) * BIT >= cost
    assert change(delta=case["delta"] * factor) <= cost * BIT
    assert change(geometry="free") * BIT >= cost
    assert change(accountant="rdp") * BIT >= cost
    if case["sampling"] == "poisson":
        assert epsilon(**{**case, "neighbours": "add_remove"}) <= cost * BIT
        assert change(sampling_rate=1.0, geometry=case["geometry"]) * BIT >= cost


@settings(max_examples=12, deadline=None)
@given(cases, st.floats(0.05, 20))
def test_the_multiplier_is_enough_and_barely(case, target):
    del case["noise_multiplier"]
    needed = noise_multiplier(epsilon=target, **case)
    assert epsilon(noise_multiplier=needed, **case) <= target
    if needed > 1.001e-3:
        assert epsilon(noise_multiplier=needed * (1 - 1e-3), **case) > target


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 100), st.integers(1, 1000), st.floats(1e-12, 1e-2))
def test_replacing_is_adding_with_half_the_noise(z, steps, delta):
    replaced = epsilon(noise_multiplier=z, steps=steps, delta=delta, neighbours="replace_one")
    added = epsilon(noise_multiplier=z / 2, steps=steps, delta=delta, neighbours="add_remove")
    assert replaced == pytest.approx(added, rel=1e-12)


@pytest.mark.parametrize("sampling", ["poisson", "wor"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_sampling_everyone_is_not_sampling(sampling, geometry, neighbours):
    found = epsilon(
        noise_multiplier=3,
        steps=16,
        sampling_rate=1,
        delta=1e-6,
        neighbours=neighbours,
        sampling=sampling,
        geometry=geometry,
    )
    # A batch of fixed size cannot grow by one unit: another one has to go.
    relation = "replace_one" if sampling == "wor" else neighbours
    mu = sensitivity_factor(geometry, relation) * 4 / 3
    assert found == pytest.approx(gaussian_epsilon(mu, 1e-6))
    nearly = epsilon(
        noise_multiplier=3,
        steps=16,
        sampling_rate=1 - 1e-9,
        delta=1e-6,
        neighbours=neighbours,
        sampling=sampling,
        geometry=geometry,
    )
    assert nearly == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, -math.inf, True, "1", None])
@pytest.mark.parametrize(
    "which", ["noise_multiplier", "steps", "sampling_rate", "delta", "epsilon"]
)
def test_bad_numbers_are_refused(which, bad):
    ask = noise_multiplier if which == "epsilon" else epsilon
    first = {"epsilon": 1.0} if which == "epsilon" else {"noise_multiplier": 1.0}
    rest = {"steps": 2, "sampling_rate": 0.5, "delta": 1e-5, "neighbours": "add_remove"}
    with pytest.raises(BudgetError, match="Expected"):
        ask(**{**first, **rest, which: bad})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"delta": 1.0}, "delta"),
        ({"delta": 1e-101}, "delta"),
        ({"sampling_rate": 1.1}, "sampling_rate"),
        ({"sampling_rate": 1e-10}, "sampling_rate"),
        ({"steps": 2.0}, "whole"),
        ({"steps": 10**9}, "whole"),
        ({"neighbours": None}, "replace_one.*add_remove"),
        ({"neighbours": "swap"}, "replace_one.*add_remove"),
        ({"sampling": "shuffle"}, "poisson"),
        ({"geometry": "sphere"}, "nonnegative"),
        ({"accountant": "moments"}, "rdp"),
        ({"noise_multiplier": 1e-4}, "noise_multiplier"),
    ],
)
def test_bad_choices_are_refused(bad, message):
    case = {"noise_multiplier": 1.0, "delta": 1e-5, "neighbours": "add_remove", **bad}
    with pytest.raises(BudgetError, match=message):
        epsilon(**case)


def test_a_target_out_of_reach_is_refused():
    with pytest.raises(BudgetError, match="larger epsilon"):
        noise_multiplier(
            epsilon=0.01, delta=1e-9, neighbours="add_remove", accountant="rdp-classic"
        )


def gaussian_steps(count=1, z=2.0, rate=None, **more):
    sampling = {} if rate is None else {"sampling": Poisson(rate)}
    return Steps(count, Gaussian(noise_multiplier=z), **sampling, **more)


def test_a_plan_of_plain_gaussians_is_exact():
    plan = Plan(gaussian_steps(3, 4.0), gaussian_steps(1, 2.0, geometry="box"), delta=1e-6)
    found, by = plan_epsilon(plan, "replace_one")
    assert by == "exact Gaussian profile"
    assert found == pytest.approx(gaussian_epsilon(math.sqrt(3 * 0.25 + 0.25), 1e-6), rel=1e-6)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("sampling", [Poisson(0.1), WithoutReplacement(10, 100)])
def test_a_plan_costs_what_its_steps_cost_and_the_grid_a_little(neighbours, sampling):
    ten = [Steps(1, Gaussian(noise_multiplier=1.5), sampling) for _ in range(10)]
    together = Steps(10, Gaussian(noise_multiplier=1.5), sampling)
    found, by = plan_epsilon(Plan(together, delta=1e-5), neighbours)
    assert by == "privacy loss distribution"
    assert found == pytest.approx(plan_epsilon(Plan(*ten, delta=1e-5), neighbours)[0], rel=1e-6)
    continuous = epsilon(
        noise_multiplier=1.5,
        steps=10,
        sampling_rate=0.1,
        delta=1e-5,
        neighbours=neighbours,
        sampling="poisson" if isinstance(sampling, Poisson) else "wor",
    )
    assert continuous < found < continuous * 1.0001
    assert plan_epsilon(Plan(together, delta=1e-5), neighbours, "rdp")[0] > found


def test_mixed_plans_cost_less_than_the_sum_and_more_than_each():
    parts = [
        gaussian_steps(50, 1.0, 0.02),
        gaussian_steps(1, 5.0),
        Steps(3, Laplace(0.1)),
        Steps(4, Exponential(0.1)),
    ]
    both, _ = plan_epsilon(Plan(*parts, delta=1e-6), "replace_one")
    alone = [plan_epsilon(Plan(part, delta=2.5e-7), "replace_one")[0] for part in parts]
    assert max(alone) < both < sum(alone)


def test_boxes_take_the_better_of_two_bounds():
    few = Steps(2, Gaussian(noise_multiplier=1.0), Poisson(0.99), "box")
    whole = Steps(2, Gaussian(noise_multiplier=1.0), geometry="box")
    found, by = plan_epsilon(Plan(few, delta=1e-6), "replace_one")
    assert by == "exact Gaussian profile"
    assert found == pytest.approx(plan_epsilon(Plan(whole, delta=1e-6), "replace_one")[0])


def test_laplace_plans_add_up_and_need_no_delta():
    plan = Plan(Steps(50, Laplace("0.02")), Steps(1, Laplace(1)), delta=0)
    assert plan_epsilon(plan, "add_remove") == (2.0, "pure epsilon")
    assert plan_epsilon(Plan(Steps(1, Laplace(1)), delta=1e-30), "add_remove")[0] <= 1
    found, by = plan_epsilon(Plan(Steps(20, Laplace(1)), delta=1e-5), "add_remove")
    assert by == "privacy loss distribution"
    assert found == pytest.approx(19.99, abs=0.01)


def test_exponential_plans_know_their_bounded_range():
    found, by = plan_epsilon(Plan(Steps(400, Exponential(1)), delta=1e-5), "replace_one")
    assert by == "bounded range (zCDP)"
    assert found == pytest.approx(exponential_epsilon(1.0, 400, 1e-5), rel=0.002)
    once, by = plan_epsilon(Plan(Steps(1, Exponential(1)), delta=1e-9), "replace_one")
    assert once <= 1


def test_plans_that_noise_on_a_grid_cannot_carry_are_refused():
    huge = Steps(10**6, Gaussian(noise_multiplier=2.0), numbers=10**8)
    with pytest.raises(BudgetError, match="fewer numbers"):
        plan_epsilon(Plan(huge, delta=1e-6), "add_remove")
    loud = gaussian_steps(100, 0.01)
    with pytest.raises(BudgetError, match="more noise"):
        plan_epsilon(Plan(loud, delta=1e-6), "add_remove")
    with pytest.raises(BudgetError, match="pld"):
        plan_epsilon(Plan(gaussian_steps(), delta=1e-6), "add_remove", "strong")
    with pytest.raises(BudgetError, match="replace_one"):
        plan_epsilon(Plan(gaussian_steps(), delta=1e-6), "swap")
