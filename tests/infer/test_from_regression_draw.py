"""What draws of coefficients say about them. Statistical tests: false-alarm rate 1e-6 each."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

import tacit
from tacit.draws.conjugate import regression_law
from tacit.infer.conjugate import (
    NormalPrior,
    RegressionPrior,
    draw_mean_and_covariance,
    draw_regression,
)
from tacit.infer.from_regression_draw import matrices_from_draw, released_coefficients, simulated
from tacit.laws import ball_normal
from tacit.spec.draws import BallRegression, ConjugateDraw
from tacit.spec.sampling import Sampling
from tacit.testing import simulated_release

SIGMAS = 4.9
SD, RADIUS = 0.3, 1.0
MECHANISM = tacit.queries.Exponential(1, 1e-6)
FEATURES = NormalPrior.of(np.zeros(1), 1.0, np.array([0.5]), 3.0)
PRIOR = RegressionPrior(np.eye(2), SD, 3.0, FEATURES)


def described(neighbours="replace_one", default=0.0, **options):
    columns = tacit.Real("x", -1, 1, default=default), tacit.Real("y", -1, 1, default=default)
    return tacit.Schema(*columns, neighbours=neighbours, **options)


def blank(n, mechanism=MECHANISM, draws=1, **options):
    """A release of so many rows, whose draws are still to be put in."""
    query = ConjugateDraw(BallRegression("y", ("x",), SD, SD, RADIUS), draws)
    return simulated_release(described(**options), query, mechanism, [0] * 5, n)


def with_draws(release, coefficients):
    steps = np.trunc(np.asarray(coefficients) / RADIUS * 2**40).astype(np.int64)
    return replace(release, integers=steps.ravel())


def drawn_from(release, moments, rng):
    """What the wall would draw, from moments that need not be those of bounded rows."""
    mean, precision = regression_law(release.query, moments, release.noise[0].scale)
    times = release.query.draws
    each = np.tile(mean, (times, 1)), np.tile(precision, (times, 1, 1))
    return with_draws(release, ball_normal.sample(*each, RADIUS, lambda n: 1 - rng.random(n)))


def from_prior(size, prior, rng):
    none = np.zeros((size, 3, 3))
    centre, root = draw_mean_and_covariance(none[:, :2, :2], prior.features, rng)
    return centre, root, *draw_regression(none, prior, rng)


def test_moments_are_simulated_with_their_law():
    """Row by row for few rows, by Bartlett's decomposition for many: the same in the mean."""
    rng = np.random.default_rng(1)
    for n in (3, 60, 61, 400):
        many = np.full(20_000, float(n))
        centre, root = np.full((20_000, 1), 0.2), np.full((20_000, 1, 1), 0.5)
        coefficients = np.tile([0.1, -0.7], (20_000, 1))
        found = simulated(many, centre, root, coefficients, np.full(20_000, 0.3), rng)
        z = np.ones((20_000, 3))
        z[:, 1] = 0.2 + 0.5 * rng.standard_normal(20_000)
        z[:, 2] = 0.1 - 0.7 * z[:, 1] + 0.3 * rng.standard_normal(20_000)
        products = z[:, :, None] * z[:, None, :]
        error = np.sqrt(found.var(axis=0) / 20_000 + n**2 * products.var(axis=0) / 20_000)
        gap = np.abs(found.mean(axis=0) - n * products.mean(axis=0))
        assert np.all(gap <= SIGMAS * error + 1e-9)
        spread = n * products.var(axis=0)  # rows are independent
        assert np.all(np.abs(found.var(axis=0) - spread) <= 0.15 * spread + 1e-9)


@pytest.mark.parametrize(
    ("n", "draws"), [(30, [[0.4, -0.5]]), (400, [[0.1, 0.6], [0.0, 0.8]]), (400, [[-0.2, 0.1]])]
)
def test_chains_agree_with_weighted_simulation(n, draws):
    """Moments from the prior, weighted by the draw's density: its normaliser is an integral."""
    rng, size = np.random.default_rng(n), 30_000
    release = with_draws(blank(n, draws=len(draws)), draws)
    seen = released_coefficients(release)
    centre, root, coefficients, sigma = from_prior(size, PRIOR, rng)
    moments = simulated(np.full(size, float(n)), centre, root, coefficients, sigma, rng)
    precision_mean, precision = seen.law_at(moments)
    r, angle = np.meshgrid((np.arange(24) + 0.5) / 24, 2 * np.pi * np.arange(24) / 24)
    points = RADIUS * np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1).reshape(-1, 2)
    squares = np.stack([points[:, 0] ** 2, 2 * points[:, 0] * points[:, 1], points[:, 1] ** 2])
    curve = np.stack([precision[:, 0, 0], precision[:, 0, 1], precision[:, 1, 1]], axis=1)
    log = precision_mean @ points.T - 0.5 * curve @ squares + np.log(r.ravel())
    top = log.max(axis=1)
    normaliser = top + np.log(np.exp(log - top[:, None]).sum(axis=1))
    observed = np.broadcast_to(seen.draws, (size, *seen.draws.shape))
    log = seen.log(observed, precision_mean, precision) - len(draws) * normaliser
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    enough = 1 / (weight**2).sum()
    assert enough > 200
    sampling = Sampling.of({"draws": 2000, "chains": 1, "seed": 1})
    found, residual = draw_regression(matrices_from_draw(release, PRIOR, sampling, rng), PRIOR, rng)
    for mine, exact in (
        (found[:, 0], coefficients[:, 0]),
        (found[:, 1], coefficients[:, 1]),
        (np.log(residual), np.log(sigma)),
    ):
        mean = weight @ exact
        sd = np.sqrt(weight @ (exact - mean) ** 2)
        error = sd * np.sqrt(1 / enough + 1 / 400)  # 500 chains, thinned
        assert abs(mine.mean() - mean) < SIGMAS * error
        assert abs(np.log(mine.std() / sd)) < 0.05 + SIGMAS * np.sqrt(1 / enough + 1 / 400)


def test_no_rows_leave_the_prior():
    release = with_draws(blank(0), [[0.5, 0.5]])
    rng = np.random.default_rng(2)
    sampling = Sampling.of({"draws": 400, "chains": 1, "seed": 1})
    moments = matrices_from_draw(release, PRIOR, sampling, rng)
    assert not moments.any()
    found, _ = draw_regression(moments, PRIOR, rng)
    exact = from_prior(20_000, PRIOR, rng)[2]
    for j in range(2):
        assert kstest(found[:, j], exact[:, j]).pvalue > 1e-6


def coverage(n, mechanism, repeats, draws=1, features=None):
    """Of 90% intervals of both coefficients; all from the prior, or features of another law."""
    rng = np.random.default_rng(n)
    release = blank(n, mechanism, draws)
    hits = np.zeros(2)
    for seed in range(repeats):
        centre, root, truth, sigma = from_prior(1, PRIOR, rng)
        if features is None:
            moments = simulated(np.full(1, float(n)), centre, root, truth, sigma, rng)[0]
        else:
            x = features(rng, n)
            z = np.column_stack([np.ones(n), x, truth[0, 0] + truth[0, 1] * x])
            z[:, 2] += sigma * rng.standard_normal(n)
            moments = z.T @ z
        # 36 of 40 ranks lie within the interval
        sampling = Sampling.of({"draws": 39, "chains": 1, "seed": seed})
        matrices = matrices_from_draw(drawn_from(release, moments, rng), PRIOR, sampling, rng)
        below = (draw_regression(matrices, PRIOR, rng)[0] < truth).mean(axis=0)
        hits += (below > 0.05) & (below < 0.95)
    return hits / repeats


def uniform(rng, n):
    return rng.uniform(-1, 1, size=n)


def check_covered(found, repeats, slack=0.02):
    assert np.all(np.abs(found - 0.9) < slack + SIGMAS * np.sqrt(0.09 / repeats)), found


@pytest.mark.slow
def test_intervals_cover():
    check_covered(coverage(200, MECHANISM, 40), 40)  # other settings are below


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "draws"), [(50, 1, 1), (200, 1, 1), (2000, 3, 2)])
def test_intervals_cover_often(n, epsilon, draws):
    check_covered(coverage(n, tacit.queries.Exponential(epsilon, 1e-6), 1000, draws), 1000)
    # Features in the middle of their bounds are tamer than believed: intervals are too wide, at
    # most, since nobody has seen that their mean is exactly 0.
    found = coverage(n, tacit.queries.Exponential(epsilon, 1e-6), 600, draws, uniform)
    assert np.all(found > 0.88 - SIGMAS * np.sqrt(0.09 / 600)), found


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("default", [None, 0.0])
@pytest.mark.parametrize("n", [0, 1, 120])
def test_a_posterior_is_complete(neighbours, default, n, tmp_path):
    schema = described(neighbours, default, max_units=300)
    rng = np.random.default_rng(n)
    data = {"x": rng.uniform(-1, 1, n), "y": rng.uniform(-1, 1, n)}
    home = tacit.Wall(data, schema, budget=tacit.Budget(10, 0.1), ledger=":memory:")
    model = tacit.LinearRegression("y", "x", prior_sd=0.3, prior_scale=2)
    how = tacit.OnePosteriorSample(1, 1e-6, draws=2, truncation=2, temper_prior=n == 1)
    posterior = tacit.fit(model, home, how, draws=10, chains=2, seed=1)
    assert np.all(np.isfinite(posterior.summary()))
    posterior.save(tmp_path / "p.nc")
    assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(posterior.summary())
    release = posterior.releases[0]
    face = model.posterior(release, noise="plugin", draws=6, chains=1)
    slopes = 2 * release.table("coef").value[:, 1]
    np.testing.assert_allclose(np.unique(face.draws["coef"]), np.unique(slopes))
    assert home.remaining.epsilon == 9


def test_what_is_missing_costs_nothing():
    home = tacit.Wall(
        {"x": [0.0], "y": [0.0]}, described(), budget=tacit.Budget(1, 0.1), ledger=":memory:"
    )
    known = tacit.LinearRegression("y", "x", prior_sd=0.3)
    for model, how, says in (
        (known, tacit.OnePosteriorSample(1, 1e-6), "truncation=2"),
        (known, tacit.OnePosteriorSample(1, 1e-6, truncation=(0, 1)), "truncation"),
        (known, tacit.OnePosteriorSample(1, 1e-6, truncation=-1), "truncation"),
        (known, tacit.OnePosteriorSample(1, truncation=1), "delta=1e-6"),
        (
            tacit.LinearRegression("y", "x"),
            tacit.OnePosteriorSample(1, 1e-6, truncation=1),
            "prior_sd=",
        ),
    ):
        with pytest.raises(tacit.TacitError, match=says):
            tacit.fit(model, home, how)
    assert home.remaining.epsilon == 1
