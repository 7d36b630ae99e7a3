"""What every model refuses is refused before the charge, in words, with the ledger unchanged.

A new model joins by being listed in MODELS and given its wrong arguments here. The schema is that
of the other contracts; each case is a model that is sound by itself and does not suit it.
"""

import re

import pandas as pd
import pytest

import tacit
from tacit.errors import PrivacyWarning
from tacit.models import MODELS
from tacit.spec.mechanisms import Exponential
from tests.contracts.test_models import schema, table

LAPLACE, SPEND = tacit.Laplace(0.5), tacit.Budget(0.5, 1e-6)
DRAW = tacit.OnePosteriorSample(0.5, 1e-6, truncation=0.05)
WRONG = {
    "BetaBernoulli": [
        (tacit.BetaBernoulli("nowhere", success="a"), LAPLACE),
        (tacit.BetaBernoulli("kind", success="z"), LAPLACE),
        (tacit.BetaBernoulli("kind", success=["a", "b", "c"]), LAPLACE),
        (tacit.BetaBernoulli("wait", success=1), LAPLACE),
        (tacit.BetaBernoulli("kind", success="a"), Exponential(1)),
        (tacit.BetaBernoulli("kind", success="a"), tacit.OnePosteriorSample(1)),
    ],
    "DirichletCategorical": [
        (tacit.DirichletCategorical("nowhere"), LAPLACE),
        (tacit.DirichletCategorical("wait"), LAPLACE),
        (tacit.DirichletCategorical("kind", prior=[1, 1]), SPEND),
        (tacit.DirichletCategorical("kind", prior={"a": 1, "b": 1}), LAPLACE),
        (tacit.DirichletCategorical("kind", prior={"a": 1, "b": 1, "z": 1}), DRAW),
    ],
    "GammaPoisson": [
        (tacit.GammaPoisson("nowhere"), LAPLACE),
        (tacit.GammaPoisson("x"), LAPLACE),
        (tacit.GammaPoisson("kind"), SPEND),
        (tacit.GammaPoisson("month"), LAPLACE),
    ],
    "GammaExponential": [
        (tacit.GammaExponential("nowhere"), LAPLACE),
        (tacit.GammaExponential("x"), SPEND),
        (tacit.GammaExponential("kind"), LAPLACE),
    ],
    "NormalMean": [
        (tacit.NormalMean("nowhere", sd=1), LAPLACE),
        (tacit.NormalMean("kind", sd=1), LAPLACE),
        (tacit.NormalMean("x", sd=1e9), LAPLACE),
        (tacit.NormalMean("x", sd=1e-9), SPEND),
        (tacit.NormalMean("x", sd=1, prior=(1e9, 1)), LAPLACE),
        (tacit.NormalMean("x", sd=1, prior=(0, 1e12)), LAPLACE),
        (tacit.NormalMean("x", sd=1, prior=(0, 1e-12)), LAPLACE),
    ],
    "NormalModel": [
        (tacit.NormalModel("nowhere"), LAPLACE),
        (tacit.NormalModel("kind"), LAPLACE),
        (tacit.NormalModel("x", prior_mean=1e9), LAPLACE),
        (tacit.NormalModel("x", prior_sd=1e9), LAPLACE),
        (tacit.NormalModel("x", prior_sd=1e-12), LAPLACE),
    ],
    "MultivariateNormalModel": [
        (tacit.MultivariateNormalModel(["x", "nowhere"]), LAPLACE),
        (tacit.MultivariateNormalModel(["x", "kind"]), LAPLACE),
        (tacit.MultivariateNormalModel(["x", "y"], prior_mean=(0, 1e9)), LAPLACE),
        (tacit.MultivariateNormalModel(["x", "y"], prior_sd=(1, 1e9)), LAPLACE),
    ],
    "LinearRegression": [
        (tacit.LinearRegression("nowhere", ["x"]), LAPLACE),
        (tacit.LinearRegression("y", ["nowhere"]), LAPLACE),
        (tacit.LinearRegression("y", ["kind"]), LAPLACE),
        (tacit.LinearRegression("kind", ["x"]), LAPLACE),
        (tacit.LinearRegression("y", ["x"], prior_sd=1e9), LAPLACE),
        (tacit.LinearRegression("y", ["x"]), tacit.OnePosteriorSample(1, 1e-6, truncation=2)),
    ],
    "HMM": [
        (tacit.HMM(2, "ward", "month", ["nowhere"]), LAPLACE),
        (tacit.HMM(2, "ward", "nowhere", ["colour"]), LAPLACE),
        (tacit.HMM(2, "ward", "month", ["wait"]), LAPLACE),
        (tacit.HMM(2, "ward", "month", ["colour"], held_out=[("east", 1)]), LAPLACE),
        (tacit.HMM(2, "ward", "month", ["colour"], held_out=[("north", 9)]), SPEND),
        (tacit.HMM(2, "ward", "month", ["colour"], sampler="single_site"), LAPLACE),
        (
            tacit.HMM(2, "ward", "month", ["colour"], held_out=[("north", 1)]),
            tacit.methods.PrivateGibbs(1, truncation=0.1, sweeps=2),
        ),
    ],
    "NaiveBayes": [
        (tacit.NaiveBayes("nowhere", ["flag"]), LAPLACE),
        (tacit.NaiveBayes("kind", ["nowhere"]), LAPLACE),
        (tacit.NaiveBayes("kind", ["wait"]), SPEND),
    ],
    "BayesNet": [
        (tacit.BayesNet({"kind": ["nowhere"]}), LAPLACE),
        (tacit.BayesNet({"kind": ["wait"]}), SPEND),
        (tacit.BayesNet({"kind": ["flag"]}), tacit.OnePosteriorSample(1)),
    ],
    "MarkovRandomField": [
        (tacit.MarkovRandomField([("kind", "nowhere")]), LAPLACE),
        (tacit.MarkovRandomField([("kind", "wait")]), LAPLACE),
        (  # 4 * 3 * 3 * 22 * 5 * 3 * 3 * 3 combinations
            tacit.MarkovRandomField(
                [
                    (c, "kind")
                    for c in ("flag", "wing", "visits", "month", "ward", "colour", "shape")
                ]
            ),
            LAPLACE,
        ),
    ],
    "LogisticRegression": [
        (tacit.LogisticRegression("nowhere", ["x"]), SPEND),
        (tacit.LogisticRegression("flag", ["nowhere"]), SPEND),
        (tacit.LogisticRegression("kind", ["x"]), SPEND),
        (tacit.LogisticRegression("x", ["kind"]), SPEND),
        (tacit.LogisticRegression("flag", ["x"]), LAPLACE),
        (tacit.LogisticRegression("flag", ["x"]), tacit.Budget(1)),
    ],
    "GaussianMixture": [
        (tacit.GaussianMixture(2, ["nowhere"]), SPEND),
        (tacit.GaussianMixture(2, ["kind"]), SPEND),
        (tacit.GaussianMixture(2, ["x"]), LAPLACE),
        (tacit.GaussianMixture(2, ["x"]), tacit.PrivateNewton(1, 1e-6)),
    ],
    "NaiveBayesMixture": [
        (tacit.NaiveBayesMixture(2, ["nowhere"]), SPEND),
        (tacit.NaiveBayesMixture(2, ["x"]), SPEND),
    ],
    "SigmoidBeliefNetwork": [
        (tacit.SigmoidBeliefNetwork(2, ["nowhere"]), SPEND),
        (tacit.SigmoidBeliefNetwork(2, ["kind"]), SPEND),
    ],
    "LDA": [(tacit.LDA(2), SPEND), (tacit.LDA(2), LAPLACE)],
    "LogDensity": [],
}
CASES = [(name, i) for name, cases in WRONG.items() for i in range(len(cases))]


def test_every_model_has_its_wrong_arguments():
    assert set(WRONG) == {*MODELS, "LogDensity"}


@pytest.fixture
def behind():
    budget = tacit.Budget(1, 1e-5)
    return tacit.Wall(table(50), schema("replace_one"), budget=budget, ledger=":memory:")


@pytest.mark.parametrize(("name", "i"), CASES)
def test_a_model_that_does_not_suit_is_refused_before_the_charge(name, i, behind):
    model, how = WRONG[name][i]
    with pytest.raises(tacit.TacitError) as caught:
        tacit.fit(model, behind, how, draws=10, chains=1, progress=False)
    assert behind.remaining.epsilon == 1, f"charged: {caught.value}"
    said = str(caught.value)
    assert re.search(r"[Nn]othing was|[Nn]o budget was spent", said), said
    assert "\n" not in said
    with pytest.raises(tacit.TacitError):
        tacit.plan(model, schema("replace_one"), how, n_units=50)


FRAME = pd.DataFrame({"flag": ["no", "yes"], "x": [1.0, 2.0]})
MISTAKES = {
    "a table in place of a wall": (
        lambda wall: tacit.fit(tacit.BetaBernoulli("flag", success="yes"), FRAME, LAPLACE),
        r"behind a wall, tacit\.Wall\(.*got DataFrame",
    ),
    "a class in place of a model": (
        lambda wall: tacit.fit(tacit.BetaBernoulli, wall, LAPLACE),
        r"not its class: write tacit\.BetaBernoulli\(\.\.\.\)",
    ),
    "a class in place of a mechanism": (
        lambda wall: tacit.fit(tacit.NormalModel("x"), wall, tacit.Laplace),
        r"tacit\.Laplace\(0\.5\)",
    ),
    "a series in place of a table": (
        lambda wall: tacit.Public(FRAME["x"], schema("replace_one")),
        "got Series",
    ),
    "a formula": (
        lambda wall: tacit.fit(tacit.LogisticRegression("flag ~ x + z"), wall, SPEND),
        r"write target='flag', features=\['x', 'z'\]",
    ),
    "a wall in place of a schema": (
        lambda wall: tacit.plan(tacit.NormalModel("x"), wall, LAPLACE),
        r"Expected a tacit\.Schema, got Wall",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_slips_of_python_are_answered_in_words(mistake, behind):
    make, says = MISTAKES[mistake]
    with pytest.raises(tacit.TacitError, match=says):
        make(behind)
    assert behind.remaining.epsilon == 1


def test_parameters_that_were_hardly_meant_are_doubted(behind):
    wall = tacit.Wall(table(50), schema("replace_one"), budget=tacit.Budget(100), ledger=":memory:")
    with pytest.warns(PrivacyWarning, match="Epsilon 50 promises little"):
        tacit.fit(tacit.NormalModel("x"), wall, tacit.Laplace(50), draws=10, chains=1)
    with pytest.raises(tacit.OverBudgetError, match="under a name"):
        tacit.fit(tacit.NormalModel("x"), behind, tacit.Laplace(2))
