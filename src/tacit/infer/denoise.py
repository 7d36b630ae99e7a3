"""Many noisy numbers at once: what they were, given what such numbers are usually like.

Empirical Bayes with a free prior on a grid (Kiefer and Wolfowitz 1956; Koenker and Mizera 2014):
the noise is known, so the mixture of all noisy numbers tells how the true ones are spread.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_compiled = numba.njit(cache=True, nogil=True, parallel=True, error_model="numpy", fastmath=True)

_RATIOS = np.concatenate([[0.0], np.geomspace(0.02, 200, 37)])
_WIDTH = 0.15  # of a point, as a share of it: neighbours on the grid differ by a quarter
_BINS = 6  # numbers that are expected to be large may be spread otherwise than small ones
_ROUNDS = 15
_PARTS = 16  # of the work, for the threads
_ENOUGH = 60_000  # numbers to learn the prior from


def denoised(
    values: np.ndarray, expected: np.ndarray, sd: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and standard deviations of non-negative numbers seen with normal noise.

    Each is some ratio times what is `expected` of it; how these ratios are spread is learnt from
    all of them together, apart for what is expected to be small and large.
    """
    seen, scale = values.ravel() / sd, np.maximum(expected.ravel() / sd, 1e-6)
    edges = np.quantile(scale, np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, scale)
    some = np.arange(seen.size)
    if seen.size > _ENOUGH:
        some = rng.choice(seen.size, _ENOUGH, replace=False)
    prior = _learnt(seen[some], scale[some], _RATIOS, bins[some], _BINS, _ROUNDS)
    mean, spread = _given(seen, scale, _RATIOS, bins, prior)
    return sd * mean.reshape(values.shape), sd * spread.reshape(values.shape)


def denoised_sizes(values: np.ndarray, sd: float) -> np.ndarray:
    """Posterior means of positive numbers of which nothing is expected."""
    top = max(float(values.max(initial=0.0)), sd)
    grid = np.geomspace(0.02, 1.1 * top / sd, 80)
    seen, scale = values / sd, np.ones(values.size)
    bins = np.zeros(values.size, np.int64)
    prior = _learnt(seen, scale, grid, bins, 1, 4 * _ROUNDS)
    return sd * _given(seen, scale, grid, bins, prior)[0]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _chances(value: Any, scale: Any, grid: Any, prior: Any, out: Any) -> Any:
    """How probable each point of the grid is for one number, up to a factor; their sum.

    A point stands for what is near it: a normal as wide as points are apart.
    """
    best = -1e300
    for g in range(grid.size):
        here = grid[g] * scale
        variance = 1 + (_WIDTH * here) ** 2
        out[g] = -0.5 * ((value - here) ** 2 / variance + np.log(variance))
        best = max(best, out[g])
    total = 1e-300
    for g in range(grid.size):
        out[g] = prior[g] * np.exp(out[g] - best)
        total += out[g]
    return total


@_compiled
def _learnt(seen: Any, scale: Any, grid: Any, bins: Any, count: Any, rounds: Any) -> Any:
    """The prior on the grid in each bin, by expectation and maximisation from a flat start."""
    prior = np.ones((count, grid.size)) / grid.size
    for _ in range(rounds):
        found = np.zeros((_PARTS, count, grid.size))
        for part in numba.prange(_PARTS):
            chance = np.zeros(grid.size)
            for i in range(part, seen.size, _PARTS):
                total = _chances(seen[i], scale[i], grid, prior[bins[i]], chance)
                for g in range(grid.size):
                    found[part, bins[i], g] += chance[g] / total
        for b in range(count):
            share = found[:, b].sum(axis=0) + 1e-3
            prior[b] = share / share.sum()
    return prior


@_compiled
def _given(seen: Any, scale: Any, grid: Any, bins: Any, prior: Any) -> Any:
    mean, spread = np.zeros(seen.size), np.zeros(seen.size)
    for part in numba.prange(_PARTS):
        chance = np.zeros(grid.size)
        for i in range(part, seen.size, _PARTS):
            total = _chances(seen[i], scale[i], grid, prior[bins[i]], chance)
            first, second = 0.0, 0.0
            for g in range(grid.size):
                here = grid[g] * scale[i]
                near = (_WIDTH * here) ** 2
                middle = here + near / (1 + near) * (seen[i] - here)
                first += chance[g] * middle
                second += chance[g] * (middle**2 + near / (1 + near))
            first, second = first / total, second / total
            mean[i] = max(first, 0.0)
            spread[i] = np.sqrt(max(second - first**2, 0.0))
    return mean, spread
