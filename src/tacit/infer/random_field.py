"""A discrete Markov random field given noisy clique tables.

    p(x) proportional to exp(sum over cliques c of theta_c(x_c)),     theta normal(0, sd^2)

The unknown rows are counts m[x] over all states. A sweep of the chain has four parts, each exact:

- theta given the rows, by Hamiltonian steps (a log-concave density);
- rows given theta: a few moved to states that differ in one column, weighed by all they change;
- a share of the rows forgotten and drawn anew, weighed by the noise;
- theta and rows together: theta moves as if the cells were at their expectations, rows follow it
  by a coupling, and what is weighed is prior and noise alone. Where noise is wide, theta given the
  rows would be narrow and the two would hold each other; in this step they do not.

Where the number of rows is not known it is Poisson with Jeffreys' prior on its rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tacit.infer.field_chain import run_chain, run_known
from tacit.infer.latent_counts import Rows

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
        """Return the probability of each cell."""
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
    """Return draws of theta given exact cells, shape (size, cells)."""
    theta, factor = _mode(field, counts, None, rows, sd)
    seed = int(rng.integers(2**31))
    return run_known(theta, factor, field.cell, counts, rows, sd, size, _EVERY, _BURN, seed)


def sample_field(
    field: Field, seen: SeenCells, rows: Rows, sd: float, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of theta (size, cells) and of the number of rows (size), from one chain."""
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
    draws, totals = run_chain(
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
        gradient = n * cov @ cho_solve(weight, error) - theta / sd**2
        precision = n**2 * cov @ cho_solve(weight, cov) + flat
        step = np.linalg.solve((precision + precision.T) / 2, gradient)

        def loss(at: np.ndarray, weight: Any = weight) -> float:
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
    """Return the inverse transposed Cholesky factor of theta's precision given noisy cells."""
    cov = field.moments(theta)[1]
    precision = n**2 * cov @ np.linalg.solve(n * cov + np.diag(variance), cov)
    precision = (precision + precision.T) / 2 + np.eye(field.cells) / sd**2
    return np.linalg.inv(np.linalg.cholesky(precision)).T.copy()
