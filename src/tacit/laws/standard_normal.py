"""Standard normal numbers from uniform ones, by Box and Muller."""

from __future__ import annotations

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
