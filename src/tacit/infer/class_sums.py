"""Rows by class and level, from noisy sums that are known to add up."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

_SMALL = 1.5  # standard deviations: what noise alone may well be
_WIDER = 8  # times, as far as it takes for numbers to add up
_AT_ONCE = 2_000_000  # numbers


def adding_up(values: np.ndarray, sd: float, first: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Non-negative numbers seen with normal noise, that are known to add up.

    They do so in groups along the last axis, one from each of `first` on, to `totals` (..., group).
    Of normals the difference is shared out evenly. To cut off negative ones would leave too much:
    that is taken from others near 0, which noise may have made, and not from large ones.
    """
    counts = np.diff([*first, values.shape[-1]])

    def added(numbers: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(numbers, first, axis=-1))

    def each(numbers: np.ndarray) -> np.ndarray:
        return np.repeat(numbers, counts, axis=-1)

    values = values + each((totals - added(values)) / counts)
    seen = np.maximum(values / sd, -1e3)  # further out the next line has no digits left
    above = np.exp(-0.5 * seen**2 - log_ndtr(seen)) / np.sqrt(2 * np.pi)
    values = np.maximum(values + sd * above, 0.0)  # the mean, if all one knows is its sign
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
    """How many rows there are of each class, and with each level: from noisy (class, level).

    Levels of a feature begin at each of `first`: in every feature a class has the same rows. All
    rows are `n` where that is known. With standard normal `noise` (draw, class, level): draws.
    """
    known = 1 / np.diff([*first, values.shape[-1]])  # about rows, by a feature: few levels, much

    def rows_of(cells: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(cells, first, axis=-1) @ known / known.sum())

    rows_sd = sd * known.sum() ** -0.5
    # A sample of rows does not add up to n.
    is_sum = n is not None and abs(rows_of(values).sum() - n) < 5 * rows_sd * len(values) ** 0.5

    def cleared(cells: np.ndarray, times: float) -> tuple[np.ndarray, np.ndarray]:
        rows = rows_of(cells)
        if sd == 0:
            return rows, cells
        if is_sum:
            rows = adding_up(rows, times * rows_sd, first[:1], np.array([float(n or 0)]))
        rows = np.maximum(rows, 0.0)
        totals = np.repeat(rows[..., None], first.size, axis=-1)
        return rows, adding_up(cells, times * sd, first, totals)

    if noise is None:
        return cleared(values, 1.0)
    times = math.sqrt(1 + bool(noise.any()))  # what noise made of small numbers is in draws twice
    parts = np.array_split(noise, -(-noise.size // _AT_ONCE))
    draws = [cleared(values + sd * some, times) for some in parts]
    return np.concatenate([rows for rows, _ in draws]), np.concatenate([c for _, c in draws])
