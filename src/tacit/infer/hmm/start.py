"""Initial paths of the chains: k-means of the cells by released shares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

_TRIES, _ROUNDS = 4, 12


def initial_paths(
    counts: np.ndarray,
    used: np.ndarray,
    first: np.ndarray,
    spread: np.ndarray,
    states: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return an initial state for each cell: the k-means result of least inertia of four."""
    kept = np.maximum(counts, 0.0)
    shares = np.empty_like(kept)
    noise = 0.0
    for a, b in pairwise(first):
        total = kept[:, a:b].sum(axis=1, keepdims=True)
        # Shrink towards the mean shares, so that a cell of pure noise is average.
        shrinkage = 1.0 + np.sqrt(spread[a:b].sum())
        mean = (kept[:, a:b].sum(axis=0) + 1.0) / (kept[:, a:b].sum() + b - a)
        shares[:, a:b] = np.sqrt((kept[:, a:b] + shrinkage * mean) / (total + shrinkage))
        noise += float(spread[a:b].sum())
    rows = np.maximum(counts.sum(axis=1), 0.0)
    weight = np.where(used, rows**2 / (rows + noise + 1.0) + 1e-9, 1e-9)
    best, found = np.inf, np.zeros(len(counts), np.int64)
    for _ in range(_TRIES):
        inertia, label = _k_means(shares, weight, states, rng)
        if inertia < best:
            best, found = inertia, label
    return found


def _k_means(
    x: np.ndarray, weight: np.ndarray, states: int, rng: np.random.Generator
) -> tuple[float, np.ndarray]:
    centres = x[rng.choice(len(x), p=weight / weight.sum())][None]
    near = _distances(x, centres)[:, 0]
    while len(centres) < states:  # k-means++
        probability = near * weight + 1e-12 * weight
        one = x[rng.choice(len(x), p=probability / probability.sum())][None]
        centres = np.concatenate([centres, one])
        near = np.minimum(near, _distances(x, one)[:, 0])
    for _ in range(_ROUNDS):
        label = _distances(x, centres).argmin(axis=1)
        member = weight[:, None] * (label[:, None] == np.arange(states))
        total = member.sum(axis=0)
        centres = np.where(
            total[:, None] > 0, member.T @ x / np.maximum(total, 1e-300)[:, None], centres
        )
    distance = _distances(x, centres)
    return float((weight * distance.min(axis=1)).sum()), distance.argmin(axis=1)


def _distances(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    squares = (x**2).sum(axis=1)[:, None] - 2 * x @ centres.T + (centres**2).sum(axis=1)
    return np.maximum(squares, 0.0)
