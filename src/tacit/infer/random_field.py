"""A discrete Markov random field whose clique tables were seen through noise.

    p(x) proportional to exp(sum over cliques c of theta_c(x_c)),     theta normal(0, sd^2)

The unknown rows are counts m[x] over all states. A sweep of the chain has four parts, each exact:

- theta given the rows, by Hamiltonian steps (a log-concave density);
- rows given theta: a few moved to states that differ in one column, weighed by all they change;
- a share of the rows forgotten and drawn anew, weighed by the noise;
- theta and rows together: rows follow theta by a coupling, so that what is weighed is prior and
  noise alone. Where noise is wide, theta given the rows would be narrow and the two would hold
  each other; this step does not.

Where the number of rows is not known it is Poisson with Jeffreys' prior on its rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tacit.infer.latent_counts import ROWS, Rows
from tacit.infer.row_moves import follow, log_noise, margins, refresh, scatter, shift_rows

_BURN = 400
_EVERY = 4  # sweeps for each draw


@dataclass(frozen=True)
class Field:
    """All states: `cell[x, c]` is the place of state x among the cells of clique c."""

    cell: np.ndarray
    stride: np.ndarray
    levels: np.ndarray
    cells: int

    @classmethod
    def of(cls, levels: list[int], cliques: list[tuple[int, ...]]) -> Field:
        """`cliques` are positions of columns; a clique's cells are in the order of its columns."""
        states = np.array(np.unravel_index(np.arange(np.prod(levels, dtype=int)), levels))
        cell, start = [], 0
        for clique in cliques:
            shape = [levels[i] for i in clique]
            cell.append(start + np.ravel_multi_index(tuple(states[list(clique)]), shape))
            start += int(np.prod(shape))
        stride = np.array([int(np.prod(levels[i + 1 :], dtype=int)) for i in range(len(levels))])
        return cls(np.stack(cell, axis=1), stride, np.array(levels), start)

    def probability(self, theta: np.ndarray) -> np.ndarray:
        score = theta[self.cell].sum(axis=1)
        weight = np.exp(score - score.max())
        return weight / weight.sum()

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """How probable each cell is."""
        p = self.probability(theta)
        return sum(np.bincount(c, p, self.cells) for c in self.cell.T)  # type: ignore[return-value]

    def moments(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the cells that one row falls into."""
        p = self.probability(theta)
        both = np.zeros((self.cells, self.cells))
        for c in self.cell.T:
            for d in self.cell.T:
                np.add.at(both, (c, d), p)
        mean = np.diag(both).copy()
        return mean, both - np.outer(mean, mean)


@dataclass(frozen=True)
class SeenCells:
    """Noisy counts of all cells, the scale of their noise, and whether its tails are Laplace's."""

    value: np.ndarray
    scale: np.ndarray
    power: np.ndarray
    heavy: bool


def sample_from_counts(
    field: Field, counts: np.ndarray, rows: float, sd: float, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws of theta where the cells are known, shape (size, cells)."""
    theta, factor = _mode(field, counts, None, rows, sd)
    seed = int(rng.integers(2**31))
    return _known(theta, factor, field.cell, counts, rows, sd, size, _EVERY, _BURN, seed)


def sample_field(
    field: Field, seen: SeenCells, rows: Rows, sd: float, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One chain: draws of theta (size, cells) and of the number of rows (size)."""
    variance = seen.scale**2 * (2.0 if seen.heavy else 1.0) / seen.power
    fixed = rows.least == rows.most
    # Each clique's cells add up to the number of rows.
    kind = np.zeros(field.cells, dtype=int)
    for c, places in enumerate(field.cell.T):
        kind[places] = c
    weight = 1 / np.bincount(kind, variance)
    about = float((np.bincount(kind, seen.value) * weight).sum() / weight.sum())
    most = np.inf if rows.most is None else rows.most
    n = float(rows.least) if fixed else float(np.clip(about, max(rows.least, 1), max(most, 1)))
    theta, factor = _mode(field, seen.value, variance, n, sd)
    wide = _wide(field, theta, variance, n, sd)
    spread = 0.0 if fixed else float(np.sqrt(n + 1 / weight.sum()) / n)
    kmax = float(max(1.0, min(3 * seen.scale.min(), 2 * np.sqrt(n))))
    draws, totals = _chain(
        theta, factor, wide, spread, field.cell, field.stride, field.levels, seen.value,
        seen.scale, seen.power, seen.heavy, fixed, n, float(rows.least), float(most), sd, kmax,
        size, _EVERY, _BURN, int(rng.integers(2**31)),
    )  # fmt: skip
    return draws, totals


def _mode(
    field: Field, value: np.ndarray, variance: np.ndarray | None, n: float, sd: float
) -> tuple[np.ndarray, np.ndarray]:
    """The mode of theta, and the inverse of its Cholesky factor's transpose given the rows.

    Counts are taken as normal here, which only places the chain and scales its steps.
    """
    theta, flat = np.zeros(field.cells), np.eye(field.cells) / sd**2
    noise = np.diag(np.full(field.cells, 1e-6 * max(n, 1.0)) if variance is None else variance)
    for _ in range(50):
        mean, cov = field.moments(theta)
        weight = cho_factor(n * cov + noise)
        error = value - n * mean
        slope = n * cov @ cho_solve(weight, error) - theta / sd**2
        curve = n**2 * cov @ cho_solve(weight, cov) + flat
        step = np.linalg.solve((curve + curve.T) / 2, slope)

        def loss(at: np.ndarray, weight=weight) -> float:
            gap = value - n * field.mean(at)
            return float(gap @ cho_solve(weight, gap) + at @ at / sd**2)

        length, now = 1.0, loss(theta)
        while loss(theta + length * step) > now and length > 1e-4:
            length /= 2
        theta = theta + length * step
        if length * np.abs(step).max() < 1e-3 or length <= 1e-4:
            break
    cov = field.moments(theta)[1]
    return theta, np.linalg.inv(np.linalg.cholesky(n * cov + flat)).T.copy()


def _wide(field: Field, theta: np.ndarray, variance: np.ndarray, n: float, sd: float) -> np.ndarray:
    """The same for theta given the noisy cells, rows unknown."""
    cov = field.moments(theta)[1]
    curve = n**2 * cov @ np.linalg.solve(n * cov + np.diag(variance), cov)
    curve = (curve + curve.T) / 2 + np.eye(field.cells) / sd**2
    return np.linalg.inv(np.linalg.cholesky(curve)).T.copy()


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
def _slope(theta, cell, t, n, sd, score, p, out):  # type: ignore[no-untyped-def]
    """log p(theta | cells) and its gradient."""
    log_z = _weigh(theta, cell, score, p)
    out[:] = t - theta / sd**2
    for x in range(p.size):
        for c in range(cell.shape[1]):
            out[cell[x, c]] -= n * p[x]
    return (t * theta).sum() - n * log_z - 0.5 * (theta * theta).sum() / sd**2


@numba.njit(cache=True)
def _hamiltonian(theta, factor, cell, t, n, sd, step, score, p):  # type: ignore[no-untyped-def]
    """One Hamiltonian move of theta given the cells; returns it and whether it was accepted."""
    slope = np.empty(theta.size)
    log = _slope(theta, cell, t, n, sd, score, p, slope)
    force = factor.T @ slope
    speed = np.random.standard_normal(theta.size)
    energy = log - 0.5 * (speed * speed).sum()
    at = theta.copy()
    size = step * (0.8 + 0.4 * np.random.random())
    for _ in range(1 + np.random.randint(8)):
        speed = speed + 0.5 * size * force
        at = at + size * (factor @ speed)
        log = _slope(at, cell, t, n, sd, score, p, slope)
        force = factor.T @ slope
        speed = speed + 0.5 * size * force
    if np.log(np.random.random()) < log - 0.5 * (speed * speed).sum() - energy:
        return at, True
    return theta, False


@numba.njit(cache=True)
def _known(theta, factor, cell, t, n, sd, size, every, burn, seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    score, p = np.empty(cell.shape[0]), np.empty(cell.shape[0])
    out = np.empty((size, theta.size))
    step = 0.5
    for sweep in range(burn + size * every):
        theta, good = _hamiltonian(theta, factor, cell, t, n, sd, step, score, p)
        if sweep < burn:
            step = min(1.2, step * np.exp(0.1 * (good - 0.8)))
        elif (sweep - burn + 1) % every == 0:
            out[(sweep - burn) // every] = theta
    return out


@numba.njit(cache=True)
def _chain(  # type: ignore[no-untyped-def]
    theta, factor, wide, spread, cell, stride, levels, y, scale, power, heavy, fixed, rows, least,
    most, sd, kmax, size, every, burn, seed,
):  # fmt: skip
    np.random.seed(seed)
    states = cell.shape[0]
    score, p, p2 = np.empty(states), np.empty(states), np.empty(states)
    m, m2 = np.zeros(states, np.int64), np.zeros(states, np.int64)
    t, t2 = np.zeros(theta.size, np.int64), np.zeros(theta.size, np.int64)
    centre, middle, back = theta.copy(), np.log(max(rows, 1.0)), np.linalg.inv(wide)
    _weigh(theta, cell, score, p)
    scatter(int(rows), p, m)
    margins(m, cell, t)
    rate = rows  # the expected number of rows
    out, totals = np.empty((size, theta.size)), np.empty(size)
    step, share, keep = 0.5, 0.5, 0.5
    hot = max(1.0, np.sqrt(max(rows, 1.0)) / scale.min())
    tries = min(max(4 * states, 64), 4000)
    for sweep in range(burn + size * every):
        warm = sweep < burn
        heat = hot ** max(0.0, 1.0 - 2.0 * sweep / burn) if warm else 1.0
        width = scale * heat
        theta, good = _hamiltonian(theta, factor, cell, t, float(m.sum()), sd, step, score, p)
        if warm:
            step = min(1.2, max(1e-3, step * np.exp(0.1 * (good - 0.8))))
        _weigh(theta, cell, score, p)
        shift_rows(m, t, score, cell, stride, levels, y, width, power, heavy, kmax, tries)
        if not fixed:
            rate = max(np.random.gamma(m.sum() + ROWS), 1e-300)

        refresh(m, rate * p, share, fixed, m2)
        margins(m2, cell, t2)
        log = log_noise(t2, y, width, power, heavy) - log_noise(t, y, width, power, heavy)
        total = m2.sum()
        good = least <= total <= most and np.log(np.random.random()) < log
        if good:
            m, m2, t, t2 = m2, m, t2, t
        if warm:
            share = min(1.0, max(1e-6, share * np.exp(0.2 * (good - 0.3))))

        for _ in range(2):
            fresh = np.random.standard_normal(theta.size)
            turn = np.sqrt(1.0 - keep * keep)
            theta2 = centre + keep * (theta - centre) + turn * (wide @ fresh)
            rate2 = rate
            if not fixed:
                off = keep * (np.log(rate) - middle) + turn * spread * np.random.standard_normal()
                rate2 = np.exp(middle + off)
            _weigh(theta2, cell, score, p2)
            follow(m, rate * p, rate2 * p2, fixed, m2)
            margins(m2, cell, t2)
            log = log_noise(t2, y, width, power, heavy) - log_noise(t, y, width, power, heavy)
            log -= 0.5 * ((theta2 * theta2).sum() - (theta * theta).sum()) / sd**2
            a, b = back @ (theta - centre), back @ (theta2 - centre)
            log -= 0.5 * ((a * a).sum() - (b * b).sum())
            if not fixed:
                was, now = (np.log(rate) - middle) / spread, (np.log(rate2) - middle) / spread
                log += 0.5 * (np.log(rate2) - np.log(rate)) - 0.5 * (was * was - now * now)
            total = m2.sum()
            good = least <= total <= most and np.log(np.random.random()) < log
            if good:
                theta, rate = theta2, rate2
                m, m2, t, t2, p, p2 = m2, m, t2, t, p2, p
            if warm:
                keep = min(0.99999, max(0.0, 1 - (1 - keep) * np.exp(0.1 * (good - 0.3))))
        if not warm and (sweep - burn + 1) % every == 0:
            at = (sweep - burn) // every
            out[at] = theta
            totals[at] = m.sum()
    return out, totals
