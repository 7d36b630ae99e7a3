"""The posterior of a Markov random field: conditional probabilities for rows one already has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.posterior.network import Codes, DiscretePosterior
from tacit.spec.errors import ModelError

_AT_ONCE = 4_000_000  # numbers held at once


def margin_name(clique: Sequence[str]) -> str:
    """Return the variable name of a clique's probabilities."""
    return f"p({','.join(clique)})"


def potential_name(clique: Sequence[str]) -> str:
    """Return the variable name of a clique's log potentials."""
    return f"log_potential({','.join(clique)})"


class FieldPosterior(DiscretePosterior):
    """Draws of the cliques' probabilities, `p(a,b)`, and of their log potentials.

    A row to predict for needs a public level of every column but the target.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for dims in self._potentials().values() for name in dims))

    def _potentials(self) -> dict[str, tuple[str, ...]]:
        cliques = [tuple(clique) for clique in self.model["cliques"]]
        return {potential_name(clique): clique for clique in cliques}

    def _log_joint(self, codes: Codes) -> np.ndarray:
        return self._score(codes, None)[..., 0] - self._log_normaliser()[:, None]

    def _log_scores(self, codes: Codes, target: str) -> np.ndarray:
        return self._score(codes, target)

    def _score(self, codes: Codes, target: str | None) -> np.ndarray:
        """Return the sum of log potentials, shape (draw, row, level of the target)."""
        total: Any = 0.0
        for variable, clique in self._potentials().items():
            index: list[Any] = []
            for name in clique:
                if name == target:
                    index.append(np.arange(len(self.coords[name]))[None, :])
                    continue
                if np.any(codes[name] < 0):
                    raise ModelError(f"Expected a public level of {name!r} in each row.")
                index.append(codes[name][:, None])
            total = total + self.flat(variable)[(slice(None), *index)]
        return np.asarray(total)

    def _log_normaliser(self) -> np.ndarray:
        """Return the log normaliser of each draw."""
        names = self.columns
        sizes = [len(self.coords[name]) for name in names]
        states = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
        parts = []
        draws = len(self.flat())
        step = max(1, _AT_ONCE // draws)
        for start in range(0, len(states[0]), step):
            codes = {n: s[start : start + step] for n, s in zip(names, states, strict=True)}
            score = self._score(codes, None)[..., 0]
            top = score.max(axis=1)
            parts.append(top + np.log(np.exp(score - top[:, None]).sum(axis=1)))
        return np.logaddexp.reduce(parts, axis=0)
