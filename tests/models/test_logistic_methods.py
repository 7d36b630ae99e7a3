"""Every way to fit a logistic regression: with much budget they meet, with little none fails."""

import numpy as np
import pytest
from scipy.special import expit

import tacit


def described(neighbours, **more):
    return tacit.Schema(
        tacit.Real("x", -1, 1),
        tacit.Categorical("group", ["a", "b"]),
        tacit.Categorical("ill", ["no", "yes"]),
        neighbours=neighbours,
        **more,
    )


SCHEMA = described("replace_one")
MODEL = tacit.LogisticRegression("ill", ["x", "group"], prior_scale=1.0)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    x, group = rng.uniform(-1, 1, n), rng.choice(["a", "b"], n)
    ill = rng.random(n) < expit(2 * x - (group == "b"))
    return {"x": x, "group": group, "ill": np.where(ill, "yes", "no")}


DATA, TEST, FEW = people(3000), people(3000, seed=1), people(50, seed=1)


@pytest.fixture(scope="module")
def not_private():
    """Not while tests are collected: it compiles."""
    return tacit.fit(MODEL, tacit.Public(DATA, SCHEMA), tacit.Exact(), seed=1)


def ways(epsilon):
    """Each method, with this much to spend."""
    half = epsilon / 2
    return {
        "newton": tacit.PrivateNewton(epsilon, 1e-5),
        "ridge": tacit.methods.RidgeNewton(epsilon, 1e-5),
        "dpvi": tacit.methods.DPVI(epsilon, 1e-5, steps=100),
        "langevin": tacit.OnePosteriorSample(epsilon, 1e-5),
        "ball": tacit.OnePosteriorSample(epsilon, truncation=6.0, steps=40),
        "objective": tacit.methods.ObjectivePerturbation(epsilon, 1e-5),
        "output": tacit.methods.OutputPerturbation(epsilon, 1e-5),
        "sgld": tacit.SGLD(epsilon, 1e-5, steps=400),
        "sghmc": tacit.methods.SGHMC(epsilon, 1e-5, steps=400),
        "sgnht": tacit.methods.SGNHT(epsilon, 1e-5, steps=400),
        "sgfs": tacit.methods.SGFS(epsilon, 1e-5, steps=200),
        "hybrid": tacit.methods.Hybrid(
            tacit.OnePosteriorSample(half, 5e-6), tacit.methods.SGNHT(half, 5e-6, steps=200)
        ),
    }


def fitted(how, data=DATA, schema=SCHEMA):
    wall = tacit.Wall(data, schema, budget=tacit.Budget(10**6, 0.1), ledger=":memory:")
    return tacit.fit(MODEL, wall, how, seed=1)


@pytest.mark.parametrize("name", ways(1))
def test_much_budget_meets_no_noise(name, not_private):
    posterior = fitted(ways(40)[name])
    best = not_private.log_likelihood(TEST).mean()
    # one draw of the posterior is off by its own spread; points and chains by less
    assert posterior.log_likelihood(TEST).mean() > best - 0.01
    assert np.all(np.abs(posterior.mean("coef") - not_private.mean("coef")) < 0.6)
    handled = {
        "objective": "plugin",
        "output": "plugin",
        "langevin": "tempered",
        "ball": "tempered",
    }
    assert posterior.noise == handled.get(name, "aware")


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", ways(1))
def test_little_budget_is_no_error(name, neighbours, tmp_path):
    schema = described(neighbours, max_units=500)
    posterior = fitted(ways(0.1)[name], people(200), schema)
    drawn = next(iter(posterior.draws.values())).shape[:2] != (1, 1)
    # Of one draw or a point there is a value, and nothing to say of its error.
    assert np.all(np.isfinite(posterior.summary()) == [True, drawn, drawn, drawn])
    assert float(posterior.certificate.epsilon) <= 0.1 + 1e-9
    assert float(posterior.certificate.delta) <= 1e-5 * (1 + 1e-9)
    posterior.save(tmp_path / "p.nc")
    again = tacit.Posterior.load(tmp_path / "p.nc")
    np.testing.assert_allclose(again.predict_proba(FEW), posterior.predict_proba(FEW))


def test_all_of_them_are_named_when_one_does_not_suit():
    with pytest.raises(tacit.errors.ModelError) as caught:
        fitted(tacit.methods.PrivateGibbs(1))
    for name in ("PrivateNewton", "SGLD", "Hybrid", "ObjectivePerturbation", "OnePosteriorSample"):
        assert name in str(caught.value)


def test_points_and_draws_have_no_more_draws_than_were_paid_for():
    wall = tacit.Wall(people(50), SCHEMA, budget=tacit.Budget(5, 0.1), ledger=":memory:")
    for how in (tacit.methods.ObjectivePerturbation(1, 1e-5), tacit.OnePosteriorSample(1, 1e-5)):
        with pytest.raises(tacit.errors.ModelError, match="no draws="):
            tacit.fit(MODEL, wall, how, draws=100)
    assert wall.remaining.epsilon == 5
