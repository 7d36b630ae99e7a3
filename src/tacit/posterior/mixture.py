"""The posterior of a mixture: component probabilities of rows that one has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tacit.posterior.base import Posterior
from tacit.posterior.labels import values_of
from tacit.spec.columns import Categorical

_AT_ONCE = 2_000_000  # numbers held at once, for a chunk of rows and all draws
_DRAWS = 400  # number of draws to average over


class MixturePosterior(Posterior):
    """Draws of `weights`, and of each component's `means` and `sds`, or `p(...)` of levels.

    Columns are independent within a component. Values in a table are read like private data:
    one that is missing or no public level is the column's default; numbers beyond their
    bounds count as the bound.
    """

    def predict_proba(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the probability of each component for each row, averaged over draws."""
        parts = [
            np.exp(chunk - logsumexp(chunk, axis=-1, keepdims=True)).mean(axis=0)
            for chunk in self._log_joint(table)
        ]
        return np.concatenate([np.zeros((0, self.flat("weights").shape[1])), *parts])

    def predict(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the most probable component of each row."""
        return self.predict_proba(table).argmax(axis=1)

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of each row's mean density over draws."""
        parts = [np.zeros(0)]
        for chunk in self._log_joint(table):
            parts.append(logsumexp(chunk, axis=(0, 2)) - np.log(len(chunk)))
        return np.concatenate(parts)

    def _log_joint(self, table: Mapping[str, Any]) -> Iterator[np.ndarray]:
        """Yield log p(row, component), shape (draw, row, component), in chunks of rows."""
        features = self.model["features"]
        columns = [self.releases[0].schema[name] for name in features]
        values = np.column_stack([values_of(table, column) for column in columns])
        count = min(_DRAWS, len(self.flat("weights")))
        draws = {name: self.sample(count, name) for name in self.draws}
        weights = np.log(draws["weights"] + 1e-300)[:, None]
        step = max(1, _AT_ONCE // weights.size)
        for start in range(0, len(values), step):
            logs = weights
            for j, column in enumerate(columns):
                chunk = values[start : start + step, j]
                if isinstance(column, Categorical):
                    p = draws[f"p({column.name})"]
                    logs = logs + np.log(p + 1e-300)[:, :, chunk.astype(int)].swapaxes(1, 2)
                else:
                    mean, sd = draws["means"][:, None, :, j], draws["sds"][:, None, :, j]
                    away = (chunk[:, None] - mean) / sd
                    logs = logs - 0.5 * away**2 - np.log(sd * np.sqrt(2 * np.pi))
            yield logs
