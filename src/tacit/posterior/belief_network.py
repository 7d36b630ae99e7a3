"""The posterior of a sigmoid belief network: log likelihoods of rows that one has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tacit.infer.belief_networks import log_likelihood
from tacit.posterior.base import Posterior
from tacit.posterior.labels import values_of

_DRAWS = 50  # number of draws to average over


class BeliefNetworkPosterior(Posterior):
    """Draws of `weights` (visible, hidden), `intercepts` and the hidden units' log `odds`."""

    def log_likelihood(self, table: Mapping[str, Any], *, seed: int = 0) -> np.ndarray:
        """Return the log of each row's mean probability over draws.

        Sums over all states of up to 12 hidden units, and over 4096 random states of more.
        """
        schema, rng = self.releases[0].schema, np.random.default_rng(seed)
        columns = [schema[name] for name in self.model["visible"]]
        rows = np.column_stack([values_of(table, column) for column in columns])
        count = min(_DRAWS, len(self.flat("odds")))
        weights, intercepts = self.sample(count, "weights"), self.sample(count, "intercepts")
        logs = [
            log_likelihood(rows, odds, np.column_stack([constant, each]), rng)
            for each, constant, odds in zip(
                weights, intercepts, self.sample(count, "odds"), strict=True
            )
        ]
        return np.asarray(logsumexp(logs, axis=0) - np.log(count))
