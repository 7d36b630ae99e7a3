"""The posterior of a mixture: which component rows that one has are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tacit.posterior.base import Posterior
from tacit.posterior.labels import values_of
from tacit.spec.columns import Categorical

_AT_ONCE = 2_000_000  # numbers held for some rows and all draws
_DRAWS = 400  # as many are averaged over


class MixturePosterior(Posterior):
    """Draws of `weights`, and of each component's `means` and `sds`, or `p(...)` of levels.

    Components are independent numbers or levels. Values in a table are read as the wall reads
    them: one that is missing or no public level is the column's default; numbers beyond their
    bounds count as the bound.
    """

    def predict_proba(self, table: Mapping[str, Any]) -> np.ndarray:
        """The probability of each component for each row, averaged over draws."""
        parts = [
            np.exp(some - logsumexp(some, axis=-1, keepdims=True)).mean(axis=0)
            for some in self._log_joint(table)
        ]
        return np.concatenate([np.zeros((0, self.flat("weights").shape[1])), *parts])

    def predict(self, table: Mapping[str, Any]) -> np.ndarray:
        """The most probable component of each row."""
        return self.predict_proba(table).argmax(axis=1)

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """The log density of each row, averaged over draws as densities are."""
        parts = [np.zeros(0)]
        for some in self._log_joint(table):
            parts.append(logsumexp(some, axis=(0, 2)) - np.log(len(some)))
        return np.concatenate(parts)

    def _log_joint(self, table: Mapping[str, Any]) -> Iterator[np.ndarray]:
        """The log density of a row and a component (draw, row, component), some rows at a time."""
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
                some = values[start : start + step, j]
                if isinstance(column, Categorical):
                    p = draws[f"p({column.name})"]
                    logs = logs + np.log(p + 1e-300)[:, :, some.astype(int)].swapaxes(1, 2)
                else:
                    mean, sd = draws["means"][:, None, :, j], draws["sds"][:, None, :, j]
                    away = (some[:, None] - mean) / sd
                    logs = logs - 0.5 * away**2 - np.log(sd * np.sqrt(2 * np.pi))
            yield logs
