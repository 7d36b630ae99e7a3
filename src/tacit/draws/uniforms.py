"""Uniform numbers for the samplers of draws, dense where their tails are."""

from __future__ import annotations

import numpy as np

from tacit.wall.noise import Entropy


def uniforms(entropy: Entropy, count: int) -> np.ndarray:
    """Numbers strictly between 0 and 1, near 0 with all bits that a double has there.

    128 bits each: samplers put the tails of their laws at 0, where too few bits would leave gaps
    wider than the grid of what is released, and where the gaps are would tell of the data.
    """  # proof: draw-dense
    parts = entropy(4 * count).reshape(4, -1).astype(np.uint64)
    low, high = (parts[i] << np.uint64(32) | parts[i + 1] for i in (0, 2))
    inside = high.astype(float) * 2.0**-64 + (low.astype(float) + 0.5) * 2.0**-128
    return np.minimum(inside, 1 - 2.0**-53)
