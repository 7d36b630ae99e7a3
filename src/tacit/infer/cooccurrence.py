"""Initial topics from word co-occurrence: symmetric non-negative matrix factorisation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from scipy.linalg import eigh

_CENTRE = 0.7  # share of the co-occurrence expected under independence that is subtracted
_MARGIN = 1.02  # times the noise edge: the largest eigenvalue of noise varies a little
_RESTARTS = 3
_TRIAL_SWEEPS, _SWEEPS = 5, 20  # from each initial value, and from the best


def factors(pairs: np.ndarray, topics: int, rng: np.random.Generator) -> np.ndarray:
    """Return a non-negative matrix F (word, topic) with F F' about `pairs` off the diagonal.

    `pairs` is symmetric, its diagonal unknown. Most of the co-occurrence expected under
    independence is subtracted first, since otherwise every topic is the word frequencies. The
    result has the least squared error of a few random initial values.
    """
    centred = _centred(pairs, _CENTRE).astype(np.float32)
    size = 2 * np.sqrt(max(float(np.abs(centred).mean()), 1e-6) / topics)
    starts = (rng.random((_RESTARTS, len(pairs), topics)) * size).astype(np.float32)
    with ThreadPoolExecutor() as pool:
        tried = list(pool.map(lambda start: _descended(centred, start, _TRIAL_SWEEPS), starts))
    best = min(tried, key=lambda found: _misfit(centred, found))
    return _descended(centred, best, _SWEEPS).astype(float)


def exceeds_noise_edge(pairs: np.ndarray, count: int, sd: float) -> bool:
    """Return whether `count` eigenvalues of the centred matrix exceed those of noise alone.

    Symmetric noise of standard deviation `sd` has eigenvalues up to 2 sd sqrt(size) (Wigner's
    semicircle law). A theme below this edge cannot be found.
    """
    size = len(pairs)
    count = min(count, size)
    largest = eigh(
        _centred(pairs, 1.0), eigvals_only=True, subset_by_index=(size - count, size - 1)
    )  # fmt: skip
    return bool(largest[0] > _MARGIN * 2 * sd * np.sqrt(size))


def _centred(pairs: np.ndarray, share: float) -> np.ndarray:
    """Return pairs - share * (co-occurrence expected under independence), with diagonal 0."""
    frequency = np.maximum(pairs.sum(axis=0), 0.0)
    total = max(float(frequency.sum()), 1e-9)
    rest = pairs - share * np.outer(frequency, frequency) / total
    np.fill_diagonal(rest, 0.0)
    return rest


def _misfit(pairs: np.ndarray, found: np.ndarray) -> float:
    rest = found @ found.T - pairs
    np.fill_diagonal(rest, 0.0)
    return float((rest**2).sum())


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _descended(pairs: Any, found: Any, sweeps: Any) -> Any:
    """Return `found` after sweeps of coordinate descent, word by word, in place."""
    words, topics = found.shape
    for _ in range(sweeps):
        inner = found.T @ found
        for i in range(words):
            mine = found[i].copy()
            now = mine.copy()
            # Negative gradient of the squared error, updated with each coordinate.
            descent = pairs[i] @ found - inner @ mine + (mine @ mine) * mine
            for _ in range(3):
                for k in range(topics):
                    own = inner[k, k] - mine[k] * mine[k]
                    if own <= 1e-12:
                        continue
                    step = max(descent[k] / own, -now[k])
                    if step != 0:
                        now[k] += step
                        for m in range(topics):
                            descent[m] -= step * (inner[k, m] - mine[k] * mine[m])
            for k in range(topics):
                for m in range(topics):
                    inner[k, m] += now[k] * now[m] - mine[k] * mine[m]
            found[i] = now
    return found
