"""Metropolis and annealing for any log-likelihood: what is asked, the target, the evidence.

Runs are seeded; false-alarm rates are 1e-6 were they not. Tolerances of means are five standard
errors of a chain whose draws are worth a tenth of independent ones.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

import tacit
from tacit.sources.data import open_data
from tacit.spec.sums import BoundedSum
from tacit.wall.answers import read
from tacit.wall.steps.sums import resolve_sum

Metropolis, Annealed = tacit.methods.PrivateMetropolis, tacit.methods.AnnealedImportance
SCHEMA = tacit.Schema(
    tacit.Real("x", -1, 1, default=0), tacit.Real("y", -4, 4, default=0), neighbours="replace_one"
)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, 120)
DATA = {"x": X, "y": np.clip(0.8 * X + 0.3 + 0.5 * RNG.standard_normal(120), -4, 4)}


def line(parameters, x, y):
    off = y - parameters["slope"] * x[0] - parameters["intercept"]
    return -2.0 * off**2 - 0.5 * np.log(2 * np.pi / 4.0)


def log_prior(parameters):
    return -0.5 * (parameters["slope"] ** 2 + (parameters["intercept"] - 1.0) ** 2)


SHAPES = {"slope": (), "intercept": ()}
# A clip that no record reaches, so that the target is known.
LINE = tacit.LogDensity(line, x="x", y="y", parameters=SHAPES, prior_scale=1.0, clip=8.0)


def exact(centre=(0.0, 0.0)):
    """The posterior of slope and intercept, sd 1/2 and prior sd 1, and the log evidence."""
    design = np.stack([DATA["x"], np.ones(120)], axis=1)
    precision = np.eye(2) + 4 * design.T @ design
    mean = np.linalg.solve(precision, np.array(centre) + 4 * design.T @ DATA["y"])
    covariance = 0.25 * np.eye(120) + design @ design.T
    evidence = multivariate_normal(design @ np.array(centre), covariance).logpdf(DATA["y"])
    return mean, np.sqrt(np.diag(np.linalg.inv(precision))), evidence


def check(post, centre=(0.0, 0.0), worth=0.1):
    mean, sd, _ = exact(centre)
    for i, name in enumerate(SHAPES):
        draws = post.flat(name)
        error = sd[i] / np.sqrt(worth * len(draws))
        assert draws.mean() == pytest.approx(mean[i], abs=5 * error)
        assert draws.std() == pytest.approx(sd[i], rel=0.3)


def fitted(method, model=LINE, seed=1):
    return tacit.fit(model, tacit.Public(DATA, SCHEMA, seed=seed), method, seed=2)


def test_what_is_asked_are_sums_of_log_likelihoods():
    rng, walk = np.random.default_rng(1), LINE.walk(SCHEMA)
    points, mixed = rng.normal(size=(4, 2)) * 0.3, rng.normal(size=(3, 4))
    constants = rng.normal(size=3)
    at = LINE.walk_posterior(fitted(Metropolis(50, 1e-6, steps=4)).releases[0], points)
    slope, intercept = at.flat("slope"), at.flat("intercept")
    off = DATA["y"][:, None] - np.outer(DATA["x"], slope) - intercept
    rows = -2.0 * off**2 - 0.5 * np.log(2 * np.pi / 4.0)

    def summed(kernel, state, **bound):
        query = BoundedSum(kernel, walk.columns, state=state, clip=1e3, **bound)
        resolved = resolve_sum(query, SCHEMA)
        law = resolved.exact()
        return read(open_data(DATA, SCHEMA), resolved, law).integers * law[0].grid

    found = summed(*walk.combinations(points, mixed, constants), size=3)
    expected = (rows @ mixed.T + constants).sum(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2)
    lifted = summed(
        *walk.combinations(points, np.eye(4), lifted=True), size=4, geometry="box"
    )  # fmt: skip
    above = rows - rows.min(axis=1, keepdims=True)
    np.testing.assert_allclose(lifted, above.sum(axis=0), rtol=1e-4, atol=1e-2)


def test_a_record_that_the_model_can_make_nothing_of_is_the_worst_of_all():
    def broken(parameters, x, y):
        return jnp.log(parameters["level"]) - y  # NaN below 0

    model = tacit.LogDensity(
        broken, x="x", y="y", parameters={"level": ()}, log_prior=lambda p: -0.5 * p["level"] ** 2
    )
    # The middle of the prior has no gradient here, which is refused in words.
    with pytest.raises(tacit.errors.ModelError, match="gradients"):
        model.walk(SCHEMA)


@pytest.mark.no_cover
@pytest.mark.parametrize("candidates", [1, 20])
def test_a_walk_by_choices_has_the_posterior_as_target(candidates):
    method = Metropolis(1e5, steps=1500, step_size=0.4, candidates=candidates)
    post = fitted(method)
    assert post.noise == "aware"
    check(post)


@pytest.mark.no_cover
def test_a_penalty_walk_has_the_posterior_as_target():
    method = Metropolis(480, 1e-6, steps=2500, acceptance="penalty", step_size=0.1)
    post = fitted(method)
    assert post.noise == "aware"
    check(post)


def prior_of_its_own():
    return tacit.LogDensity(line, x="x", y="y", parameters=SHAPES, log_prior=log_prior, clip=8.0)


def test_a_prior_of_its_own_is_drawn_from_by_a_public_chain():
    model = prior_of_its_own()
    walk = model.walk(SCHEMA)
    drawn = walk.draw_prior(np.random.default_rng(5), 200)
    at = model.walk_posterior(fitted(Metropolis(50, 1e-6, steps=4)).releases[0], drawn)
    # 20 steps of the chain lie between two of them.
    assert kstest(at.flat("slope")[::4], norm(0, 1).cdf).pvalue > 1e-6
    assert kstest(at.flat("intercept")[::4], norm(1, 1).cdf).pvalue > 1e-6


@pytest.mark.no_cover
@pytest.mark.parametrize("own", [False, True])
def test_annealed_runs_end_in_the_posterior_and_know_the_evidence(own):
    centre, model = ((0.0, 1.0), prior_of_its_own()) if own else ((0.0, 0.0), LINE)
    method = Annealed(1e5, runs=60, transitions=2, candidates=50, weights="none")
    post = fitted(method, model)
    assert post.noise == "aware"
    check(post, centre, worth=0.5)
    method = Annealed(450, 1e-6, runs=20, candidates=50, weights="noise", temperature=1.0)
    _, _, evidence = exact(centre)
    z = []
    for seed in range(3):
        found = fitted(method, model, seed).flat("log_evidence")
        assert found.std() > 0.5  # the level has noise
        z.append((found.mean() - evidence) / found.std())
    assert np.abs(z).max() < 5.1


def test_what_is_spent_and_said_on_a_wall():
    for method, noise in (
        (Metropolis(2, 1e-6, steps=20), "tempered"),
        (Metropolis(2, 1e-6, steps=20, acceptance="penalty"), "aware"),
        (Annealed(2, 1e-6, runs=3, candidates=10), "tempered"),
    ):
        wall = tacit.Wall(DATA, SCHEMA, budget=tacit.Budget(5, 1e-4), ledger=":memory:")
        post = tacit.fit(LINE, wall, method, seed=1)
        assert 1.98 < 5 - float(wall.remaining.epsilon) <= 2
        assert post.noise == noise
        target = [a for a in post.certificate.assumptions if "the target is" in a]
        assert len(target) == 1
        assert ("T = " in target[0]) == (noise == "tempered")
        assert not any("nothing is promised" in a for a in post.certificate.assumptions)


def test_a_numpyro_model_and_its_jacobians():
    numpyro = pytest.importorskip("numpyro")
    law = numpyro.distributions

    def model(x, y):
        level = numpyro.sample("level", law.Normal(0, 2))
        sd = numpyro.sample("sd", law.HalfNormal(1))
        with numpyro.plate("records", len(y)):
            numpyro.sample("obs", law.Normal(level, sd), obs=y)

    model = tacit.LogDensity(model, x="x", y="y")
    # On the scale of log sd the prior has the Jacobian sd, and falls off to the left.
    log = [float(model.density(SCHEMA).log_prior(jnp.array([0.0, u]))) for u in (-3.0, -9.0)]
    assert log[0] - log[1] == pytest.approx(6 - 0.5 * (np.exp(-6) - np.exp(-18)), abs=1e-4)
    post = fitted(Annealed(30, 1e-6, n_units=120), model)
    assert np.all(post.flat("sd") > 0.1)
    assert abs(post.mean("level") - DATA["y"].mean()) < 0.5
