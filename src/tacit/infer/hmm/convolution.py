"""Poisson counts plus noise: the density of the sum, and draws of the count given the sum."""

from __future__ import annotations

import math

import numba
import numpy as np

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")

_TINY = 1e-13  # relative weights below this are left out


@_compiled
def sum_over_counts(y, mean, scale, heavy, uniform):  # type: ignore[no-untyped-def]
    """Return log sum_s Poisson(s; mean) noise(y - s), and a draw of s given y if uniform >= 0.

    `heavy` noise is Laplace, other noise Gaussian; its density is taken without the constant.
    """
    mean = max(mean, 1e-290)
    mode = _mode(y, mean, scale, heavy)
    total, _ = _outward(y, mean, scale, heavy, mode, np.inf)
    drawn = mode
    if uniform >= 0.0:
        _, drawn = _outward(y, mean, scale, heavy, mode, uniform * total)
    gap = y - mode
    noise = -abs(gap) / scale if heavy else -0.5 * (gap / scale) ** 2
    log = mode * np.log(mean) - mean - math.lgamma(mode + 1.0) + noise + np.log(total)
    return log, drawn


@_compiled
def _mode(y, mean, scale, heavy):  # type: ignore[no-untyped-def]
    """Return the most probable count; the weights are unimodal."""
    if not heavy:
        spread = scale * scale
        s = np.floor(max((y + spread) * mean / (mean + spread), 0.0))
    elif y > mean * np.exp(1.0 / scale):
        s = np.floor(mean * np.exp(1.0 / scale))
    else:
        s = np.floor(max(y, mean * np.exp(-1.0 / scale)))
    while mean * _noise_ratio(y - s, scale, heavy) > s + 1.0:
        s += 1.0
    while s > 0.0 and mean * _noise_ratio(y - s + 1.0, scale, heavy) < s:
        s -= 1.0
    return s


@_compiled
def _outward(y, mean, scale, heavy, mode, target):  # type: ignore[no-untyped-def]
    """Return the sum of relative weights outward from the mode until `target`, and the last count.

    Counts above the mode come first, then those below.
    """
    up, down, decay = np.exp(1.0 / scale), np.exp(-1.0 / scale), np.exp(-1.0 / scale**2)
    total, weight, s = 1.0, 1.0, mode
    step = _noise_ratio(y - s, scale, heavy)
    while total < target:
        weight *= mean * step / (s + 1.0)
        if not weight > _TINY:
            break
        s += 1.0
        total += weight
        gap = y - s
        if not heavy:
            step *= decay
        else:  # the third case occurs at most once
            step = up if gap >= 1.0 else down if gap <= 0.0 else _noise_ratio(gap, scale, heavy)
    if total >= target:
        return total, s
    weight, s = 1.0, mode
    step = 1.0 / max(_noise_ratio(y - s + 1.0, scale, heavy), 1e-290)
    while s > 0.0 and total < target:
        weight *= step * s / mean
        if not weight > _TINY:
            break
        s -= 1.0
        total += weight
        gap = y - s + 1.0
        if not heavy:
            step *= decay
        else:
            step = (
                down if gap >= 1.0 else up if gap <= 0.0 else 1.0 / _noise_ratio(gap, scale, heavy)
            )
    return total, s


@_compiled
def _noise_ratio(gap, scale, heavy):  # type: ignore[no-untyped-def]
    """Return the noise density at gap - 1 divided by that at gap."""
    step = 2.0 * gap - 1.0
    if heavy:
        return np.exp(min(max(step, -1.0), 1.0) / scale)
    return np.exp(0.5 * step / (scale * scale))
