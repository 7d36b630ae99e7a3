"""Sampler for noise of the size of the counts or less: true counts are latent integers.

True counts are s ~ Poisson(rate of the cell * theta), and y = s + noise. Sweeps alternate between
paths given s and paths with s summed out, since given s a path mixes slowly where noise is large.
The latter are proposed under a normal approximation and accepted by the exact sum over s, which is
needed only at the cells that change.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tacit.infer.hmm.convolution import sum_over_counts
from tacit.infer.hmm.paths import (
    cell_log_likelihood,
    draw_emissions,
    draw_path,
    draw_transitions,
    fast,
)

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")

SHAPE = 0.5  # of the rates' prior
_STRETCH = 12  # number of times in one proposal
_TABLE = 65  # rates at which log determinants are computed


@_compiled
def run_small_noise(  # type: ignore[no-untyped-def]
    rng,
    y,
    used,
    scale,
    heavy,
    first,
    z,
    prior,
    transition_prior,
    rate_prior,
    warmup,
    states,
    theta,
    moves,
    starts,
):
    """Run the sampler from paths `z`; each sweep after warm-up fills one entry of the outputs."""
    sequences, times = z.shape
    cells, levels = y.shape
    size = moves.shape[1]
    features = first.size - 1
    s = np.zeros((cells, levels), np.int64)
    most = 0
    for c in range(cells):
        if used[c]:
            for j in range(levels):
                s[c, j] = max(0, int(np.rint(y[c, j])))
                most = max(most, s[c, j])
    log_factorial = np.zeros(int(min(2.0 * most + 1000.0, 1e6)))
    for i in range(1, log_factorial.size):
        log_factorial[i] = log_factorial[i - 1] + np.log(i)
    rate = np.empty(cells)
    log_theta = np.empty((size, levels))
    log_like = np.empty((cells, size))
    transition, start = np.empty((size, size)), np.empty(size)
    filtered = np.empty((times, size))
    spread = np.empty(levels)
    for j in range(levels):
        spread[j] = 2 * scale[j] ** 2 if heavy[j] else scale[j] ** 2
    near = y.astype(np.float32)
    draw_emissions(rng, s, first, z, prior, log_theta)
    for sweep in range(warmup + states.shape[0]):
        draw_transitions(rng, z, transition_prior, start, transition)
        for c in range(cells):
            total = SHAPE
            for j in range(levels):
                total += s[c, j]
            rate[c] = max(rng.standard_gamma(total), 1e-30) / (rate_prior + features)
        draw = np.exp(log_theta)
        if sweep % 2 == 0:
            cell_log_likelihood(s, log_theta, log_like)
            for r in range(sequences):
                here = log_like[r * times : (r + 1) * times]
                draw_path(rng, here, start, transition, z[r], 0, times, filtered)
        else:
            normal_log_likelihood(near, rate, draw, spread, log_like)
            for c in range(cells):
                if not used[c]:
                    log_like[c] = 0.0
            for r in range(sequences):
                a, b = 0, int(rng.random() * _STRETCH) + 1
                while a < times:
                    b = min(b, times)
                    _move_stretch(
                        rng, y, used, scale, heavy, rate, draw, log_like, start, transition, z, s,
                        r, a, b, filtered,
                    )  # fmt: skip
                    a, b = b, b + _STRETCH
        _move_counts(
            rng, y, used, scale, heavy, spread, rate, draw, log_theta, z, s, log_factorial,
            sweep // 2 % 2,
        )  # fmt: skip
        draw_emissions(rng, s, first, z, prior, log_theta)
        if sweep >= warmup:
            i = sweep - warmup
            states[i] = z
            theta[i] = np.exp(log_theta)
            moves[i] = transition
            starts[i] = start


@_compiled
def normal_log_likelihood(y, rate, theta, spread, out):  # type: ignore[no-untyped-def]
    """Write the approximate log p(y of a cell | state), s summed out, to `out`.

    It is a normal log density with a correction for the Poisson's skewness.
    """
    states, levels = theta.shape
    wide = np.zeros((levels, (states + 15) // 16 * 16), np.float32)  # padded to full SIMD vectors
    for k in range(states):
        for j in range(levels):
            wide[j, k] = theta[k, j]
    _quadratic_part(y, rate.astype(np.float32), wide, spread.astype(np.float32), out)
    # log det is smooth in a cell's rate: interpolate from a table.
    low, high = np.log(rate.min()), np.log(rate.max())
    width = max(high - low, 1e-6) / (_TABLE - 1)
    table = np.zeros((_TABLE, states))
    for i in range(_TABLE):
        at = np.exp(low + width * i)
        for k in range(states):
            for j in range(levels):
                table[i, k] += np.log1p(at * theta[k, j] / spread[j])
    for c in range(rate.size):
        at = (np.log(rate[c]) - low) / width
        i = min(max(int(at), 0), _TABLE - 2)
        at -= i
        for k in range(states):
            out[c, k] -= 0.5 * ((1 - at) * table[i, k] + at * table[i + 1, k])


@fast
def _quadratic_part(y, rate, theta, spread, out):  # type: ignore[no-untyped-def]
    """Write the quadratic part of the log density; single precision is enough for a proposal."""
    cells, levels = y.shape
    size = theta.shape[1]
    total = np.empty(size, np.float32)
    one, third = np.float32(1.0), np.float32(1 / 3)
    for c in range(cells):
        total[:] = 0.0
        for j in range(levels):
            for k in range(size):
                mean = rate[c] * theta[j, k]
                inverse = one / (mean + spread[j])
                gap = y[c, j] - mean
                skew = min(max(mean * gap * inverse * inverse, -one), one)
                total[k] += gap * gap * inverse * (one - skew * third) + skew
        for k in range(out.shape[1]):
            out[c, k] = -0.5 * total[k]


@_compiled
def _move_stretch(  # type: ignore[no-untyped-def]
    rng, y, used, scale, heavy, rate, theta, log_like, start, transition, z, s, r, a, b, filtered
):
    """Update z[r, a:b] and the counts of cells that change, by Metropolis-Hastings."""
    levels = y.shape[1]
    begin = r * z.shape[1]
    here = log_like[begin : begin + z.shape[1]]
    old = z[r, a:b].copy()
    draw_path(rng, here, start, transition, z[r], a, b, filtered)
    log_ratio = 0.0
    fresh = np.empty((b - a, levels), np.int64)
    for t in range(a, b):
        k, c = old[t - a], begin + t
        if z[r, t] == k or not used[c]:
            continue
        log_ratio += log_like[c, k] - log_like[c, z[r, t]]
        for j in range(levels):
            after, fresh[t - a, j] = sum_over_counts(
                y[c, j], rate[c] * theta[z[r, t], j], scale[j], heavy[j], rng.random()
            )
            before, _ = sum_over_counts(y[c, j], rate[c] * theta[k, j], scale[j], heavy[j], -1.0)
            log_ratio += after - before
    if log_ratio >= 0.0 or rng.random() < np.exp(log_ratio):
        for t in range(a, b):
            if z[r, t] != old[t - a] and used[begin + t]:
                s[begin + t] = fresh[t - a]
    else:
        z[r, a:b] = old


@_compiled
def _move_counts(  # type: ignore[no-untyped-def]
    rng, y, used, scale, heavy, spread, rate, theta, log_theta, z, s, log_factorial, half
):
    """Update the true counts in every other cell by Metropolis, given its state and rate."""
    times = z.shape[1]
    for c in range(half, y.shape[0], 2):
        if not used[c]:
            continue
        k = z[c // times, c % times]
        log_rate = np.log(rate[c])
        for j in range(y.shape[1]):
            mean = rate[c] * theta[k, j]
            width = int(1.0 + 1.8 * np.sqrt(mean * spread[j] / (mean + spread[j])))
            # One uniform number: its integer part is the step, its fraction decides acceptance.
            at = rng.random() * (2 * width)
            step = int(at)
            at -= step
            step -= width
            step += step >= 0
            now, new = s[c, j], s[c, j] + step
            if new < 0:
                continue
            if max(now, new) < log_factorial.size:
                log = log_factorial[now] - log_factorial[new]
            else:
                log = math.lgamma(now + 1.0) - math.lgamma(new + 1.0)
            gap = y[c, j] - now
            if heavy[j]:
                log += (abs(gap) - abs(gap - step)) / scale[j]
            else:
                log += 0.5 * step * (2.0 * gap - step) / spread[j]
            log += step * (log_rate + log_theta[k, j])
            if at < np.exp(min(log, 0.0)):
                s[c, j] = new
