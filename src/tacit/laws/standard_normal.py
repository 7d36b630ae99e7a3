"""Standard normal numbers from uniform ones, by Box and Muller."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.laws.arrays import Array, Uniform


def of(u: Array, v: Array) -> Array:
    """One number from two uniform ones.

    The bits of one would run out in the tails, and the gaps between the numbers it can make there
    would show where the centre of a law is.
    """
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)


def sample(size: int, uniform: Uniform) -> Array:
    return of(*uniform(2 * size).reshape(2, -1))


def from_words(entropy: Callable[[int], Array], count: int) -> Array:
    """Standard normal numbers from 32-bit random words, with a relative error below 2^-42.

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
