"""Topics to begin with, from which words occur together: a symmetric factorisation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from scipy.linalg import eigh

_CENTRE = 0.7  # of what words that have nothing to do with each other would share
_MARGIN = 1.02  # beyond the largest eigenvalue of noise, which varies a little
_RESTARTS = 3
_TRIED, _SWEEPS = 5, 20  # of each start, and of the best


def factors(pairs: np.ndarray, topics: int, rng: np.random.Generator) -> np.ndarray:
    """Non-negative words by topics whose products are about how often two words occur together.

    `pairs` is symmetric, its diagonal unknown. What frequent words share with all others is taken
    out first, or every topic would be that. The best of a few starts.
    """
    centred = _centred(pairs, _CENTRE).astype(np.float32)
    size = 2 * np.sqrt(max(float(np.abs(centred).mean()), 1e-6) / topics)
    starts = (rng.random((_RESTARTS, len(pairs), topics)) * size).astype(np.float32)
    with ThreadPoolExecutor() as pool:
        tried = list(pool.map(lambda start: _swept(centred, start, _TRIED), starts))
    best = min(tried, key=lambda found: _misfit(centred, found))
    return _swept(centred, best, _SWEEPS).astype(float)


def stand_out(pairs: np.ndarray, count: int, sd: float) -> bool:
    """Whether so many themes can be told from noise of this standard deviation on every pair.

    Noise alone has eigenvalues up to 2 sd sqrt(size) (Wigner); a theme, of words that occur
    together more often than by chance, has one beyond, or cannot be found.
    """
    size = len(pairs)
    count = min(count, size)
    found = eigh(
        _centred(pairs, 1.0), eigvals_only=True, subset_by_index=(size - count, size - 1)
    )  # fmt: skip
    return bool(found[0] > _MARGIN * 2 * sd * np.sqrt(size))


def _centred(pairs: np.ndarray, share: float) -> np.ndarray:
    """Less what frequent words share with all others."""
    often = np.maximum(pairs.sum(axis=0), 0.0)
    total = max(float(often.sum()), 1e-9)
    rest = pairs - share * np.outer(often, often) / total
    np.fill_diagonal(rest, 0.0)
    return rest


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
            now = mine.copy()
            # How far its pairs are from what others say, kept up as its coordinates move.
            left = pairs[i] @ found - inner @ mine + (mine @ mine) * mine
            for _ in range(3):
                for k in range(topics):
                    own = inner[k, k] - mine[k] * mine[k]
                    if own <= 1e-12:
                        continue
                    step = max(left[k] / own, -now[k])
                    if step != 0:
                        now[k] += step
                        for m in range(topics):
                            left[m] -= step * (inner[k, m] - mine[k] * mine[m])
            for k in range(topics):
                for m in range(topics):
                    inner[k, m] += now[k] * now[m] - mine[k] * mine[m]
            found[i] = now
    return found
