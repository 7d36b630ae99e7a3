"""Sampler for noise much larger than one count: true counts are integrated out as normal.

y ~ Normal(mean, mean + w) with mean = rate of the cell * theta, where w is the variance of the
noise. Laplace noise is a scale mixture: normal with an exponential variance (mean 2 b^2) for each
number. No step conditions on the true counts: given those, the conditional laws of theta and the
rates are much narrower than their posterior, and the chain would mix slowly.
"""

from __future__ import annotations

import numpy as np

from tacit.infer.hmm.gibbs import (
    SHAPE,
    compiled,
    draw_paths,
    draw_transitions,
    fast,
    keep,
    log_dirichlet,
    new_chain,
)

_TURNS = 4  # each sweep updates every fourth cell's variances


@compiled
def run_large_noise(rng, data, z, warmup, out):  # type: ignore[no-untyped-def]
    """Run the sampler from paths `z`; each sweep after warm-up fills one entry of `out`."""
    chain, (cells, levels) = new_chain(z, out), data.y.shape
    y, w = data.y.copy(), np.empty((cells, levels))
    for c in range(cells):
        w[c] = data.spread
        for j in range(levels):
            if data.heavy[j]:
                # Jitter: integers hit the kink of the Laplace density, which a normal count
                # smooths and an integer count does not; means below one would be biased to zero.
                y[c, j] += rng.random() - 0.5
    rate, step = np.ones(cells), np.full(cells, 0.3)
    for c in range(cells):
        if data.used[c]:
            rate[c] = max(y[c].sum() / (data.first.size - 1), 0.1 * SHAPE / data.rate)
    p = _initial_emissions(y, data, z, out.start.shape[1])
    for sweep in range(warmup + len(out.states)):
        draw_transitions(rng, chain, data.transition)
        _log_likelihood(y, w, rate, p, chain.log_like)
        chain.log_like[~data.used] = 0.0
        draw_paths(rng, chain)
        _move_variances(rng, y, data, rate, p, z, w, sweep % _TURNS)
        _move_rates(rng, y, data, w, p, z, rate, step, 0.1 if sweep < warmup else 0.0)
        _move_emissions(rng, y, data, w, rate, z, p)
        keep(out, sweep - warmup, chain, p)


@compiled
def _initial_emissions(y, data, z, size):  # type: ignore[no-untyped-def]
    """Return initial emissions: shares of the counts, shrunk towards equal ones by the noise."""
    times, first = z.shape[1], data.first
    p = np.zeros((size, y.shape[1]))
    number = np.zeros(size)
    for c in range(y.shape[0]):
        k = z[c // times, c % times]
        number[k] += 1.0
        p[k] += y[c]
    for k in range(size):
        for d in range(first.size - 1):
            total = 0.0
            for j in range(first[d], first[d + 1]):
                noise = np.sqrt(data.spread[j] * number[k])
                p[k, j] = max(p[k, j], 0.0) + 0.1 * noise + data.emission[j]
                total += p[k, j]
            for j in range(first[d], first[d + 1]):
                p[k, j] /= total
    return p


@compiled
def _log_likelihood(y, w, rate, p, out):  # type: ignore[no-untyped-def]
    states, levels = p.shape
    wide = np.zeros((levels, (states + 3) // 4 * 4))  # padded to full SIMD vectors
    wide[:, :states] = p.T
    _all_states(y, w, rate, wide, out)


@fast
def _all_states(y, w, rate, p, out):  # type: ignore[no-untyped-def]
    """Write log densities of all states of a cell; uses log of products for speed."""
    cells, levels = y.shape
    size = p.shape[1]
    total, product = np.empty(size), np.empty(size)
    for c in range(cells):
        total[:] = 0.0
        for begin in range(0, levels, 36):
            product[:] = 1.0
            for j in range(begin, min(begin + 36, levels)):
                inverse = 1.0 / w[c, j]
                for k in range(size):
                    mean = rate[c] * p[j, k]
                    more = min(mean * inverse, 1e8) + 1.0
                    gap = y[c, j] - mean
                    total[k] += gap * gap * inverse / more
                    product[k] *= more
            for k in range(out.shape[1]):
                total[k] += np.log(product[k])
        for k in range(out.shape[1]):
            out[c, k] = -0.5 * total[k]


@compiled
def _move_variances(rng, y, data, rate, p, z, w, turn):  # type: ignore[no-untyped-def]
    """Update the variance of each Laplace number: 1 / total variance is inverse Gaussian."""
    times = z.shape[1]
    for c in range(turn, y.shape[0], _TURNS):
        if not data.used[c]:
            continue
        k = z[c // times, c % times]
        for j in range(y.shape[1]):
            if not data.heavy[j]:
                continue
            mean = rate[c] * p[k, j]
            b = data.scale[j]
            gap = max(abs(y[c, j] - mean), 1e-9 * b)
            normal = rng.standard_normal()
            root = 0.5 * normal * normal * b / gap
            root += 1.0 + np.sqrt(root * (root + 2.0))
            total = b * gap * root
            if rng.random() * (1.0 + root) > root:
                total = b * gap / root
            # w = total - mean must be positive; otherwise it is kept.
            if total - mean > 1e-9 * b * b:
                w[c, j] = total - mean


@fast
def _cell(y, w, p, rate):  # type: ignore[no-untyped-def]
    total = 0.0
    for begin in range(0, y.size, 16):
        product = 1.0
        for j in range(begin, min(begin + 16, y.size)):
            mean = rate * p[j]
            more = mean + w[j]
            gap = y[j] - mean
            total += gap * gap / more
            product *= more / w[j]
        total += np.log(product)
    return -0.5 * total


@compiled
def _move_rates(rng, y, data, w, p, z, rate, step, adaptation):  # type: ignore[no-untyped-def]
    """Update rates by a random walk on log rates, its step sizes adapted during warm-up."""
    times = z.shape[1]
    for c in range(y.shape[0]):
        if not data.used[c]:
            continue
        k = z[c // times, c % times]
        move = step[c] * rng.standard_normal()
        new = rate[c] * np.exp(move)
        if not 1e-30 < new < 1e30:
            continue
        log = SHAPE * move - data.rate * (new - rate[c])
        log += _cell(y[c], w[c], p[k], new) - _cell(y[c], w[c], p[k], rate[c])
        acceptance = np.exp(min(log, 0.0))
        step[c] = min(step[c] * np.exp(adaptation * (acceptance - 0.4)), 3.0)
        if rng.random() < acceptance:
            rate[c] = new


@compiled
def _move_emissions(rng, y, data, w, rate, z, p):  # type: ignore[no-untyped-def]
    """Update emissions by Metropolis moves of mass between pairs of levels.

    Given rates and variances the levels are independent up to their sum, so that moves of disjoint
    pairs are accepted separately. Step sizes do not depend on `p`: proposals are symmetric.
    """
    used, first, spread, prior = data.used, data.first, data.spread, data.emission
    times, features, (states, levels) = z.shape[1], first.size - 1, p.shape
    information = np.zeros((states, features))
    for c in range(y.shape[0]):
        if used[c]:
            k = z[c // times, c % times]
            for d in range(features):
                share = rate[c] / (first[d + 1] - first[d])
                information[k, d] += rate[c] ** 2 / (spread[first[d]] + share)
    other = np.arange(levels)
    log = np.empty(levels)
    for k in range(states):
        for d in range(features):
            if information[k, d] == 0.0:  # no cell is in this state
                span = slice(first[d], first[d + 1])
                log_dirichlet(rng, prior[span], log[span])
                p[k, span] = np.exp(log[span])
    for _ in range(2):
        for d in range(features):
            order = first[d] + rng.permutation(first[d + 1] - first[d])
            for i in range(0, order.size - 1, 2):
                other[order[i]], other[order[i + 1]] = order[i + 1], order[i]
            if order.size % 2:
                other[order[-1]] = order[-1]
        new = p.copy()
        for k in range(states):
            for d in range(features):
                width = 1.7 / np.sqrt(information[k, d] + 1e-300)
                for i in range(first[d], first[d + 1]):
                    j = other[i]
                    if i < j:
                        move = min(width, p[k, i] + p[k, j]) * rng.standard_normal()
                        if p[k, i] + move > 1e-290 and p[k, j] - move > 1e-290:
                            new[k, i], new[k, j] = p[k, i] + move, p[k, j] - move
        change = np.zeros((states, levels))
        _changes(y, used, w, rate, z.ravel(), p, new, change)
        for k in range(states):
            for i in range(levels):
                j = other[i]
                if i < j and new[k, i] != p[k, i]:
                    ratio = change[k, i] + change[k, j]
                    ratio += (prior[i] - 1.0) * np.log(new[k, i] / p[k, i])
                    ratio += (prior[j] - 1.0) * np.log(new[k, j] / p[k, j])
                    if ratio >= 0.0 or rng.random() < np.exp(ratio):
                        p[k, i], p[k, j] = new[k, i], new[k, j]


@fast
def _changes(y, used, w, rate, z, p, new, out):  # type: ignore[no-untyped-def]
    """Add the change of the log likelihood from `p` to `new`, by state and level, to `out`."""
    states, levels = p.shape
    product = np.ones((states, levels))
    number = np.zeros(states, np.int64)
    for c in range(y.shape[0]):
        if not used[c]:
            continue
        k = z[c]
        for j in range(levels):
            before, after = rate[c] * p[k, j], rate[c] * new[k, j]
            small, large = before + w[c, j], after + w[c, j]
            gap, new_gap = y[c, j] - before, y[c, j] - after
            out[k, j] += 0.5 * (gap * gap / small - new_gap * new_gap / large)
            product[k, j] *= small / large
        number[k] += 1
        if number[k] % 16 == 0:  # before products overflow
            for j in range(levels):
                out[k, j] += 0.5 * np.log(product[k, j])
                product[k, j] = 1.0
    for k in range(states):
        for j in range(levels):
            out[k, j] += 0.5 * np.log(product[k, j])
