"""The posterior of a discrete network: class probabilities for rows that one already has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.posterior.base import Posterior, column_of
from tacit.posterior.labels import codes_of
from tacit.spec.errors import ModelError

_AT_ONCE = 4_000_000  # numbers held at once, for a chunk of rows and all draws

Codes = dict[str, np.ndarray]


def family_name(name: str, parents: Sequence[str]) -> str:
    """Return the variable name of a column's table given its parents."""
    return f"p({name}|{','.join(parents)})" if parents else f"p({name})"


class DiscretePosterior(Posterior):
    """A posterior whose draws determine the joint law of discrete columns.

    Values in a table are read like private data: one outside the public domain is missing, or
    the column's default where it has one.
    """

    def predict_proba(self, table: Mapping[str, Any], target: str | None = None) -> np.ndarray:
        """Return the probability of each level of `target` for each row, averaged over draws.

        It is conditional on all other columns of the network. Naive Bayes needs no `target`.
        """
        name = self._target(target)
        parts = self._over(table, name, lambda p: p.mean(axis=0))
        return np.concatenate([np.zeros((0, len(self.coords[name]))), *parts])

    def predict(self, table: Mapping[str, Any], target: str | None = None) -> np.ndarray:
        """Return the most probable level of `target` for each row."""
        name = self._target(target)
        best = self.predict_proba(table, name).argmax(axis=1)
        return np.array(self.coords[name])[best]

    def predict_interval(
        self, table: Mapping[str, Any], level: float = 0.9, target: str | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the credible interval of each row's probability of each level."""
        if not 0 < level < 1:
            raise ModelError(f"Expected 0 < level={level} < 1.")
        name = self._target(target)
        tails = [(1 - level) / 2, (1 + level) / 2]
        parts = self._over(table, name, lambda p: np.quantile(p, tails, axis=0))
        found = np.concatenate([np.zeros((2, 0, len(self.coords[name]))), *parts], axis=1)
        return found[0], found[1]

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of each row's mean probability over draws."""
        codes = self._codes(table, self.columns)
        parts = [np.zeros(0)]
        for chunk in self._chunks(codes, 1):
            log = self._log_joint(chunk)
            top = log.max(axis=0)
            parts.append(top + np.log(np.exp(log - top).mean(axis=0)))
        return np.concatenate(parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the network."""
        raise NotImplementedError

    def _log_joint(self, codes: Codes) -> np.ndarray:
        """Return the log probability of each row under each draw, shape (draw, row)."""
        raise NotImplementedError

    def _log_scores(self, codes: Codes, target: str) -> np.ndarray:
        """Return log p(target, rest of the row) + constant of the row, shape (draw, row, level)."""
        raise NotImplementedError

    def _target(self, target: str | None) -> str:
        name = self.model.get("target") if target is None else target
        if name is None or name not in self.columns:
            raise ModelError(f"Expected target= to be one of {', '.join(self.columns)}.")
        return str(name)

    def _codes(self, table: Mapping[str, Any], names: Sequence[str]) -> Codes:
        schema = self.releases[0].schema
        codes = {name: codes_of(table, schema[name]) for name in names}
        if len({len(code) for code in codes.values()}) > 1:
            raise ModelError("Expected columns of the same length.")
        return codes

    def _over(
        self, table: Mapping[str, Any], target: str, reduce: Callable[[np.ndarray], np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Yield `reduce` of the probabilities (draw, row, level), in chunks of rows."""
        given = [name for name in self.columns if name != target]
        codes = self._codes(table, given)
        if not given:  # a network of one column: as many rows as the table has
            codes = {"": np.zeros(len(column_of(table, next(iter(table)))), dtype=np.int64)}
        for chunk in self._chunks(codes, len(self.coords[target])):
            log = self._log_scores(chunk, target)
            weight = np.exp(log - log.max(axis=2, keepdims=True))
            yield reduce(weight / weight.sum(axis=2, keepdims=True))

    def _chunks(self, codes: Codes, levels: int) -> Iterator[Codes]:
        rows = len(next(iter(codes.values())))
        draws = int(np.prod(next(iter(self.draws.values())).shape[:2]))
        step = max(1, _AT_ONCE // (draws * levels))
        for start in range(0, rows, step):
            yield {name: code[start : start + step] for name, code in codes.items()}


class NetworkPosterior(DiscretePosterior):
    """Draws of each table `p(column|parents)`.

    In a table to predict for, a column without children may have missing values: they are summed
    over, as in naive Bayes. Elsewhere a missing value is an error.
    """

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """From each column to its parents."""
        return {dims[-1]: dims[:-1] for dims in self.dims.values() if dims}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.graph)

    def _log_joint(self, codes: Codes) -> np.ndarray:
        logs = [self._log_family(name, codes, None)[..., 0] for name in self.graph]
        return np.asarray(sum(logs))

    def _log_scores(self, codes: Codes, target: str) -> np.ndarray:
        graph = self.graph
        touched = [name for name, parents in graph.items() if target in (name, *parents)]
        return np.asarray(sum(self._log_family(name, codes, target) for name in touched))

    def _log_family(self, name: str, codes: Codes, target: str | None) -> np.ndarray:
        """Return log p(name | parents), shape (draw, row, level of the target).

        The last axis has length 1 if the target is not in the family.
        """
        graph = self.graph
        family = (*graph[name], name)
        log = np.log(np.maximum(self.flat(family_name(name, graph[name])), 1e-300))
        every = np.arange(len(self.coords[target]))[None, :] if target is not None else None
        leaf = not any(name in parents for parents in graph.values())
        missing = codes[name] < 0 if leaf and name != target else np.zeros(1, dtype=bool)
        index: list[Any] = []
        for column in family:
            if column == target:
                index.append(every)
                continue
            code = codes[column]
            if np.any((code < 0) & ~missing):
                raise ModelError(
                    f"Expected a public level of {column!r} in each row: only a column without "
                    "children may be missing."
                )
            index.append(code[:, None])
        found = log[(slice(None), *index)]
        return np.where(missing[None, :, None], 0.0, found) if missing.any() else found
