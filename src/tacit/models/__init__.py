"""Models: the prior, the statistic that is needed, and the posterior from a release.

A new model is added to `__all__`; the contract tests then run on it. `LogDensity` is not in MODELS:
it holds code, which no study file can name.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tacit.models.bayes_net import BayesNet, NaiveBayes
from tacit.models.categorical import BetaBernoulli, DirichletCategorical
from tacit.models.gamma_rates import GammaExponential, GammaPoisson
from tacit.models.gaussian_mixture import GaussianMixture
from tacit.models.hmm import HMM
from tacit.models.lda import LDA
from tacit.models.linear_regression import LinearRegression
from tacit.models.log_density import LogDensity
from tacit.models.logistic_regression import LogisticRegression
from tacit.models.markov_random_field import MarkovRandomField
from tacit.models.naive_bayes_mixture import NaiveBayesMixture
from tacit.models.normal import MultivariateNormalModel, NormalMean, NormalModel
from tacit.models.sigmoid_belief_network import SigmoidBeliefNetwork
from tacit.spec.checks import meant
from tacit.spec.errors import ModelError

__all__ = [
    "HMM",
    "LDA",
    "MODELS",
    "BayesNet",
    "BetaBernoulli",
    "DirichletCategorical",
    "GammaExponential",
    "GammaPoisson",
    "GaussianMixture",
    "LinearRegression",
    "LogDensity",
    "LogisticRegression",
    "MarkovRandomField",
    "MultivariateNormalModel",
    "NaiveBayes",
    "NaiveBayesMixture",
    "NormalMean",
    "NormalModel",
    "SigmoidBeliefNetwork",
    "model_from_description",
]

MODELS: Mapping[str, type[Any]] = {
    name: globals()[name]
    for name in __all__
    if name not in ("LogDensity", "MODELS", "model_from_description")
}


def model_from_description(facts: Mapping[str, Any]) -> Any:
    """Return the model that `describe` described, or that a study file asks for."""
    options = dict(facts)
    name = options.pop("model", None)
    if name not in MODELS:
        what = "Expected a model" if name is None else f"Unknown model {name!r}"
        raise ModelError(f"{what}; there are {', '.join(MODELS)}{meant(name, MODELS)}")
    known = [field.name for field in fields(MODELS[name])]
    for option in options:
        if option not in known:
            raise ModelError(
                f"{name} does not take {option}; it may have {', '.join(known)}"
                f"{meant(option, known)}"
            )
    try:
        return MODELS[name](**options)
    except TypeError as error:
        raise ModelError(f"{name}: {str(error).split(' ', 1)[-1]}.") from None
