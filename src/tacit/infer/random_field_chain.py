"""The compiled chain of a Markov random field (`random_field` says what its parts are).

Every move of the rows keeps the law of rows that are independent given the model, so that a
Metropolis step has only the noise of the released cells left to weigh.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np

from tacit.compile_cache import cached
from tacit.infer.latent_counts import ROWS

_BURN, _EVERY = 400, 4  # sweeps before the first draw, and for each draw
ZERO = np.int64(0)  # a literal 0 is a type of its own, for which Numba compiles all calls again
_compiled = cached()


class SeenCells(NamedTuple):
    """Noisy counts of all cells, the scale of their noise, and whether its tails are Laplace's."""

    value: np.ndarray
    scale: np.ndarray
    power: np.ndarray
    heavy: bool


class Latent(NamedTuple):
    """Numbers of rows in all states, and in the released cells that these add up to."""

    states: np.ndarray
    cells: np.ndarray


@_compiled
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


@_compiled
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


@_compiled
def _scatter(rows, weight, out):  # type: ignore[no-untyped-def]
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


@_compiled
def follow(m, old, new, fixed, out):  # type: ignore[no-untyped-def]
    """Rows drawn with expectations `old`, as they would be with expectations `new`.

    A coupling of the two laws: most rows stay. Forth and back have the same joint law, for a fixed
    number of rows (multinomial) and for a free one (Poisson).
    """
    moved = ZERO
    for x in range(m.size):
        out[x] = m[x]
        if new[x] < old[x]:
            gone = binomial(m[x], 1.0 - new[x] / old[x])
            out[x] -= gone
            moved += gone
        elif not fixed and new[x] > old[x]:
            out[x] += np.random.poisson(new[x] - old[x])
    if fixed and moved > 0:
        _scatter(moved, np.maximum(new - old, 0.0), out)


@_compiled
def _refresh(m, mean, share, fixed, out):  # type: ignore[no-untyped-def]
    """Redraw a random share of the rows."""
    moved = ZERO
    for x in range(m.size):
        gone = binomial(m[x], share)
        out[x] = m[x] - gone
        moved += gone
    if fixed:
        _scatter(moved, mean, out)
    else:
        for x in range(m.size):
            out[x] += np.random.poisson(share * mean[x])


@_compiled
def _log_noise(seen, j, count):  # type: ignore[no-untyped-def]
    """Return the log density of the noise of cell j if its true count is `count`."""
    error = (seen.value[j] - count) / seen.scale[j]
    return -seen.power[j] * (abs(error) if seen.heavy else 0.5 * error * error)


@_compiled
def _accepted(rows, other, field, seen, limits, log):  # type: ignore[no-untyped-def]
    """Add the noise's log ratio to that of a move to other rows, and take these if accepted."""
    _margins(other, field)
    for j in range(seen.value.size):
        log += _log_noise(seen, j, other.cells[j]) - _log_noise(seen, j, rows.cells[j])
    good = limits[0] <= other.states.sum() <= limits[1] and np.log(np.random.random()) < log
    if good:
        rows.states[:], rows.cells[:] = other.states, other.cells
    return good


@_compiled
def _margins(rows, field):  # type: ignore[no-untyped-def]
    """Write the counts of the released cells."""
    rows.cells[:] = 0
    for x in range(rows.states.size):
        if rows.states[x] != 0:
            for c in range(field.cell.shape[1]):
                rows.cells[field.cell[x, c]] += rows.states[x]


@_compiled
def _shift_rows(rows, score, field, seen, most, tries):  # type: ignore[no-untyped-def]
    """Move rows to states that differ in one column, by Metropolis."""
    (m, t), (cell, stride, levels, _) = rows, field
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
                log += _log_noise(seen, a, t[a] - k) - _log_noise(seen, a, t[a])
                log += _log_noise(seen, b, t[b] + k) - _log_noise(seen, b, t[b])
        if np.log(np.random.random()) < log:
            m[x] -= k
            m[to] += k
            for c in range(cliques):
                t[cell[x, c]] -= k
                t[cell[to, c]] += k


@_compiled
def _tuned(size, good, wanted, warm):  # type: ignore[no-untyped-def]
    """A size from 1e-6 to 1, larger after a move that was accepted."""
    if not warm:
        return size
    return min(1.0, max(1e-6, size * np.exp(0.1 * (good - wanted))))


@_compiled
def _weigh(theta, cell, score, p):  # type: ignore[no-untyped-def]
    """Scores and probabilities of all states; returns log Z."""
    for x in range(cell.shape[0]):
        s = 0.0
        for c in range(cell.shape[1]):
            s += theta[cell[x, c]]
        score[x] = s
    top = score.max()
    total = 0.0
    for x in range(p.size):
        p[x] = np.exp(score[x] - top)
        total += p[x]
    p /= total
    return top + np.log(total)


@_compiled
def _gradient(theta, cell, t, n, sd, score, p, out):  # type: ignore[no-untyped-def]
    """Return log p(theta | cells), and write its gradient to `out`."""
    log_z = _weigh(theta, cell, score, p)
    out[:] = t - theta / sd**2
    for x in range(p.size):
        for c in range(cell.shape[1]):
            out[cell[x, c]] -= n * p[x]
    return (t * theta).sum() - n * log_z - 0.5 * (theta * theta).sum() / sd**2


@_compiled
def _hamiltonian(theta, factor, cell, t, n, sd, step, score, p):  # type: ignore[no-untyped-def]
    """One Hamiltonian move of theta given the cells; returns it and whether it was accepted."""
    gradient = np.empty(theta.size)
    log = _gradient(theta, cell, t, n, sd, score, p, gradient)
    force = factor.T @ gradient
    speed = np.random.standard_normal(theta.size)
    energy = log - 0.5 * (speed * speed).sum()
    at = theta.copy()
    size = step * (0.8 + 0.4 * np.random.random())
    for _ in range(1 + np.random.randint(8)):
        speed = speed + 0.5 * size * force
        at = at + size * (factor @ speed)
        log = _gradient(at, cell, t, n, sd, score, p, gradient)
        force = factor.T @ gradient
        speed = speed + 0.5 * size * force
    if np.log(np.random.random()) < log - 0.5 * (speed * speed).sum() - energy:
        return at, True
    return theta, False


@_compiled
def run_known(theta, factor, cell, t, n, sd, size, seed):  # type: ignore[no-untyped-def]
    """Return draws of theta given exact counts `t` of the cells."""
    np.random.seed(seed)
    score, p = np.empty(cell.shape[0]), np.empty(cell.shape[0])
    out = np.empty((size, theta.size))
    step = 0.5
    for sweep in range(-_BURN, size * _EVERY):
        theta, good = _hamiltonian(theta, factor, cell, t, n, sd, step, score, p)
        step = _tuned(step, good, 0.8, sweep < 0)
        if sweep >= 0 and (sweep + 1) % _EVERY == 0:
            out[sweep // _EVERY] = theta
    return out


@_compiled
def _approximate_gradient(theta, cell, seen, n, sd, score, p, out):  # type: ignore[no-untyped-def]
    """Write an approximate gradient of log p(theta | noisy cells): cells at their expectations."""
    _weigh(theta, cell, score, p)
    mean = np.zeros(theta.size)
    for x in range(p.size):
        for c in range(cell.shape[1]):
            mean[cell[x, c]] += n * p[x]
    for j in range(mean.size):
        error, own = seen.value[j] - mean[j], mean[j] + 1.0
        if seen.heavy:
            spread = seen.scale[j] * np.sqrt(error * error + own)
        else:
            spread = seen.scale[j] * seen.scale[j] + own
        mean[j] = seen.power[j] * error / spread
    middle = 0.0
    for x in range(p.size):
        score[x] = 0.0
        for c in range(cell.shape[1]):
            score[x] += mean[cell[x, c]]
        middle += p[x] * score[x]
    out[:] = -theta / sd**2
    for x in range(p.size):
        for c in range(cell.shape[1]):
            out[cell[x, c]] += n * p[x] * (score[x] - middle)


@_compiled
def _together(theta, rows, other, wide, field, seen, rate, limits, sd, step, score, p, p2):  # type: ignore[no-untyped-def]
    """A Hamiltonian move of theta that the rows follow; returns theta and whether it moved.

    Any force makes a reversible path; the rows' coupling is reversible too. So the weights left
    are those of prior, noise and speed.
    """
    force = np.empty(theta.size)
    _approximate_gradient(theta, field.cell, seen, rate, sd, score, p, force)
    speed = np.random.standard_normal(theta.size)
    log = 0.5 * (speed * speed).sum() + 0.5 * (theta * theta).sum() / sd**2
    at = theta.copy()
    size = step * (0.8 + 0.4 * np.random.random())
    speed = speed + 0.5 * size * (wide.T @ force)
    paces = 1 + np.random.randint(min(40, int(3.0 / step)))  # about half a turn at most
    for pace in range(paces):
        at = at + size * (wide @ speed)
        _approximate_gradient(at, field.cell, seen, rate, sd, score, p2, force)
        speed = speed + (1.0 if pace + 1 < paces else 0.5) * size * (wide.T @ force)
    follow(rows.states, rate * p, rate * p2, limits[0] == limits[1], other.states)
    log -= 0.5 * (speed * speed).sum() + 0.5 * (at * at).sum() / sd**2
    good = _accepted(rows, other, field, seen, limits, log)
    return (at if good else theta), good


@_compiled
def run_chain(theta, factor, wide, spread, field, seen, n, limits, sd, most, size, seed):  # type: ignore[no-untyped-def]
    """Return draws of theta and of the number of rows. Steps are tuned while the chain warms up.

    `n` is the initial number of rows, `limits` are its bounds, `spread` that of its logarithm, and
    `most` the most rows that a step shifts.
    """
    np.random.seed(seed)
    states, fixed = field.cell.shape[0], limits[0] == limits[1]
    score, p, p2 = np.empty(states), np.empty(states), np.empty(states)
    rows = Latent(np.zeros(states, np.int64), np.zeros(theta.size, np.int64))
    other = Latent(np.zeros(states, np.int64), np.zeros(theta.size, np.int64))
    middle, rate = np.log(max(n, 1.0)), n
    _weigh(theta, field.cell, score, p)
    _scatter(int(n), p, rows.states)
    _margins(rows, field)
    out, totals = np.empty((size, theta.size)), np.empty(size)
    step, stride_both, share, keep = 0.5, 0.5, 0.5, 0.5
    temperature = max(1.0, np.sqrt(max(n, 1.0)) / seen.scale.min())
    tries = min(max(4 * states, 64), 500)
    for sweep in range(_BURN + size * _EVERY):
        warm = sweep < _BURN
        width = seen.scale
        if warm:
            width = seen.scale * temperature ** max(0.0, 1.0 - 2.0 * sweep / _BURN)
        now = SeenCells(seen.value, width, seen.power, seen.heavy)
        total = float(rows.states.sum())
        theta, good = _hamiltonian(
            theta, factor, field.cell, rows.cells.astype(np.float64), total, sd, step, score, p
        )  # fmt: skip
        step = _tuned(step, good, 0.8, warm)
        theta, good = _together(
            theta, rows, other, wide, field, now, rate, limits, sd, stride_both, score, p, p2
        )
        stride_both = _tuned(stride_both, good, 0.3, warm)
        _weigh(theta, field.cell, score, p)
        _shift_rows(rows, score, field, now, most, tries)
        if not fixed:  # a move of the expected number of rows that the rows follow
            rate = max(np.random.gamma(rows.states.sum() + ROWS), 1e-300)
            at = (np.log(rate) - middle) / spread
            to = keep * at + np.sqrt(1.0 - keep * keep) * np.random.standard_normal()
            new = np.exp(middle + spread * to)
            follow(rows.states, rate * p, new * p, fixed, other.states)
            log = ROWS * spread * (to - at) - 0.5 * (at * at - to * to)
            good = _accepted(rows, other, field, now, limits, log)
            rate = new if good else rate
            keep = 1.0 - _tuned(1.0 - keep, good, 0.3, warm)
        _refresh(rows.states, rate * p, share, fixed, other.states)
        good = _accepted(rows, other, field, now, limits, 0.0)
        share = _tuned(share, good, 0.3, warm)
        if not warm and (sweep - _BURN + 1) % _EVERY == 0:
            out[(sweep - _BURN) // _EVERY] = theta
            totals[(sweep - _BURN) // _EVERY] = rows.states.sum()
    return out, totals
