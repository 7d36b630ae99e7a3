"""Annealed importance sampling: its weights, its normalising constant, its price.

The constant's estimate is unbiased: means over repeats are compared with the exact one by their
standard error. Seeds are fixed.
"""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import betainc, betaln
from scipy.stats import kstest

import tacit
from tacit.accounting.draws import draw_range
from tacit.draws.choice import resolve_choice
from tacit.methods.run import run
from tacit.sources.data import open_data
from tacit.spec.wire import digest
from tacit.wall.steps.sums import resolve_sum

CUT = 0.1


def schema(levels=2, rows=None, neighbours="replace_one", most=None):
    column = tacit.Categorical("x", ["a", "b", "c"][:levels])
    unit = None if rows is None else "who"
    return tacit.Schema(
        column, unit=unit, max_rows_per_unit=rows, neighbours=neighbours, max_units=most
    )


DATA = {"x": ["a", "b", "b", "b", "", "b"], "who": [0, 0, 0, 1, 1, 1]}
BETA = tacit.BetaBernoulli("x", success="b", prior=(2, 1))
DIRICHLET = tacit.DirichletCategorical("x", prior=(1.0, 2.0, 1.5))


def rich(model, held, runs, temperatures):
    """So much epsilon that the last draws are at temperature 1 and the noise is small."""
    law = model.draw_query(held, truncation=CUT, draws=1, temper_prior=False).law
    each = draw_range(law, held) * (1 + 1e-9)
    total = each * (runs * (temperatures + 1) / 2 + 1000) * 1.0001
    return tacit.methods.AnnealedImportance(
        total,
        truncation=CUT,
        runs=runs,
        temperatures=temperatures,
        weights="laplace",
        weights_share=1000,
    )


def powers_of(method, model, held):
    law = model.draw_query(held, truncation=CUT, draws=1, temper_prior=False).law
    return method.inverse_temperatures(law, held)


def evidences(model, held, repeats, runs=8, temperatures=3, data=DATA):
    method = rich(model, held, runs, temperatures)
    found = []
    for seed in range(repeats):
        post = tacit.fit(model, tacit.Public(data, held, seed=seed), method, seed=seed)
        values = post.flat("log_evidence")
        assert len(values) == runs
        assert len(set(values)) == 1
        found.append(values[0])
    assert powers_of(method, model, held)[-1] == pytest.approx(1)
    return np.array(found)


def agrees(logs, exact):
    ratio = np.exp(logs - exact)
    return abs(ratio.mean() - 1) < 5 * ratio.std(ddof=1) / len(ratio) ** 0.5


def beta_evidence(yes, no, prior=(2, 1)):
    def log(a, b):
        low, high = betainc(a, b, [CUT, 1 - CUT])
        return betaln(a, b) + np.log(high - low)

    return log(prior[0] + yes, prior[1] + no) - log(*prior)


@pytest.mark.parametrize("rows", [None, 3])
def test_the_normalising_constant_of_a_beta(rows):
    """Also with several rows a unit, which the weights' bound must leave alone."""
    logs = evidences(BETA, schema(rows=rows), 12)
    assert agrees(logs, beta_evidence(4, 1))
    assert not agrees(logs, beta_evidence(3, 1))
    assert np.std(logs) < 0.5


def test_the_normalising_constant_of_three_levels():
    counts, prior = np.array([1, 3, 1]), np.array(DIRICHLET.prior)
    data = {"x": ["a", "b", "b", "b", "c", "?"]}

    def integral(power):
        def kernel(y, x):
            return x ** (power[0] - 1) * y ** (power[1] - 1) * (1 - x - y) ** (power[2] - 1)

        return dblquad(kernel, CUT, 1 - 2 * CUT, CUT, lambda x: 1 - CUT - x)[0]

    exact = np.log(integral(prior + counts) / integral(prior))
    logs = evidences(DIRICHLET, schema(3), 12, data=data)
    assert agrees(logs, exact)
    assert not agrees(logs, exact + 0.5)


def test_integers_are_seen_as_what_they_are():
    held = tacit.Schema(tacit.Integer("x", 7, 8), neighbours="replace_one")
    model = tacit.BetaBernoulli("x", success=8, prior=(2, 1))
    logs = evidences(model, held, 8, data={"x": [7, 8, 8, 8, 8]})
    assert agrees(logs, beta_evidence(4, 1))


def test_powers_rise_from_nothing():
    held = schema()
    for epsilon, delta in ((1, 0), (5, "1e-6"), (1e4, 0)):
        for weights in ("choice", "laplace"):
            method = tacit.methods.AnnealedImportance(
                epsilon, delta, truncation=CUT, runs=4, temperatures=6, weights=weights
            )
            powers = powers_of(method, BETA, held)
            assert powers[0] == 0
            assert len(powers) == 7
            assert np.all(np.diff(powers) >= 0)
            assert powers[1] > 0
            assert powers[-1] <= 1
    assert powers[-1] == 1
    hot = powers_of(tacit.methods.AnnealedImportance(1, truncation=CUT, temperatures=4), BETA, held)
    np.testing.assert_allclose(np.diff(hot, 2), 0, atol=1e-9)  # evenly


class Recorder:
    """A releaser that remembers what was asked in its lease."""

    def __init__(self, releaser):
        self.releaser, self.asked = releaser, []

    schema = property(lambda self: self.releaser.schema)
    remaining = property(lambda self: self.releaser.remaining)

    def quote(self, query, mechanism):
        return self.releaser.quote(query, mechanism)

    def prepay(self, plan, *, name=None):
        self.lease = self.releaser.prepay(plan)
        return self

    def release(self, query):
        self.asked.append((query, self.lease.release(query)))
        return self.asked[-1][1]


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("weights", ["choice", "laplace"])
def test_weights_are_sums_of_log_likelihoods_over_rows(weights, rows):
    """Computed by hand from the draws that were released, and none of them clipped."""
    held, runs, temperatures = schema(rows=rows), 3, 2
    recorder = Recorder(tacit.Public(DATA, held, seed=2))
    method = tacit.methods.AnnealedImportance(
        3, truncation=CUT, runs=runs, temperatures=temperatures, weights=weights
    )
    run(method, BETA, recorder, seed=4)
    query = recorder.asked[-1][0]
    scores = query.scores if weights == "choice" else query
    resolved = resolve_sum(scores, held)
    law = resolved.exact()
    steps = resolved.evaluate(open_data(DATA, held), law).integers * law[0].grid
    powers = powers_of(method, BETA, held)
    drawn = [release.value[1] for _, release in recorder.asked[: runs * temperatures]]
    (temperature,) = {r.noise[0].scale for _, r in recorder.asked[:runs]}
    assert powers[1] == pytest.approx(1 / temperature)
    # the first level's places come from the prior and a seed of ours: eliminate them
    second = np.array(drawn[:runs])
    sign = 1 if weights == "choice" else -1
    by_hand = (powers[2] - powers[1]) * (4 * np.log(second) + np.log1p(-second))
    rest = sign * steps - by_hand  # what the prior's places add, and a constant
    table = scores.state[0]
    assert table.shape == (runs, 2)
    np.testing.assert_allclose(steps, 4 * table[:, 1] + table[:, 0], atol=1e-6)
    first = powers[1] * _log_places(runs, seed=4) @ [1, 4]
    np.testing.assert_allclose(np.diff(rest), np.diff(first), atol=1e-6)


def _log_places(runs, seed):
    from tacit.laws import truncated_dirichlet

    rng = np.random.default_rng([seed, 0])
    prior = np.tile([1.0, 2.0], (runs, 1))
    return np.log(truncated_dirichlet.sample(prior, CUT, rng.random))


def test_runs_are_chosen_by_their_weights_at_the_plans_temperature():
    held = schema()
    recorder = Recorder(tacit.Public(DATA, held, seed=2))
    method = tacit.methods.AnnealedImportance(
        3, truncation=CUT, runs=5, temperatures=2, weights_share=2
    )
    post = run(method, BETA, recorder, seed=4)
    query, release = recorder.asked[-1]
    assert len({digest(asked.to_dict()) for asked, _ in recorder.asked[-5:]}) == 1
    resolved = resolve_choice(query, held)
    price = float(method._plan(held).steps[-1].mechanism.epsilon)
    assert release.noise[0].scale == pytest.approx(max(1, resolved.span / price))
    ends = np.array([r.value[1] for _, r in recorder.asked[5:10]])
    chosen = [int(r.value[0]) for _, r in recorder.asked[10:]]
    np.testing.assert_array_equal(post.flat("p"), ends[chosen])
    with pytest.raises(tacit.TacitError):
        post.flat("log_evidence")  # choices do not tell it


def test_the_last_level_has_the_tempered_posteriors_law():
    """Weights by choice at a high price leave draws that are near it already."""
    held = schema()
    method = tacit.methods.AnnealedImportance(100, truncation=CUT, runs=400, temperatures=1)
    recorder = Recorder(tacit.Public(DATA, held, seed=3))
    run(method, BETA, recorder, seed=1)
    power = powers_of(method, BETA, held)[-1]
    assert 0 < power < 0.2
    drawn = np.array([r.value[1] for _, r in recorder.asked[:400]])
    a, b = 2 + 4 * power, 1 + power
    low, high = betainc(a, b, [CUT, 1 - CUT])
    assert kstest(drawn, lambda v: (betainc(a, b, v) - low) / (high - low)).pvalue > 1e-6


@pytest.mark.parametrize("weights", ["choice", "laplace"])
@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_it_is_charged_once_and_at_most_what_was_asked(weights, delta):
    for neighbours in ("add_remove", "replace_one"):
        held = schema(neighbours=neighbours, most=10 if neighbours == "add_remove" else None)
        home = tacit.Wall(DATA, held, budget=tacit.Budget(9, "1e-4"), ledger=":memory:")
        method = tacit.methods.AnnealedImportance(
            2, delta, truncation=CUT, runs=4, temperatures=3, weights=weights
        )
        post = tacit.fit(BETA, home, method, seed=1)
        spent = 9 - float(home.remaining.epsilon)
        assert 1.98 < spent <= 2
        assert len(post.flat("p")) == 4
        assert np.all((post.flat("p") >= CUT) & (post.flat("p") <= 1 - CUT))
        assert float(post.certificate.delta) == float(delta)


def test_refusals_cost_nothing():
    home = tacit.Wall(DATA, schema(), budget=tacit.Budget(9), ledger=":memory:")
    method = tacit.methods.AnnealedImportance(1, truncation=CUT)
    for option in ({"draws": 5}, {"chains": 2}):
        with pytest.raises(tacit.errors.ModelError):
            tacit.fit(BETA, home, method, **option)
    with pytest.raises(tacit.TacitError):
        tacit.fit(BETA, home, tacit.methods.AnnealedImportance(1, truncation=0.6))
    assert home.remaining.epsilon == 9
    for bad in ({"weights": "own"}, {"runs": 0}, {"temperatures": 1.5}, {"weights_share": 0}):
        with pytest.raises(tacit.errors.ModelError):
            tacit.methods.AnnealedImportance(1, truncation=CUT, **bad)
