"""Posteriors of regressions: a number, or one of two levels, for rows that one already has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from tacit.posterior.base import Posterior, chunks, column_of, log_mean
from tacit.posterior.classes import ClassPosterior, codes_of, values_of
from tacit.posterior.intervals import tails
from tacit.spec.columns import Categorical, Column
from tacit.spec.design import Design
from tacit.spec.errors import ModelError


class RegressionPosterior(Posterior):
    """Draws of `coef`, `intercept` and `sigma`."""

    def predict(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the expected target of each row of a table that you already have.

        `table` has a column for each feature, numbers or levels: a DataFrame or a mapping.
        """
        return self._lines(table).mean(axis=0)

    def predict_interval(
        self, table: Mapping[str, Any], level: float = 0.9, *, seed: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the predictive interval, of probability `level`, of each target."""
        lines = self._lines(table)
        rng = np.random.default_rng(seed)
        values = lines + self.flat("sigma")[:, None] * rng.standard_normal(lines.shape)
        low, high = np.quantile(values, tails(level), axis=0)
        return low, high

    def _lines(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the regression mean of each draw at each row, shape (draw, row)."""
        schema = self.releases[0].schema
        columns = [_numbers(table, schema[name]) for name in self.coords["feature"]]
        return self.flat("intercept")[:, None] + self.flat("coef") @ np.stack(columns)


def _numbers(table: Mapping[str, Any], column: Column) -> np.ndarray:
    """A feature as floats: the index of a level; a number is not clipped, for lines go on."""
    if isinstance(column, Categorical):
        return values_of(table, column)
    try:
        return np.asarray(column_of(table, column.name), float)
    except (TypeError, ValueError):
        raise ModelError(f"Expected numbers in the column {column.name!r} of the table.") from None


class LogisticPosterior(ClassPosterior):
    """Draws of `coef` and `intercept`, in original units.

    Values in a table are read like private data: one that is missing or no public level is
    the column's default; numbers beyond their bounds count as the bound.
    """

    def predict_proba(self, table: Mapping[str, Any], target: str | None = None) -> np.ndarray:
        self._target(target)
        parts = [expit(odds).mean(axis=0) for _, odds in self._log_odds(table)]
        second = np.concatenate([np.zeros(0), *parts])
        return np.column_stack([1 - second, second])  # so that both add up to 1 exactly

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        codes = codes_of(table, self.releases[0].schema[self.model["target"]])
        if np.any(codes < 0):
            raise ModelError(f"Expected a level of {self.model['target']!r} in each row.")
        parts = [log_mean(log_expit(o * (2 * codes[at] - 1))) for at, o in self._log_odds(table)]
        return np.concatenate([np.zeros(0), *parts])

    def _classes(self, target: str) -> tuple[Any, ...]:
        column = self.releases[0].schema[target]
        assert isinstance(column, Categorical)
        return column.levels

    def _probabilities(self, table: Mapping[str, Any], target: str) -> Iterator[np.ndarray]:
        for _, odds in self._log_odds(table):
            second = expit(odds)
            yield np.stack([1 - second, second], axis=2)

    def _log_odds(self, table: Mapping[str, Any]) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the log odds of the second level, shape (draw, row), in chunks of rows."""
        design = Design.of(self.model["features"], self.releases[0].schema)
        values = np.column_stack([values_of(table, column) for column in design.columns])
        matrix, coef = design.columns_in_units(values), self.flat("coef")
        for rows in chunks(len(matrix), len(coef)):
            yield rows, self.flat("intercept")[:, None] + coef @ matrix[rows].T
