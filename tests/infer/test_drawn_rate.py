"""What draws of a rate say about it. Statistical tests: false-alarm rate 1e-6 each."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, kstest

import tacit
from tacit.draws.conjugate import rate_weights
from tacit.infer.drawn_rate import DrawnRate
from tacit.testing import simulated_release

ALARM = 1e-6
COUNTS = tacit.GammaPoisson("x", prior=(3.0, 1.5))
WAITS = tacit.GammaExponential("x", prior=(4.0, 10.0))


def described(model, neighbours="replace_one", **options):
    column = tacit.Integer("x", 0, 12, default=0)
    if model is WAITS:
        column = tacit.Real("x", 0, 12, default=0)
    return tacit.Schema(column, neighbours=neighbours, **options)


def release_of(model, schema, mechanism, rows, *, draws=1, temper=False):
    query = model.draw_query(schema, truncation=None, draws=draws, temper_prior=temper)
    # a sum of values scaled from [0, 12] to [-1, 1], on the grid of `Moments`
    total = np.rint(np.sum(np.asarray(rows) / 6 - 1) * 2.0**30)
    public = schema.neighbours == "replace_one"
    value = [total] if public else [len(rows), total]
    return simulated_release(schema, query, mechanism, value, len(rows))


@pytest.mark.parametrize("model", [COUNTS, WAITS])
@pytest.mark.parametrize(("n", "temper"), [(0, False), (4, True), (10_000_000, False)])
def test_the_law_of_the_draw_is_the_walls(model, n, temper):
    """Over a sum's whole range for few rows, and over what can matter for many."""
    schema = described(model)
    mechanism = tacit.queries.Exponential(2)
    release = release_of(model, schema, mechanism, np.full(4, 2.0), draws=3, temper=temper)
    seen, scale = DrawnRate.of(release), release.noise[0].scale
    s = np.linspace(0.0, 12.0 * n, 9) if n < 100 else n * np.linspace(2.0, 2.003, 9)
    expected = []
    for total in s:
        scaled = total / 6 - n
        moments = np.array([[n, scaled], [scaled, 0.0]])
        log = rate_weights(release.query, moments, scale, schema)
        expected.append((log - logsumexp(log))[release.integers].sum())
    found = np.array([float(seen.log(s, n)[i]) for i in range(len(s))])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-4)


def ranks(model, n, epsilon, repeats, size=19):
    """Ranks of truths from the prior, bounded as the model has it, among posterior draws."""
    rng, schema = np.random.default_rng(n), described(model)
    found = []
    for seed in range(repeats):
        shape, per = model.prior
        truth = rng.gamma(shape, 1 / per)
        rows: np.ndarray = np.empty(0)
        while len(rows) < n:  # values beyond the cap are not seen
            more = rng.poisson(truth, n) if model is COUNTS else rng.exponential(1 / truth, n)
            rows = np.concatenate([rows, more[more <= 12]])
        release = release_of(model, schema, tacit.queries.Exponential(epsilon), rows[:n])
        posterior = model.posterior(release, draws=size, chains=1, seed=seed)
        found.append((posterior.draws["rate"] < truth).sum())
    return np.array(found)


def check_uniform(found, repeats):
    seen = np.bincount(found // 4, minlength=5)  # 20 ranks
    assert chi2.sf(((seen - repeats / 5) ** 2 / (repeats / 5)).sum(), 4) > ALARM, seen


@pytest.mark.parametrize(("model", "n"), [(COUNTS, 300), (WAITS, 60)])
def test_ranks_are_uniform(model, n):
    check_uniform(ranks(model, n, 4, 40), 40)


@pytest.mark.slow
@pytest.mark.parametrize("model", [COUNTS, WAITS])
@pytest.mark.parametrize(("n", "epsilon"), [(5, 2), (300, 1), (3000, 8)])
def test_ranks_are_uniform_often(model, n, epsilon):
    check_uniform(ranks(model, n, epsilon, 2000), 2000)


def test_many_draws_say_more_than_one():
    """Twenty draws at a high temperature are each wide; together they say more than one."""
    schema, rows = described(COUNTS), np.random.default_rng(1).poisson(2.0, 2000)
    mechanism = tacit.queries.Exponential(2, 1e-6)
    one, many = (release_of(COUNTS, schema, mechanism, rows, draws=k) for k in (1, 20))
    aware = [COUNTS.posterior(r, seed=1, draws=2000, chains=1).flat("rate") for r in (one, many)]
    assert abs(aware[1].mean() - 2.0) < 5 * aware[1].std()
    assert aware[1].std() < aware[0].std()
    assert aware[1].std() > 2.0**0.5 / 2000**0.5  # that of the rows themselves
    face = COUNTS.posterior(many, noise="plugin", draws=20, chains=1).flat("rate")
    assert set(np.round(face, 12)) == set(np.round(DrawnRate.of(many).rates, 12))


def test_an_unknown_number_of_rows_is_summed_out():
    schema = described(WAITS, "add_remove", max_units=200)
    release = release_of(WAITS, schema, tacit.queries.Exponential(2), np.full(150, 3.0))
    posterior = WAITS.posterior(release, draws=300, chains=1, seed=1)
    assert np.all(np.isfinite(posterior.summary()))
    assert 0 <= posterior.flat("rows").min() <= posterior.flat("rows").max() <= 200
    assert kstest(posterior.flat("rate"), lambda v: np.clip(v / 2, 0, 1)).pvalue < 1e-6
