"""What every model keeps, under every mechanism, relation and kind of schema.

A new model joins by being listed in MODELS and given an example here.
"""

import io
import json
from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from scipy.stats import beta, binom, gamma, kstest, norm, poisson, t

import tacit
from tacit import plots
from tacit.models import MODELS, model_from_description
from tacit.posterior import describe
from tacit.testing import simulated_release

EXAMPLES = {
    "BetaBernoulli": tacit.BetaBernoulli("kind", success=["b", "c"], prior=(2, 3)),
    "DirichletCategorical": tacit.DirichletCategorical("kind", prior=(1, 2, 0.5)),
    "GammaPoisson": tacit.GammaPoisson("visits"),
    "GammaExponential": tacit.GammaExponential("wait", prior=(2, 10)),
    "NormalMean": tacit.NormalMean("x", sd=2),
    "NormalModel": tacit.NormalModel("x"),
    "MultivariateNormalModel": tacit.MultivariateNormalModel(["x", "y"]),
    "LinearRegression": tacit.LinearRegression("y", ["x", "z"]),
    "HMM": tacit.HMM(2, "ward", "month", ["colour", "shape"], held_out=[("south", 3)]),
    "NaiveBayes": tacit.NaiveBayes("kind", ["flag", "wing"]),
    "BayesNet": tacit.BayesNet({"kind": [], "flag": ["kind"], "wing": ["kind", "flag"]}),
    "MarkovRandomField": tacit.MarkovRandomField([("kind", "flag"), ("flag", "wing")]),
}
# Models that ask in steps, each answer depending on the one before.
STEPWISE = {
    "LogisticRegression": tacit.LogisticRegression("flag", ["x", "kind"]),
    "GaussianMixture": tacit.GaussianMixture(2, ["x", "visits"]),
    "NaiveBayesMixture": tacit.NaiveBayesMixture(2, ["kind", "flag", "wing"]),
    "SigmoidBeliefNetwork": tacit.SigmoidBeliefNetwork(2, ["flag", "wing", "colour"]),
    "LDA": tacit.LDA(2),
}


def log_likelihood(parameters, x, y):
    return -0.5 * (y - parameters["coef"][0] * x[0] - parameters["coef"][1]) ** 2


# A model that holds code: no study file can name it, and the rest is asked of it too.
CODE = {
    "LogDensity": tacit.LogDensity(log_likelihood, x="x", y="y", parameters={"coef": (2,)}),
}
ALL = {**EXAMPLES, **STEPWISE, **CODE}
NETWORKS = ("NaiveBayes", "BayesNet", "MarkovRandomField")
COUNTS = ("BetaBernoulli", "DirichletCategorical")
MECHANISMS = [
    tacit.Laplace(0.5),
    tacit.Gaussian(0.5, 1e-6),
    tacit.Gaussian(noise_multiplier=8, delta=1e-6),
    tacit.Budget(0.5, 1e-6),
]
RELATIONS = ["replace_one", "add_remove"]
SCHEMAS = {
    "plain": {},
    "total": {"default": True},
    "several rows": {"unit": "who", "max_rows_per_unit": 3},
    "one row each": {"unit": "who", "max_rows_per_unit": 1},
    "capped": {"max_units": 2000},
}
# Every model under every mechanism, relation and schema would take minutes: all of it for two
# models that infer in different ways, the rest once with each mechanism and each schema.
THOROUGH = ("BetaBernoulli", "NormalModel")
PRODUCT = [
    (name, how, kind)
    for name in EXAMPLES
    for i, how in enumerate(MECHANISMS)
    for j, kind in enumerate(SCHEMAS)
    if name in THOROUGH or i == j % len(MECHANISMS)
]
NUMBERS = ("visits", "wait", "x", "y", "z")


def table(n: int = 600, kind: str = "plain") -> dict[str, np.ndarray]:
    """Rows that suit all models, or nearly none of them."""
    rng = np.random.default_rng(n)
    data = {
        "kind": rng.choice(["a", "b", "c", "", "other"], size=n, p=[0.5, 0.3, 0.1, 0.05, 0.05]),
        "who": rng.integers(0, max(n // 2, 1), size=n),
        "visits": rng.poisson(3, n).astype(float),
        "wait": rng.exponential(8, n),
        "x": rng.normal(1, 2, n),
        "z": rng.normal(0, 1, n),
    }
    data["flag"] = np.where(rng.random(n) < 0.3 + 0.4 * (data["kind"] == "a"), "no", "yes")
    data["wing"] = rng.choice([1, 2], n, p=[0.4, 0.6])
    data["y"] = 0.5 * data["x"] - data["z"] + rng.normal(0, 1, n)
    data["ward"] = rng.choice(["north", "south"], size=n)
    data["month"] = rng.integers(1, 5, size=n)
    early = (data["month"] <= 2) == (data["ward"] == "north")
    for name, levels in (("colour", ["red", "blue"]), ("shape", ["round", "square"])):
        data[name] = np.array(levels)[(rng.random(n) < np.where(early, 0.1, 0.9)).astype(int)]
    match kind:
        case "constant":
            data |= {name: np.full(n, 3.0) for name in NUMBERS} | {"kind": np.full(n, "b")}
            data |= {"flag": np.full(n, "no"), "wing": np.full(n, 2)}
        case "at a bound":
            data |= {"visits": np.full(n, 20.0), "wait": np.full(n, 60.0)}
            data |= {name: np.full(n, 10.0) for name in ("x", "y", "z")}
        case "missing":
            data |= {name: np.full(n, np.nan) for name in NUMBERS} | {"kind": np.full(n, "")}
            data |= {name: np.full(n, "") for name in ("month", "colour")}
            data |= {"flag": np.full(n, ""), "wing": np.full(n, -1)}
        case "identical":
            data |= {"y": data["x"], "z": data["x"]}
    return data


def schema(neighbours: str, default: bool = False, **options) -> tacit.Schema:
    other = {"default": 0} if default else {}
    return tacit.Schema(
        tacit.Categorical("kind", ["a", "b", "c"], default="a" if default else None),
        tacit.Categorical("flag", ["no", "yes"], default="no" if default else None),
        tacit.Categorical("wing", [1, 2], default=1 if default else None),
        tacit.Integer("visits", 0, 20, **other),
        tacit.Real("wait", 0, 60, **other),
        *(tacit.Real(name, -10, 10, **other) for name in ("x", "y", "z")),
        tacit.Categorical("ward", ["north", "south"], default="north" if default else None),
        tacit.Integer("month", 1, 4, **({"default": 1} if default else {})),
        tacit.Categorical("colour", ["red", "blue"], default="red" if default else None),
        tacit.Categorical("shape", ["round", "square"], default="round" if default else None),
        neighbours=neighbours,
        **options,
    )


@cache
def wall(neighbours, options, n, kind):
    """One for all models, which it can afford."""
    described = schema(neighbours, **dict(options))
    budget = tacit.Budget(10**6, 0.1)
    return tacit.Wall(table(n, kind), described, budget=budget, ledger=":memory:")


@cache
def public(neighbours, options=(), n=600, kind="plain"):
    return tacit.Public(table(n, kind), schema(neighbours, **dict(options)))


@cache
def documents(neighbours, options, n, kind):
    """A wall in front of letters, for topics: of two themes, or of nearly nothing."""
    rng = np.random.default_rng(n)
    themes = np.where(rng.random((n, 1)) < 0.5, np.arange(20) < 8, np.arange(20) >= 8)
    counts = rng.poisson(3 * themes + 0.1).astype(float)
    match kind:
        case "constant" | "identical":
            counts[:] = 1
        case "at a bound":
            counts[:] = 10**6
        case "missing":
            counts[:] = np.nan
    asked = {key: value for key, value in options if key in ("max_units",)}
    words = tacit.Tokens("letter", [f"word{i}" for i in range(20)], 100)
    described = tacit.Schema(words, neighbours=neighbours, **asked)
    budget = tacit.Budget(10**6, 0.1)
    return tacit.Wall(csr_matrix(counts), described, budget=budget, ledger=":memory:")


def fit(model, how, neighbours, options, n=600, kind="plain", **sampling):
    make = documents if isinstance(model, tacit.LDA) else wall
    behind = make(neighbours, tuple(options.items()), n, kind)
    return tacit.fit(model, behind, how, **{"draws": 200, "chains": 2, **sampling})


def stepwise(name, epsilon=2, *, neighbours="replace_one", **others):
    """The posterior of a model that asks in steps."""
    how, sampling = tacit.VIPS(epsilon, 1e-6), {"draws": 60, "chains": 2, "progress": False}
    if name in CODE:
        how, sampling = tacit.SGLD(epsilon, 1e-6, steps=12), dict.fromkeys(("draws", "chains"))
    options = {"default": True, "max_units": 2000} | others.pop("options", {})
    return fit(ALL[name], how, neighbours, options, **{**sampling, **others})


def fitted(name, **sampling):
    """The posterior of any model, with data that suit it."""
    if name in EXAMPLES:
        how, options = tacit.Laplace(2), {"default": True}
        return fit(EXAMPLES[name], how, "replace_one", options, **{"draws": 60, **sampling})
    return stepwise(name, **sampling)


def everything(name):
    """Relations and schemas: all of them for the thorough, else one of each kind."""
    if name in THOROUGH:
        return list(product(RELATIONS, SCHEMAS.values()))
    kinds = (("replace_one", "total"), ("add_remove", "plain"), ("replace_one", "several rows"))
    return [(neighbours, SCHEMAS[kind]) for neighbours, kind in kinds]


# A model that the wall can draw from, where its draws may lie, and a delta if it needs one.
DRAWN = {
    "BetaBernoulli": (EXAMPLES["BetaBernoulli"], 0.05, 0),
    "DirichletCategorical": (EXAMPLES["DirichletCategorical"], 0.05, 0),
    "NormalMean": (EXAMPLES["NormalMean"], None, 0),
    "NormalModel": (EXAMPLES["NormalModel"], (1.0, 8.0), 0),
    "LinearRegression": (tacit.LinearRegression("y", ["x"], prior_sd=1.0), 2.0, 1e-6),
    "NaiveBayes": (EXAMPLES["NaiveBayes"], 0.05, 0),
    "BayesNet": (EXAMPLES["BayesNet"], 0.05, 0),
    "GammaPoisson": (EXAMPLES["GammaPoisson"], None, 0),
    "GammaExponential": (EXAMPLES["GammaExponential"], (0.01, 1.0), 0),
}


def drawn(name, neighbours, options, n=600, *, several=False, **sampling):
    """A draw needs a bound on the number of units where that is secret.

    Its posterior takes hundreds of steps of as many chains as there are draws: few are asked for.
    """
    model, truncation, delta = DRAWN[name]
    how = tacit.OnePosteriorSample(0.5, delta, truncation=truncation)
    if several:
        how = tacit.OnePosteriorSample(2, 1e-6, draws=3, truncation=truncation, temper_prior=True)
    capped = {"max_units": 2000, **options} if neighbours == "add_remove" else options
    return fit(model, how, neighbours, capped, n, **{"draws": 20, **sampling})


def test_every_model_that_can_be_drawn_is_listed():
    able = {name for name, model in EXAMPLES.items() if hasattr(model, "draw_query")}
    assert able == set(DRAWN)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", DRAWN)
def test_a_posterior_from_draws_is_complete(name, several, tmp_path):
    for neighbours, options in everything(name):
        posterior = drawn(name, neighbours, options, several=several)
        summary = posterior.summary()
        assert np.all(np.isfinite(summary))
        assert posterior.certificate.epsilon <= (2 if several else 0.5)
        posterior.save(tmp_path / "p.nc")
        assert tacit.Posterior.load(tmp_path / "p.nc").summary().equals(summary)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", DRAWN)
def test_draws_from_no_data_are_no_error(name, n):
    for neighbours, options in everything(name):
        for noise in ("aware", "plugin"):
            posterior = drawn(name, neighbours, options, n=n, noise=noise)
            assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize("name", ALL)
def test_an_exponential_mechanism_advises_what_the_model_takes(name):
    """In words that can be copied: what is advised is accepted, and what can fit exists."""
    model = DRAWN[name][0] if name in DRAWN else ALL[name]
    known = public("replace_one", (("default", True),), 50)
    for delta in (0, 1e-5):
        with pytest.raises(tacit.errors.ModelError) as refused:
            tacit.fit(model, known, tacit.queries.Exponential(1, delta))
        said = str(refused.value)
        if "cannot be fitted by Exponential" in said:
            assert not hasattr(model, "draw_query")
            assert not hasattr(model, "likelihood")
            assert "for a draw, write the log-likelihood of a row" in said
            names = said.split("it can by ")[1].split(";", maxsplit=1)[0].split(", ")
            assert all(eval(each, {"tacit": tacit}) for each in names)
            continue
        advice = said.split(": write ")[1].removesuffix(".")
        how = eval(advice, {"tacit": tacit})
        assert delta == 0 or float(how.delta) == delta
        assert tacit.fit(model, known, how, seed=1).draws


def test_a_model_that_a_draw_cannot_be_made_of_says_why():
    known = public("replace_one", (("default", True),), 50)
    with pytest.raises(tacit.errors.ModelError, match=r"of a draw\. Expected .*prior_sd="):
        tacit.fit(ALL["LinearRegression"], known, tacit.queries.Exponential(1))
    walks = SimpleNamespace(walk=None, walk_posterior=None)  # no statistics, no derivatives
    with pytest.raises(tacit.errors.ModelError, match=r"a Budget; it can by .*PrivateMetropolis"):
        tacit.fit(walks, known, tacit.Budget(1, 1e-6))


def test_every_model_has_an_example():
    assert {*EXAMPLES, *STEPWISE} == set(MODELS)
    assert all(hasattr(model, "query") for model in EXAMPLES.values())


@pytest.mark.parametrize(("name", "how", "kind"), PRODUCT)
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


@pytest.mark.parametrize("kind", ["total", "several rows", "capped"])
@pytest.mark.parametrize("name", {**STEPWISE, **CODE})
def test_a_posterior_of_steps_is_complete(name, kind, tmp_path):
    for neighbours in RELATIONS:
        posterior = stepwise(name, neighbours=neighbours, options=SCHEMAS[kind], n=400)
        for draws in posterior.draws.values():
            assert name in CODE or draws.shape[:2] == (2, 60)
            assert np.all(np.isfinite(draws))
        summary = posterior.summary()
        assert list(summary.columns) == ["mean", "sd", "5%", "95%"]
        assert np.all(summary["5%"] <= summary["95%"])
        certificate = posterior.certificate
        assert (certificate.data, certificate.neighbours) == ("private", neighbours)
        assert certificate.epsilon <= 2
    posterior.save(tmp_path / "p.nc")
    again = tacit.Posterior.load(tmp_path / "p.nc")
    assert again.summary().equals(summary)
    for variable, draws in posterior.draws.items():
        np.testing.assert_array_equal(again.draws[variable], draws)
    if name not in ("LDA", *CODE):
        logs = posterior.log_likelihood(ROWS)
        assert np.all(np.isfinite(logs))
        np.testing.assert_array_equal(again.log_likelihood(ROWS), logs)


@pytest.mark.parametrize("name", ALL)
def test_draws_and_chains_are_honoured_or_refused(name):
    try:
        posterior = fitted(name, draws=7, chains=3)
    except tacit.errors.ModelError as error:
        assert "Expected no draws=" in str(error)  # noqa: PT017 - or it must be as below
        return
    assert all(draws.shape[:2] == (3, 7) for draws in posterior.draws.values())
    kept = posterior.to_arviz()["posterior"]
    assert (kept.sizes["chain"], kept.sizes["draw"]) == (3, 7)
    main = next(iter(posterior.draws))
    np.testing.assert_array_equal(kept[main].to_numpy(), posterior.draws[main])
    np.testing.assert_array_equal(posterior.sample(21), posterior.flat())


ROWS = {
    "kind": ["a", "b", "c"],
    "flag": ["no", "yes", "no"],
    "wing": [1, 2.0, "2"],
    "x": [0.0, 1.0, 9.0],
    "z": [0.0, 0.0, 1.0],
    "visits": [3, 0, 20],
    "colour": ["red", "blue", "red"],
    "letter": ["word1", "word9 word10", ""],
}
CLASSES = {
    "NaiveBayes": ("a", "b", "c"),
    "LogisticRegression": ("no", "yes"),
    "GaussianMixture": (0, 1),
    "NaiveBayesMixture": (0, 1),
    "BayesNet": ("a", "b", "c"),
    "MarkovRandomField": ("a", "b", "c"),
}


@pytest.mark.parametrize("name", ALL)
def test_predictions_mean_the_same_everywhere(name):
    posterior = fitted(name)
    if name == "LinearRegression":  # a number, and where it lies
        expected = posterior.predict(ROWS)
        low, high = posterior.predict_interval(ROWS, seed=1)
        assert expected.shape == low.shape == (3,)
        assert np.all((low < expected) & (expected < high))
        for absent in (lambda: posterior.classes, lambda: posterior.predict_proba(ROWS)):
            with pytest.raises(tacit.errors.ModelError, match="no features"):
                absent()
        return
    if name not in CLASSES:
        says = f"{name} has no features"
        if name == "LogDensity":  # a function of a number: how probable rows are is all it knows
            assert posterior.log_likelihood({**ROWS, "y": [0, 1, 2]}).shape == (3,)
            says = "no mean is known|is a number"
        for what in ("predict", "predict_proba", "predict_interval"):
            with pytest.raises(tacit.errors.ModelError, match=says):
                getattr(posterior, what)(ROWS)
        return
    target = {"target": "kind"} if name in ("BayesNet", "MarkovRandomField") else {}
    classes = CLASSES[name]
    if target:
        with pytest.raises(tacit.errors.ModelError, match="target="):
            _ = posterior.classes
    else:
        assert posterior.classes == classes
    probability = posterior.predict_proba(ROWS, **target)
    assert probability.shape == (3, len(classes))
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(
        posterior.predict(ROWS, **target), np.array(classes)[probability.argmax(axis=1)]
    )
    low, high = posterior.predict_interval(ROWS, 0.99, **target)
    assert low.shape == high.shape == probability.shape
    assert np.all((low <= probability) & (probability <= high))
    with pytest.raises(tacit.errors.ModelError, match="level"):
        posterior.predict_interval(ROWS, 1.5, **target)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", {**STEPWISE, **CODE})
def test_few_rows_are_no_error_in_steps(name, n):
    for neighbours, noise in product(RELATIONS, ("aware", "plugin")):
        options = {"noise": noise} if name not in CODE else {}
        given = {"max_units": None} if neighbours == "replace_one" else {}
        posterior = stepwise(name, neighbours=neighbours, n=n, options=given, **options)
        assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize("kind", ["constant", "at a bound", "missing", "identical"])
@pytest.mark.parametrize("name", {**STEPWISE, **CODE})
def test_strange_data_are_no_error_in_steps(name, kind):
    for epsilon in (0.1, 100):
        posterior = stepwise(name, epsilon, kind=kind, options={"default": False})
        assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize("name", EXAMPLES)
def test_much_budget_meets_no_noise(name):
    """At epsilon 10^4 the private posterior is the non-private one, under every kind of schema."""
    for neighbours, options in everything(name):
        private = fit(EXAMPLES[name], tacit.Laplace(10**4), neighbours, options, seed=1)
        known = public(neighbours, tuple(options.items()))
        exact = tacit.fit(EXAMPLES[name], known, tacit.Exact(), draws=200, chains=2, seed=2)
        sd = exact.sample(400).std(axis=0)
        # two means of 400 draws differ by more than 6 of their own errors once in 10^9
        np.testing.assert_array_less(
            np.abs(private.mean() - exact.mean()), 6 * sd * np.sqrt(2 / 400)
        )


@pytest.mark.parametrize("name", EXAMPLES)
def test_little_budget_gives_a_wide_posterior(name):
    for neighbours, options in everything(name):
        wide = fit(EXAMPLES[name], tacit.Laplace("1e-6"), neighbours, options, seed=1)
        narrow = fit(EXAMPLES[name], tacit.Laplace(50), neighbours, options, seed=1)
        assert np.all(np.isfinite(wide.summary()))
        assert np.all(spread(wide) > spread(narrow))


def spread(posterior) -> np.ndarray:
    """How wide the main variable's interval is, which heavy tails leave alone."""
    low, high = posterior.interval()
    return np.asarray(high) - np.asarray(low)


NEARLY_PRIOR = {
    "BetaBernoulli": (tacit.BetaBernoulli("kind", success="b", prior=(2, 3)), beta(2, 3)),
    "GammaPoisson": (tacit.GammaPoisson("visits", prior=(0.3, 0.1)), gamma(0.3, scale=10)),
    "GammaExponential": (tacit.GammaExponential("wait", prior=(2, 10)), gamma(2, scale=1 / 10)),
    "NormalMean": (tacit.NormalMean("x", sd=2, prior=(1, 3)), norm(1, 3)),
    "NormalModel": (tacit.NormalModel("x", 1, 4, 0.5, 9), t(9, 1, 0.25)),
}


@pytest.mark.parametrize("name", NEARLY_PRIOR)
def test_nothing_is_learnt_from_noise(name):
    """At epsilon 1e-6 the posterior is the prior: Kolmogorov's test, false alarms 1e-6 each."""
    model, prior = NEARLY_PRIOR[name]
    posterior = fit(model, tacit.Laplace("1e-6"), "replace_one", {"default": True}, draws=2000)
    every = 5 if name == "NormalModel" else 1  # chains remember a little
    assert kstest(posterior.sample(4000)[::every], prior.cdf).pvalue > 1e-6


FEW = [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))]


@pytest.mark.parametrize("n", FEW)
@pytest.mark.parametrize("name", EXAMPLES)
def test_few_rows_are_no_error(name, n):
    ways = [(*how, "aware") for how in everything(name)] + [(*everything(name)[0], "plugin")]
    for neighbours, options, noise in ways:
        posterior = fit(
            EXAMPLES[name], tacit.Laplace(1), neighbours, options, n=n, noise=noise, draws=50
        )
        assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize("kind", ["constant", "at a bound", "missing", "identical"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_strange_data_are_no_error(name, kind):
    ways = [
        (0.1, "replace_one", "aware"),
        (0.1, "add_remove", "aware"),
        (300, "replace_one", "aware"),
        (1, "replace_one", "plugin"),
    ]
    for epsilon, neighbours, noise in ways:
        how = tacit.Laplace(epsilon)
        posterior = fit(EXAMPLES[name], how, neighbours, {}, kind=kind, noise=noise, draws=50)
        assert np.all(np.isfinite(posterior.summary()))
    known = public("replace_one", kind=kind)
    posterior = tacit.fit(EXAMPLES[name], known, tacit.Exact(), draws=50)
    assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize(
    "model",
    [
        tacit.GammaPoisson("visits", prior=(1e6, 1e8)),
        tacit.GammaPoisson("visits", prior=(1e-6, 1e-6)),
        tacit.GammaExponential("wait", prior=(1e6, 1e3)),
        tacit.NormalMean("x", sd=0.01, prior=(-5, 0.01)),
        tacit.NormalMean("x", sd=1, prior=(2000, 1)),
        tacit.NormalModel("x", -5, 1e6, 3e-4, 1e6),
        tacit.NormalModel("x", prior_sd=3e-4),
        tacit.LinearRegression("y", ["x", "z"], prior_scale=1e6),
    ],
    ids=str,
)
def test_a_prior_against_the_data_is_no_error(model):
    for how, kind in product((tacit.Laplace(1), tacit.Laplace(300)), ("plain", "identical")):
        posterior = fit(model, how, "replace_one", {"default": True}, kind=kind, draws=50)
        assert np.all(np.isfinite(posterior.summary()))


@pytest.mark.parametrize("name", EXAMPLES)
def test_predictive_draws_are_of_the_right_kind(name):
    posterior = fit(EXAMPLES[name], tacit.Laplace(1), "replace_one", {"default": True})
    if name == "HMM":
        rows = {"ward": ["north", "south"], "month": [1, 3]}
        rows |= {"colour": ["red", "green"], "shape": ["round", "square"]}
        assert np.all(posterior.log_likelihood(rows) < 0)
        return
    if name == "LinearRegression":
        with pytest.raises(tacit.errors.ModelError, match="predict"):
            posterior.predictive()
        with pytest.raises(tacit.errors.ModelError, match="'z'"):
            posterior.predict({"x": [0.0]})
        return
    if name in NETWORKS:
        logs = posterior.log_likelihood(ROWS)
        assert logs.shape == (3,)
        assert np.all(logs < 0)
        assert set(posterior.predictive("kind")) <= {"a", "b", "c"}
        assert set(posterior.predictive("wing")) <= {1, 2}
        with pytest.raises(tacit.errors.ModelError, match="'wing'"):
            posterior.predict_proba({"flag": ["no"]}, target="kind")
        return
    values = posterior.predictive()
    assert values.shape == ((400, 2) if name == "MultivariateNormalModel" else (400,))
    match name:
        case "BetaBernoulli":
            assert values.dtype == bool
        case "DirichletCategorical":
            assert set(values) <= {"a", "b", "c"}
        case "GammaPoisson":
            assert np.issubdtype(values.dtype, np.integer)
            assert values.min() >= 0
        case "GammaExponential":
            assert values.min() > 0
        case _:
            assert np.all(np.isfinite(values))


@pytest.mark.parametrize("name", EXAMPLES)
def test_another_prior_is_free(name):
    described = schema("replace_one", default=True)
    budget = tacit.Budget(10, 1e-6)
    behind = tacit.Wall(table(), described, budget=budget, ledger=":memory:")
    posterior = tacit.fit(EXAMPLES[name], behind, tacit.Laplace(2), seed=1)
    left = behind.remaining
    model, (release,) = EXAMPLES[name], posterior.releases
    other = {
        "LinearRegression": {"prior_scale": 2.0},
        "NormalMean": {"prior": (2.0, 1.0)},
        "HMM": {"prior": 3.0},
    }.get(name, {"prior_sd_rows": 5.0} if "NormalModel" in name else {"prior": None})
    if name in NETWORKS:
        other = {"prior_scale": 1.0} if name == "MarkovRandomField" else {"prior": 3.0}
    if other == {"prior": None}:
        other = {"prior": (3.0, 3.0, 3.0) if name == "DirichletCategorical" else (3.0, 3.0)}
    again = replace(model, **other).posterior(release, seed=1)
    assert not again.summary().equals(posterior.summary())
    main = next(iter(posterior.draws))

    def tilted(draws):  # towards large values: conjugate to nothing here
        first = draws[main].reshape(len(draws[main]), -1)[:, 0]
        return model.log_prior(draws, release) + np.tanh(first)

    tacit.with_prior(posterior, tilted, seed=1)
    assert behind.remaining == left


@pytest.mark.parametrize("name", ALL)
def test_the_same_prior_and_its_truncations_are_taken_or_the_model_refused(name):
    posterior = fitted(name, **({} if name in CODE else {"draws": 300}))
    model, (release,) = ALL[name], posterior.releases
    main = next(iter(posterior.draws))
    first = posterior.flat().reshape(len(posterior.flat()), -1)[:, 0]
    median = np.median(first)

    def same(draws):
        return model.log_prior(draws, release) + 3.0

    def cut(draws):
        below = draws[main].reshape(len(draws[main]), -1)[:, 0] < median
        return np.where(below, same(draws), -np.inf)

    def likelier_above(draws):  # two weights, and no tail
        above = draws[main].reshape(len(draws[main]), -1)[:, 0] > median
        return same(draws) + np.where(above, np.log(3.0), 0.0)

    if name not in EXAMPLES:
        with pytest.raises(tacit.errors.ModelError) as refused:
            tacit.with_prior(posterior, same)
        assert str(refused.value) == (
            f"Expected a model that has the density of its prior, which {name} has not: fit it "
            "again with another prior."
        )
        return
    tied = np.isclose(first, median, rtol=0, atol=1e-9).mean()
    for prior, share in ((same, 0.5), (cut, 0.0), (likelier_above, 0.75)):
        again = tacit.with_prior(posterior, prior, seed=1).flat()
        above = (again.reshape(len(again), -1)[:, 0] > median).mean()
        # a share of so many draws, each drawn by itself: wrong once in 10^9
        assert abs(above - share) <= 3 / np.sqrt(len(again)) + tied


@pytest.mark.parametrize("name", ALL)
def test_every_model_has_its_pictures(name):
    posterior = fitted(name)
    shown = plots.pictures(posterior)
    assert shown
    assert len({picture.title for picture in shown}) == len(shown)
    for picture in shown:
        figure = Figure(figsize=(4, picture.height))
        axes = picture.draw(figure.subplots())
        assert figure.axes == [axes]
        assert axes.has_data()
        figure.savefig(io.BytesIO(), format="svg")


def test_a_prior_without_mass_or_in_the_tail_is_refused_in_words():
    posterior = fitted("NormalMean", draws=500)
    top = np.sort(posterior.flat())[-10]
    with pytest.raises(tacit.errors.ModelError, match="it is at 9 of 1000"):
        tacit.with_prior(posterior, lambda d: np.where(d["mean"] > top, 0.0, -np.inf))
    with pytest.raises(tacit.errors.ModelError, match="Pareto k"):
        tacit.with_prior(posterior, lambda d: 1e4 * d["mean"])
    for wrong in (np.nan, np.inf):
        with pytest.raises(tacit.errors.ModelError, match="each finite or -inf"):
            tacit.with_prior(posterior, lambda d, wrong=wrong: np.full(len(d["mean"]), wrong))


def grid_means(log, at):
    weight = np.exp(log - log.max())
    return float((weight * at).sum() / weight.sum())


def humps(at):
    """A prior that no Beta or Gamma can be."""
    return np.logaddexp(norm.logpdf(at, 0.25, 0.08), norm.logpdf(at, 0.55, 0.05))


def test_another_prior_agrees_with_a_grid_for_a_probability():
    n, b = 60, 1.0 / 0.5
    described = tacit.Schema(
        tacit.Categorical("k", ["no", "yes"], default="no"), neighbours="replace_one"
    )
    model = tacit.BetaBernoulli("k", success="yes")
    release = simulated_release(described, model.query(), tacit.Laplace(0.5), [24], n)
    found = tacit.with_prior(
        model.posterior(release, draws=20_000, seed=1), lambda d: humps(d["p"]), seed=2
    )
    p, s = np.linspace(0.0005, 0.9995, 1000), np.arange(n + 1)
    y = float(release.value[0])
    noise = -np.abs(y - s) / b
    like = np.log(np.exp(binom.logpmf(s, n, p[:, None]) + noise).sum(axis=1))
    want = grid_means(like + humps(p), p)
    sd = found.sample(1000).std()
    assert abs(found.mean() - want) < 6 * sd * np.sqrt(2 / 20_000) + 1e-3 * sd  # weighted draws
    other = tacit.BetaBernoulli("k", success="yes", prior=(5, 2)).posterior(
        release, draws=20_000, seed=3
    )
    want = grid_means(like + beta.logpdf(p, 5, 2), p)
    assert abs(other.mean() - want) < 5 * other.sample(1000).std() / np.sqrt(80_000) + 1e-4


def test_another_prior_agrees_with_a_grid_for_a_rate():
    n, cap = 40, 6
    described = tacit.Schema(tacit.Integer("v", 0, cap, default=0), neighbours="replace_one")
    model = tacit.GammaPoisson("v", prior=(2, 1))
    release = simulated_release(described, model.query(), tacit.Laplace(0.5), [70 / 3 - n], n)
    (law,) = release.noise
    y, b = n * cap / 2 + cap / 2 * float(release.value[0]), cap / 2 * law.scale
    rate = np.linspace(0.002, 12, 1500)
    one = poisson.pmf(np.arange(cap + 1), rate[:, None])
    one /= one.sum(axis=1, keepdims=True)
    size = 512
    total = np.maximum(np.fft.irfft(np.fft.rfft(one, size) ** n, size), 0)[:, : n * cap + 1]
    like = np.log(total @ np.exp(-np.abs(y - np.arange(n * cap + 1)) / b))

    def wiggly(at):
        return norm.logpdf(np.log(at), 0.7, 0.3) + np.sin(6 * at)

    fitted = model.posterior(release, draws=20_000, seed=1)
    found = tacit.with_prior(fitted, lambda d: wiggly(d["rate"]), seed=2)
    for posterior, log in ((fitted, gamma.logpdf(rate, 2)), (found, wiggly(rate))):
        want, sd = grid_means(like + log, rate), posterior.sample(1000).std()
        assert abs(posterior.mean() - want) < 8 * sd / np.sqrt(80_000) + 2e-3 * sd


@pytest.mark.parametrize("name", {**EXAMPLES, **STEPWISE})
def test_a_model_survives_its_description(name):
    plain = json.loads(json.dumps(describe(ALL[name])))
    again = model_from_description(plain)
    assert name in STEPWISE or again.query() == ALL[name].query()
    assert describe(again) == plain


@pytest.mark.parametrize("name", {**EXAMPLES, **STEPWISE})
def test_options_have_one_name_each(name):
    """Counts are n_<what>, and what is about a prior begins with it, but for LDA's known names."""
    options = describe(ALL[name])
    assert not {"n", "k", "topics", "states", "components", "hidden"} & set(options)
    about_priors = {key for key in options if "prior" in key}
    assert all(key.startswith("prior") for key in about_priors)
    assert about_priors or name == "LDA"


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
        lambda: tacit.GammaPoisson("visits", prior=(0, 1)),
        lambda: tacit.GammaPoisson("visits", prior=(1, float("inf"))),
        lambda: tacit.GammaExponential("wait", prior=(-1, 1)),
        lambda: tacit.GammaExponential("wait", prior=3),
        lambda: tacit.NormalMean("x"),
        lambda: tacit.NormalMean("x", sd=0),
        lambda: tacit.NormalMean("x", sd=float("nan")),
        lambda: tacit.NormalMean("x", sd=1, prior=(0, 0)),
        lambda: tacit.NormalModel("x", prior_sd_rows=0),
        lambda: tacit.NormalModel("x", prior_mean_rows=-1),
        lambda: tacit.NormalModel("x", prior_mean="middle"),
        lambda: tacit.NormalModel("x", prior_sd=float("inf")),
        lambda: tacit.MultivariateNormalModel(["x", "y"], prior_mean=(1,)),
        lambda: tacit.MultivariateNormalModel(["x", "y"], prior_sd=(1, 0)),
        lambda: tacit.NaiveBayes("kind", []),
        lambda: tacit.NaiveBayes("kind", ["kind"]),
        lambda: tacit.NaiveBayes("kind", ["flag", "flag"]),
        lambda: tacit.NaiveBayes("kind", ["flag"], prior=0),
        lambda: tacit.BayesNet({}),
        lambda: tacit.BayesNet(["kind"]),
        lambda: tacit.BayesNet({"kind": ["kind"]}),
        lambda: tacit.BayesNet({"kind": ["flag"], "flag": ["kind"]}),
        lambda: tacit.BayesNet({"kind": [1]}),
        lambda: tacit.BayesNet({"kind": ["flag", "flag"]}),
        lambda: tacit.BayesNet({"a|b": [], "a": ["b"]}),  # two tables of one name
        lambda: tacit.MarkovRandomField([]),
        lambda: tacit.MarkovRandomField("kind"),
        lambda: tacit.MarkovRandomField([("kind", "kind")]),
        lambda: tacit.MarkovRandomField([("kind", 3)]),
        lambda: tacit.MarkovRandomField([("a,b", "c"), ("a", "b,c")]),
        lambda: tacit.MarkovRandomField([("kind", "flag")], prior_scale=0),
        lambda: tacit.LinearRegression("y", []),
        lambda: tacit.LinearRegression("y", ["x", "y"]),
        lambda: tacit.LinearRegression("y", ["x"], prior_scale=0),
        lambda: tacit.HMM(0, "ward", "month", ["colour"]),
        lambda: tacit.HMM(2.5, "ward", "month", ["colour"]),
        lambda: tacit.HMM(2, "ward", "month", []),
        lambda: tacit.HMM(2, "ward", "ward", ["colour"]),
        lambda: tacit.HMM(2, "ward", "month", ["states"]),
        lambda: tacit.HMM(2, "ward", "month", ["colour"], prior=0),
        lambda: tacit.HMM(2, "ward", "month", ["colour"], held_out=["north"]),
        lambda: tacit.HMM(2, "ward", "month", ["colour"], sampler="gibbs"),
        lambda: model_from_description({"model": "Oracle"}),
        lambda: model_from_description({"model": "HMM", "n_states": 2}),
        lambda: model_from_description({"model": "BetaBernoulli", "colour": "red"}),
    ],
)
def test_improper_models_are_refused(make):
    with pytest.raises(tacit.errors.ModelError):
        make()


def test_a_prior_must_fit_the_levels():
    for prior in ((1, 2), {"a": 1, "b": 1}, {"a": 1, "b": 1, "z": 1}):
        with pytest.raises(tacit.errors.ModelError):
            fit(tacit.DirichletCategorical("kind", prior=prior), tacit.Laplace(1), "add_remove", {})
    by_name = tacit.DirichletCategorical("kind", prior={"c": 0.5, "a": 1, "b": 2})
    in_order = tacit.DirichletCategorical("kind", prior=(1, 2, 0.5))
    release = fit(in_order, tacit.Laplace(1), "add_remove", {}).releases[0]
    assert (
        by_name.posterior(release, seed=1)
        .summary()
        .equals(in_order.posterior(release, seed=1).summary())
    )
