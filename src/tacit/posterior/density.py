"""Posteriors of `LogDensity`: what a log-likelihood says of rows that one already has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.posterior.base import chunks, log_mean
from tacit.posterior.classes import ClassPosterior, codes_of, values_of
from tacit.posterior.intervals import tails
from tacit.spec.columns import Categorical, Time
from tacit.spec.errors import ModelError


@dataclass(frozen=True, eq=False)
class DensityPosterior(ClassPosterior):
    """Draws of the parameters, and the log-likelihood of one record.

    Values in a table are read like private data: one that is missing or no public level is the
    column's default; numbers beyond their bounds count as the bound. Where the target is a
    `Categorical`, its levels have probabilities in proportion to exp(log_likelihood). A number is
    predicted by a NumPyro model, which knows its law. `density` is not saved: a posterior
    from a file predicts nothing.
    """

    density: Any = None

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of each row's mean probability over draws, as the model counts it.

        A function that leaves out terms of the target alone has them missing here too.
        """
        rows, draws = self._rows(table, with_targets=True), self._values
        every = _every(self._density.log_likelihood_of)
        parts = [log_mean(_numbers(every(draws, rows[at]))) for at in self._chunks(rows)]
        return np.concatenate([np.zeros(0), *parts])

    def predict(self, table: Mapping[str, Any], target: str | None = None) -> np.ndarray:
        """Return each row's most probable class, or the posterior mean of its target."""
        if isinstance(self._column(target), Categorical):
            return super().predict(table, target)
        parts = [means.mean(axis=0) for means, _ in self._outcomes(table, 0)]
        return np.concatenate([np.zeros(0), *parts])

    def predict_interval(
        self,
        table: Mapping[str, Any],
        level: float = 0.9,
        target: str | None = None,
        *,
        seed: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals of each class's probability, or of each row's target."""
        if isinstance(self._column(target), Categorical):
            return super().predict_interval(table, level, target)
        ends = tails(level)
        parts = [np.quantile(draws, ends, axis=0) for _, draws in self._outcomes(table, seed)]
        low, high = np.concatenate([np.zeros((2, 0)), *parts], axis=1)
        return low, high

    def _target(self, target: str | None) -> str:
        targets = self._density.targets
        if len(targets) != 1 or target not in (None, *targets):
            raise ModelError(
                f"Expected one column that is observed, got {', '.join(targets) or 'none'}: "
                "posterior.log_likelihood(table) works for any."
            )
        return str(targets[0])

    def _classes(self, target: str) -> tuple[Any, ...]:
        column = self._column(target)
        if not isinstance(column, Categorical):
            raise ModelError(
                f"Expected a Categorical target for classes; {target!r} is a number: write "
                "posterior.predict(table)."
            )
        return tuple(column.levels)

    def _probabilities(self, table: Mapping[str, Any], target: str) -> Iterator[np.ndarray]:
        rows, draws = self._rows(table, with_targets=False), self._values
        every, place = _every(self._density.log_likelihood_of), self._density.columns.index(target)
        for at in self._chunks(rows, len(self._classes(target))):
            found = []
            for code in range(len(self._classes(target))):
                some = rows[at].copy()
                some[:, place] = code
                found.append(_numbers(every(draws, some)))
            logs = np.stack(found, axis=2)
            logs = np.exp(logs - logs.max(axis=2, keepdims=True))
            yield logs / logs.sum(axis=2, keepdims=True)

    def _outcomes(
        self, table: Mapping[str, Any], seed: int | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield means and draws of the target (draw, row), in chunks of rows."""
        import jax

        if self._density.outcome is None:
            raise ModelError(
                f"Expected a NumPyro model to predict {self._target(None)!r}: of a function "
                "log_likelihood no mean is known. posterior.log_likelihood(table) works."
            )
        rows, draws = self._rows(table, with_targets=False), self._values
        count = len(next(iter(draws.values())))
        entropy = np.random.default_rng(seed).integers(2**31)
        for i, at in enumerate(self._chunks(rows)):
            key = jax.random.fold_in(jax.random.key(int(entropy)), i)
            keys = jax.random.split(key, (count, len(rows[at])))
            means, found = _outcomes(self._density.outcome)(draws, rows[at], keys)
            yield _numbers(means), _numbers(found)

    @property
    def _density(self) -> Any:
        if self.density is None:
            raise ModelError(
                "A posterior from a file has no log-likelihood to predict with: fit again, under "
                "the same name= for nothing."
            )
        return self.density

    @property
    def _values(self) -> dict[str, np.ndarray]:
        return {name: self.flat(name).astype(np.float32) for name in self.draws}

    def _column(self, target: str | None) -> Any:
        return self.releases[0].schema[self._target(target)]

    def _chunks(self, rows: np.ndarray, times: int = 1) -> Iterator[slice]:
        return chunks(len(rows), self.flat().shape[0] * rows.shape[1] * times)

    def _rows(self, table: Mapping[str, Any], *, with_targets: bool) -> np.ndarray:
        """The columns of the model; without targets zeros stand for them."""
        schema, found = self.releases[0].schema, {}
        for name in self._density.columns:
            column = schema[name]
            if not with_targets and name in self._density.targets:
                continue
            if isinstance(column, Time):
                found[name] = codes_of(table, column).astype(float)
            else:
                found[name] = values_of(table, column)
        count = len(next(iter(found.values()))) if found else len(next(iter(dict(table).values())))
        columns = [found.get(name, np.zeros(count)) for name in self._density.columns]
        return np.column_stack(columns).astype(np.float32)


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values, float)


@lru_cache(maxsize=8)
def _every(log_likelihood: Any) -> Any:
    """Return log-likelihoods (draw, row), compiled."""
    import jax

    of_rows = jax.vmap(log_likelihood, in_axes=(None, 0))
    return jax.jit(jax.vmap(of_rows, in_axes=(0, None)))


@lru_cache(maxsize=8)
def _outcomes(outcome: Any) -> Any:
    """Return means and draws of a target (draw, row), compiled."""
    import jax

    of_rows = jax.vmap(outcome, in_axes=(None, 0, 0))
    return jax.jit(jax.vmap(of_rows, in_axes=(0, None, 0)))
