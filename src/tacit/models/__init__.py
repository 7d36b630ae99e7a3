"""One model a file: what it believes, which statistic it needs, its posterior from a release.

A new model is added to MODELS; the contract tests then run on it. `LogDensity` is not in it: it
holds code, which no study file can name.
"""

from collections.abc import Mapping
from typing import Any

from tacit.models.bayes_net import BayesNet
from tacit.models.beta_bernoulli import BetaBernoulli
from tacit.models.dirichlet_categorical import DirichletCategorical
from tacit.models.gamma_exponential import GammaExponential
from tacit.models.gamma_poisson import GammaPoisson
from tacit.models.gaussian_mixture import GaussianMixture
from tacit.models.hmm import HMM
from tacit.models.lda import LDA
from tacit.models.linear_regression import LinearRegression
from tacit.models.log_density import LogDensity
from tacit.models.logistic_regression import LogisticRegression
from tacit.models.markov_random_field import MarkovRandomField
from tacit.models.multivariate_normal import MultivariateNormalModel
from tacit.models.naive_bayes import NaiveBayes
from tacit.models.naive_bayes_mixture import NaiveBayesMixture
from tacit.models.normal import NormalModel
from tacit.models.normal_mean import NormalMean
from tacit.models.sigmoid_belief_network import SigmoidBeliefNetwork
from tacit.spec.errors import ModelError

MODELS: Mapping[str, type[Any]] = {
    model.__name__: model
    for model in (
        BetaBernoulli,
        DirichletCategorical,
        GammaPoisson,
        GammaExponential,
        NormalMean,
        NormalModel,
        MultivariateNormalModel,
        LinearRegression,
        LogisticRegression,
        HMM,
        LDA,
        GaussianMixture,
        NaiveBayesMixture,
        SigmoidBeliefNetwork,
        NaiveBayes,
        BayesNet,
        MarkovRandomField,
    )
}


def model_from_description(facts: Mapping[str, Any]) -> Any:
    """The model that `describe` described, or that a study file asks for."""
    options = dict(facts)
    name = options.pop("model", None)
    if name not in MODELS:
        raise ModelError(f"Unknown model {name!r}; there are {', '.join(MODELS)}.")
    try:
        return MODELS[name](**options)
    except TypeError as error:
        raise ModelError(f"{name}: {str(error).split(' ', 1)[-1]}.") from None


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
