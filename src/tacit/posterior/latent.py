"""Posteriors of models whose rows have latent variables: mixtures and belief networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tacit.infer.belief_networks import log_likelihood
from tacit.posterior.base import Posterior, chunks
from tacit.posterior.classes import ClassPosterior, values_of
from tacit.spec.columns import Categorical

_DRAWS, _NETWORK_DRAWS = 400, 50  # number of draws to average over


class MixturePosterior(ClassPosterior):
    """Draws of `weights`, and of each component's `means` and `sds`, or `p(...)` of levels.

    The classes are the components' numbers, the most common first. Columns are independent within
    a component. Values in a table are read like private data: one that is missing or no public
    level is the column's default; numbers beyond their bounds count as the bound.
    """

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of each row's mean density over draws."""
        logs = self._log_joint(table)
        parts = [logsumexp(chunk, axis=(0, 2)) - np.log(len(chunk)) for chunk in logs]
        return np.concatenate([np.zeros(0), *parts])

    def _target(self, target: str | None) -> str:
        return "component"

    def _probabilities(self, table: Mapping[str, Any], target: str) -> Iterator[np.ndarray]:
        for chunk in self._log_joint(table):
            yield np.exp(chunk - logsumexp(chunk, axis=-1, keepdims=True))

    def _log_joint(self, table: Mapping[str, Any]) -> Iterator[np.ndarray]:
        """Yield log p(row, component), shape (draw, row, component), in chunks of rows."""
        columns = [self.releases[0].schema[name] for name in self.model["features"]]
        values = np.column_stack([values_of(table, column) for column in columns])
        count = min(_DRAWS, len(self.flat("weights")))
        draws = {name: self.sample(count, name) for name in self.draws}
        weights = np.log(draws["weights"] + 1e-300)[:, None]
        for rows in chunks(len(values), weights.size):
            logs = weights
            for j, column in enumerate(columns):
                chunk = values[rows, j]
                if isinstance(column, Categorical):
                    p = draws[f"p({column.name})"]
                    logs = logs + np.log(p + 1e-300)[:, :, chunk.astype(int)].swapaxes(1, 2)
                else:
                    mean, sd = draws["means"][:, None, :, j], draws["sds"][:, None, :, j]
                    away = (chunk[:, None] - mean) / sd
                    logs = logs - 0.5 * away**2 - np.log(sd * np.sqrt(2 * np.pi))
            yield logs


class BeliefNetworkPosterior(Posterior):
    """Draws of `weights` (visible, hidden), `intercepts` and the hidden units' log `odds`."""

    def log_likelihood(self, table: Mapping[str, Any], *, seed: int = 0) -> np.ndarray:
        """Return the log of each row's mean probability over draws.

        Sums over all states of up to 12 hidden units, and over 4096 random states of more.
        """
        schema, rng = self.releases[0].schema, np.random.default_rng(seed)
        columns = [schema[name] for name in self.model["visible"]]
        rows = np.column_stack([values_of(table, column) for column in columns])
        count = min(_NETWORK_DRAWS, len(self.flat("odds")))
        weights, intercepts = self.sample(count, "weights"), self.sample(count, "intercepts")
        logs = [
            log_likelihood(rows, odds, np.column_stack([constant, each]), rng)
            for each, constant, odds in zip(
                weights, intercepts, self.sample(count, "odds"), strict=True
            )
        ]
        return np.asarray(logsumexp(logs, axis=0) - np.log(count))
