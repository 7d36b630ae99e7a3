"""What every model keeps, under every mechanism, relation and kind of schema.

A new model joins by being listed in MODELS and given an example here.
"""

import json
from itertools import product

import numpy as np
import pytest

import tacit
from tacit.models import MODELS, model_from_description
from tacit.models.description import describe
from tacit.spec.protocols import DrawModel, StatisticsModel

EXAMPLES = {
    "BetaBernoulli": tacit.BetaBernoulli("kind", success=["b", "c"], prior=(2, 3)),
    "DirichletCategorical": tacit.DirichletCategorical("kind", prior=(1, 2, 0.5)),
}
MECHANISMS = [
    tacit.Laplace(0.5),
    tacit.Gaussian(0.5, 1e-6),
    tacit.Gaussian(noise_multiplier=8, delta=1e-6),
    tacit.Budget(0.5, 1e-6),
]
RELATIONS = ["replace_one", "add_remove"]
SCHEMAS = {
    "plain": {},
    "total": {"default": "a"},
    "several rows": {"unit": "who", "max_rows_per_unit": 3},
    "one row each": {"unit": "who", "max_rows_per_unit": 1},
    "capped": {"max_units": 2000},
}


def table(n: int = 600) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    kind = rng.choice(["a", "b", "c", "", "other"], size=n, p=[0.5, 0.3, 0.1, 0.05, 0.05])
    return {"kind": kind, "who": rng.integers(0, max(n // 2, 1), size=n)}


def schema(neighbours: str, default: str | None = None, **options) -> tacit.Schema:
    column = tacit.Categorical("kind", ["a", "b", "c"], default=default)
    return tacit.Schema(column, neighbours=neighbours, **options)


def fit(model, how, neighbours, options, n=600, **sampling):
    described = schema(neighbours, **options)
    wall = tacit.Wall(table(n), described, budget=tacit.Budget(1000, 0.1), ledger=":memory:")
    return tacit.fit(model, wall, how, draws=200, chains=2, **sampling)


DRAWS = [
    tacit.OnePosteriorSample(0.5, truncation=0.05),
    tacit.OnePosteriorSample(2, 1e-6, draws=3, truncation=0.1, temper_prior=True),
]


def drawn(model, how, neighbours, options, n=600, **sampling):
    """A draw needs a bound on the number of units where that is secret."""
    capped = {"max_units": 2000, **options} if neighbours == "add_remove" else options
    return fit(model, how, neighbours, capped, n, **sampling)


@pytest.mark.parametrize("how", DRAWS, ids=str)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_posterior_from_draws_is_complete(name, how, tmp_path):
    assert isinstance(EXAMPLES[name], DrawModel)
    for neighbours, options in product(RELATIONS, SCHEMAS.values()):
        posterior = drawn(EXAMPLES[name], how, neighbours, options)
        summary = posterior.summary()
        assert np.all(np.isfinite(summary))
        assert posterior.certificate.epsilon == how.epsilon
        posterior.save(tmp_path / "p.nc")
        assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(summary)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", EXAMPLES)
def test_draws_from_no_data_are_no_error(name, n):
    for neighbours, options in product(RELATIONS, SCHEMAS.values()):
        for noise in ("aware", "plugin"):
            posterior = drawn(EXAMPLES[name], DRAWS[0], neighbours, options, n=n, noise=noise)
            assert np.all(np.isfinite(posterior.summary()))


def test_every_model_has_an_example():
    assert set(EXAMPLES) == set(MODELS)
    assert all(isinstance(model, StatisticsModel) for model in EXAMPLES.values())


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("how", MECHANISMS, ids=str)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_posterior_is_complete(name, how, kind, tmp_path):
    for neighbours in RELATIONS:
        posterior = fit(EXAMPLES[name], how, neighbours, SCHEMAS[kind])
        for draws in posterior.draws.values():
            assert draws.shape[:2] == (2, 200)
            assert np.all(np.isfinite(draws))
        summary = posterior.summary()
        assert list(summary.columns) == ["mean", "sd", "5%", "95%"]
        assert np.all(summary["5%"] <= summary["95%"])
        certificate = posterior.certificate
        assert certificate.data == "private"
        assert certificate.neighbours == neighbours
        assert certificate.ledger is not None
        posterior.save(tmp_path / "p.nc")
        assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(summary)


@pytest.mark.parametrize("name", EXAMPLES)
def test_much_budget_meets_no_noise(name):
    """At epsilon 200 the private posterior is the non-private one, under every kind of schema."""
    for neighbours, options in product(RELATIONS, SCHEMAS.values()):
        private = fit(EXAMPLES[name], tacit.Laplace(200), neighbours, options, seed=1)
        public = tacit.Public(table(), schema(neighbours, **options))
        exact = tacit.fit(EXAMPLES[name], public, tacit.Exact(), draws=200, chains=2, seed=2)
        sd = exact.sample(400).std(axis=0)
        # two means of 400 draws differ by more than 6 of their own errors once in 10^9
        np.testing.assert_array_less(
            np.abs(private.mean() - exact.mean()), 6 * sd * np.sqrt(2 / 400)
        )


@pytest.mark.parametrize("name", EXAMPLES)
def test_little_budget_gives_a_wide_posterior(name):
    for neighbours, options in product(RELATIONS, SCHEMAS.values()):
        wide = fit(EXAMPLES[name], tacit.Laplace("1e-6"), neighbours, options, seed=1)
        narrow = fit(EXAMPLES[name], tacit.Laplace(50), neighbours, options, seed=1)
        assert np.all(wide.sample(400).std(axis=0) > narrow.sample(400).std(axis=0))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_data_is_no_error(name, n):
    for neighbours, options in product(RELATIONS, SCHEMAS.values()):
        for noise in ("aware", "plugin"):
            posterior = fit(EXAMPLES[name], tacit.Laplace(1), neighbours, options, n=n, noise=noise)
            assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_model_survives_its_description(name):
    plain = json.loads(json.dumps(describe(EXAMPLES[name])))
    again = model_from_description(plain)
    assert again.query() == EXAMPLES[name].query()
    assert describe(again) == plain


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_saved_release_is_enough(name, tmp_path):
    posterior = fit(EXAMPLES[name], tacit.Laplace(1), "replace_one", {}, seed=3)
    posterior.releases[0].save(tmp_path / "r.release")
    again = EXAMPLES[name].posterior(
        tacit.Release.load(tmp_path / "r.release"), draws=200, chains=2, seed=3
    )
    assert again.summary().equals(posterior.summary())


@pytest.mark.parametrize(
    "make",
    [
        lambda: tacit.BetaBernoulli("kind"),
        lambda: tacit.BetaBernoulli("kind", success="a", prior=(0, 1)),
        lambda: tacit.BetaBernoulli("kind", success="a", prior=(1,)),
        lambda: tacit.BetaBernoulli("kind", success="a", prior=(1, float("nan"))),
        lambda: tacit.BetaBernoulli("kind", success="a", prior=1),
        lambda: tacit.DirichletCategorical("kind", prior=-1),
        lambda: tacit.DirichletCategorical("kind", prior="much"),
        lambda: tacit.DirichletCategorical("kind", prior={"a": 0}),
        lambda: model_from_description({"model": "Oracle"}),
        lambda: model_from_description({"model": "BetaBernoulli", "colour": "red"}),
    ],
)
def test_improper_models_are_refused(make):
    with pytest.raises(tacit.ModelError):
        make()


def test_a_prior_must_fit_the_levels():
    for prior in ((1, 2), {"a": 1, "b": 1}, {"a": 1, "b": 1, "z": 1}):
        with pytest.raises(tacit.ModelError):
            fit(tacit.DirichletCategorical("kind", prior=prior), tacit.Laplace(1), "add_remove", {})
    by_name = tacit.DirichletCategorical("kind", prior={"c": 0.5, "a": 1, "b": 2})
    in_order = tacit.DirichletCategorical("kind", prior=(1, 2, 0.5))
    release = fit(in_order, tacit.Laplace(1), "add_remove", {}).releases[0]
    assert (
        by_name.posterior(release, seed=1)
        .summary()
        .equals(in_order.posterior(release, seed=1).summary())
    )
