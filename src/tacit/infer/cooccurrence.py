"""Topics to begin with, from which words occur together: a symmetric factorisation."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_CENTRE = 0.7  # of what words that have nothing to do with each other would share
_SWEEPS = 20
_RESTARTS = 3


def factors(pairs: np.ndarray, topics: int, rng: np.random.Generator) -> np.ndarray:
    """Non-negative words by topics whose products are about how often two words occur together.

    `pairs` is symmetric, its diagonal unknown. What frequent words share with all others is taken
    out first, or every topic would be that. The best of a few starts.
    """
    often = np.maximum(pairs.sum(axis=0), 0.0)
    total = max(float(often.sum()), 1e-9)
    centred = (pairs - _CENTRE * np.outer(often, often) / total).astype(np.float32)
    np.fill_diagonal(centred, 0.0)
    size = 2 * np.sqrt(max(float(np.abs(centred).mean()), 1e-6) / topics)
    starts = (rng.random((_RESTARTS, len(pairs), topics)) * size).astype(np.float32)
    tried = [_swept(centred, start, _SWEEPS) for start in starts]
    best = min(tried, key=lambda found: _misfit(centred, found))
    return _swept(centred, best, _SWEEPS).astype(float)


def _misfit(pairs: np.ndarray, found: np.ndarray) -> float:
    rest = found @ found.T - pairs
    np.fill_diagonal(rest, 0.0)
    return float((rest**2).sum())


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _swept(pairs: Any, found: Any, sweeps: Any) -> Any:
    """Least squares for one word after another, given all others, coordinate by coordinate."""
    words, topics = found.shape
    for _ in range(sweeps):
        inner = found.T @ found
        for i in range(words):
            mine = found[i].copy()
            wanted = np.zeros(topics, np.float32)
            for j in range(words):
                for k in range(topics):
                    wanted[k] += pairs[i, j] * found[j, k]
            others = inner - np.outer(mine, mine)
            now = mine.copy()
            for _ in range(3):
                for k in range(topics):
                    if others[k, k] <= 1e-12:
                        continue
                    rest = wanted[k]
                    for m in range(topics):
                        rest -= others[k, m] * now[m]
                    now[k] = max(now[k] + rest / others[k, k], np.float32(0.0))
            inner = others + np.outer(now, now)
            found[i] = now
    return found
