"""Posteriors given a release: draws with their certificate, and predictions."""

from tacit.posterior.base import Posterior, describe
from tacit.posterior.density import DensityPosterior
from tacit.posterior.hidden_states import HiddenStatesPosterior
from tacit.posterior.inference_data import load_arviz
from tacit.posterior.network import FieldPosterior, NetworkPosterior
from tacit.posterior.regression import LogisticPosterior, RegressionPosterior

__all__ = [
    "DensityPosterior",
    "FieldPosterior",
    "HiddenStatesPosterior",
    "LogisticPosterior",
    "NetworkPosterior",
    "Posterior",
    "RegressionPosterior",
    "describe",
    "load_arviz",
]
