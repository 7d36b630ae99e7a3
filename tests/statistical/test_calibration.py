"""Intervals cover as they say, and the plug-in ones do not.

Releases are simulated: the wall's own noise is put on simulated counts, without a table. Each
test's false-alarm rate is 1e-6: coverage may miss its range by 4.9 standard errors.
"""

import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.testing import simulated_release

SETTINGS = [(20, 0.1), (100, 0.1), (100, 1.0), (1000, 0.5)]
pytestmark = pytest.mark.no_cover
RELATIONS = ["replace_one", "add_remove"]


def beta_bernoulli(n, mechanism, neighbours, repeats, noise="aware", prior=(1.0, 1.0)) -> float:
    """The share of truths, drawn from the prior, inside their 90% interval."""
    rng = np.random.default_rng(n)
    column = tacit.Categorical("x", ["no", "yes"], default="no")
    schema = tacit.Schema(column, neighbours=neighbours)
    model = tacit.BetaBernoulli("x", success="yes", prior=prior)
    hits = 0
    for seed, truth in enumerate(rng.beta(*prior, size=repeats)):
        yes = rng.binomial(n, truth)
        counts = [yes] if neighbours == "replace_one" else [n - yes, yes]
        release = simulated_release(schema, model.query(), mechanism, counts, n)
        posterior = model.posterior(release, draws=500, chains=2, seed=seed, noise=noise)
        low, high = posterior.interval(0.9)
        hits += low <= truth <= high
    return hits / repeats


def alarm(repeats: int, level: float = 0.9) -> float:
    return 4.9 * np.sqrt(level * (1 - level) / repeats)


# Each setting under one relation; test_intervals_cover_at_full_size has both.
@pytest.mark.parametrize(
    ("n", "epsilon", "neighbours"),
    [(*setting, RELATIONS[i % 2]) for i, setting in enumerate(SETTINGS)],
)
def test_intervals_cover(n, epsilon, neighbours):
    repeats = 1500
    found = beta_bernoulli(n, tacit.Laplace(epsilon), neighbours, repeats)
    assert 0.88 - alarm(repeats) < found < 0.92 + alarm(repeats)


@pytest.mark.parametrize(("n", "epsilon", "about"), [(20, 0.1, 0.36), (100, 0.1, 0.46)])
def test_plugin_intervals_do_not(n, epsilon, about):
    """The check that the one above can fail: the papers' projection is far from 90%."""
    found = beta_bernoulli(n, tacit.Laplace(epsilon), "replace_one", 1500, noise="plugin")
    assert abs(found - about) < 0.03 + alarm(1500, about)


def test_gaussian_noise_is_calibrated_too():
    mechanism = tacit.Gaussian(noise_multiplier=15, delta=1e-6)
    for neighbours in RELATIONS:
        found = beta_bernoulli(100, mechanism, neighbours, 1000, prior=(2.0, 5.0))
        assert abs(found - 0.9) < 0.02 + alarm(1000)


def dirichlet_ranks(n, epsilon, prior, repeats) -> np.ndarray:
    """Simulation-based calibration: ranks of the truth among posterior draws of each level."""
    rng = np.random.default_rng(7)
    levels = ["a", "b", "c"]
    schema = tacit.Schema(tacit.Categorical("x", levels, default="a"), neighbours="replace_one")
    model = tacit.DirichletCategorical("x", prior=prior)
    ranks = []
    for _ in range(repeats):
        truth = rng.dirichlet(prior)
        counts = rng.multinomial(n, truth)
        release = simulated_release(schema, model.query(), tacit.Laplace(epsilon), counts, n)
        posterior = model.posterior(release, draws=99, chains=1)
        ranks.append((posterior.sample(99) < truth).sum(axis=0))
    return np.array(ranks)


def uniform_p(ranks: np.ndarray) -> float:
    observed = np.bincount(ranks // 10, minlength=10)
    expected = len(ranks) / 10
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), 9))


@pytest.mark.parametrize(("n", "epsilon"), [(30, 0.2), (200, 0.5)])
def test_ranks_are_uniform(n, epsilon):
    ranks = dirichlet_ranks(n, epsilon, (0.5, 1.0, 3.0), 1000)
    for j in range(3):
        assert uniform_p(ranks[:, j]) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("n", "epsilon"), SETTINGS)
def test_intervals_cover_at_full_size(n, epsilon, neighbours):
    repeats = 20_000
    found = beta_bernoulli(n, tacit.Laplace(epsilon), neighbours, repeats)
    assert 0.88 - alarm(repeats) < found < 0.92 + alarm(repeats)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(10, 0.1), (30, 0.2), (200, 0.5), (1000, 0.05)])
def test_ranks_are_uniform_at_full_size(n, epsilon):
    ranks = dirichlet_ranks(n, epsilon, (0.3, 1.0, 5.0), 10_000)
    for j in range(3):
        assert uniform_p(ranks[:, j]) > 1e-6
