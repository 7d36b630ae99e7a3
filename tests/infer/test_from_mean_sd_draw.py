"""What draws of a mean and an sd say about both. Statistical tests: false-alarm rate 1e-6 each."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

import tacit
from tacit.draws.mean_sd import mean_sd_weights
from tacit.infer.conjugate import NormalPrior, draw_mean_and_covariance
from tacit.infer.from_mean_sd_draw import DrawnMeanSd, simulated
from tacit.testing import simulated_release

ALARM = 1e-6
MODEL = tacit.NormalModel("x", 0.0, 4, 1.2, 8)
PRIOR = NormalPrior.of(np.zeros(1), 4, np.array([0.12]), 8)  # on the scale of -1 to 1
ENDS = (-4, 4), (0.6, 4)


def described(**options):
    column = tacit.Real("x", -10, 10, default=0)
    return tacit.Schema(column, **{"neighbours": "replace_one", **options})


def release_of(moments, epsilon, *, draws=1, temper=False):
    """Draws from a matrix of scaled moments."""
    query = MODEL.draw_query(described(), truncation=ENDS, draws=draws, temper_prior=temper)
    integers = np.rint([moments[0, 1] * 2**15, moments[1, 1] * 2**30])
    mechanism = tacit.queries.Exponential(epsilon)
    return simulated_release(described(), query, mechanism, integers, int(moments[0, 0]))


def moments_of(n, mean, sd):
    return np.array([[n, n * mean], [n * mean, n * (mean**2 + sd**2)]])


@pytest.mark.parametrize("temper", [False, True])
def test_the_law_of_the_draw_is_the_walls(temper):
    release = release_of(moments_of(100, 0.1, 0.1), 20, draws=3, temper=temper)
    seen, scale = DrawnMeanSd.of(release), release.noise[0].scale
    mean, sd = (np.rint(release.table(name).value * 4096).astype(int) for name in ("mean", "sd"))
    found, expected = [], []
    for at in ((0, 0, 0.1), (100, 0.1, 0.1), (100, 0.3, 0.2), (3000, -0.1, 0.13)):
        moments = moments_of(*at)
        log = mean_sd_weights(release.query, moments, scale, described())
        expected.append((log - logsumexp(log))[sd // 8, mean].sum())
        vector = np.array([[moments[0, 0], moments[0, 1], moments[1, 1]]])
        found.append(seen.log(vector)[0])
    gap = np.array(found) - expected
    assert np.ptp(gap) < 0.01  # up to a constant, and a line for a list of points


def ranks(n, epsilon, repeats, draws=1, size=19):
    """Ranks of a mean and of an sd from the prior among posterior draws."""
    rng, found = np.random.default_rng(n), []
    for seed in range(repeats):
        centre, root = draw_mean_and_covariance(np.zeros((1, 2, 2)), PRIOR, rng)
        moments = simulated(np.array([n]), centre[:, 0], root[:, 0, 0], rng)[0]
        release = release_of(moments, epsilon, draws=draws)
        posterior = MODEL.posterior(release, draws=size, chains=1, seed=seed)
        truth = {"mean": 10 * centre[0, 0], "sd": 10 * root[0, 0, 0]}
        found.append([(posterior.draws[name] < truth[name]).sum() for name in truth])
    return np.array(found).T


def check_uniform(found):
    """Twenty ranks in five bins, for each parameter; the truth may lie beyond where draws may."""
    for each in found:
        seen, expected = np.bincount(each // 4, minlength=5), len(each) / 5
        assert chi2.sf(((seen - expected) ** 2 / expected).sum(), 4) > ALARM / 2, seen


def test_ranks_are_uniform():
    check_uniform(ranks(2000, 20, 25))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "draws"), [(50, 5, 1), (2000, 5, 1), (500, 50, 3)])
def test_ranks_are_uniform_often(n, epsilon, draws):
    check_uniform(ranks(n, epsilon, 1000, draws))


def test_a_posterior_is_complete_with_an_unknown_number_of_rows(tmp_path):
    schema = described(neighbours="add_remove", max_units=300)
    rows = np.random.default_rng(1).normal(1, 1, 200)
    home = tacit.Wall({"x": rows}, schema, budget=tacit.Budget(10), ledger=":memory:")
    how = tacit.OnePosteriorSample(9, draws=2, truncation=ENDS)
    posterior = tacit.fit(MODEL, home, how, draws=20, chains=2, seed=1)
    assert np.all(np.isfinite(posterior.summary()))
    posterior.save(tmp_path / "p.nc")
    assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(posterior.summary())
    (release,) = posterior.releases
    face = MODEL.posterior(release, noise="plugin", draws=2, chains=1)
    np.testing.assert_allclose(face.flat("mean"), -4 + 8 * release.table("mean").value)
    np.testing.assert_allclose(face.flat("sd"), 0.6 * (4 / 0.6) ** release.table("sd").value)
    assert home.remaining.epsilon == 1


@pytest.mark.parametrize("truncation", [1.0, (1, 2, 3), (2, 1), ((0, 1), 2), ((1, 0), (1, 2))])
def test_senseless_ends_cost_nothing(truncation):
    home = tacit.Wall({"x": [0.0]}, described(), budget=tacit.Budget(1), ledger=":memory:")
    with pytest.raises(tacit.errors.ModelError, match="truncation"):
        tacit.fit(MODEL, home, tacit.OnePosteriorSample(1, truncation=truncation))
    assert home.remaining.epsilon == 1


def test_several_columns_are_refused_with_advice():
    schema = tacit.Schema(tacit.Real("x", -1, 1), tacit.Real("y", -1, 1), neighbours="replace_one")
    home = tacit.Wall({"x": [0.0], "y": [0.0]}, schema, budget=tacit.Budget(1), ledger=":memory:")
    model = tacit.MultivariateNormalModel(["x", "y"])
    with pytest.raises(tacit.errors.ModelError, match=r"for a draw, write .* tacit\.LogDensity"):
        tacit.fit(model, home, tacit.OnePosteriorSample(1, truncation=(0.1, 1)))
    assert home.remaining.epsilon == 1
