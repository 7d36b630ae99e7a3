"""Counts given a tempered Dirichlet draw, by Markov chains that need no normaliser.

A move proposes other counts and the normaliser of the draw's law changes with them. The exchange
move of Murray, Ghahramani and MacKay (2006) draws an auxiliary probability vector from the law at
the proposed counts, with the exact sampler of the mechanism, and the normalisers cancel. Proposals
remove a random subset of the rows and add rows by Polya's urn. They leave a Dirichlet-multinomial
law invariant for any number of rows, so that one acceptance ratio serves small and large moves, and
moves to another number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from tacit.laws import truncated_dirichlet

_KEPT = np.array([0.0, 0.5, 0.8, 0.95, 0.99])  # shares of the rows that a move keeps
_BURN, _THIN = 50, 5
_MOST_CHAINS, _MOST_AUXILIARY = 400, 20_000


@dataclass(frozen=True)
class Tempered:
    """Draws (draw, level) and their law: Dirichlet(base + counts / temperature), truncated."""

    draws: np.ndarray
    base: np.ndarray
    temperature: float
    truncation: float


class RowNumbers(Protocol):
    """The prior of the number of rows."""

    @property
    def known(self) -> bool: ...

    @property
    def typical(self) -> float: ...

    def drawn(self, size: int, rng: np.random.Generator) -> np.ndarray: ...


def sample_counts_by_exchange(
    law: Tempered, prior: np.ndarray, totals: RowNumbers, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return `size` draws of the counts, shape (size, levels), from many short chains."""
    chains = min(_MOST_CHAINS, -(-size // 4), max(10, _MOST_AUXILIARY // len(law.draws)))
    guide = _guide(law, prior, totals.typical)
    counts = _urn(np.tile(guide, (chains, 1)), totals.drawn(chains, rng), rng)
    kept = []
    steps = _BURN + _THIN * -(-size // chains)
    for step in range(steps):
        counts = _exchange_step(counts, law, prior, guide, totals, rng)
        if step >= _BURN and (step - _BURN) % _THIN == _THIN - 1:
            kept.append(counts)
    return np.concatenate(kept)[:size]


def _guide(law: Tempered, prior: np.ndarray, rows: float) -> np.ndarray:
    """Return a Dirichlet proposal for the parameter, half as concentrated as the draws suggest."""
    seen = rows * len(law.draws) / (2 * law.temperature)
    return prior + seen * law.draws.mean(axis=0)


def _exchange_step(
    counts: np.ndarray,
    law: Tempered,
    prior: np.ndarray,
    guide: np.ndarray,
    totals: RowNumbers,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the counts of every chain after one exchange move."""
    proposed = _proposed(counts, guide, totals, rng)
    change = (proposed - counts) / law.temperature
    at = law.base + proposed / law.temperature
    auxiliary = truncated_dirichlet.sample(
        np.repeat(at, len(law.draws), axis=0), law.truncation, lambda n: 1 - rng.random(n)
    )
    seen = np.log(law.draws).sum(axis=0)
    simulated = np.log(auxiliary).reshape(len(counts), *law.draws.shape).sum(axis=1)
    log = _relative(proposed, prior, guide) - _relative(counts, prior, guide)
    log += (change * (seen - simulated)).sum(axis=1)
    accepted = np.log(1 - rng.random(len(counts))) <= log
    return np.where(accepted[:, None], proposed, counts)


def _relative(counts: np.ndarray, prior: np.ndarray, guide: np.ndarray) -> np.ndarray:
    """Return the log ratio of Dirichlet-multinomials under the prior and under the guide."""
    rows = counts.sum(axis=1)
    cells = gammaln(counts + prior) - gammaln(counts + guide)
    return cells.sum(axis=1) - gammaln(rows + prior.sum()) + gammaln(rows + guide.sum())


def _proposed(
    counts: np.ndarray, guide: np.ndarray, totals: RowNumbers, rng: np.random.Generator
) -> np.ndarray:
    rows = counts.sum(axis=1)
    others = rows
    if not totals.known:
        others = np.where(rng.random(len(rows)) < 0.5, rows, totals.drawn(len(rows), rng))
    share = _KEPT[rng.integers(len(_KEPT), size=len(rows))]
    left = np.floor(share * np.minimum(rows, others)).astype(np.int64)
    kept = _thinned(counts, left, rng)
    return kept + _urn(guide + kept, others - left, rng)


def _thinned(counts: np.ndarray, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the counts of `left` rows of each chain, chosen without replacement."""
    kept = np.zeros_like(counts)
    rest = counts.sum(axis=1)
    for j in range(counts.shape[1] - 1):
        rest = rest - counts[:, j]
        kept[:, j] = rng.hypergeometric(counts[:, j], rest, left)
        left = left - kept[:, j]
    kept[:, -1] = left
    return kept


def _urn(concentration: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return Dirichlet-multinomial counts of `rows` rows."""
    weight = np.maximum(rng.standard_gamma(concentration), 1e-300)
    return rng.multinomial(rows, weight / weight.sum(axis=1, keepdims=True))
