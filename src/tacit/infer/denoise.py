"""Many noisy numbers at once: what they were, given what such numbers are usually like.

Empirical Bayes with a free prior on a grid (Kiefer and Wolfowitz 1956; Koenker and Mizera 2014):
the noise is known, so the mixture of all noisy numbers tells how the true ones are spread.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tacit.kernels.mixing import exp_below

_compiled = numba.njit(cache=True, nogil=True, parallel=True, error_model="numpy", fastmath=True)
_apart = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
_inlined = numba.njit(inline="always", nogil=True, error_model="numpy", fastmath=True)

_F = np.float32
_RATIOS = np.concatenate([[0.0], np.geomspace(0.02, 200, 31)])
_WIDTH = _F(0.19)  # of a point, as a share of it: neighbours on the grid differ by a third
_NONE = _F(1e-20)  # of the best chance: counts as 0
_BINS = 6  # numbers that are expected to be large may be spread otherwise than small ones
_ROUNDS = 15
_PARTS = 16  # of the work, for the threads
_ENOUGH = 10_000  # numbers to learn the prior from


def denoised(
    values: np.ndarray, expected: np.ndarray, sd: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and standard deviations of non-negative numbers seen with normal noise.

    Each is some ratio times what is `expected` of it; how these ratios are spread is learnt from
    all of them together, apart for what is expected to be small and large.
    """
    seen = (values.ravel() / sd).astype(_F)
    scale = np.maximum(expected.ravel() / sd, 1e-6).astype(_F)
    some = np.arange(seen.size)
    if seen.size > _ENOUGH:
        some = rng.choice(seen.size, _ENOUGH, replace=False, shuffle=False)
    edges = np.quantile(scale[some], np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, scale)
    prior = _learnt(seen[some], scale[some], _RATIOS, bins[some], _BINS, _ROUNDS)
    mean, spread = _given(seen, scale, _RATIOS.astype(_F), bins, prior)
    return sd * mean.reshape(values.shape), sd * spread.reshape(values.shape)


def denoised_sizes(values: np.ndarray, sd: float) -> np.ndarray:
    """Posterior means of positive numbers of which nothing is expected."""
    top = max(float(values.max(initial=0.0)), sd)
    grid = np.geomspace(0.02, 1.1 * top / sd, 80)
    seen, scale = (values / sd).astype(_F), np.ones(values.size, _F)
    bins = np.zeros(values.size, np.int64)
    prior = _learnt(seen, scale, grid, bins, 1, 4 * _ROUNDS)
    return sd * _given(seen, scale, grid.astype(_F), bins, prior)[0].astype(float)


def _learnt(
    seen: np.ndarray, scale: np.ndarray, grid: np.ndarray, bins: np.ndarray, count: int, rounds: int
) -> np.ndarray:
    """The prior on the grid in each bin, by expectation and maximisation from a flat start."""
    chances = _chances(seen, scale, grid.astype(_F))
    priors = np.full((count, grid.size), 1 / grid.size, _F)
    for b in range(count):
        mine, prior = chances[bins == b], priors[b]
        for _ in range(rounds):
            share = prior * ((1 / (mine @ prior + _F(1e-30))) @ mine) + _F(1e-3)
            prior[:] = share / share.sum()
    return priors


@_inlined
def _weigh(value: Any, scale: Any, grid: Any, sharp: Any, out: Any) -> None:
    """How probable one number is at each point of the grid, up to a factor.

    A point stands for what is near it: a normal as wide as points are apart. `sharp` is one over
    the standard deviation of what is seen at a point.
    """
    for g in range(grid.size):
        here = grid[g] * scale
        sharp[g] = _F(1) / np.sqrt(_F(1) + _WIDTH * _WIDTH * here * here)
        far = (value - here) * sharp[g]
        out[g] = far * far
    least = out[0]
    for g in range(grid.size):  # a loop of its own: together the two are not vector code
        least = out[g] if out[g] < least else least
    _fall(out, least, sharp)


@_apart
def _fall(out: Any, least: Any, sharp: Any) -> None:
    """From squared distances to chances. In `_weigh` itself it would not become vector code."""
    for g in range(out.size):
        chance = exp_below(_F(0.5) * (least - out[g]))
        # What is nearly 0 makes a processor slow, as in `tacit.kernels.mixing`.
        out[g] = sharp[g] * chance if chance > _NONE else _F(0)


@_compiled
def _chances(seen: Any, scale: Any, grid: Any) -> Any:
    out = np.zeros((seen.size, grid.size), np.float32)
    for part in numba.prange(_PARTS):
        sharp = np.zeros(grid.size, np.float32)
        for i in range(part * seen.size // _PARTS, (part + 1) * seen.size // _PARTS):
            _weigh(seen[i], scale[i], grid, sharp, out[i])
    return out


@_compiled
def _given(seen: Any, scale: Any, grid: Any, bins: Any, prior: Any) -> Any:
    """Means and standard deviations given the prior, as distances from what was seen."""
    mean, spread = np.zeros(seen.size, np.float32), np.zeros(seen.size, np.float32)
    for part in numba.prange(_PARTS):
        chance, sharp = np.zeros(grid.size, np.float32), np.zeros(grid.size, np.float32)
        for i in range(part * seen.size // _PARTS, (part + 1) * seen.size // _PARTS):
            value, b = seen[i], bins[i]
            _weigh(value, scale[i], grid, sharp, chance)
            total, first, second = _F(1e-30), _F(0), _F(0)
            for g in range(grid.size):
                known = sharp[g] * sharp[g]
                off = (value - grid[g] * scale[i]) * known
                weight = prior[b, g] * chance[g]
                total += weight
                first += weight * off
                second += weight * (off * off + _F(1) - known)
            first, second = first / total, second / total
            mean[i] = max(value - first, _F(0))
            spread[i] = np.sqrt(max(second - first * first, _F(0)))
    return mean, spread
