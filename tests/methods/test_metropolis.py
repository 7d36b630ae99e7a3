"""Walks through the wall: their target, what they cost, what they refuse.

Runs are seeded. Tolerances are five standard errors of the mean of a chain whose draws are worth a
tenth of independent ones, a false-alarm rate of 1e-6 were the seeds not fixed.
"""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta, norm

import tacit
from tacit.draws.choice import resolve_choice
from tacit.kernels import KERNELS
from tacit.methods.metropolis import barker_query
from tacit.sources.data import open_data

ALARM_SD = 5
WORTH = 0.1


def coins(yes, no, *, missing=3):
    return {"x": ["yes"] * yes + ["no"] * no + [""] * missing}


def coin_schema(neighbours="replace_one"):
    return tacit.Schema(tacit.Categorical("x", ["no", "yes"]), neighbours=neighbours)


MODEL = tacit.BetaBernoulli("x", success="yes", prior=(2, 1))


def check(draws, law, sd_within=0.15):
    error = law.std() / np.sqrt(WORTH * len(draws))
    assert draws.mean() == pytest.approx(law.mean(), abs=ALARM_SD * error)
    assert draws.std() == pytest.approx(law.std(), rel=sd_within)


def walked(method, data, model=MODEL, schema=None, variable="p"):
    public = tacit.Public(data, schema or coin_schema(), seed=1)
    post = tacit.fit(model, public, method, seed=2)
    return post.flat(variable), post


# The target


@pytest.mark.parametrize("acceptance", ["barker", "metropolis"])
def test_at_a_large_epsilon_the_walk_is_the_posteriors(acceptance):
    method = tacit.methods.PrivateMetropolis(1e5, steps=6000, step_size=1.2, acceptance=acceptance)
    p, post = walked(method, coins(40, 20))
    assert len(p) == 3000
    assert post.noise == "tempered"
    check(p, beta(42, 21))


def test_a_penalty_walk_is_the_posteriors_whatever_the_noise():
    method = tacit.methods.PrivateMetropolis(
        450, 1e-6, steps=6000, acceptance="penalty", step_size=0.3, initial=0.4
    )
    p, post = walked(method, coins(120, 80))
    assert 0.5 < post.releases[0].noise[0].scale < 2  # not a quiet one
    check(p, beta(122, 81), sd_within=0.25)


@pytest.mark.parametrize(
    ("epsilon", "heat"), [pytest.param(2400, 5, marks=pytest.mark.slow), (1200, 10)]
)
@pytest.mark.no_cover
def test_at_a_moderate_epsilon_the_likelihood_is_tempered_and_the_prior_is_not(epsilon, heat):
    p, post = walked(
        tacit.methods.PrivateMetropolis(epsilon, steps=6000, step_size=1.0), coins(54, 6)
    )
    assert post.releases[0].noise[0].scale == pytest.approx(heat, rel=1e-5)
    check(p, beta(2 + 54 / heat, 1 + 6 / heat))


@pytest.mark.no_cover
def test_a_normal_mean():
    rng = np.random.default_rng(3)
    x = np.clip(rng.normal(6, 2, 50), 0, 10)
    schema = tacit.Schema(tacit.Real("x", 0, 10), neighbours="add_remove")
    model = tacit.NormalMean("x", sd=2, prior=(5, 1))
    precision = 1 + 50 / 4
    law = norm((5 + x.sum() / 4) / precision, precision**-0.5)
    method = tacit.methods.PrivateMetropolis(1e5, steps=5000, step_size=0.15)
    mean, _ = walked(method, {"x": x}, model, schema, "mean")
    check(mean, law)


@pytest.mark.no_cover
def test_integers_are_seen_as_what_they_are():
    """A map sees the value of an integer, not its place among the labels."""
    schema = tacit.Schema(tacit.Integer("x", 3, 5), neighbours="replace_one")
    model = tacit.BetaBernoulli("x", success=[4, 5], prior=(2, 1))
    data = {"x": [3] * 20 + [4] * 30 + [5] * 10}
    p, _ = walked(
        tacit.methods.PrivateMetropolis(1e5, steps=3000, step_size=1.2), data, model, schema
    )
    check(p, beta(42, 21))


@pytest.mark.parametrize("rows", [None, 3])
def test_the_question_is_the_log_ratio_of_the_posterior(rows):
    """Exactly: what speaks for going, less what speaks for staying, and the prior's say."""
    unit = None if rows is None else "who"
    schema = tacit.Schema(
        tacit.Categorical("x", ["no", "yes"]),
        neighbours="replace_one",
        unit=unit,
        max_rows_per_unit=rows,
    )
    data = coins(7, 4, missing=1) | {"who": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]}
    walk = MODEL.walk(schema)
    here, there = np.array([-0.3]), np.array([0.5])
    log_prior = walk.log_prior(there) - walk.log_prior(here)
    p, q = expit(here[0]), expit(there[0])
    # densities on the scale of the log odds
    assert log_prior == pytest.approx(2 * np.log(q / p) + np.log((1 - q) / (1 - p)))
    query = barker_query(walk, here, there, 0.8 * (rows or 1), log_prior)
    resolved = resolve_choice(query, schema)
    steps = resolved.evaluate(open_data(data, schema), ()).integers
    grid = resolved.scores.exact()[0].grid
    exact = 7 * np.log(q / p) + 4 * np.log((1 - q) / (1 - p))
    assert (steps[1] - steps[0]) * grid == pytest.approx(exact, abs=20 * grid)
    assert resolved.query.log_weights == (0.0, pytest.approx(log_prior))
    # no row is clipped at the longest step, in either direction
    assert steps[1] * grid == pytest.approx(7 * np.log(q / p), abs=20 * grid)


def test_a_walk_is_no_longer_than_its_step_and_clips_no_row():
    """The slope bounds what a row says for a step of length one, for both models."""
    rng = np.random.default_rng(1)
    real = tacit.Schema(tacit.Real("x", -2, 7), neighbours="replace_one")
    for walk, rows in (
        (MODEL.walk(coin_schema()), (0.0, 1.0)),
        (tacit.NormalMean("x", sd=1.5).walk(real), (-2.0, 7.0, 2.5)),
    ):
        worst, out = 0.0, np.zeros(1)
        kernel = KERNELS[walk.ratio.name]
        for _ in range(2000):
            here, there = rng.uniform(-1, 1, (2, 1))
            for row in rows:
                kernel.function(np.array([row]), kernel.frozen(walk.state(here, there)), out)
                worst = max(worst, abs(out[0]) / abs(there - here)[0])
        assert 0.7 * walk.max_gradient < worst <= walk.max_gradient * (1 + 1e-9)


# What it costs


def wall(budget=(20, "1e-5"), ledger=":memory:"):
    return tacit.Wall(coins(40, 20), coin_schema(), budget=tacit.Budget(*budget), ledger=ledger)


@pytest.mark.parametrize("acceptance", ["barker", "penalty"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_it_is_charged_once_and_at_most_what_was_asked(acceptance, delta, tmp_path):
    if acceptance == "penalty" and delta == "0":
        with pytest.raises(tacit.errors.BudgetError, match="delta"):
            tacit.methods.PrivateMetropolis(2, 0, acceptance=acceptance)
        return
    home = wall(ledger=tmp_path / "ledger")
    method = tacit.methods.PrivateMetropolis(2, delta, steps=40, acceptance=acceptance)
    post = tacit.fit(MODEL, home, method, seed=1)
    assert len(post.flat("p")) == 20
    entries = tacit.Ledger(tmp_path / "ledger").entries()
    assert [entry["kind"] for entry in entries] == ["created", "charge"]
    spent = 20 - float(home.remaining.epsilon)
    assert 1.99 < spent <= 2
    assert float(post.certificate.epsilon) == pytest.approx(spent)
    assert float(post.certificate.delta) == float(delta)
    (steps,) = entries[1]["event"]["plan"]["steps"]
    assert steps["steps"] == 40
    if acceptance == "barker" and delta == "0":
        assert float(steps["mechanism"]["epsilon"]) == pytest.approx(0.05, rel=1e-3)


def test_a_budget_that_is_too_small_costs_nothing():
    home = wall(budget=(1, 0))
    with pytest.raises(tacit.OverBudgetError):
        tacit.fit(MODEL, home, tacit.methods.PrivateMetropolis(2, steps=10))
    assert home.remaining.epsilon == 1


# What it refuses


def test_the_metropolis_rule_is_for_public_data():
    home = wall()
    method = tacit.methods.PrivateMetropolis(2, steps=10, acceptance="metropolis")
    with pytest.raises(tacit.errors.BudgetError, match="probability of a rejection") as caught:
        tacit.fit(MODEL, home, method)
    assert "every data set" in str(caught.value)
    assert "barker" in str(caught.value)
    assert home.remaining.epsilon == 20


@pytest.mark.parametrize("option", [{"draws": 10}, {"chains": 2}])
def test_draws_and_chains_are_refused_before_any_charge(option):
    home = wall()
    with pytest.raises(tacit.errors.ModelError, match=next(iter(option))):
        tacit.fit(MODEL, home, tacit.methods.PrivateMetropolis(2, steps=10), **option)
    assert home.remaining.epsilon == 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: tacit.methods.PrivateMetropolis(1, acceptance="gibbs"),
        lambda: tacit.methods.PrivateMetropolis(1, step_size=0),
        lambda: tacit.methods.PrivateMetropolis(1, step_size=float("nan")),
        lambda: tacit.methods.PrivateMetropolis(1, steps=0),
        lambda: tacit.methods.PrivateMetropolis(1, steps=2.5),
        tacit.methods.PrivateMetropolis,
    ],
)
def test_senseless_walks_are_refused(make):
    with pytest.raises(tacit.TacitError):
        make()


@pytest.mark.parametrize("start", [[0.0, 1.0], float("nan"), [[0.0]]])
def test_a_start_must_be_a_place(start):
    home = wall()
    with pytest.raises(tacit.errors.ModelError, match="initial"):
        tacit.fit(MODEL, home, tacit.methods.PrivateMetropolis(1, steps=10, initial=start))
    assert home.remaining.epsilon == 20


# Seeds


def test_seeds_repeat_on_public_data_and_not_on_a_wall():
    method = tacit.methods.PrivateMetropolis(50, steps=60, step_size=1.0)
    public = [
        tacit.fit(MODEL, tacit.Public(coins(40, 20), coin_schema(), seed=s), method, seed=t)
        for s, t in ((1, 1), (1, 1), (2, 1), (1, 2))
    ]
    first, again, other_noise, other_walk = (post.flat("p") for post in public)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other_noise)
    assert not np.array_equal(first, other_walk)
    home = wall(budget=(200, 0))
    one, two = (tacit.fit(MODEL, home, method, seed=1).flat("p") for _ in range(2))
    assert not np.array_equal(one, two)
