"""Normal and exponential numbers from uniform ones, and rejection: what the samplers share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Uniform = Callable[[int], Array]  # `n` numbers strictly between 0 and 1, given n


def normal(u: Array, v: Array) -> Array:
    """One standard normal number from two uniform ones, by Box and Muller.

    The bits of one would run out in the tails, and the gaps between the numbers it can make there
    would show where the centre of a law is.
    """
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)


def normals(size: int, uniform: Uniform) -> Array:
    return normal(*uniform(2 * size).reshape(2, -1))


def normals_from_bits(entropy: Callable[[int], Array], count: int) -> Array:
    """Standard normal numbers from random bits, with a relative error below 2^-42.

    Box and Muller, with the logarithm of a number that has all its digits near 0 and near 1.
    """  # proof: logistic-normals
    parts = entropy(10 * count).astype(np.uint64).reshape(10, count)
    halves = parts[::2] << np.uint64(32) | parts[1::2]
    inside = 2.0**-257
    for i in (3, 2, 1, 0):
        inside = inside + halves[i].astype(float) * 2.0 ** (-64 * (i + 1))
    inside = np.minimum(inside, 1.0) / 2
    near_zero = (halves[4] & np.uint64(1)).astype(bool)
    angle = (halves[4] >> np.uint64(1)).astype(float) * (2.0**-63 * 2 * np.pi)
    height = np.where(near_zero, -np.log(inside), -np.log1p(-inside))
    return np.sqrt(2 * height) * np.cos(angle)


def exponential(v: Array, rate: Array | float, length: Array | float) -> Array:
    """Numbers with density proportional to exp(-rate x) on [0, length]; the tail is at small v.

    There a double has all its bits. At v near 1 neighbours are 2^-53 apart, and so are numbers near
    x = 0, relative to 1 / rate, or to the length where that is shorter.
    """  # proof: draw-dense
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        far = -np.log(v + (1 - v) * np.exp(-rate * length))
        near = -np.log1p((1 - v) * np.expm1(-rate * length))
        # On a short piece the first would be the logarithm of something near 1.
        return np.where((v < 0.5) & (rate * length > 1), far, near) / rate


def by_rejection(
    shape: tuple[int, ...],
    propose: Callable[[Array, int], tuple[Array, Array]],
    at_once: int = 0,
) -> Array:
    """One draw for each row of `shape`: the first of its proposals that is accepted.

    `propose(rows, times)` gives proposals (rows, times, ...) and whether each is accepted. Where
    few are, `times` is doubled, up to `at_once` proposals together.
    """
    drawn = np.empty(shape)
    left, times = np.arange(shape[0]), 1
    while left.size:
        tried, accepted = propose(left, times)
        done, first = accepted.any(axis=1), accepted.argmax(axis=1)
        drawn[left[done]] = tried[done, first[done]]
        left = left[~done]
        times = max(times, min(2 * times, at_once // max(left.size, 1)))
    return drawn
