"""Exact data augmentation: the rows are latent, updated one after another (Ju et al. 2022).

Given the parameters, each row is proposed from the model and accepted with the likelihood ratio of
the noisy moments; given the rows, the parameters have their conjugate law. Exact for any number
of rows, but its work grows with them: it serves where there are too few rows for `latent_moments`,
and as the reference that the other samplers are compared with.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from tacit.infer.conjugate import draw_normal
from tacit.infer.latent_moments import MomentsDensity, MomentsSeen
from tacit.infer.latent_sum import log_rows_prior

_WARM_UP = 500


def draw_rows(
    seen: MomentsSeen,
    density: MomentsDensity,
    chains: int,
    draws: int,
    seed: int | None,
    thin: int = 1,
) -> np.ndarray:
    """Return draws of the moment matrix, shape (chains * draws, D + 1, D + 1).

    If the number of rows is not known there are places for as many as there can be, and an empty
    place is a row of zeros.
    """
    rng = np.random.default_rng(seed)
    latent = seen.rows is None
    n, size = int(seen.most if seen.rows is None else seen.rows), seen.columns + 1
    log_taken = _log_taken(n, seen.units) if latent else np.zeros(n + 1)
    kept = np.empty((draws, chains, size, size))
    rows = np.concatenate(
        [np.ones((chains, n, 1)), 0.3 * rng.standard_normal((chains, n, size - 1)).clip(-3, 3)],
        axis=2,
    )
    matrix = np.einsum("cni,cnj->cij", rows, rows)
    for sweep in range(_WARM_UP + draws * thin):
        mean, root = draw_normal(matrix, density, rng)
        for r in range(n):
            step = np.einsum("cij,cj->ci", root, rng.standard_normal((chains, size - 1)))
            proposed = np.concatenate([np.ones((chains, 1)), mean + step], axis=1)
            if latent:
                proposed *= rng.random((chains, 1)) < 0.5
            other = (
                matrix
                + proposed[:, :, None] * proposed[:, None, :]
                - rows[:, r, :, None] * rows[:, r, None, :]
            )
            gain = _log_noise(other, seen) - _log_noise(matrix, seen)
            gain += log_taken[_count(other)] - log_taken[_count(matrix)]
            inside = np.all(np.abs(proposed) <= 1, axis=1)
            take = inside & (np.log(rng.random(chains)) < gain)
            matrix[take], rows[take, r] = other[take], proposed[take]
        if sweep >= _WARM_UP and (sweep - _WARM_UP) % thin == thin - 1:
            kept[(sweep - _WARM_UP) // thin] = matrix
    return kept.swapaxes(0, 1).reshape(chains * draws, size, size)


def _count(matrix: np.ndarray) -> np.ndarray:
    return np.rint(matrix[:, 0, 0]).astype(int)


def _log_taken(most: int, units: float | None) -> np.ndarray:
    """Return the log prior of one subset of n of `most` slots being rows, for each n."""
    n = np.arange(most + 1.0)
    places = gammaln(most + 1) - gammaln(n + 1) - gammaln(most - n + 1)
    return log_rows_prior(None if units is None else int(units), 1)(n) - places


def _log_noise(matrix: np.ndarray, seen: MomentsSeen) -> np.ndarray:
    """Return the log density of the noise (released minus true moments), for each chain."""
    upper = np.triu(np.ones_like(seen.value))
    upper[0, 0] = seen.rows is None
    error = (seen.value - matrix) / np.where(seen.scale > 0, seen.scale, 1.0)
    log = -np.abs(error) if seen.heavy else -0.5 * error**2
    return (log * upper).sum(axis=(1, 2))
