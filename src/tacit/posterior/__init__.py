"""Posteriors given a release: draws with their certificate, and predictions."""

from tacit.posterior.base import Posterior, load_arviz
from tacit.posterior.field import FieldPosterior
from tacit.posterior.hidden_states import HiddenStatesPosterior
from tacit.posterior.logistic import LogisticPosterior
from tacit.posterior.network import DiscretePosterior, NetworkPosterior
from tacit.posterior.regression import RegressionPosterior

__all__ = [
    "DiscretePosterior",
    "FieldPosterior",
    "HiddenStatesPosterior",
    "LogisticPosterior",
    "NetworkPosterior",
    "Posterior",
    "RegressionPosterior",
    "load_arviz",
]
