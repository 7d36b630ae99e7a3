"""A discrete Markov random field given noisy clique tables: draws from a release.

    p(x) proportional to exp(sum over cliques c of theta_c(x_c)),     theta normal(0, sd^2)

The unknown rows are counts m[x] over all states. A sweep of the chain
(`random_field_chain`) has four parts, each exact:

- theta given the rows, by Hamiltonian steps (a log-concave density);
- rows given theta: a few moved to states that differ in one column, weighed by all they change;
- a share of the rows forgotten and drawn anew, weighed by the noise;
- theta and rows together: theta moves as if the cells were at their expectations, rows follow it
  by a coupling, and what is weighed is prior and noise alone. Where noise is wide, theta given the
  rows would be narrow and the two would hold each other; in this step they do not.

Where the number of rows is not known it is Poisson with Jeffreys' prior on its rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from tacit.infer.categorical import project
from tacit.infer.latent_counts import Rows
from tacit.infer.networks import Seen, seen_tables
from tacit.infer.random_field_chain import SeenCells, run_chain, run_known
from tacit.spec.errors import ModelError
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

MAX_STATES = 20_000


class Field(NamedTuple):
    """All states: `cell[x, c]` is the index of state x among the cells of clique c."""

    cell: np.ndarray
    stride: np.ndarray
    levels: np.ndarray
    cells: int

    @classmethod
    def of(cls, levels: Sequence[int], cliques: Sequence[tuple[int, ...]]) -> Field:
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
        return softmax(theta[self.cell].sum(axis=1))

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


def draw_field(
    release: Release,
    columns: Sequence[str],
    cliques: Sequence[tuple[str, ...]],
    sd: float,
    sampling: Sampling,
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, dict[str, np.ndarray]]:
    """Return draws of the cliques' probabilities and log potentials, rows, and one more row each.

    Shapes are (draw, columns...), without the missing levels.
    """
    rng = np.random.default_rng(sampling.seed)
    tables = [_table(release, clique) for clique in cliques]
    indices = [tuple(columns.index(name) for name in clique) for clique in cliques]
    field = Field.of(_levels(columns, tables), indices)
    rows = Rows.behind(release)
    # Noise too narrow to hide a single row leaves the counts known.
    if sampling.noise == "plugin" or all(table.law.reach < 1 for table in tables):
        counts = [
            project(np.rint(t.value), release.n if t.power < 1 else None).ravel() for t in tables
        ]
        total = float(np.mean([part.sum() for part in counts]))
        if rows.least == rows.most:
            total = float(rows.least)
        exact = np.concatenate([part * (total / max(part.sum(), 1e-9)) for part in counts])

        def chain() -> tuple[np.ndarray, np.ndarray]:
            draws = sample_from_counts(field, exact, total, sd, sampling.draws, rng)
            return draws, np.full(sampling.draws, total)
    else:
        sizes = [table.value.size for table in tables]
        seen = SeenCells(
            np.concatenate([table.value.ravel() for table in tables]),
            np.repeat([table.law.scale for table in tables], sizes),
            np.repeat([table.power for table in tables], sizes),
            tables[0].law.heavy,
        )

        def chain() -> tuple[np.ndarray, np.ndarray]:
            return sample_field(field, seen, rows, sd, sampling.draws, rng)

    theta, totals = map(np.concatenate, zip(*(chain() for _ in range(sampling.chains))))
    potentials = [
        part[(slice(None), *(slice(table.levels(name)) for name in table.columns))]
        for table, part in zip(tables, _split(theta, [table.value.shape for table in tables]))
    ]
    levels = [len(release.schema[name].labels) for name in columns]
    margins, codes = _margins(Field.of(levels, indices), potentials, rng)
    return margins, potentials, totals, dict(zip(columns, np.unravel_index(codes, levels)))


def _table(release: Release, clique: tuple[str, ...]) -> Seen:
    """The table of a clique, its axes in the clique's order."""
    for table in seen_tables(release):
        if set(table.columns) == set(clique):
            order = [table.columns.index(name) for name in clique]
            labels = tuple(table.labels[i] for i in order)
            return replace(table, columns=clique, labels=labels, value=table.value.transpose(order))
    raise ModelError(f"This release has no table of just {', '.join(clique)}.")


def _levels(columns: Sequence[str], tables: Sequence[Seen]) -> list[int]:
    levels: dict[str, int] = {}
    for table in tables:
        for name, labels in zip(table.columns, table.labels, strict=True):
            if levels.setdefault(name, len(labels)) != len(labels):
                raise ModelError(f"Expected missing values of {name!r} in all its tables or none.")
    found = [levels[name] for name in columns]
    check_states(found)
    return found


def check_states(levels: Iterable[int]) -> None:
    """Refuse more combinations of levels than can be listed."""
    states = math.prod(levels)
    if states > MAX_STATES:
        raise ModelError(
            f"Expected at most {MAX_STATES} combinations of levels, missing ones included; these "
            f"columns have {states}. A BayesNet has no such limit."
        )


def _split(flat: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return tables (draw, columns...) that lie side by side in `flat`."""
    parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1], axis=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes)]


def _margins(
    field: Field, potentials: Sequence[np.ndarray], rng: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray]:
    """The cliques' probabilities under each draw, and the state of one more row."""
    theta = np.concatenate([part.reshape(len(part), -1) for part in potentials], axis=1)
    margins, state = np.empty_like(theta), np.empty(len(theta), dtype=np.int64)
    step = max(1, 2_000_000 // field.cell.size)
    for start in range(0, len(theta), step):
        here = slice(start, start + step)
        p = softmax(theta[here][:, field.cell].sum(axis=2), axis=1)
        state[here] = (np.cumsum(p, axis=1) < rng.random((len(p), 1))).sum(axis=1)
        for cell in field.cell.T:
            first, size = int(cell.min()), int(cell.max() - cell.min()) + 1
            margins[here, first : first + size] = p @ np.eye(size)[cell - first]
    shaped = _split(margins, [part.shape[1:] for part in potentials])
    return shaped, np.minimum(state, len(field.cell) - 1)


def sample_from_counts(
    field: Field, counts: np.ndarray, rows: float, sd: float, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of theta given exact cells, shape (size, cells)."""
    theta, factor, _ = _mode(field, counts, np.full(field.cells, 1e-6 * max(rows, 1.0)), rows, sd)
    seed = int(rng.integers(2**31))
    return run_known(theta, factor, field.cell, counts, rows, sd, size, seed)


def sample_field(
    field: Field, seen: SeenCells, rows: Rows, sd: float, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of theta (size, cells) and of the number of rows (size), from one chain."""
    variance = seen.scale**2 * (2.0 if seen.heavy else 1.0) / seen.power
    fixed = rows.least == rows.most
    # Each clique's cells add up to the number of rows.
    clique = np.zeros(field.cells, dtype=int)
    for c, cells in enumerate(field.cell.T):
        clique[cells] = c
    weight = 1 / np.bincount(clique, variance)
    about = float((np.bincount(clique, seen.value) * weight).sum() / weight.sum())
    n = float(rows.least) if fixed else float(np.clip(about, max(rows.least, 1), max(rows.most, 1)))
    theta, factor, wide = _mode(field, seen.value, variance, n, sd)
    spread = 0.0 if fixed else float(np.sqrt(n + 1 / weight.sum()) / n)
    kmax = float(max(1.0, min(3 * seen.scale.min(), 2 * np.sqrt(n))))
    limits, seed = (float(rows.least), float(rows.most)), int(rng.integers(2**31))
    return run_chain(theta, factor, wide, spread, field, seen, n, limits, sd, kmax, size, seed)


def _mode(
    field: Field, value: np.ndarray, variance: np.ndarray, n: float, sd: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mode of theta, and roots of its covariance given the rows and given noisy cells.

    Counts are taken as normal here, which only locates the chain and scales its steps.
    """
    theta, flat, noise = np.zeros(field.cells), np.eye(field.cells) / sd**2, np.diag(variance)
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
    precision = n**2 * cov @ np.linalg.solve(n * cov + noise, cov)
    given = n * cov + flat, (precision + precision.T) / 2 + flat
    return theta, *(np.linalg.inv(np.linalg.cholesky(each)).T.copy() for each in given)
