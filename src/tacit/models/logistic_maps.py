"""What one row adds to the slope and the curvature of a logistic log-likelihood.

A row holds the features and then the target's position, 0 or 1. The state is the encoding of a
`Design`, after the parameters where they matter.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from functools import lru_cache

import numba
import numpy as np

from tacit.spec.design import Encoding
from tacit.spec.maps import NumbaMap


@numba.njit(inline="always")
def _encode(row, base, place, levels, middle, slope, out):
    for j in range(base.size):
        out[j] = base[j]
    for f in range(place.size):
        if levels[f] > 0:
            out[place[f] + int(row[f])] += slope[f]
        else:
            out[place[f]] += (row[f] - middle[f]) * slope[f]


@numba.njit(inline="always")
def _probability(theta, x):
    log_odds = 0.0
    for j in range(theta.size):
        log_odds += theta[j] * x[j]
    return 1 / (1 + math.exp(-log_odds))


def pull(row, state, out):
    base, place, levels, middle, slope = state
    _encode(row, base, place, levels, middle, slope, out)
    side = row[place.size] - 0.5
    for j in range(base.size):
        out[j] *= side


def push(row, state, out):
    theta, base, place, levels, middle, slope = state
    _encode(row, base, place, levels, middle, slope, out)
    side = _probability(theta, out) - 0.5
    for j in range(base.size):
        out[j] *= side


def curved(row, state, out):
    theta, base, place, levels, middle, slope = state
    size = base.size
    _encode(row, base, place, levels, middle, slope, out)
    p = _probability(theta, out)
    weight = 2.0 * p * (1 - p)  # spec.newton.CURVATURE
    start = size
    for i in range(size):
        factor = weight * out[i] * 1.4142135623730951
        if factor != 0:  # most categories are not the row's
            for j in range(i, size):
                out[start + j - i] = factor * out[j]
            out[start] *= 0.7071067811865476
        start += size - i
    for j in range(size):
        out[j] *= p - 0.5


def weighted(row, state, out):
    """Squares of the row, times the expected Polya-Gamma weight: within 1/4, as a whole.

    Before the encoding the state has theta theta', for the point theta that weights are for, as the
    upper triangle of squares is written: off the diagonal times the root of 2.
    """
    moments, base, place, levels, middle, slope = state
    size = base.size
    x = np.zeros(size)
    _encode(row, base, place, levels, middle, slope, x)
    start = 0
    for i in range(size):
        factor = x[i] * 1.4142135623730951
        for j in range(i, size):
            out[start + j - i] = factor * x[j]
        out[start] *= 0.7071067811865476
        start += size - i
    square = 0.0
    for i in range(out.size):
        square += moments[i] * out[i]
    odds = math.sqrt(max(square, 0.0))
    weight = 0.25 if odds < 1e-4 else math.tanh(odds / 2) / (2 * odds)
    for i in range(out.size):
        out[i] *= weight


def likelihood_maps(encoding: Encoding) -> tuple[NumbaMap, NumbaMap]:
    """The log-likelihood of a row and its slope, with the parameters alone as their state."""
    return _likelihood_maps(*((each.dtype.str, each.tobytes()) for each in encoding))


@lru_cache(maxsize=16)
def _likelihood_maps(*parts):
    base, place, levels, middle, slope_ = (np.frombuffer(raw, kind) for kind, raw in parts)

    def log_likelihood(row, theta, out):
        x = np.zeros(base.size)
        _encode(row, base, place, levels, middle, slope_, x)
        log_odds = 0.0
        for j in range(base.size):
            log_odds += theta[j] * x[j]
        away = log_odds * (1 - 2 * row[place.size])
        out[0] = -(max(away, 0.0) + math.log1p(math.exp(-abs(away))))

    def its_slope(row, theta, out):
        _encode(row, base, place, levels, middle, slope_, out)
        side = row[place.size] - _probability(theta, out)
        for j in range(base.size):
            out[j] *= side

    return NumbaMap(log_likelihood), NumbaMap(its_slope)


PULL, PUSH, CURVED, WEIGHTED = (NumbaMap(each) for each in (pull, push, curved, weighted))
