import numpy as np
import pytest

import tacit
from tests.conftest import SMOKERS, smoking, without_note

MODEL = tacit.BetaBernoulli("smoker", success="yes")


def test_leaving_out_how_quotes_what_remains(wall):
    with pytest.raises(tacit.errors.ModelError, match=r"epsilon 1, delta 0.000001 remains"):
        tacit.fit(MODEL, wall)
    with pytest.raises(tacit.errors.ModelError, match="Expected how"):
        tacit.fit(MODEL, tacit.Public(SMOKERS, smoking()))


@pytest.mark.parametrize(
    "options",
    [
        {"draws": 0},
        {"draws": 1.5},
        {"chains": -1},
        {"chains": True},
        {"seed": -1},
        {"seed": "x"},
        {"noise": "ignored"},
    ],
)
def test_bad_options_cost_nothing(wall, options):
    with pytest.raises(tacit.errors.ModelError):
        tacit.fit(MODEL, wall, tacit.Laplace(0.5), **options)
    assert wall.remaining.epsilon == 1


def test_bad_models_and_methods_are_refused(wall):
    for model, how in (("smoker", tacit.Laplace(0.5)), (MODEL, 0.5), (MODEL, "Laplace")):
        with pytest.raises(tacit.errors.ModelError):
            tacit.fit(model, wall, how)
    with pytest.raises(tacit.errors.BudgetError):
        tacit.methods.Statistics(0.5)
    assert wall.remaining.epsilon == 1


def test_a_name_replays(wall):
    first = tacit.fit(MODEL, wall, tacit.Laplace(0.5), name="smoking", seed=1)
    again = tacit.fit(MODEL, wall, tacit.Laplace(0.5), name="smoking", seed=1)
    assert [without_note(release) for release in again.releases] == list(first.releases)
    assert again.summary().equals(first.summary())
    assert str(wall.remaining.epsilon) == "0.5"


def test_a_release_can_be_fitted_again_for_free(wall):
    release = wall.release(MODEL.query(), tacit.Laplace(0.5))
    left = wall.remaining
    sceptic = tacit.BetaBernoulli("smoker", success="yes", prior=(1, 50))
    assert sceptic.posterior(release, seed=1).mean() < MODEL.posterior(release, seed=1).mean()
    assert wall.remaining == left
    with pytest.raises(tacit.errors.ModelError, match="answers"):
        tacit.DirichletCategorical("smoker").posterior(release)
    with pytest.raises(tacit.errors.ModelError, match="Unknown option"):
        MODEL.posterior(release, tune=100)


@pytest.mark.parametrize(
    ("levels", "budget", "mechanism"),
    [
        (3, tacit.Budget(1), tacit.Laplace),
        (3, tacit.Budget(1, 1e-6), tacit.Laplace),
        (3, tacit.Budget(1, 0.4), tacit.Gaussian),
    ],
)
def test_a_budget_takes_the_smaller_noise(levels, budget, mechanism):
    data = {"x": ["0", "1"] * 50}
    schema = tacit.Schema(tacit.Integer("x", 0, levels - 1), neighbours="replace_one")
    wall = tacit.Wall(data, schema, budget=tacit.Budget(9, 0.5), ledger=":memory:")
    posterior = tacit.fit(tacit.DirichletCategorical("x"), wall, budget)
    family = posterior.releases[0].noise[0].family
    assert (
        family
        == {"Laplace": "discrete_laplace", "Gaussian": "discrete_gaussian"}[mechanism.__name__]
    )
    assert posterior.certificate.epsilon == budget.epsilon


def test_one_posterior_sample_replays_and_can_be_fitted_again(wall):
    how = tacit.OnePosteriorSample(0.5, truncation=0.05)
    first = tacit.fit(MODEL, wall, how, name="draw", seed=1)
    again = tacit.fit(MODEL, wall, how, name="draw", seed=1)
    assert again.summary().equals(first.summary())
    assert str(wall.remaining.epsilon) == "0.5"
    release = first.releases[0]
    sceptic = tacit.BetaBernoulli("smoker", success="yes", prior=(1, 50))
    assert sceptic.posterior(release, seed=1).mean() < first.mean()
    with pytest.raises(tacit.errors.ModelError, match="answers"):
        tacit.DirichletCategorical("smoker").posterior(release)
    plugin = MODEL.posterior(release, noise="plugin", draws=10, chains=2)
    np.testing.assert_array_equal(plugin.draws["p"], release.table("p").value[0, 1])
    assert list(plugin.draws) == ["p"]


def test_a_truncation_is_asked_for_before_anything_is_spent(wall):
    def fitted(**options):
        return tacit.fit(MODEL, wall, tacit.OnePosteriorSample(1, **options))

    for make, says in (
        (fitted, r"OnePosteriorSample\(..., truncation=0.05\)"),
        (lambda: fitted(truncation=0.7), "truncation=0.7 < 1/2"),
        (lambda: fitted(truncation="much"), "truncation"),
        (lambda: fitted(truncation=(0, 1)), "truncation"),
        (lambda: tacit.OnePosteriorSample(1, truncation=0.1, draws=0), "draws"),
        (lambda: tacit.fit(MODEL, wall, tacit.queries.Exponential(1)), "OnePosteriorSample"),
    ):
        with pytest.raises(tacit.TacitError, match=says):
            make()
    with pytest.raises(tacit.errors.BudgetError, match="epsilon"):
        tacit.OnePosteriorSample(truncation=0.05)
    unknown = tacit.Public(SMOKERS, smoking(neighbours="add_remove"))
    with pytest.raises(tacit.errors.ModelError, match="max_units"):
        tacit.fit(MODEL, unknown, tacit.OnePosteriorSample(1, truncation=0.05))
    assert wall.remaining.epsilon == 1


def test_a_model_names_the_methods_that_suit_it(wall):
    class OnlyCounts:
        def query(self):
            return MODEL.query()

        def posterior(self, release, **sampling):
            return MODEL.posterior(release, **sampling)

    with pytest.raises(
        tacit.errors.ModelError,
        match=r"it can by tacit.Budget, tacit.Laplace, tacit.Gaussian; for a draw, write",
    ):
        tacit.fit(OnlyCounts(), wall, tacit.OnePosteriorSample(0.5, truncation=0.05))
    assert wall.remaining.epsilon == 1


def test_seeds_steer_the_draws_alone(wall):
    release = wall.release(MODEL.query(), tacit.Laplace(0.5))
    a, b = (MODEL.posterior(release, seed=s).draws["p"] for s in (1, 2))
    assert not np.array_equal(a, b)
    np.testing.assert_array_equal(a, MODEL.posterior(release, seed=1).draws["p"])
