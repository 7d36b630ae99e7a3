"""What draws of a mean say about it. Statistical tests: false-alarm rate 1e-6 each."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2, kstest, norm, truncnorm

import tacit
from tacit.infer.latent_sum import DrawnMean, RowsSeen
from tacit.testing import simulated_release

ALARM = 1e-6
SIGMAS = 4.9
STEP = 2.0**-30  # of a sum
EVERYWHERE = (-np.inf, np.inf)


def described(neighbours="replace_one", default=0.0, bounds=(-1.0, 1.0), **options):
    return tacit.Schema(tacit.Real("x", *bounds, default=default), neighbours=neighbours, **options)


def release_of(model, schema, mechanism, rows, units, *, truncation=None, draws=1, temper=False):
    """A draw from rows, scaled to [-1, 1]."""
    query = model.draw_query(schema, truncation=truncation, draws=draws, temper_prior=temper)
    steps = np.rint(np.sum(rows) / STEP)
    public = schema.neighbours == "replace_one" and schema["x"].default is not None
    value = [steps] if public else [len(rows), steps]
    return simulated_release(schema, query, mechanism, value, units)


def log_draws(release, s, n):
    """log p(draws | sum, rows), written out."""
    law, temperature = release.query.law, release.noise[0].scale
    kept = temperature if release.query.temper_prior else 1.0
    precision = 1 / (law.prior[1] ** 2 * kept) + n / (temperature * law.sd**2)
    centre = (law.prior[0] / (law.prior[1] ** 2 * kept) + s / (temperature * law.sd**2)) / precision
    sd = precision**-0.5
    origin, unit = law.low, law.high - law.low
    if not law.bounded:
        origin, unit = law.prior[0], law.prior[1] * np.sqrt(kept)
    drawn = origin + unit * release.table("mean").value
    ends = (law.low - centre) / sd, (law.high - centre) / sd
    return sum(truncnorm.logpdf(x, *ends, loc=centre, scale=sd) for x in drawn)


def brute_force(release, model, ns, weights, nodes=401):
    """The posterior of the mean on a grid: over all sums of n values, by convolution."""
    prior_mean, prior_sd = model.prior
    at = np.linspace(prior_mean - 6 * prior_sd, prior_mean + 6 * prior_sd, 301)
    x = np.linspace(-1, 1, nodes)
    density = np.zeros_like(at)
    for n, weight in zip(ns, weights, strict=True):
        s = np.linspace(-n, n, n * (nodes - 1) + 1)
        seen = np.exp(log_draws(release, s, n))
        for i, mean in enumerate(at):
            each = np.exp(-0.5 * ((x - mean) / model.sd) ** 2)
            each[[0, -1]] /= 2
            each /= each.sum()
            sums = np.ones(1)
            for _ in range(n):
                sums = np.convolve(sums, each)
            density[i] += weight * (sums @ seen) * norm.pdf(mean, prior_mean, prior_sd)
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return at, cdf / cdf[-1]


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(
    ("truncation", "draws", "temper"), [(None, 1, False), ((-0.3, 0.5), 2, False), (None, 1, True)]
)
def test_few_rows_agree_with_brute_force(n, truncation, draws, temper):
    """Values are felt to be bounded: the column is only four standard deviations wide."""
    model = tacit.NormalMean("x", sd=0.5, prior=(0.1, 0.6))
    release = release_of(
        model, described(), tacit.queries.Exponential(4), np.full(n, 0.6), n,
        truncation=truncation, draws=draws, temper=temper,
    )  # fmt: skip
    at, cdf = brute_force(release, model, [n], [1.0])
    found = model.posterior(release, draws=4000, chains=1, seed=1).draws["mean"].ravel()
    assert kstest(found, lambda v: np.interp(v, at, cdf)).statistic < 0.012 + 2.7 / np.sqrt(4000)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("temper", [False, True])
def test_draws_without_bounds_agree_with_brute_force(n, temper):
    model = tacit.NormalMean("x", sd=0.5, prior=(0.1, 0.6))
    release = release_of(
        model, described(), tacit.queries.Exponential(4, 1e-3), np.full(n, 0.6), n,
        truncation=EVERYWHERE, draws=2, temper=temper,
    )  # fmt: skip
    at, cdf = brute_force(release, model, [n], [1.0])
    found = model.posterior(release, draws=4000, chains=1, seed=1).draws["mean"].ravel()
    assert kstest(found, lambda v: np.interp(v, at, cdf)).statistic < 0.012 + 2.7 / np.sqrt(4000)


def test_an_unknown_number_of_rows_is_summed_out():
    model = tacit.NormalMean("x", sd=0.4, prior=(0.0, 0.5))
    schema = described("add_remove", max_units=4)
    release = release_of(model, schema, tacit.queries.Exponential(3), [0.5, 0.7, 0.2], 3)
    n = np.arange(5)
    weights = np.exp(gammaln(n + 0.5) - gammaln(n + 1.0))
    at, cdf = brute_force(release, model, n, weights)
    posterior = model.posterior(release, draws=4000, chains=1, seed=1)
    found = posterior.draws["mean"].ravel()
    assert kstest(found, lambda v: np.interp(v, at, cdf)).statistic < 0.012 + 2.7 / np.sqrt(4000)
    assert set(np.unique(posterior.draws["rows"])) <= set(n.astype(float))


def test_the_law_of_the_draw_is_the_walls():
    model = tacit.NormalMean("x", sd=0.5, prior=(0.1, 0.6))
    for temper, truncation in product((False, True), (None, EVERYWHERE)):
        release = release_of(
            model, described(), tacit.queries.Exponential(1, 1e-6), [0.3] * 9, 9,
            truncation=truncation, draws=3, temper=temper,
        )  # fmt: skip
        seen, rows = DrawnMean.of(release), RowsSeen.behind_draw(release, ["x"])
        s = np.linspace(-9, 9, 31)
        np.testing.assert_allclose(seen.log(s, 9), log_draws(release, s, 9), rtol=1e-9, atol=1e-9)
        assert list(rows.n) == [9]


SETTINGS = [
    (20, tacit.queries.Exponential(1), "replace_one", 1),
    (20, tacit.queries.Exponential(1, 1e-6), "add_remove", 3),
    (500, tacit.queries.Exponential(0.5), "replace_one", 1),
]


def ranks(n, mechanism, neighbours, draws, repeats, missing=False, truncation=(-2.5, 2.5)):
    """Ranks of truths from the prior among posterior draws."""
    rng = np.random.default_rng(n)
    model = tacit.NormalMean("x", sd=1.0, prior=(0.0, 1.0))
    options = {"max_units": 2 * n} if neighbours == "add_remove" else {}
    schema = described(neighbours, None if missing else 0.0, (-12.0, 12.0), **options)
    found = np.empty(repeats)
    for seed, truth in enumerate(rng.normal(0, 1, size=repeats)):
        rows = rng.normal(truth, 1.0, size=n) / 12
        release = release_of(model, schema, mechanism, rows, n, truncation=truncation, draws=draws)
        drawn = model.posterior(release, draws=200, chains=1, seed=seed).draws["mean"]
        found[seed] = (drawn < truth).mean()
    return found


def check_calibrated(found, repeats, bins=10):
    covered = np.mean((found > 0.05) & (found < 0.95))
    assert abs(covered - 0.9) < 0.02 + SIGMAS * np.sqrt(0.09 / repeats), covered
    seen = np.bincount(np.minimum((found * bins).astype(int), bins - 1), minlength=bins)
    # Slack for 200 draws, whose ranks fall on the edges of the bins.
    statistic = ((seen - repeats / bins) ** 2 / (repeats / bins)).sum()
    assert chi2.sf(statistic / (1 + repeats / 5000), bins - 1) > ALARM, seen


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=str)  # all of them below, and slow
def test_intervals_cover(setting):
    """The truth may lie beyond the interval of the draws, which belongs to the mechanism."""
    n, mechanism, neighbours, draws = setting
    repeats = 150 if neighbours == "replace_one" else 60  # an unknown number of rows takes longer
    check_calibrated(ranks(n, mechanism, neighbours, draws, repeats), repeats)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_intervals_cover_often(setting):
    n, mechanism, neighbours, draws = setting
    check_calibrated(ranks(n, mechanism, neighbours, draws, 3000), 3000)


@pytest.mark.parametrize(("n", "epsilon"), [(20, 5), (500, 1)])
def test_intervals_cover_without_bounds(n, epsilon):
    mechanism = tacit.queries.Exponential(epsilon, 1e-6)
    check_calibrated(ranks(n, mechanism, "replace_one", 2, 150, truncation=EVERYWHERE), 150)


@pytest.mark.parametrize("temper", [False, True])
def test_a_posterior_without_bounds_is_complete(temper, tmp_path):
    data = {"x": np.linspace(-1, 1, 300)}
    home = tacit.Wall(data, described(), budget=tacit.Budget(10, 0.1), ledger=":memory:")
    model = tacit.NormalMean("x", sd=0.5)
    how = tacit.OnePosteriorSample(1, 1e-6, draws=3, truncation=EVERYWHERE, temper_prior=temper)
    posterior = tacit.fit(model, home, how, draws=100, chains=2, seed=1)
    assert np.all(np.isfinite(posterior.summary()))
    posterior.save(tmp_path / "p.nc")
    assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(posterior.summary())
    (release,) = posterior.releases
    face = model.posterior(release, noise="plugin", draws=6, chains=1).draws["mean"]
    (mean, sd), kept = release.query.law.prior, release.noise[0].scale if temper else 1.0
    expected = mean + sd * np.sqrt(kept) * release.table("mean").value
    np.testing.assert_allclose(face.ravel(), np.resize(expected, 6))


def test_face_value_does_not_cover():
    """The check that the ones above can fail."""
    rng, n, repeats = np.random.default_rng(3), 50, 300
    model = tacit.NormalMean("x", sd=1.0, prior=(0.0, 1.0))
    schema = described(bounds=(-12.0, 12.0))
    hits = 0
    for truth in rng.normal(0, 1, size=repeats):
        rows = rng.normal(truth, 1.0, size=n) / 12
        release = release_of(
            model, schema, tacit.queries.Exponential(1), rows, n, truncation=(-2.5, 2.5), draws=20
        )
        plain = model.posterior(release, noise="plugin", draws=20, chains=1)
        sd = (1 + n) ** -0.5  # of the posterior that the draws are taken for
        hits += abs(plain.draws["mean"][0, 0] - truth) < 1.645 * sd
    assert hits / repeats < 0.6


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("default", [None, 0.0])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_a_posterior_is_complete(neighbours, default, n, tmp_path):
    schema = described(neighbours, default, max_units=500)
    data = {"x": np.linspace(-1, 1, n)}
    home = tacit.Wall(data, schema, budget=tacit.Budget(10, 0.1), ledger=":memory:")
    model = tacit.NormalMean("x", sd=0.5)
    for how in (
        tacit.OnePosteriorSample(1),
        tacit.OnePosteriorSample(1, 1e-6, draws=3, truncation=(-0.5, 2), temper_prior=True),
    ):
        posterior = tacit.fit(model, home, how, draws=100, chains=2, seed=1)
        assert np.all(np.isfinite(posterior.summary()))
        posterior.save(tmp_path / "p.nc")
        assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(posterior.summary())
        release = posterior.releases[0]
        face = model.posterior(release, noise="plugin", draws=6, chains=1).draws["mean"]
        assert set(np.round(face.ravel(), 9)) == set(
            np.round(
                release.query.law.low
                + (release.query.law.high - release.query.law.low) * release.table("mean").value,
                9,
            )
        )
    assert home.remaining.epsilon == 8


@pytest.mark.parametrize(
    "truncation",
    [0.05, (1, 0), "wide", (0, np.nan), (1, 2, 3), (0, np.inf), (-np.inf, 0), (np.inf, -np.inf)],
)
def test_a_senseless_interval_costs_nothing(truncation):
    home = tacit.Wall({"x": [0.0]}, described(), budget=tacit.Budget(1), ledger=":memory:")
    with pytest.raises(tacit.errors.ModelError, match="truncation"):
        tacit.fit(
            tacit.NormalMean("x", sd=1), home, tacit.OnePosteriorSample(1, truncation=truncation)
        )
    assert home.remaining.epsilon == 1
