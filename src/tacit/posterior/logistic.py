"""The posterior of a logistic regression: probabilities of two levels for rows that one has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from tacit.posterior.base import Posterior
from tacit.posterior.labels import codes_of, values_of
from tacit.spec.columns import Categorical
from tacit.spec.design import Design
from tacit.spec.errors import ModelError

_AT_ONCE = 4_000_000  # numbers held at once, for a chunk of rows and all draws


class LogisticPosterior(Posterior):
    """Draws of `coef` and `intercept`, in original units.

    Values in a table are read like private data: one that is missing or no public level is
    the column's default; numbers beyond their bounds count as the bound.
    """

    def predict_proba(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the probability of both levels of the target for each row, averaged over draws."""
        parts = [expit(chunk).mean(axis=0) for chunk in self._log_odds(table)]
        second = np.concatenate([np.zeros(0), *parts])
        return np.column_stack([1 - second, second])

    def predict(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the more probable level of the target for each row."""
        return np.array(self.levels)[(self.predict_proba(table)[:, 1] > 0.5).astype(int)]

    def predict_interval(
        self, table: Mapping[str, Any], level: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the credible interval of each row's probability of the second level."""
        if not 0 < level < 1:
            raise ModelError(f"Expected 0 < level={level} < 1.")
        tails = [(1 - level) / 2, (1 + level) / 2]
        parts = [np.quantile(expit(chunk), tails, axis=0) for chunk in self._log_odds(table)]
        low, high = np.concatenate([np.zeros((2, 0)), *parts], axis=1)
        return low, high

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of the mean probability of each row's target over draws."""
        schema = self.releases[0].schema
        codes = codes_of(table, schema[self.model["target"]])
        if np.any(codes < 0):
            raise ModelError(f"Expected a level of {self.model['target']!r} in each row.")
        side, start, parts = 2 * codes - 1, 0, [np.zeros(0)]
        for chunk in self._log_odds(table):
            log = log_expit(chunk * side[start : start + chunk.shape[1]])
            top = log.max(axis=0)
            parts.append(top + np.log(np.exp(log - top).mean(axis=0)))
            start += chunk.shape[1]
        return np.concatenate(parts)

    @property
    def levels(self) -> tuple[Any, ...]:
        """The two levels of the target; probabilities are in their order."""
        column = self.releases[0].schema[self.model["target"]]
        assert isinstance(column, Categorical)
        return column.levels

    def _log_odds(self, table: Mapping[str, Any]) -> Iterator[np.ndarray]:
        """Yield the log odds of the second level, shape (draw, row), in chunks of rows."""
        design = Design.of(self.model["features"], self.releases[0].schema)
        values = np.column_stack([values_of(table, column) for column in design.columns])
        matrix, coef = design.columns_in_units(values), self.flat("coef")
        step = max(1, _AT_ONCE // len(coef))
        for start in range(0, len(matrix), step):
            yield self.flat("intercept")[:, None] + coef @ matrix[start : start + step].T
