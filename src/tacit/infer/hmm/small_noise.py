"""Sampler for noise of the size of the counts or less: true counts are latent integers.

True counts are s ~ Poisson(rate of the cell * theta), and y = s + noise. Sweeps alternate between
paths given s and paths with s summed out, since given s a path mixes slowly where noise is large.
The latter are proposed under a normal approximation and accepted by the exact sum over s, which is
needed only at the cells that change.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.infer.hmm.gibbs import (
    SHAPE,
    ZERO,
    compiled,
    draw_emissions,
    draw_path,
    draw_paths,
    draw_transitions,
    fast,
    keep,
    log_likelihood,
    new_chain,
)

_STRETCH = 12  # number of times in one proposal
_TABLE = 65  # rates at which log determinants are computed
_TINY = 1e-13  # relative weights below this are left out


@compiled
def run_small_noise(rng, data, z, warmup, out):  # type: ignore[no-untyped-def]
    """Run the sampler from paths `z`; each sweep after warm-up fills one entry of `out`."""
    chain, log_theta = new_chain(z, out), np.empty(out.theta.shape[1:])
    y, features, times = data.y, data.first.size - 1, z.shape[1]
    s = np.zeros(y.shape, np.int64)
    for c in range(len(y)):
        if data.used[c]:
            for j in range(y.shape[1]):
                s[c, j] = max(0, int(np.rint(y[c, j])))
    log_factorial = np.zeros(int(min(2.0 * s.max() + 1000.0, 1e6)))
    for i in range(1, log_factorial.size):
        log_factorial[i] = log_factorial[i - 1] + np.log(i)
    rate, near = np.empty(len(y)), y.astype(np.float32)
    draw_emissions(rng, s, data, z, log_theta)
    for sweep in range(warmup + len(out.states)):
        draw_transitions(rng, chain, data.transition)
        for c in range(rate.size):
            rate[c] = max(rng.standard_gamma(SHAPE + s[c].sum()), 1e-30) / (data.rate + features)
        theta = np.exp(log_theta)
        if sweep % 2 == 0:
            log_likelihood(s, log_theta, chain.log_like)
            draw_paths(rng, chain)
        else:
            _normal_log_likelihood(near, rate, theta, data.spread, chain.log_like)
            chain.log_like[~data.used] = 0.0
            for r in range(z.shape[0]):
                a, b = ZERO, int(rng.random() * _STRETCH) + 1
                while a < times:
                    b = min(b, times)
                    _move_stretch(rng, data, chain, rate, theta, s, r, a, b)
                    a, b = b, b + _STRETCH
        _move_counts(rng, data, rate, theta, log_theta, z, s, log_factorial, sweep // 2 % 2)
        draw_emissions(rng, s, data, z, log_theta)
        keep(out, sweep - warmup, chain, np.exp(log_theta))


@compiled
def _normal_log_likelihood(y, rate, theta, spread, out):  # type: ignore[no-untyped-def]
    """Write the approximate log p(y of a cell | state), s summed out, to `out`.

    It is a normal log density with a correction for the Poisson's skewness.
    """
    states, levels = theta.shape
    wide = np.zeros((levels, (states + 15) // 16 * 16), np.float32)  # padded to full SIMD vectors
    wide[:, :states] = theta.T
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


@compiled
def _move_stretch(rng, data, chain, rate, theta, s, r, a, b):  # type: ignore[no-untyped-def]
    """Update z[r, a:b] and the counts of cells that change, by Metropolis-Hastings."""
    y, used, scale, heavy = data.y, data.used, data.scale, data.heavy
    z, log_like, levels = chain.z, chain.log_like, y.shape[1]
    first = r * z.shape[1]
    old = z[r, a:b].copy()
    draw_path(rng, chain, r, a, b)
    log_ratio = 0.0
    fresh = np.empty((b - a, levels), np.int64)
    for t in range(a, b):
        k, c = old[t - a], first + t
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
            if z[r, t] != old[t - a] and used[first + t]:
                s[first + t] = fresh[t - a]
    else:
        z[r, a:b] = old


@compiled
def _move_counts(rng, data, rate, theta, log_theta, z, s, log_factorial, half):  # type: ignore[no-untyped-def]
    """Update the true counts in every other cell by Metropolis, given its state and rate."""
    y, used, scale, heavy, spread = data.y, data.used, data.scale, data.heavy, data.spread
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


@compiled
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


@compiled
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


@compiled
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


@compiled
def _noise_ratio(gap, scale, heavy):  # type: ignore[no-untyped-def]
    """Return the noise density at gap - 1 divided by that at gap."""
    step = 2.0 * gap - 1.0
    if heavy:
        return np.exp(min(max(step, -1.0), 1.0) / scale)
    return np.exp(0.5 * step / (scale * scale))
