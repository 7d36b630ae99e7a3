"""A sigmoid belief network: normal posteriors of its coefficients from sums that may be noisy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

_ROUNDS = 30  # of Newton's method; few are needed unless prior and data disagree


@dataclass(frozen=True)
class Parts:
    """Sums over rows: of hidden units, of their products with visible ones, and of squares.

    `hidden` (..., size) begins with the number of rows; `seen` is (..., visible, size), `squares`
    (..., visible, size, size). `sd` is the noise of one number of the first two; that of squares is
    a quarter of it.
    """

    hidden: np.ndarray
    seen: np.ndarray
    squares: np.ndarray
    sd: float

    @classmethod
    def of(cls, vector: np.ndarray, visible: int, size: int, sd: float) -> Parts:
        """Return the parts of a vector in the order of the map; leading axes are draws."""
        lead = vector.shape[:-1]
        hidden, rest = vector[..., :size], vector[..., size:]
        seen = rest[..., : visible * size].reshape(*lead, visible, size)
        flat = rest[..., visible * size :].reshape(*lead, visible, -1) / 4
        squares = np.zeros((*lead, visible, size, size))
        rows, columns = np.triu_indices(size)
        kept = (rows != columns) | (rows == 0)
        squares[..., rows[kept], columns[kept]] = flat
        squares[..., columns[kept], rows[kept]] = flat
        inner = np.arange(1, size)
        squares[..., inner, inner] = squares[..., 0, 1:]
        return cls(hidden, seen, squares, sd)


@dataclass(frozen=True)
class BeliefNetwork:
    """Normal posteriors of the hidden units' log odds and each visible unit's coefficients."""

    odds: np.ndarray
    odds_sd: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @property
    def moments(self) -> np.ndarray:
        return self.covariance + self.mean[..., :, None] * self.mean[..., None, :]


def network_posterior(parts: Parts, scale: float) -> BeliefNetwork:
    """Return the normal posteriors given sums, with a prior of this scale.

    Eigenvalues of the squares are floored at the noise edge, so that the covariance is not
    underestimated in any direction; counts are clipped to the number of rows.
    """
    size = parts.hidden.shape[-1]
    rows = np.maximum(parts.hidden[..., :1], max(parts.sd, 1e-9))
    hidden = np.concatenate([rows, np.clip(parts.hidden[..., 1:], 0.0, rows)], axis=-1)
    seen = np.clip(parts.seen, 0.0, hidden[..., None, :])
    gradient = seen - hidden[..., None, :] / 2
    values, axes = np.linalg.eigh(parts.squares)
    # The noise edge of a symmetric matrix with equal variances (Wigner).
    floor = 2 * (0.25 * parts.sd) * np.sqrt(size)
    precision = np.maximum(values, floor) + scale**-2.0
    mean = np.einsum("...ab,...b,...cb,...c->...a", axes, 1 / precision, axes, gradient)
    covariance = np.einsum("...ab,...b,...cb->...ac", axes, 1 / precision, axes)
    odds, odds_sd = _log_odds(hidden[..., 1:], rows, scale)
    return BeliefNetwork(odds, odds_sd, mean, covariance)


def _log_odds(on: np.ndarray, rows: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mode of log odds given counts, and the Laplace standard deviation."""
    odds = logit((on + 0.5) / (rows + 1))  # the mode is near, unless the prior is narrow
    for _ in range(_ROUNDS):
        p = expit(odds)
        known = rows * p * (1 - p) + scale**-2.0
        odds = odds + (on - rows * p - odds * scale**-2.0) / known
    p = expit(odds)
    return odds, (rows * p * (1 - p) + scale**-2.0) ** -0.5


def log_likelihood(
    rows: np.ndarray, odds: np.ndarray, coefficients: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the log probability of each row, summed over all hidden states or 4096 random ones."""
    hidden = odds.size
    if hidden <= 12:
        states = (np.arange(2**hidden)[:, None] >> np.arange(hidden)) & 1
        prior = states @ odds - np.logaddexp(0, odds).sum()
    else:
        states = (rng.random((4096, hidden)) < expit(odds)).astype(int)
        prior = np.full(4096, -np.log(4096.0))
    logits = coefficients[:, 0] + states @ coefficients[:, 1:].T
    logs = rows @ logits.T - np.logaddexp(0, logits).sum(axis=1) + prior
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))
