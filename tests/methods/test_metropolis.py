"""Walks through the wall: their target, what they cost, what they refuse.

Runs are seeded. Tolerances are five standard errors of the mean of a chain whose draws are worth a
tenth of independent ones, a false-alarm rate of 1e-6 were the seeds not fixed.
"""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta, kstest, norm

import tacit
from tacit.draws.choice import resolve_choice
from tacit.kernels import KERNELS
from tacit.methods.method import Task
from tacit.methods.metropolis import choice_query, nearby
from tacit.methods.run import run
from tacit.sources.data import open_data
from tacit.wall.answers import read

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
    assert post.noise == "aware"  # the target is the posterior
    assert "the target is the posterior, at temperature 1" in post.certificate.assumptions
    check(p, beta(42, 21))


def test_a_choice_among_many_candidates_has_the_same_target():
    method = tacit.methods.PrivateMetropolis(1e5, steps=1500, step_size=1.2, candidates=20)
    p, _ = walked(method, coins(40, 20))
    check(p, beta(42, 21))
    rng = np.random.default_rng(1)
    for size in (1, 4):
        points = nearby(np.ones(size), 0.5, 30, rng)
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        assert points.shape == (31, size)
        assert np.all(points[0] == 1)
        assert 0.25 < apart.max() <= 0.5 + 1e-12


def test_a_penalty_walk_is_the_posteriors_whatever_the_noise():
    method = tacit.methods.PrivateMetropolis(
        450, 1e-6, steps=6000, acceptance="penalty", step_size=0.3, initial=0.4
    )
    seen = []
    public = Watched(tacit.Public(coins(120, 80), coin_schema(), seed=1), seen)
    post = run(method, MODEL, public, seed=2)
    noise = np.array([release.noise[0].scale for _, release in seen])
    assert 0.5 < noise.max() < 2  # not a quiet one
    # A shorter step has less: a uniform share of the longest, in one dimension.
    assert kstest(noise / noise.max(), "uniform").pvalue > 1e-6
    check(post.flat("p"), beta(122, 81), sd_within=0.25)
    assert post.noise == "aware"
    assert not any("tempered" in text for text in post.certificate.assumptions)


class Watched:
    """A releaser that keeps what was asked in its lease, and the answers."""

    def __init__(self, releaser, seen):
        self.releaser, self.seen = releaser, seen

    def __getattr__(self, name):
        return getattr(self.releaser, name)

    def prepay(self, plan, *, name=None):
        self.lease = self.releaser.prepay(plan)
        return self

    def release(self, query):
        self.seen.append((query, self.lease.release(query)))
        return self.seen[-1][1]


def penalty_step(steps, units):
    """The longest step, and the standard deviation of its noise."""
    method = tacit.methods.PrivateMetropolis(
        1, 1e-6, steps=steps, acceptance="penalty", n_units=units
    )
    task = Task(MODEL, coin_schema())
    state, (plan,) = method.start(task), method.plan(task).payments
    return state.length, plan.steps[0].mechanism.noise_multiplier * state.clip


@pytest.mark.parametrize("units", [None, 100])
def test_the_noise_of_the_longest_default_penalty_step_has_sd_one(units):
    """However many steps there are."""
    for steps in (100, 10_000):
        assert penalty_step(steps, units)[1] == pytest.approx(1)


def test_a_default_penalty_step_is_no_longer_than_the_posterior_is_wide():
    length, noise = penalty_step(100, 10**6)
    assert length == pytest.approx(2.4 / (0.25 * 10**6) ** 0.5)
    assert noise < 0.5


def test_the_default_step_of_a_choice_is_as_long_as_its_target_is_wide():
    method = tacit.methods.PrivateMetropolis(1, 1e-6, steps=4000, n_units=10_000)
    task = Task(MODEL, coin_schema())
    state, (plan,) = method.start(task), method.plan(task).payments
    temperature = 2 * state.clip / float(plan.steps[0].mechanism.epsilon)
    width = (temperature / (0.25 * 10_000)) ** 0.5
    assert state.length == pytest.approx(2.4 * width, rel=1e-6)


def test_a_chain_that_has_not_mixed_is_noted():
    method = tacit.methods.PrivateMetropolis(
        1, 1e-6, steps=60, acceptance="penalty", initial=-4.0, step_size=0.02
    )
    with pytest.warns(tacit.errors.InferenceWarning, match="not mixed"):
        _, post = walked(method, coins(4000, 2000))
    assert any("not mixed" in text for text in post.certificate.assumptions)


@pytest.mark.parametrize(
    ("epsilon", "temperature"), [pytest.param(2400, 5, marks=pytest.mark.slow), (1200, 10)]
)
@pytest.mark.no_cover
def test_at_a_moderate_epsilon_the_likelihood_alone_is_tempered(epsilon, temperature):
    p, post = walked(
        tacit.methods.PrivateMetropolis(epsilon, steps=6000, step_size=1.0), coins(54, 6)
    )
    assert post.releases[0].noise[0].scale == pytest.approx(temperature, rel=1e-5)
    assert post.noise == "tempered"
    assert any(f"T = {temperature}" in text for text in post.certificate.assumptions)
    check(p, beta(2 + 54 / temperature, 1 + 6 / temperature))


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
    log_prior = float(walk.log_prior(there) - walk.log_prior(here))
    p, q = expit(here[0]), expit(there[0])
    # densities on the scale of the log odds
    assert log_prior == pytest.approx(2 * np.log(q / p) + np.log((1 - q) / (1 - p)))
    query = choice_query(walk, np.stack([here, there]), 0.8 * (rows or 1))
    resolved = resolve_choice(query, schema)
    steps = read(open_data(data, schema), resolved, ()).integers
    grid = resolved.scores.exact()[0].grid
    exact = 7 * np.log(q / p) + 4 * np.log((1 - q) / (1 - p))
    assert (steps[1] - steps[0]) * grid == pytest.approx(exact, abs=20 * grid)
    assert resolved.query.log_weights == (0.0, pytest.approx(log_prior))
    # no row is clipped at the longest step, in either direction
    assert steps[1] * grid == pytest.approx(7 * np.log(q / p), abs=20 * grid)


def walks():
    real = tacit.Schema(tacit.Real("x", -2, 7), neighbours="replace_one")
    levels = tacit.Schema(tacit.Categorical("x", ["a", "b", "c", "d"]), neighbours="replace_one")
    dirichlet = tacit.DirichletCategorical("x", prior=(1.0, 2.0, 0.3, 1.0))
    return (
        (MODEL.walk(coin_schema()), (0.0, 1.0), 7.0),
        (tacit.NormalMean("x", sd=1.5).walk(real), (-2.0, 7.0, 2.5), 0.5),
        (dirichlet.walk(levels), (0.0, 1.0, 2.0, 3.0), 7.0),
    )


def of_row(walk, row, points, coefficients, **options):
    made, state = walk.combinations(points, coefficients, **options)
    kernel, out = KERNELS[made.name], np.zeros(len(coefficients))
    kernel.function(np.array([row]), kernel.frozen(state), out)
    return out


def test_a_step_clips_no_row():
    """The gradient bounds what a row says for a step of length one, for each model."""
    rng = np.random.default_rng(1)
    for walk, rows, wide in walks():
        worst, size = 0.0, walk.start.size
        for _ in range(2000):
            points = rng.uniform(-wide, wide, size) + rng.uniform(-0.5, 0.5, (2, size))
            for row in rows:
                said = of_row(walk, row, points, np.array([[-1.0, 1.0]]))
                worst = max(worst, abs(said[0]) / np.linalg.norm(points[1] - points[0]))
        assert 0.7 * walk.max_gradient < worst <= walk.max_gradient * (1 + 1e-9)


def test_combinations_are_linear_in_log_likelihoods():
    rng = np.random.default_rng(2)
    for walk, rows, _ in walks():
        points, mixed = rng.normal(size=(5, walk.start.size)), rng.normal(size=(3, 5))
        for row in rows:
            each = of_row(walk, row, points, np.eye(5))
            constants = rng.normal(size=3)
            found = of_row(walk, row, points, mixed, constants=constants)
            np.testing.assert_allclose(found, mixed @ each + constants, atol=1e-9)
            lifted = of_row(walk, row, points, np.eye(5), lifted=True)
            np.testing.assert_allclose(lifted, each - each.min(), atol=1e-9)


def test_draws_of_the_prior_have_its_density():
    """Ranks of draws under the density's own integral; levels by their Beta marginals."""
    for walk, _, _ in walks()[:2]:
        drawn = walk.draw_prior(np.random.default_rng(3), 20_000)[:, 0]
        grid = np.linspace(-40, 40, 80_001)
        density = np.exp(walk.log_prior(grid[:, None]))
        ranks = np.interp(drawn, grid, np.cumsum(density) / density.sum())
        assert kstest(ranks, "uniform").pvalue > 1e-6
    walk, _, _ = walks()[2]
    drawn = walk.draw_prior(np.random.default_rng(3), 20_000)
    log_p = walk.log_likelihoods(drawn)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=0), 1)
    prior = np.array([1.0, 2.0, 0.3, 1.0])
    for j, p in enumerate(np.exp(log_p)):
        assert kstest(p, beta(prior[j], prior.sum() - prior[j]).cdf).pvalue > 1e-6
    # The density of p on these axes is that of the Dirichlet times the product of all p.
    ratio = walk.log_prior(drawn) - prior @ log_p
    np.testing.assert_allclose(ratio, 0, atol=1e-9)


@pytest.mark.no_cover
def test_levels_have_their_dirichlet_posterior():
    levels = tacit.Schema(tacit.Categorical("x", ["a", "b", "c"]), neighbours="replace_one")
    model = tacit.DirichletCategorical("x", prior=(1.0, 2.0, 1.5))
    method = tacit.methods.PrivateMetropolis(1e5, steps=3000, step_size=1.5, candidates=20)
    data = {"x": ["a"] * 30 + ["b"] * 20 + ["c"] * 10}
    p, _ = walked(method, data, model, levels)
    for j, a in enumerate((31, 22, 11.5)):
        check(p[:, j], beta(a, 64.5 - a))


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
        lambda: tacit.methods.PrivateMetropolis(1, candidates=0),
        lambda: tacit.methods.PrivateMetropolis(1, 1e-6, acceptance="penalty", candidates=2),
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
