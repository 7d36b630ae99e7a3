"""What is believed after a release: draws with their certificate, and what models predict."""

from tacit.posterior.base import Posterior, load_arviz
from tacit.posterior.regression import RegressionPosterior

__all__ = ["Posterior", "RegressionPosterior", "load_arviz"]
