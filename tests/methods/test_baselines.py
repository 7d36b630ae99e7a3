"""Noisy minima as methods, on a stand-in for a logistic regression."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import tacit
from tacit.methods import check_suits
from tacit.methods.method import Task
from tacit.models.logistic_regression import theta_of
from tacit.posterior import Posterior
from tacit.spec.design import Design


@dataclass(frozen=True)
class Regression:
    """What the methods need of a logistic regression, and no more."""

    target: str
    features: tuple[str, ...]

    def logistic(self, schema):
        return tacit.queries.Logistic(self.target, self.features, precision=0.1)

    def draw_query(self, schema, *, truncation, draws, temper_prior):
        return tacit.queries.LogisticDraw(self.logistic(schema), draws, temper_prior)

    def posterior(self, release, **sampling):
        names = Design.of(self.features, release.schema).names
        return Posterior(
            draws={"theta": theta_of(release)[None]},
            dims={"theta": ("feature",)},
            coords={"feature": names},
            model={"model": "Regression"},
            releases=(release,),
            noise="plugin",
        )


SCHEMA = tacit.Schema(
    tacit.Real("x", -1, 1), tacit.Categorical("y", ["no", "yes"]), neighbours="replace_one"
)
MODEL = Regression("y", ("x",))
METHODS = [tacit.methods.ObjectivePerturbation, tacit.methods.OutputPerturbation]


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return {"x": x, "y": np.where(rng.random(n) < expit(4 * x), "yes", "no")}


def wall(n=2000):
    return tacit.Wall(data(n), SCHEMA, budget=tacit.Budget(5, "1e-4"), ledger=":memory:")


@pytest.mark.parametrize("method", METHODS)
def test_a_point_near_the_truth_and_a_word_about_its_error(method):
    """The slope on x is 4 * sqrt(2) in vectors; noise and shrinkage leave it well above zero."""
    home = wall()
    posterior = tacit.fit(MODEL, home, method(4, "1e-5"), name="point")
    theta = posterior.flat("theta")
    assert theta.shape == (1, 2)
    assert 2 < theta[0, 1] < 9
    assert abs(theta[0, 0]) < 2
    assert posterior.noise == "plugin"
    assert "no error bar is honest" in str(posterior.certificate)
    assert home.remaining.epsilon == 1
    again = tacit.fit(MODEL, home, method(4, "1e-5"), name="point")
    assert np.array_equal(again.flat("theta"), theta)


def test_a_posterior_sample_of_a_regression_has_no_truncation():
    home = wall()
    posterior = tacit.fit(MODEL, home, tacit.OnePosteriorSample(4, "1e-5", draws=3))
    assert posterior.flat("theta").shape == (3, 2)
    assert home.remaining.epsilon == 1
    with pytest.raises(tacit.errors.BudgetError, match="delta"):
        tacit.fit(MODEL, home, tacit.OnePosteriorSample(1))
    assert home.remaining.epsilon == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_regularizer_is_taken_as_given(method):
    query = method(4, "1e-5", regularizer=1e5).query(Task(MODEL, SCHEMA))
    release = tacit.Public(data(500), SCHEMA).release(query, tacit.Gaussian(4, "1e-5"))
    assert np.abs(theta_of(release)).max() < 0.05  # all but zero
    with pytest.raises(tacit.errors.QueryError, match="regularizer=0"):
        method(4, "1e-5", regularizer=0).query(Task(MODEL, SCHEMA))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_missing_is_named(method):
    with pytest.raises(tacit.errors.BudgetError):
        method()
    with pytest.raises(tacit.errors.BudgetError, match="delta"):
        method(1)
    with pytest.raises(tacit.errors.ModelError, match=f"cannot be fitted by {method.__name__}"):
        check_suits(method(1, 1e-5), tacit.BetaBernoulli("y", success="yes"))
    with pytest.raises(tacit.errors.ModelError, match=r"it can by tacit.methods.Objective"):
        check_suits(tacit.methods.Statistics(tacit.Laplace(1)), SimpleNamespace(**_parts(MODEL)))


def _parts(model):
    return {
        "logistic": model.logistic,
        "draw_query": model.draw_query,
        "posterior": model.posterior,
    }
