"""Denoise many numbers at once: empirical Bayes with a nonparametric prior.

The prior has free weights on a grid (Kiefer and Wolfowitz 1956; Koenker and Mizera 2014). It is
estimated by maximum likelihood from all noisy numbers together, since the law of the noise is
known. Counts by class and level have known sums instead of a common prior.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from scipy.special import log_ndtr

from tacit.compile_cache import cached
from tacit.kernels.mixing import exp_below

_compiled = cached(nogil=True, parallel=True, error_model="numpy", fastmath=True)
_not_inlined = cached(nogil=True, error_model="numpy", fastmath=True)
_inlined = numba.njit(inline="always", nogil=True, error_model="numpy", fastmath=True)

_F = np.float32
_RATIOS = np.concatenate([[0.0], np.geomspace(0.02, 200, 31)])
_WIDTH = _F(0.19)  # sd of a grid point, as a share of it: neighbours differ by a third
_NEGLIGIBLE = _F(1e-20)  # likelihood relative to the maximum, flushed to 0
_BINS = 6  # separate priors by expected magnitude
_ROUNDS = 15
_PARTS = 16  # chunks of work, for the threads
_ENOUGH = 10_000  # size of the subset that the prior is estimated from
_SMALL = 1.5  # standard deviations: smaller numbers may be noise
_WIDER = 8  # most widenings until the numbers can add up
_AT_ONCE = 2_000_000  # numbers held at once


def denoised(
    values: np.ndarray, expected: np.ndarray, sd: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and standard deviations of non-negative numbers with normal noise.

    The true number is a ratio times `expected`. The prior of the ratios is estimated from all
    numbers together, separately in bins of `expected`.
    """
    seen = (values.ravel() / sd).astype(_F)
    scale = np.maximum(expected.ravel() / sd, 1e-6).astype(_F)
    subset = np.arange(seen.size)
    if seen.size > _ENOUGH:
        subset = rng.choice(seen.size, _ENOUGH, replace=False, shuffle=False)
    edges = np.quantile(scale[subset], np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, scale)
    prior = _prior_weights(seen[subset], scale[subset], _RATIOS, bins[subset], _BINS, _ROUNDS)
    mean, spread = _posterior(seen, scale, _RATIOS.astype(_F), bins, prior)
    return sd * mean.reshape(values.shape), sd * spread.reshape(values.shape)


def denoised_sizes(values: np.ndarray, sd: float) -> np.ndarray:
    """Return posterior means of positive numbers with normal noise, under one common prior."""
    top = max(float(values.max(initial=0.0)), sd)
    grid = np.geomspace(0.02, 1.1 * top / sd, 80)
    seen, scale = (values / sd).astype(_F), np.ones(values.size, _F)
    bins = np.zeros(values.size, np.int64)
    prior = _prior_weights(seen, scale, grid, bins, 1, 4 * _ROUNDS)
    return sd * _posterior(seen, scale, grid.astype(_F), bins, prior)[0].astype(float)


def _prior_weights(
    seen: np.ndarray, scale: np.ndarray, grid: np.ndarray, bins: np.ndarray, count: int, rounds: int
) -> np.ndarray:
    """Return the prior weights (bin, grid point), by EM from uniform ones."""
    likelihoods = _likelihoods(seen, scale, grid.astype(_F))
    priors = np.full((count, grid.size), 1 / grid.size, _F)
    for b in range(count):
        mine, prior = likelihoods[bins == b], priors[b]
        for _ in range(rounds):
            share = prior * ((1 / (mine @ prior + _F(1e-30))) @ mine) + _F(1e-3)
            prior[:] = share / share.sum()
    return priors


@_inlined
def _likelihood(value: Any, scale: Any, grid: Any, inverse_sd: Any, out: Any) -> None:
    """Write the likelihood of one number at each grid point to `out`, up to a factor.

    A grid point is a normal law as wide as points are apart. `inverse_sd` receives 1 / the standard
    deviation of a noisy number at each point.
    """
    for g in range(grid.size):
        here = grid[g] * scale
        inverse_sd[g] = _F(1) / np.sqrt(_F(1) + _WIDTH * _WIDTH * here * here)
        distance = (value - here) * inverse_sd[g]
        out[g] = distance * distance
    least = out[0]
    for g in range(grid.size):  # a separate loop: together the two do not vectorise
        least = out[g] if out[g] < least else least
    _exponentiate(out, least, inverse_sd)


@_not_inlined
def _exponentiate(out: Any, least: Any, inverse_sd: Any) -> None:
    """Turn squared distances into likelihoods; inlined in `_likelihood` it does not vectorise."""
    for g in range(out.size):
        likelihood = exp_below(_F(0.5) * (least - out[g]))
        # Flushed to 0: avoids float32 denormals, ~20x slower (`tacit.kernels.mixing`).
        out[g] = inverse_sd[g] * likelihood if likelihood > _NEGLIGIBLE else _F(0)


@_compiled
def _likelihoods(seen: Any, scale: Any, grid: Any) -> Any:
    out = np.zeros((seen.size, grid.size), np.float32)
    for part in numba.prange(_PARTS):
        inverse_sd = np.zeros(grid.size, np.float32)
        for i in range(part * seen.size // _PARTS, (part + 1) * seen.size // _PARTS):
            _likelihood(seen[i], scale[i], grid, inverse_sd, out[i])
    return out


@_compiled
def _posterior(seen: Any, scale: Any, grid: Any, bins: Any, prior: Any) -> Any:
    """Return posterior means and standard deviations given the prior weights."""
    mean, spread = np.zeros(seen.size, np.float32), np.zeros(seen.size, np.float32)
    for part in numba.prange(_PARTS):
        likelihood, inverse_sd = np.zeros(grid.size, np.float32), np.zeros(grid.size, np.float32)
        for i in range(part * seen.size // _PARTS, (part + 1) * seen.size // _PARTS):
            value, b = seen[i], bins[i]
            _likelihood(value, scale[i], grid, inverse_sd, likelihood)
            total, first, second = _F(1e-30), _F(0), _F(0)
            for g in range(grid.size):
                shrinkage = inverse_sd[g] * inverse_sd[g]
                score = (value - grid[g] * scale[i]) * shrinkage
                weight = prior[b, g] * likelihood[g]
                total += weight
                first += weight * score
                second += weight * (score * score + _F(1) - shrinkage)
            first, second = first / total, second / total  # Tweedie: mean = value - score
            mean[i] = max(value - first, _F(0))
            spread[i] = np.sqrt(max(second - first * first, _F(0)))
    return mean, spread


def adding_up(values: np.ndarray, sd: float, first: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return estimates of non-negative numbers with normal noise and known sums.

    Groups along the last axis begin at each of `first` and have sums `totals` (..., group). The
    difference is shared out evenly first. Truncation at 0 then leaves an excess, which is taken
    from numbers near 0, since these may be noise, and not from large ones.
    """
    counts = np.diff([*first, values.shape[-1]])

    def added(numbers: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(numbers, first, axis=-1))

    def each(numbers: np.ndarray) -> np.ndarray:
        return np.repeat(numbers, counts, axis=-1)

    values = values + each((totals - added(values)) / counts)
    seen = np.maximum(values / sd, -1e3)  # the next line loses all digits beyond
    above = np.exp(-0.5 * seen**2 - log_ndtr(seen)) / np.sqrt(2 * np.pi)
    values = np.maximum(values + sd * above, 0.0)  # mean of a truncated normal
    width = np.full(totals.shape, _SMALL)
    for _ in range(_WIDER):
        small = values * np.exp(-((np.maximum(seen, 0.0) / each(width)) ** 6))
        left = totals - added(values - small)
        if np.all(left >= 0):
            break
        width = np.where(left < 0, 1.4 * width, width)
    values = values + each(np.maximum(left, 0.0) / np.maximum(added(small), 1e-300) - 1) * small
    return np.asarray(values * each(totals / np.maximum(added(values), 1e-300)))


def class_sums(
    values: np.ndarray,
    sd: float,
    first: np.ndarray,
    n: int | None = None,
    noise: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the denoised number of rows of each class, and of each (class, level).

    Levels of a feature begin at each of `first`, and every feature's levels of a class have one
    sum. The sum over classes is `n` where that is known. With standard normal `noise` (draw, class,
    level), the results are draws.
    """
    precision = 1 / np.diff([*first, values.shape[-1]])  # of a feature's sum

    def rows_of(cells: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(cells, first, axis=-1) @ precision / precision.sum())

    rows_sd = sd * precision.sum() ** -0.5
    # A sample of rows does not add up to n.
    is_sum = n is not None and abs(rows_of(values).sum() - n) < 5 * rows_sd * len(values) ** 0.5

    def denoised(cells: np.ndarray, times: float) -> tuple[np.ndarray, np.ndarray]:
        rows = rows_of(cells)
        if sd == 0:
            return rows, cells
        if is_sum:
            rows = adding_up(rows, times * rows_sd, first[:1], np.array([float(n or 0)]))
        rows = np.maximum(rows, 0.0)
        totals = np.repeat(rows[..., None], first.size, axis=-1)
        return rows, adding_up(cells, times * sd, first, totals)

    if noise is None:
        return denoised(values, 1.0)
    times = math.sqrt(1 + bool(noise.any()))  # values and draws both have noise
    parts = np.array_split(noise, -(-noise.size // _AT_ONCE))
    draws = [denoised(values + sd * part, times) for part in parts]
    return np.concatenate([rows for rows, _ in draws]), np.concatenate([c for _, c in draws])
