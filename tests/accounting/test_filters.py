"""What releases add to a ledger's sums, and that no admitted sequence costs more than promised."""

import math
import random
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtri
from scipy.stats import norm

import tacit
from tacit.accounting import filters, gaussian_delta, gaussian_epsilon, gaussian_mu
from tacit.accounting.dominating import divergence
from tacit.accounting.filters import Basic, GaussianFilter, RenyiFilter, accountant
from tacit.accounting.pairs import Pure
from tacit.spec.budget import Amounts
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential, Gaussian, Laplace
from tacit.spec.plan import Everyone, Plan, Poisson, Steps, WithoutReplacement

BUDGET = tacit.Budget(1, 1e-6)
REPLACE = NeighboringRelation.REPLACE_ONE
RELATIONS = ("add_remove", "replace_one")


def made(composition, neighbours="add_remove", budget=BUDGET):
    return accountant({"composition": composition, "neighbours": neighbours}, budget)


def planned(*steps):
    return {"plan": Plan(*steps, delta=1e-6).to_dict()}


def gaussian_event(mu):
    return {"dominated_by": {"gaussian": mu, "grid_loss": 1e-12}}


def first(amounts):
    return float(next(iter(amounts.by_name.values())))


# What a release adds


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.3, 3.0])
def test_gaussian_noise_adds_its_divergence_and_its_mu_squared(mu):
    renyi, gaussian = made("rdp"), made("gdp")
    event = gaussian_event(mu)
    assert first(renyi.cost(BUDGET, event)) == pytest.approx(renyi.order * mu**2 / 2, rel=1e-8)
    assert first(gaussian.cost(BUDGET, event)) == pytest.approx(mu**2, rel=1e-8)
    for each in (renyi, gaussian):  # its own delta is not needed: the release is Gaussian
        assert each.cost(BUDGET, event).by_name["extra_delta"] == 0
    assert gaussian.cost(BUDGET, event).by_name["grid_loss"] >= Decimal("1e-12")
    assert first(gaussian.cost(BUDGET, event)) >= mu**2  # rounded up


@pytest.mark.parametrize("epsilon", ["1e-8", "0.01", "0.5", "3", "40"])
def test_a_pure_release_adds_what_randomised_response_does(epsilon):
    alone = tacit.Budget(epsilon)
    renyi, gaussian = made("rdp"), made("gdp")
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        q, a = 1 - p, renyi.order
        exact = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
        divergence = renyi.cost(alone, {}).by_name["divergence"]
        mu_squared = gaussian.cost(alone, {}).by_name["mu_squared"]
        assert exact <= mpmath.mpf(str(divergence)) <= exact * (1 + mpmath.mpf("1e-6")) + 2e-15
        assert mu**2 <= mpmath.mpf(str(mu_squared)) <= mu**2 * (1 + mpmath.mpf("1e-6"))
    assert gaussian.cost(tacit.Budget(epsilon, 1e-7), {}).by_name["extra_delta"] == Decimal("1E-7")
    assert renyi.cost(tacit.Budget(epsilon, 1e-7), {}).by_name["extra_delta"] == Decimal("1E-7")


@pytest.mark.parametrize("exponent", np.arange(-13, -2, 0.37).tolist())
def test_what_a_weak_release_adds_is_not_rounded_down(exponent):
    """Where doubles cancel: mu was a millionth too small for a range of 1e-10, or 0."""
    epsilon = float(10.0**exponent)
    with mpmath.workdps(80):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
        found = mpmath.mpf(filters.pure_mu(epsilon))
        assert mu * (1 - mpmath.mpf("1e-10")) <= found <= mu * (1 + mpmath.mpf("1e-9"))
        for order in (1.1, 1.5, 22.0, 1e6):
            a, q = mpmath.mpf(order), 1 - p
            exact = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
            found = mpmath.mpf(divergence(Pure(epsilon), order))
            assert exact <= found <= exact * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("3e-14")


@pytest.mark.parametrize("composition", ["rdp", "gdp"])
@pytest.mark.parametrize("span", [1e-30, 1e-76, 1e-100])
def test_a_cost_next_to_nothing_is_a_decimal_that_a_ledger_reads_back(composition, span):
    each = made(composition)
    amounts = each.cost(BUDGET, {"dominated_by": {"bounded_range": span, "draws": 1}})
    assert first(amounts) > 0
    assert filters.charged(each, amounts.texts) == amounts


def test_the_facts_of_a_filter_are_read_back_at_the_smallest_delta():
    for composition in ("rdp", "gdp"):
        pins = {"composition": composition, "neighbours": "add_remove"}
        budget = tacit.Budget(1, 1e-100)
        new = accountant(pins, budget)
        assert accountant(pins, budget, new.facts) == new
    for leak in ("0", "-1e-9", "1", "no"):
        with pytest.raises(BudgetError, match="leak"):
            accountant(pins, budget, {"leak": leak})


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_sampling_adds_no_more_than_taking_everyone(neighbours):
    gaussian = made("gdp", neighbours)

    def cost(sampling):  # losses so large that transforms of their law are of no use
        return gaussian.cost(BUDGET, planned(Steps(3, Gaussian(noise_multiplier=0.25), sampling)))

    assert first(cost(Poisson(0.8))) <= first(cost(Everyone()))
    assert first(cost(Poisson(0.001))) < 0.5 * first(cost(Everyone()))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 10.0, 30.0])
def test_a_draw_of_bounded_range_is_no_worse_than_half_of_it_as_pure_epsilon(epsilon):
    # All pairs of two outcomes whose log odds are epsilon apart.
    s = np.linspace(-3 * epsilon - 5, 3 * epsilon + 5, 20001)
    with np.errstate(invalid="ignore"):
        mu = ndtri(expit(s + epsilon / 2)) - ndtri(expit(s - epsilon / 2))
    worst = np.nanmax(mu[np.isfinite(mu)])
    assert worst <= filters.ranged_mu(epsilon) * (1 + 1e-9)
    assert worst >= filters.ranged_mu(epsilon) * (1 - 1e-4)  # reached in the middle
    event = {"dominated_by": {"bounded_range": epsilon, "draws": 3}}
    expected = 3 * filters.pure_mu(epsilon / 2) ** 2
    assert first(made("gdp").cost(BUDGET, event)) == pytest.approx(expected, rel=1e-8)
    renyi = made("rdp")
    divergence = first(renyi.cost(BUDGET, event))
    assert divergence <= 3 * renyi.order * epsilon**2 / 8 * (1 + 1e-8)  # zCDP


@pytest.mark.parametrize("composition", ["rdp", "gdp"])
def test_the_relation_is_in_the_cost_of_a_lease(composition):
    def cost(neighbours, multiplier, geometry="free"):
        steps = Steps(7, Gaussian(noise_multiplier=multiplier), Everyone(), geometry)
        return first(made(composition, neighbours).cost(BUDGET, planned(steps)))

    unit = 7 / 3**2 if composition == "gdp" else 7 * 22 / 2 / 3**2
    assert cost("add_remove", 3.0) == pytest.approx(unit, rel=1e-8)
    assert cost("replace_one", 3.0) == pytest.approx(4 * unit, rel=1e-8)
    assert cost("replace_one", 3.0, "nonnegative") == pytest.approx(2 * unit, rel=1e-8)
    assert cost("replace_one", 6.0) == pytest.approx(cost("add_remove", 3.0), rel=1e-8)


def test_a_plan_adds_up_its_steps_of_all_types():
    steps = (
        Steps(3, Gaussian(noise_multiplier=5.0)),
        Steps(4, Laplace("0.1")),
        Steps(5, Exponential("0.2")),
    )
    together = made("gdp").cost(BUDGET, planned(*steps))
    mu_squared = 3 / 25 + 4 * filters.pure_mu(0.1) ** 2 + 5 * filters.ranged_mu(0.2) ** 2
    assert first(together) == pytest.approx(mu_squared, rel=1e-8)
    assert together.by_name["extra_delta"] == 0
    renyi = made("rdp")
    apart = sum(first(renyi.cost(BUDGET, planned(each))) for each in steps)
    assert first(renyi.cost(BUDGET, planned(*steps))) == pytest.approx(apart, rel=1e-8)


def test_sampled_steps_have_the_divergence_of_their_pairs():
    order, rate, mu = 22, 0.01, 0.5
    with mpmath.workdps(40):
        # The binomial sum (Mironov, Talwar and Zhang 2019), and the reverse by quadrature.
        q = mpmath.mpf(rate)
        total = sum(
            mpmath.binomial(order, k)
            * (1 - q) ** (order - k)
            * q**k
            * mpmath.exp(mpmath.mpf(k * (k - 1)) * mu**2 / 2)
            for k in range(order + 1)
        )
        forth = mpmath.log(total) / (order - 1)

        def reverse(x):
            p = mpmath.npdf(x)
            return p * ((1 - q) + q * mpmath.exp(mu * x - mpmath.mpf(mu) ** 2 / 2)) ** (1 - order)

        back = mpmath.log(mpmath.quad(reverse, mpmath.linspace(-30, 30, 61))) / (order - 1)
    exact = 100 * float(max(forth, back))
    lease = planned(Steps(100, Gaussian(noise_multiplier=1 / mu), Poisson(rate), numbers=1))
    cost = first(RenyiFilter("add_remove", float(order)).cost(BUDGET, lease))
    assert exact <= cost <= exact * (1 + 1e-6)


@pytest.mark.parametrize(
    ("neighbours", "sampling", "multiplier"),
    [
        ("add_remove", Poisson(0.01), 1.0),
        ("replace_one", Poisson(0.01), 2.0),
        ("replace_one", WithoutReplacement(20, 1000), 4.0),
    ],
)
def test_the_mu_of_a_lease_dominates_its_profile(neighbours, sampling, multiplier):
    """At every epsilon, by another computation of its losses."""
    count, leak = 200, 1e-6
    steps = Steps(count, Gaussian(noise_multiplier=multiplier), sampling)
    gaussian = GaussianFilter(neighbours, Decimal("1e-6"))
    mu = math.sqrt(first(gaussian.cost(BUDGET, planned(steps))))
    for low, delta in _profile(neighbours, sampling, multiplier, count):
        assert delta <= (leak + gaussian_delta(mu, low)) * (1 + 1e-4), low
    # And it is not far above what is needed: nine tenths of it would not do.
    short = [
        delta > leak + gaussian_delta(0.9 * mu, low)
        for low, delta in _profile(neighbours, sampling, multiplier, count)
    ]
    # (Without replacement the profile is that of one direction alone, which is a lower bound.)
    assert any(short) or isinstance(sampling, WithoutReplacement)


def _profile(neighbours, sampling, multiplier, count):
    """(epsilon, delta) of the steps, on a grid of losses of 0.0002, rounded to the nearest."""
    moved = 1.0 if neighbours == "add_remove" else 2.0
    rate, grid = sampling.rate, 2e-4
    x = np.linspace(-9 * multiplier, 9 * multiplier + moved, 400_001)
    width = x[1] - x[0]
    base = norm.pdf(x, 0, multiplier) * width
    if isinstance(sampling, Poisson) and neighbours == "replace_one":
        p = (1 - rate) * base + rate * norm.pdf(x, 1, multiplier) * width
        q = (1 - rate) * base + rate * norm.pdf(x, -1, multiplier) * width
    else:
        p, q = (1 - rate) * base + rate * norm.pdf(x, moved, multiplier) * width, base
    loss = np.rint(np.log(np.maximum(p, 1e-300) / np.maximum(q, 1e-300)) / grid).astype(int)
    masses = np.bincount(loss - loss.min(), p)
    size = 1 << math.ceil(math.log2(len(masses) * 8))
    power = np.fft.irfft(np.fft.rfft(masses, size) ** count, size)
    start = loss.min() * count
    # Cyclic: the bulk lies near the mean.
    mean = count * float((masses * (loss.min() + np.arange(len(masses)))).sum() / masses.sum())
    index = np.arange(size)
    losses = grid * (start + index + size * np.round((mean - start - index) / size))
    for epsilon in np.linspace(0, 3, 61):
        over = -np.expm1(np.minimum(epsilon - losses, 0))
        yield epsilon, float((np.maximum(power, 0) * over).sum()) - 1e-9


# Limits


@pytest.mark.parametrize("budget", [BUDGET, tacit.Budget("0.1", 1e-8), tacit.Budget(8, 1e-5)])
def test_a_release_at_the_limit_is_within_the_budget(budget):
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    gaussian, renyi = made("gdp", budget=budget), made("rdp", budget=budget)
    limits = gaussian.limits(budget).by_name
    mu, extra = math.sqrt(limits["mu_squared"]), float(limits["extra_delta"])
    loss = float(limits["grid_loss"])
    assert math.exp(loss) * (gaussian_delta(mu, epsilon - 2 * loss) + extra) <= delta
    assert gaussian_delta(mu * 1.02, epsilon) > delta  # little is given away
    limits, a = renyi.limits(budget).by_name, renyi.order
    most, extra = float(limits["divergence"]), float(limits["extra_delta"])
    # E (1 - e^(epsilon - loss))_+ <= E e^((a-1) loss) max_x (1 - e^(epsilon - x)) / e^((a-1) x)
    x = epsilon + np.linspace(0, 40 / a, 10**6)
    worst = np.max(-np.expm1(epsilon - x) * np.exp(-(a - 1) * x + (a - 1) * most))
    assert worst + extra <= delta
    assert worst + extra >= 0.95 * delta
    assert gaussian_epsilon(math.sqrt(2 * most / a), delta) <= epsilon


def test_the_order_is_near_the_best_for_gaussian_noise():
    for budget in (BUDGET, tacit.Budget("0.01", 1e-9), tacit.Budget(20, 1e-6)):
        order = made("rdp", budget=budget).order
        best = max(
            filters._largest_divergence(a, budget) / a
            for a in np.exp(np.linspace(0.1, 12, 4000)) + 0.05
        )
        assert filters._largest_divergence(order, budget) / order >= 0.97 * best


@pytest.mark.parametrize("composition", ["rdp", "gdp"])
def test_a_filter_needs_a_delta(composition):
    for bad in (tacit.Budget(1), tacit.Budget(501, 1e-6)):
        with pytest.raises(BudgetError, match="Expected a delta > 0"):
            made(composition, budget=bad)
    with pytest.raises(BudgetError, match='"basic", "rdp" or "gdp"'):
        made("zcdp")


@pytest.mark.parametrize("composition", ["basic", "rdp", "gdp"])
def test_a_laplace_release_that_costs_what_is_left_still_fits(composition):
    each = made(composition)
    spent = Amounts.none(each.names)
    for _ in range(5):
        left = each.left(spent, BUDGET)
        alone = tacit.Budget(left.epsilon / 2, left.delta / 2)
        assert each.cost(tacit.Budget(left.epsilon, left.delta), {}).within(
            each.limits(BUDGET) - spent
        )
        assert not each.cost(tacit.Budget(left.epsilon * Decimal("1.00001")), {}).within(
            each.limits(BUDGET) - spent
        )
        spent += each.cost(alone, {})
    assert each.left(each.limits(BUDGET), BUDGET).epsilon == 0
    # Near the least epsilon that there is, or that a divergence in doubles can tell from none.
    last = each.cost(tacit.Budget("3e-8" if composition == "rdp" else "1.9e-9"), {})
    rest = each.left(each.limits(BUDGET) - last, BUDGET).epsilon
    assert rest >= Decimal("1e-9")
    assert each.cost(tacit.Budget(rest), {}).within(last)


def test_raising_the_budget_keeps_the_order_and_loosens_every_limit():
    for composition in ("rdp", "gdp"):
        first_one = made(composition)
        again = accountant(
            {"composition": composition, "neighbours": "add_remove"},
            tacit.Budget(3, 1e-5),
            first_one.facts,
        )
        assert again == first_one
        for larger in (
            tacit.Budget(3, 1e-5),
            tacit.Budget("1.001", 1e-6),
            tacit.Budget(1, "1.1e-6"),
        ):
            assert first_one.limits(BUDGET).within(first_one.limits(larger))


# Against independent oracles


def _events(neighbours):
    """(what a ledger records, what it costs alone, dp-accounting's loss distribution of it)."""
    moved = 1.0 if neighbours == "add_remove" else 2.0

    def gaussian(mu):
        loss = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
        return gaussian_event(mu), tacit.Budget(9, 1e-7), loss

    def alone(epsilon, delta):
        given = common.DifferentialPrivacyParameters(epsilon, delta)
        loss = pld.from_privacy_parameters(given, value_discretization_interval=1e-3)
        return {}, tacit.Budget(epsilon, delta), loss

    def draws(epsilon, count):
        # One law of bounded range epsilon; the loss is spread evenly over both of its sides.
        given = common.DifferentialPrivacyParameters(epsilon / 2, 0)
        loss = pld.from_privacy_parameters(given, value_discretization_interval=1e-3)
        event = {"dominated_by": {"bounded_range": epsilon, "draws": count}}
        return event, tacit.Budget(9, 1e-7), loss.self_compose(count)

    def lease(multiplier, rate, count):
        sampling = Poisson(rate) if rate < 1 else Everyone()
        event = planned(Steps(count, Gaussian(noise_multiplier=multiplier), sampling, numbers=10))
        one = pld.from_gaussian_mechanism(
            multiplier / (moved if rate == 1 else 1),
            sampling_prob=rate,
            value_discretization_interval=1e-3,
            **(
                {} if rate == 1 or neighbours == "add_remove" else {"neighboring_relation": REPLACE}
            ),
        )
        return event, tacit.Budget(9, 1e-7), one.self_compose(count)

    return gaussian, alone, draws, lease


def _admitted(each, neighbours, seed, twin=None):
    """The epsilon at the budget's delta of a random sequence that the filter admits to its end."""
    chance = random.Random(seed)
    gaussian, alone, draws, lease = _events(neighbours)
    limits, spent, together = each.limits(BUDGET), Amounts.none(each.names), None
    refused = 0
    while refused < 20:
        match chance.randrange(5):
            case 0:
                event, cost, loss = gaussian(chance.choice([0.02, 0.08, 0.15]))
            case 1:
                event, cost, loss = alone(
                    chance.choice([0.01, 0.03, 0.1]), chance.choice([0, 1e-8])
                )
            case 2:
                event, cost, loss = draws(chance.choice([0.02, 0.1]), chance.choice([1, 4]))
            case 3:
                event, cost, loss = lease(chance.choice([20.0, 50.0]), 1.0, chance.choice([1, 5]))
            case _:
                event, cost, loss = lease(chance.choice([2.0, 4.0]), 0.01, chance.choice([20, 80]))
        amounts = (twin or each).cost(cost, event)
        if not (spent + amounts).within(limits):
            refused += 1
            continue
        spent += amounts
        together = loss if together is None else together.compose(loss)
    return together.get_epsilon_for_delta(float(BUDGET.delta))


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("composition", ["rdp", "gdp"])
@pytest.mark.parametrize("seed", range(4))
def test_no_admitted_sequence_costs_more_than_the_budget(composition, neighbours, seed):
    each = made(composition, neighbours)
    spent = _admitted(each, neighbours, seed)
    assert spent <= 1 + 0.005  # dp-accounting's losses are rounded up to multiples of 0.001
    assert spent > 0.6  # and most of the budget is used


@pytest.mark.parametrize("composition", ["rdp", "gdp"])
def test_a_filter_that_forgets_the_relation_is_caught(composition):
    each, twin = made(composition, "replace_one"), made(composition, "add_remove")
    assert max(_admitted(each, "replace_one", seed, twin) for seed in range(3)) > 1.1


class _Sampled:
    """A twin that takes steps of everyone for sampled ones."""

    def __init__(self, each):
        self.each, self.names = each, each.names

    def cost(self, alone, event):
        if "plan" in event:
            steps = [
                {**some, "sampling": {"type": "Poisson", "rate": 0.01}}
                for some in event["plan"]["steps"]
            ]
            event = {"plan": {**event["plan"], "steps": steps}}
        return self.each.cost(alone, event)


@pytest.mark.parametrize("composition", ["rdp", "gdp"])
def test_a_filter_that_takes_everyone_for_a_sample_is_caught(composition):
    each = made(composition)
    assert max(_admitted(each, "add_remove", seed, _Sampled(each)) for seed in range(3)) > 1.1


def _best_afterwards(spent_by_order):
    """A twin's rule: what was released may go on while some order still fits."""
    return any(
        first(spent) <= first(RenyiFilter("add_remove", a).limits(BUDGET))
        for a, spent in spent_by_order.items()
    )


def test_the_order_does_not_depend_on_what_was_released():
    # A pure release is cheaper at a large order, many small Gaussians at a small one.
    events = [({}, tacit.Budget("0.8"))]
    orders = (made("rdp").order, 200.0)
    spent = {
        a: sum(
            (RenyiFilter("add_remove", a).cost(cost, event) for event, cost in events),
            Amounts.none(RenyiFilter.names),
        )
        for a in orders
    }
    assert _best_afterwards(spent)  # the twin would let it pass
    fixed = made("rdp")
    assert not spent[fixed.order].within(fixed.limits(BUDGET))


# Adaptively chosen mu, exactly


def _delta_of_two(first_mu, then, epsilon):
    """delta of a Gaussian release and of what `then` chooses by its answer: (mu, leaked delta)."""
    x = np.linspace(-12, 12 + first_mu, 40_001)
    loss = first_mu * x - first_mu**2 / 2
    chosen = np.array([then(each) for each in loss])
    left = hockey_stick(np.maximum(chosen[:, 0], 1e-9), epsilon - loss)
    delta = chosen[:, 1] + (1 - chosen[:, 1]) * left
    return float(np.sum(norm.pdf(x, first_mu, 1) * delta) * (x[1] - x[0]))


def hockey_stick(mu, epsilon):
    """The exact profile of Gaussian noise, at negative epsilons too."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@settings(max_examples=10, deadline=None)
@given(share=st.floats(0.1, 0.9), cut=st.floats(-1, 1), stop=st.booleans())
def test_gaussians_chosen_by_earlier_answers_are_one_gaussian(share, cut, stop):
    total, epsilon = 1.0, 1.0
    one, rest = math.sqrt(share * total), math.sqrt((1 - share) * total)
    spends_all = _delta_of_two(one, lambda loss: (rest, 0.0), epsilon)
    assert spends_all == pytest.approx(hockey_stick(1.0, epsilon), rel=1e-5)
    chosen = _delta_of_two(one, lambda loss: (rest if (loss > cut) ^ stop else 0.0, 0.0), epsilon)
    assert chosen <= spends_all * (1 + 1e-4)


def test_delta_that_is_moved_by_what_was_answered_is_not_covered():
    """Why the delta of what is left out is fixed beforehand: a twin that moves it spends twice."""
    epsilon, delta = 1.0, 1e-3
    mu = gaussian_mu(epsilon, delta)  # a twin that reserves nothing
    small = gaussian_mu(epsilon, 0.05 * delta)
    rest = math.sqrt(mu**2 - small**2)

    def twin(loss):  # either the rest of mu^2 or the delta that is left, as the answer says
        return (rest, 0.0) if loss > 0.3 else (0.0, 0.95 * delta)

    assert gaussian_delta(small, epsilon) + 0.95 * delta <= delta * (
        1 + 1e-9
    )  # each branch alone fits
    assert _delta_of_two(small, twin, epsilon) > 1.15 * delta

    half = gaussian_mu(epsilon, 0.9 * delta)  # fixed: nine tenths for mu, one for what is left out
    rest_of_half = math.sqrt(half**2 - small**2)

    def reserved(loss):
        return (rest_of_half, 0.0) if loss > 0.3 else (0.0, 0.1 * delta)

    assert _delta_of_two(small, reserved, epsilon) <= delta


def test_many_gaussians_of_random_mu_have_the_law_of_one():
    """Monte Carlo: an analyst who spends more after unlikely answers. False alarm: 1e-6."""
    rng, runs, total = np.random.default_rng(3), 200_000, 2.0
    spent, loss = np.zeros(runs), np.zeros(runs)
    for _ in range(12):
        mu = np.where(loss > spent / 2, 0.6, 0.2)
        mu = np.minimum(mu, np.sqrt(np.maximum(total - spent, 0)))
        x = rng.normal(mu, 1)
        loss += mu * x - mu**2 / 2
        spent += mu**2
    rest = np.sqrt(np.maximum(total - spent, 0))
    loss += rest * rng.normal(rest, 1) - rest**2 / 2
    at = np.maximum(0, -np.expm1(1.0 - loss)).mean()
    exact = hockey_stick(math.sqrt(total), 1.0)
    assert abs(at - exact) < 4.9 * math.sqrt(exact / runs)


# What releases record


def test_basic_is_exact_decimal_sums():
    basic = Basic()
    spent = Amounts.none(basic.names)
    for _ in range(50):
        spent += basic.cost(tacit.Budget("0.02"), {})
    assert spent.within(basic.limits(tacit.Budget(1)))
    assert basic.left(spent, tacit.Budget(1)).epsilon == 0
    assert not (spent + basic.cost(tacit.Budget("1e-9"), {})).within(basic.limits(tacit.Budget(1)))
