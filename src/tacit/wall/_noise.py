"""Exact discrete noise by OpenDP, from a generator that the operating system seeds.

Samplers are made for every call and hold no state, so there is nothing to copy, fork or pickle. The
noise is drawn without the data in sight and added in integers.
"""

from __future__ import annotations

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from tacit.spec.release import Noise

enable_features("contrib")

_VECTOR = vector_domain(atom_domain(T="i64"))
# Keeps statistic plus noise inside int64 (accounting keeps the noise below 2^61).
_LIMIT = 2**62


def draw(noise: Noise, size: int) -> np.ndarray:
    """`size` independent integers of the law, in steps of its grid."""
    scale = noise.scale / noise.grid  # exact: the grid is a power of two
    match noise.family:
        case "discrete_laplace":
            sampler = make_laplace(_VECTOR, l1_distance(T="i64"), scale)
        case "discrete_gaussian":
            sampler = make_gaussian(_VECTOR, l2_distance(T="f64"), scale)
        case _:
            raise ValueError(f"no sampler for {noise.family}")
    return np.array(sampler([0] * size), dtype=np.int64)


def to_steps(values: np.ndarray, noise: Noise) -> np.ndarray:
    """Integers as steps of the grid, which divides one. Clipping moves no two of them apart."""
    per_one = round(1 / noise.grid)
    if per_one * noise.grid != 1:
        raise ValueError("counts need a grid that divides one")
    limit = _LIMIT // per_one
    return np.clip(values, -limit, limit) * per_one
