"""Exponential numbers up to an end, from uniform ones, with no gaps in the tail."""

from __future__ import annotations

import numpy as np

from tacit.laws.arrays import Array


def of(v: Array, rate: Array | float, length: Array | float) -> Array:
    """Densities proportional to exp(-rate x) on [0, length]; the tail is at small v.

    There a double has all its bits. At v near 1 neighbours are 2^-53 apart, and so are numbers near
    x = 0, relative to 1 / rate, or to the length where that is shorter.
    """  # proof: draw-dense
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        far = -np.log(v + (1 - v) * np.exp(-rate * length))
        near = -np.log1p((1 - v) * np.expm1(-rate * length))
        # On a short piece the first would be the logarithm of something near 1.
        return np.where((v < 0.5) & (rate * length > 1), far, near) / rate
