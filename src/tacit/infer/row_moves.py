"""Rows over the states of a discrete model: drawn, thinned, moved. Compiled.

Every move keeps the law of rows that are independent given the model, so that a Metropolis step
has only the noise of the released cells left to weigh.
"""

from __future__ import annotations

from math import lgamma

import numba
import numpy as np


@numba.njit(cache=True)
def binomial(n, p):  # type: ignore[no-untyped-def]
    """Exact for any n: halved at a beta-distributed middle until few successes are left to find."""
    if p <= 0.0 or n == 0:
        return 0
    found = 0
    while n * min(p, 1.0 - p) > 30.0:
        middle = (n + 1) // 2
        at = np.random.beta(middle, n + 1 - middle)  # the middle of n sorted uniforms
        if at <= p:
            found += middle
            n -= middle
            p = (p - at) / (1.0 - at) if at < 1.0 else 1.0
        else:
            n = middle - 1
            p /= at
    if p >= 1.0 or n == 0:
        return found + n
    return found + (_few(n, p) if p <= 0.5 else n - _few(n, 1.0 - p))


@numba.njit(cache=True)
def _few(n, p):  # type: ignore[no-untyped-def]
    """Binomial by inversion."""
    if p <= 0.0:
        return 0
    odds = p / (1.0 - p)
    mass = np.exp(n * np.log1p(-p))
    left, k = np.random.random(), 0
    while left > mass and k < n:
        left -= mass
        k += 1
        mass *= odds * (n - k + 1) / k
    return k


@numba.njit(cache=True)
def scatter(rows, weight, out):  # type: ignore[no-untyped-def]
    """Add `rows` rows to `out`, each to a state drawn in proportion to its weight."""
    total = weight.sum()
    if 4 * rows < weight.size:
        upto = np.cumsum(weight)
        for _ in range(rows):
            at = np.searchsorted(upto, np.random.random() * total, side="right")
            out[min(at, weight.size - 1)] += 1
        return
    left = rows
    last = 0
    for x in range(weight.size):
        if left == 0:
            return
        if weight[x] > 0.0:
            last = x
            share = weight[x] / total if total > weight[x] else 1.0
            k = binomial(left, share)
            out[x] += k
            left -= k
            total -= weight[x]
    out[last] += left  # rounding


@numba.njit(cache=True)
def follow(m, old, new, fixed, out):  # type: ignore[no-untyped-def]
    """Rows drawn with expectations `old`, as they would be with expectations `new`.

    A coupling of the two laws: most rows stay. Forth and back have the same joint law, for a fixed
    number of rows (multinomial) and for a free one (Poisson).
    """
    moved = 0
    for x in range(m.size):
        out[x] = m[x]
        if new[x] < old[x]:
            gone = binomial(m[x], 1.0 - new[x] / old[x])
            out[x] -= gone
            moved += gone
        elif not fixed and new[x] > old[x]:
            out[x] += np.random.poisson(new[x] - old[x])
    if fixed and moved > 0:
        scatter(moved, np.maximum(new - old, 0.0), out)


@numba.njit(cache=True)
def refresh(m, mean, share, fixed, out):  # type: ignore[no-untyped-def]
    """Redraw a random share of the rows."""
    moved = 0
    for x in range(m.size):
        gone = binomial(m[x], share)
        out[x] = m[x] - gone
        moved += gone
    if fixed:
        scatter(moved, mean, out)
    else:
        for x in range(m.size):
            out[x] += np.random.poisson(share * mean[x])


@numba.njit(cache=True)
def log_noise(t, y, scale, power, heavy):  # type: ignore[no-untyped-def]
    """Return the log density of all noisy cells."""
    total = 0.0
    for j in range(t.size):
        error = (y[j] - t[j]) / scale[j]
        total -= power[j] * (abs(error) if heavy else 0.5 * error * error)
    return total


@numba.njit(cache=True)
def margins(m, cell, t):  # type: ignore[no-untyped-def]
    """Counts of the released cells."""
    t[:] = 0
    for x in range(m.size):
        if m[x] != 0:
            for c in range(cell.shape[1]):
                t[cell[x, c]] += m[x]


@numba.njit(cache=True)
def shift_rows(m, t, score, cell, stride, levels, y, scale, power, heavy, most, tries):  # type: ignore[no-untyped-def]
    """Move rows to states that differ in one column, by Metropolis."""
    states, cliques = cell.shape
    for _ in range(tries):
        x = np.random.randint(states)
        i = np.random.randint(stride.size)
        if levels[i] == 1:
            continue
        k = int(np.exp(np.random.random() * np.log(most + 1.0)))
        if m[x] < k:
            continue
        level = (x // stride[i]) % levels[i]
        other = np.random.randint(levels[i] - 1)
        other += other >= level
        to = x + (other - level) * stride[i]
        log = k * (score[to] - score[x])
        log += lgamma(m[x] + 1.0) - lgamma(m[x] - k + 1.0)
        log += lgamma(m[to] + 1.0) - lgamma(m[to] + k + 1.0)
        for c in range(cliques):
            a, b = cell[x, c], cell[to, c]
            if a != b:
                for j, was, now in ((a, t[a], t[a] - k), (b, t[b], t[b] + k)):
                    before, after = (y[j] - was) / scale[j], (y[j] - now) / scale[j]
                    if heavy:
                        log += power[j] * (abs(before) - abs(after))
                    else:
                        log += 0.5 * power[j] * (before * before - after * after)
        if np.log(np.random.random()) < log:
            m[x] -= k
            m[to] += k
            for c in range(cliques):
                t[cell[x, c]] -= k
                t[cell[to, c]] += k
