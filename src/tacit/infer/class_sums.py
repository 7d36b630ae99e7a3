"""Denoised counts by class and level, from noisy counts with known sums."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

_SMALL = 1.5  # standard deviations: smaller numbers may be noise
_WIDER = 8  # most widenings until the numbers can add up
_AT_ONCE = 2_000_000  # numbers held at once


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
    known = 1 / np.diff([*first, values.shape[-1]])  # precision of a feature's sum

    def rows_of(cells: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(cells, first, axis=-1) @ known / known.sum())

    rows_sd = sd * known.sum() ** -0.5
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
