"""Posteriors of discrete networks, directed or not: class probabilities for rows that one has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from tacit.posterior.base import chunks, column_of, log_mean
from tacit.posterior.classes import ClassPosterior, codes_of
from tacit.spec.errors import ModelError

Codes = dict[str, np.ndarray]


def family_name(name: str, parents: Sequence[str]) -> str:
    """Return the variable name of a column's table given its parents."""
    return f"p({name}|{','.join(parents)})" if parents else f"p({name})"


def margin_name(clique: Sequence[str]) -> str:
    """Return the variable name of a clique's probabilities."""
    return f"p({','.join(clique)})"


def potential_name(clique: Sequence[str]) -> str:
    """Return the variable name of a clique's log potentials."""
    return f"log_potential({','.join(clique)})"


class DiscretePosterior(ClassPosterior):
    """A posterior whose draws determine the joint law of discrete columns.

    Probabilities are conditional on all other columns of the network. Values in a table are read
    like private data: one outside the public domain is missing, or the column's default where it
    has one.
    """

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        codes = self._codes(table, self.columns)
        constant = self._log_normaliser()
        scores = (self._log_scores(chunk, None)[..., 0] for chunk in self._chunks(codes, 1))
        return np.concatenate([np.zeros(0), *(log_mean(score - constant) for score in scores)])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the network."""
        raise NotImplementedError

    def _log_scores(self, codes: Codes, target: str | None) -> np.ndarray:
        """Return log p(target, rest of the row) + constant of the row, shape (draw, row, level).

        Without a target, the one level is that of the row, and the constant is one of the draw.
        """
        raise NotImplementedError

    def _log_normaliser(self) -> np.ndarray | float:
        """Return the constant of each draw in scores without a target."""
        return 0.0

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

    def _probabilities(self, table: Mapping[str, Any], target: str) -> Iterator[np.ndarray]:
        given = [name for name in self.columns if name != target]
        codes = self._codes(table, given)
        if not given:  # a network of one column: as many rows as the table has
            codes = {"": np.zeros(len(column_of(table, next(iter(table)))), dtype=np.int64)}
        for chunk in self._chunks(codes, len(self.coords[target])):
            yield softmax(self._log_scores(chunk, target), axis=2)

    def _chunks(self, codes: Codes, levels: int) -> Iterator[Codes]:
        rows = len(next(iter(codes.values())))
        for some in chunks(rows, len(self.flat()) * levels):
            yield {name: code[some] for name, code in codes.items()}

    def _entries(
        self,
        values: np.ndarray,
        names: Sequence[str],
        codes: Codes,
        target: str | None,
        missing: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return entries of tables (draw, *names) by row, shape (draw, row, level of the target).

        The last axis has length 1 if the target is not among the names. Entries of `missing` rows
        are 0; elsewhere a missing value is refused.
        """
        index: list[Any] = []
        for name in names:
            if name == target:
                index.append(np.arange(len(self.coords[name]))[None, :])
                continue
            code = codes[name]
            if np.any(code < 0 if missing is None else (code < 0) & ~missing):
                raise ModelError(
                    f"Expected a public level of {name!r} in each row: only a column without "
                    "children in a directed network may be missing."
                )
            index.append(code[:, None])
        found = values[(slice(None), *index)]
        return found if missing is None else np.where(missing[None, :, None], 0.0, found)


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

    def _log_scores(self, codes: Codes, target: str | None) -> np.ndarray:
        graph = self.graph
        touched = [name for name in graph if target in (None, name, *graph[name])]
        return np.asarray(sum(self._log_family(name, codes, target) for name in touched))

    def _log_family(self, name: str, codes: Codes, target: str | None) -> np.ndarray:
        """Return log p(name | parents), shape (draw, row, level of the target)."""
        graph = self.graph
        log = np.log(np.maximum(self.flat(family_name(name, graph[name])), 1e-300))
        leaf = name != target and not any(name in parents for parents in graph.values())
        missing = codes[name] < 0 if leaf and np.any(codes[name] < 0) else None
        return self._entries(log, (*graph[name], name), codes, target, missing)


class FieldPosterior(DiscretePosterior):
    """Draws of the cliques' probabilities, `p(a,b)`, and of their log potentials.

    A row to predict for needs a public level of every column but the target.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for clique in self.model["cliques"] for name in clique))

    def _log_scores(self, codes: Codes, target: str | None) -> np.ndarray:
        total: Any = 0.0
        for clique in self.model["cliques"]:
            values = self.flat(potential_name(clique))
            total = total + self._entries(values, clique, codes, target)
        return np.asarray(total)

    def _log_normaliser(self) -> np.ndarray:
        sizes = [len(self.coords[name]) for name in self.columns]
        states = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
        parts = []
        for codes in self._chunks(dict(zip(self.columns, states, strict=True)), 1):
            score = self._log_scores(codes, None)[..., 0]
            top = score.max(axis=1)
            parts.append(top + np.log(np.exp(score - top[:, None]).sum(axis=1)))
        return np.logaddexp.reduce(parts, axis=0)[:, None]
