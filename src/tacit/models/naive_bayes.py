"""Naive Bayes: features that are independent of one another given a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from tacit.models.bayes_net import BayesNet
from tacit.models.description import describe, positive
from tacit.models.networks import log_tables_prior, posterior_of
from tacit.posterior import NetworkPosterior
from tacit.spec.errors import ModelError
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import SamplingOptions


@dataclass(frozen=True)
class NaiveBayes:
    """The class in column `target`, and each feature given the class.

    Parameters
    ----------
    target, features
        Countable columns of the schema.
    prior
        The concentration of the Dirichlet prior of the classes, and of each feature in each class.

    One table (target, feature) is released for each feature. The posterior is exact: all tables
    count the same rows, and inference uses that.

    Examples
    --------
    >>> NaiveBayes("harm", ["ward", "shift"]).query().columns
    (('harm', 'ward'), ('harm', 'shift'))
    """

    target: str
    features: Sequence[str]
    prior: float = 1.0

    def __post_init__(self) -> None:
        features = (self.features,) if isinstance(self.features, str) else tuple(self.features)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "prior", positive((self.prior,), 1, "prior")[0])
        if not features or self.target in features or len(set(features)) < len(features):
            raise ModelError("Expected features, each once, and the target not among them.")
        _ = self.net  # the graph is checked there

    @property
    def net(self) -> BayesNet:
        """The same as a network."""
        star = dict.fromkeys(self.features, (self.target,))
        return BayesNet({self.target: (), **star}, self.prior)

    def query(self) -> Counts:
        return self.net.query()

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> NetworkPosterior:
        """The posterior of `p(target)` and of `p(feature|target)` for each feature."""
        return posterior_of(describe(self), release, self.net.graph, self.prior, sampling)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of the tables."""
        return log_tables_prior(draws, self.net.graph, self.prior)
