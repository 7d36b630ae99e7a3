"""The compiled chain of a Markov random field; `random_field` says what it does."""

from __future__ import annotations

import numba
import numpy as np

from tacit.infer.latent_counts import ROWS
from tacit.infer.row_moves import follow, log_noise, margins, refresh, scatter, shift_rows


@numba.njit(cache=True)
def _tuned(size, good, wanted, warm):  # type: ignore[no-untyped-def]
    """A size from 1e-6 to 1, larger after a move that was accepted."""
    if not warm:
        return size
    return min(1.0, max(1e-6, size * np.exp(0.1 * (good - wanted))))


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def _gradient(theta, cell, t, n, sd, score, p, out):  # type: ignore[no-untyped-def]
    """Return log p(theta | cells), and write its gradient to `out`."""
    log_z = _weigh(theta, cell, score, p)
    out[:] = t - theta / sd**2
    for x in range(p.size):
        for c in range(cell.shape[1]):
            out[cell[x, c]] -= n * p[x]
    return (t * theta).sum() - n * log_z - 0.5 * (theta * theta).sum() / sd**2


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def run_known(theta, factor, cell, t, n, sd, size, every, burn, seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    score, p = np.empty(cell.shape[0]), np.empty(cell.shape[0])
    out = np.empty((size, theta.size))
    step = 0.5
    for sweep in range(burn + size * every):
        theta, good = _hamiltonian(theta, factor, cell, t, n, sd, step, score, p)
        if sweep < burn:
            step = _tuned(step, good, 0.8, True)
        elif (sweep - burn + 1) % every == 0:
            out[(sweep - burn) // every] = theta
    return out


@numba.njit(cache=True)
def _approximate_gradient(theta, cell, y, scale, power, heavy, n, sd, score, p, out):  # type: ignore[no-untyped-def]
    """Write an approximate gradient of log p(theta | noisy cells): cells at their expectations."""
    _weigh(theta, cell, score, p)
    mean = np.zeros(theta.size)
    for x in range(p.size):
        for c in range(cell.shape[1]):
            mean[cell[x, c]] += n * p[x]
    for j in range(mean.size):
        error, own = y[j] - mean[j], mean[j] + 1.0
        if heavy:
            mean[j] = power[j] * error / (scale[j] * np.sqrt(error * error + own))
        else:
            mean[j] = power[j] * error / (scale[j] * scale[j] + own)
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


@numba.njit(cache=True)
def _together(  # type: ignore[no-untyped-def]
    theta, m, t, m2, t2, wide, cell, y, scale, power, heavy, fixed, rate, least, most, sd, step,
    score, p, p2,
):  # fmt: skip
    """A Hamiltonian move of theta that the rows follow; returns theta and whether it moved.

    Any force makes a reversible path; the rows' coupling is reversible too. So the weights left
    are those of prior, noise and speed.
    """
    force = np.empty(theta.size)
    _approximate_gradient(theta, cell, y, scale, power, heavy, rate, sd, score, p, force)
    speed = np.random.standard_normal(theta.size)
    log = 0.5 * (speed * speed).sum() + 0.5 * (theta * theta).sum() / sd**2
    log -= log_noise(t, y, scale, power, heavy)
    at = theta.copy()
    size = step * (0.8 + 0.4 * np.random.random())
    speed = speed + 0.5 * size * (wide.T @ force)
    paces = 1 + np.random.randint(min(40, int(3.0 / step)))  # about half a turn at most
    for pace in range(paces):
        at = at + size * (wide @ speed)
        _approximate_gradient(at, cell, y, scale, power, heavy, rate, sd, score, p2, force)
        speed = speed + (1.0 if pace + 1 < paces else 0.5) * size * (wide.T @ force)
    follow(m, rate * p, rate * p2, fixed, m2)
    margins(m2, cell, t2)
    log -= 0.5 * (speed * speed).sum() + 0.5 * (at * at).sum() / sd**2
    log += log_noise(t2, y, scale, power, heavy)
    if least <= m2.sum() <= most and np.log(np.random.random()) < log:
        m[:], t[:] = m2, t2
        return at, True
    return theta, False


@numba.njit(cache=True)
def _more_or_fewer(  # type: ignore[no-untyped-def]
    m, t, m2, t2, p, rate, middle, spread, keep, cell, y, scale, power, heavy, least, most
):
    """A move of the expected number of rows that the rows follow."""
    was = (np.log(rate) - middle) / spread
    now = keep * was + np.sqrt(1.0 - keep * keep) * np.random.standard_normal()
    other = np.exp(middle + spread * now)
    follow(m, rate * p, other * p, False, m2)
    margins(m2, cell, t2)
    log = log_noise(t2, y, scale, power, heavy) - log_noise(t, y, scale, power, heavy)
    log += ROWS * spread * (now - was) - 0.5 * (was * was - now * now)
    if least <= m2.sum() <= most and np.log(np.random.random()) < log:
        m[:], t[:] = m2, t2
        return other, True
    return rate, False


@numba.njit(cache=True)
def run_chain(  # type: ignore[no-untyped-def]
    theta, factor, wide, spread, cell, stride, levels, y, scale, power, heavy, fixed, rows, least,
    most, sd, kmax, size, every, burn, seed,
):  # fmt: skip
    """Draws of theta and of the number of rows. Steps are tuned while the chain warms up."""
    np.random.seed(seed)
    states = cell.shape[0]
    score, p, p2 = np.empty(states), np.empty(states), np.empty(states)
    m, m2 = np.zeros(states, np.int64), np.zeros(states, np.int64)
    t, t2 = np.zeros(theta.size, np.int64), np.zeros(theta.size, np.int64)
    middle, rate = np.log(max(rows, 1.0)), rows
    _weigh(theta, cell, score, p)
    scatter(int(rows), p, m)
    margins(m, cell, t)
    out, totals = np.empty((size, theta.size)), np.empty(size)
    step, stride_both, share, keep = 0.5, 0.5, 0.5, 0.5
    temperature = max(1.0, np.sqrt(max(rows, 1.0)) / scale.min())
    tries = min(max(4 * states, 64), 500)
    for sweep in range(burn + size * every):
        warm = sweep < burn
        width = scale * temperature ** max(0.0, 1.0 - 2.0 * sweep / burn) if warm else scale
        theta, good = _hamiltonian(theta, factor, cell, t, float(m.sum()), sd, step, score, p)
        step = _tuned(step, good, 0.8, warm)
        theta, good = _together(
            theta, m, t, m2, t2, wide, cell, y, width, power, heavy, fixed, rate, least, most, sd,
            stride_both, score, p, p2,
        )  # fmt: skip
        stride_both = _tuned(stride_both, good, 0.3, warm)
        _weigh(theta, cell, score, p)
        shift_rows(m, t, score, cell, stride, levels, y, width, power, heavy, kmax, tries)
        if not fixed:
            rate = max(np.random.gamma(m.sum() + ROWS), 1e-300)
            rate, good = _more_or_fewer(
                m, t, m2, t2, p, rate, middle, spread, keep, cell, y, width, power, heavy, least,
                most,
            )  # fmt: skip
            keep = 1.0 - _tuned(1.0 - keep, good, 0.3, warm)
        refresh(m, rate * p, share, fixed, m2)
        margins(m2, cell, t2)
        log = log_noise(t2, y, width, power, heavy) - log_noise(t, y, width, power, heavy)
        good = least <= m2.sum() <= most and np.log(np.random.random()) < log
        if good:
            m[:], t[:] = m2, t2
        share = _tuned(share, good, 0.3, warm)
        if not warm and (sweep - burn + 1) % every == 0:
            out[(sweep - burn) // every] = theta
            totals[(sweep - burn) // every] = m.sum()
    return out, totals
