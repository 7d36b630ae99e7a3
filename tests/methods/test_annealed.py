"""Annealed importance sampling: its path, its transitions, its weights, its evidence, its price.

Seeds are fixed; false-alarm rates are 1e-6 were they not.
"""

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import beta, chi2, kstest, norm

import tacit
from tacit.methods.method import Task
from tacit.methods.run import run
from tacit.sources.data import open_data
from tacit.spec.sums import BoundedSum
from tacit.wall.answers import read
from tacit.wall.steps.sums import resolve_sum
from tests.methods.test_metropolis import Watched

Annealed = tacit.methods.AnnealedImportance


def schema(levels=2, rows=None, neighbours="replace_one", most=None, default=None):
    column = tacit.Categorical("x", ["a", "b", "c"][:levels], default=default)
    unit = None if rows is None else "who"
    return tacit.Schema(
        column, unit=unit, max_rows_per_unit=rows, neighbours=neighbours, max_units=most
    )


DATA = {"x": ["a", "b", "b", "b", "", "b"], "who": [0, 0, 0, 1, 1, 1]}
BETA = tacit.BetaBernoulli("x", success="b", prior=(2, 1))
DIRICHLET = tacit.DirichletCategorical("x", prior=(1.0, 2.0, 1.5))


def path_of(method, model=BETA, held=None, units=1000):
    return method.start(Task(model, held or schema(), units)).path


def watched(method, model=BETA, held=None, data=None, seed=2):
    seen = []
    public = Watched(tacit.Public(data or DATA, held or schema(), seed=seed), seen)
    return run(method, model, public, seed=4), seen


# The path


@pytest.mark.parametrize("weights", ["choice", "noise", "none"])
@pytest.mark.parametrize("epsilon", [0.5, 2, 100])
def test_inverse_temperatures_double_from_the_prior_to_the_last(weights, epsilon):
    path = path_of(Annealed(epsilon, 1e-6, runs=4, weights=weights))
    inverse, ratios = path.inverse_temperatures, np.diff(np.log2(path.inverse_temperatures))
    assert 0 < inverse[0] <= 1 / (1000 * 0.25)
    assert np.all((ratios > 0.5) & (ratios <= 1 + 1e-9))
    assert inverse[-1] <= 1
    assert (inverse[-1] == 1) == (epsilon == 100)
    # Steps are as long as the last law is wide at least, and cost what the wall will charge.
    width = (1000 * 0.25 * inverse[-1] + BETA.walk(schema()).scale ** -2) ** -0.5
    assert path.lengths[-1] >= 4 * width * (1 - 1e-9)
    assert np.all(2 * inverse * path.lengths <= path.epsilons * (1 + 1e-9))
    assert np.all(np.diff(path.epsilons) > 0)
    assert np.all(np.diff(path.lengths) < 0)


def test_the_last_temperature_and_their_number_can_be_chosen():
    path = path_of(Annealed(1, 1e-6, temperature=3.0, temperatures=5))
    assert len(path.epsilons) == 5
    assert path.inverse_temperatures[-1] == 1 / 3
    single = path_of(Annealed(1, 1e-6, temperatures=1))
    assert len(single.epsilons) == 1


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [None, 3])
def test_each_step_is_drawn_at_the_temperature_of_its_level(neighbours, rows):
    held = schema(rows=rows, neighbours=neighbours, most=6)
    method = Annealed(5, 1e-6, runs=3, transitions=2, candidates=5, weights="none")
    post, seen = watched(method, held=held)
    path = method.start(Task(BETA, held, 6 if rows is None else 2, seed=4)).path
    if neighbours == "add_remove":
        path = method.start(Task(BETA, held, seed=4)).path
    drawn = [release.noise[0].scale for _, release in seen]
    expected = np.repeat(1 / path.inverse_temperatures, 6)
    np.testing.assert_allclose(drawn, expected, rtol=1e-9)
    assert any(f"T = {expected[-1]:.4g}" in text for text in post.certificate.assumptions)
    assert post.noise == "tempered"
    for query, _ in seen:
        assert query.scores.state[0].shape == (6, 2)
        assert query.scores.state[0].max() <= query.scores.bounds[0].clip  # none is clipped


# The law of the runs' ends


ENOUGH = {"runs": 80, "transitions": 3, "candidates": 20, "weights": "none"}


def test_runs_end_in_the_posterior():
    post, _ = watched(Annealed(1e5, 0, **ENOUGH))
    assert post.noise == "aware"
    assert kstest(post.flat("p"), beta(6, 2).cdf).pvalue > 1e-6


@pytest.mark.no_cover
def test_runs_of_three_levels_and_of_a_mean():
    held, data = schema(3), {"x": ["a"] * 4 + ["b"] * 9 + ["c"] * 2}
    post, _ = watched(Annealed(1e5, 0, **ENOUGH), DIRICHLET, held, data)
    p = post.flat("p")
    for j, a in enumerate((5, 11, 3.5)):
        assert kstest(p[:, j], beta(a, 19.5 - a).cdf).pvalue > 1e-6
    real = tacit.Schema(tacit.Real("x", 0, 10), neighbours="replace_one")
    x = np.clip(np.random.default_rng(3).normal(6, 2, 40), 0, 10)
    model = tacit.NormalMean("x", sd=2, prior=(5, 1))
    post, _ = watched(Annealed(1e5, 0, **ENOUGH), model, real, {"x": x})
    precision = 1 + 40 / 4
    law = norm((5 + x.sum() / 4) / precision, precision**-0.5)
    assert kstest(post.flat("mean"), law.cdf).pvalue > 1e-6


def test_integers_are_seen_as_what_they_are():
    held = tacit.Schema(tacit.Integer("x", 7, 8), neighbours="replace_one")
    model = tacit.BetaBernoulli("x", success=8, prior=(2, 1))
    post, _ = watched(Annealed(1e5, 0, **ENOUGH), model, held, {"x": [7, 8, 8, 8, 8]})
    assert kstest(post.flat("p"), beta(6, 2).cdf).pvalue > 1e-6


# The weights


def log_weights(method, held, seen, units):
    """Eq. 46 by hand, from the prior's draws and from what the choices say of each run."""
    state = method.start(Task(BETA, held, units, seed=4))
    for _, release in seen[: len(state.path.epsilons) * method.runs]:
        state = method.tell(state, release)
    rises = np.diff(state.path.inverse_temperatures, prepend=0.0)
    p = 1 / (1 + np.exp(-np.stack(state.points[:-1])[:, :, 0]))
    return rises @ (4 * np.log(p) + np.log1p(-p)), state


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("weights", ["choice", "noise"])
def test_weights_are_sums_of_log_likelihoods_over_rows(weights, rows):
    """None of them is clipped, and what is asked is the level and how runs differ from it."""
    held, units = schema(rows=rows), 6 if rows is None else 2
    method = Annealed(3, 1e-6, runs=3, candidates=5, weights=weights)
    _, seen = watched(method, held=held)
    by_hand, _ = log_weights(method, held, seen, units)
    query = seen[-1][0]
    asked = query if weights == "noise" else query.scores
    assert isinstance(asked, BoundedSum)
    resolved = resolve_sum(asked, held)
    law = resolved.exact()
    found = read(open_data(DATA, held), resolved, law).integers
    if weights == "choice":
        found = found * law[0].grid
        np.testing.assert_allclose(found - found[0], by_hand - by_hand[0], atol=1e-6)
        return
    grids = np.repeat([law[0].grid, law[1].grid], [1, 3])
    level, *spread = found * grids
    assert level == pytest.approx(by_hand.mean(), abs=1e-6)
    np.testing.assert_allclose(spread, by_hand - by_hand.mean(), atol=1e-6)


def test_runs_are_chosen_by_their_weights():
    method = Annealed(3, 1e-6, runs=5, candidates=5)
    post, seen = watched(method)
    _, state = log_weights(method, schema(), seen, 6)
    chosen = [int(release.value[0]) for _, release in seen[-5:]]
    ends = 1 / (1 + np.exp(-state.points[-1][chosen, 0]))
    np.testing.assert_allclose(post.flat("p"), ends)
    assert set(post.draws) == {"p"}  # choices do not tell the evidence
    assert any(f"{len(set(chosen))} of them were chosen" in a for a in post.certificate.assumptions)


# The evidence


def evidence_errors(method, model, held, make, exact, repeats):
    """Errors of the log evidence in units of the posterior's own standard deviation."""
    found = []
    for seed in range(repeats):
        data = make(np.random.default_rng(seed))
        post = tacit.fit(model, tacit.Public(data, held, seed=seed), method, seed=seed)
        (name,) = set(post.draws) - {"p"}
        draws = post.flat(name)
        found.append((draws.mean() - exact(data, name)) / draws.std())
        assert len(draws) == 1000
        assert draws.std() > 0
    return np.array(found)


@pytest.mark.no_cover
@pytest.mark.parametrize("default", [None, "a"])
def test_the_evidence_of_a_beta_with_an_honest_error(default):
    """With public rows and without, which the level's centre depends on."""
    held = schema(default=default)
    method = Annealed(20, 1e-6, runs=8, candidates=30, weights="noise", temperature=1.0)

    def make(rng):
        return {"x": rng.choice(["a", "b"], p=[0.2, 0.8], size=300)}

    def exact(data, name):
        assert name == "log_evidence"
        yes = int((data["x"] == "b").sum())
        return betaln(2 + yes, 1 + 300 - yes) - betaln(2, 1)

    z = evidence_errors(method, BETA, held, make, exact, 16)
    assert (z**2).sum() < chi2.ppf(1 - 1e-6, 16)
    assert (z**2).sum() > chi2.ppf(1e-6, 16)


@pytest.mark.no_cover
def test_a_tempered_evidence_is_named_so():
    held = schema(3, default="a")
    method = Annealed(2, 1e-6, runs=8, candidates=30, weights="noise")
    power = path_of(method, DIRICHLET, held, 300).inverse_temperatures[-1]
    assert power < 0.5

    def make(rng):
        return {"x": rng.choice(["a", "b", "c"], p=[0.2, 0.5, 0.3], size=300)}

    def exact(data, name):
        assert name == "log_tempered_evidence"
        prior = np.array(DIRICHLET.prior)
        a = prior + power * np.array([(data["x"] == level).sum() for level in "abc"])
        return gammaln(a).sum() - gammaln(a.sum()) - gammaln(prior).sum() + gammaln(prior.sum())

    z = evidence_errors(method, DIRICHLET, held, make, exact, 12)
    assert (z**2).sum() < chi2.ppf(1 - 1e-6, 12)


# The price


@pytest.mark.parametrize("weights", ["choice", "noise", "none"])
@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_it_is_charged_once_and_at_most_what_was_asked(weights, delta):
    if weights == "noise" and delta == "0":
        with pytest.raises(tacit.errors.BudgetError, match="delta"):
            Annealed(2, 0, weights="noise")
        return
    for neighbours in ("add_remove", "replace_one"):
        held = schema(neighbours=neighbours, most=10 if neighbours == "add_remove" else None)
        home = tacit.Wall(DATA, held, budget=tacit.Budget(9, "1e-4"), ledger=":memory:")
        post = tacit.fit(BETA, home, Annealed(2, delta, runs=4, weights=weights), seed=1)
        spent = 9 - float(home.remaining.epsilon)
        assert 1.98 < spent <= 2
        assert len(np.unique(post.flat("p"))) <= 4
        assert float(post.certificate.delta) == float(delta)


def test_weights_have_their_share():
    for weights, count in (("choice", 10), ("noise", 1)):
        plan = path_of(Annealed(2, 1e-6, weights=weights, weights_share=0.3)).plan
        moves = sum(s.count * float(s.mechanism.epsilon) ** 2 / 8 for s in plan.steps[:-1])
        last = plan.steps[-1]
        assert last.count == count
        if weights == "choice":
            paid = 10 * float(last.mechanism.epsilon) ** 2 / 8
        else:
            paid = (2 / last.mechanism.noise_multiplier) ** 2 / 2
        assert paid / (paid + moves) == pytest.approx(0.3, rel=1e-6)


def test_refusals_cost_nothing():
    home = tacit.Wall(DATA, schema(), budget=tacit.Budget(9, "1e-4"), ledger=":memory:")
    for option in ({"draws": 5}, {"chains": 2}):
        with pytest.raises(tacit.errors.ModelError):
            tacit.fit(BETA, home, Annealed(1, 1e-6), **option)
    assert home.remaining.epsilon == 9
    secret = tacit.Public(DATA, schema(neighbours="add_remove"))
    with pytest.raises(tacit.errors.ModelError, match="n_units"):
        tacit.fit(BETA, secret, Annealed(1, 1e-6))
    for bad in (
        {"weights": "own"},
        {"runs": 0},
        {"temperatures": 1.5},
        {"weights_share": 0},
        {"weights_share": 1},
        {"temperature": 0.5},
        {"candidates": 0},
    ):
        with pytest.raises(tacit.errors.ModelError):
            Annealed(1, 1e-6, **bad)
