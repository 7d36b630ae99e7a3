"""The posterior of a regression: it predicts a number for rows that one already has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.posterior.base import Posterior, column_of


class RegressionPosterior(Posterior):
    """Draws of `coef`, `intercept` and `sigma`."""

    def predict(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the expected target of each row of a table that you already have.

        `table` has a column for each feature: a DataFrame, or a mapping from names to numbers.
        """
        return self._lines(table).mean(axis=0)

    def predict_interval(
        self, table: Mapping[str, Any], level: float = 0.9, *, seed: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictive interval of each row's target, of probability `level`."""
        lines = self._lines(table)
        rng = np.random.default_rng(seed)
        values = lines + self.flat("sigma")[:, None] * rng.standard_normal(lines.shape)
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def _lines(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the regression mean of each draw at each row, shape (draw, row)."""
        columns = [np.asarray(column_of(table, name), float) for name in self.coords["feature"]]
        return self.flat("intercept")[:, None] + self.flat("coef") @ np.stack(columns)
