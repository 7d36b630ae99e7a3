"""Moments: sums of numbers and of their products, in integers from the start.

A value is scaled to [-1, 1] by its public bounds and rounded once, to an integer; products and sums
of integers are exact, so the sensitivity of the moments is that of points in a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.moments import SUM_BITS, MomentsOf, calibrate_moments, grids
from tacit.sources import columns as domain
from tacit.sources.rows import bounded
from tacit.sources.source import Snapshot
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.moments import Moments, scale_of
from tacit.spec.release import Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy, noised, refined
from tacit.wall.statistics.statistic import Statistic, refuse_mechanism


@dataclass(frozen=True)
class MomentsAnswer:
    """A query whose columns have their public scales: what one unit can move is known."""

    query: Moments
    schema: Schema
    what: MomentsOf
    blocks: tuple[Block, ...]

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def calibrate(self, mechanism: Any) -> Calibration:
        if not isinstance(mechanism, Laplace | Gaussian):
            refuse_mechanism("tacit.Laplace or tacit.Gaussian", mechanism)
        return calibrate_moments(mechanism, self.what, self.query.split)

    def exact(self) -> tuple[Noise, ...]:
        return tuple(Noise("none", 0.0, grid) for grid in grids(self.what))

    def bound(self, noise: Noise) -> dict[str, Any]:
        return {"rows_per_unit": self.what.rows_per_unit}  # the query says the rest

    def evaluate(self, snapshot: Snapshot, noise: tuple[Noise, ...]) -> Statistic:
        values, units = _sums(self, snapshot)
        finest = grids(self.what)
        integers = [refined(*v) for v in zip(values, finest, noise, strict=True)]
        return Statistic(np.array(integers, dtype=np.int64), units)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        return noised(statistic, noise, self.blocks, entropy)


def resolve_moments(query: Moments, schema: Schema) -> MomentsAnswer:
    """Look up the bounds of the columns. Opens no data."""
    for name in query.columns:
        scale_of(schema[name])  # refuses what has no two numbers
    counted = not query.rows_are_public(schema)  # proof: moments-rows
    rows, width = schema.max_rows_per_unit, len(query.columns)
    what = MomentsOf(width, query.degree, counted, rows, schema.neighbours)
    names = query.names if counted else query.names[1:]
    return MomentsAnswer(query, schema, what, tuple(Block(name, ()) for name in names))


def moment_values(resolved: MomentsAnswer, statistic: Statistic) -> np.ndarray:
    """The exact moments as a symmetric matrix, the number of rows in its corner."""
    what = resolved.what
    values = list(statistic.integers * np.array(grids(what)))
    size = what.width + 1
    entries = [(0, i) for i in range(0 if what.counted else 1, size)]
    if what.degree == 2:
        entries += [(i, j) for i in range(1, size) for j in range(i, size)]
    matrix = np.zeros((size, size))
    matrix[0, 0] = statistic.units  # unless it is counted
    for (i, j), moment in zip(entries, values, strict=True):
        matrix[i, j] = matrix[j, i] = moment
    return matrix


def _sums(resolved: MomentsAnswer, snapshot: Snapshot) -> tuple[list[int], int]:
    """All moments in grid units, in the order of the blocks, and the number of units."""
    query, schema = resolved.query, resolved.schema
    pairs = list(combinations_with_replacement(range(len(query.columns)), 2))
    totals = [0] * (1 + len(query.columns) + len(pairs) * (query.degree == 2))
    units = 0
    for batch in bounded(snapshot, schema, query.columns):
        units += int(batch.first.sum())
        cells = [domain.values(schema[name], batch.columns[name]) for name in query.columns]
        complete = ~np.isnan(cells).any(axis=0)
        whole = [
            _steps(x[complete], *scale_of(schema[name], query.centred), query.degree)
            for x, name in zip(cells, query.columns, strict=True)
        ]
        # Whole numbers of at most 2^30, and products of 2^30: a batch's sum fits in 64 bits.
        sums = [complete.sum(), *(q.sum() for q in whole)]
        if query.degree == 2:
            sums += [whole[i] @ whole[j] for i, j in pairs]
        totals = [total + int(part) for total, part in zip(totals, sums, strict=True)]
    return totals if resolved.what.counted else totals[1:], units


def _steps(x: np.ndarray, middle: float, half: float, degree: int) -> np.ndarray:
    """Values as multiples of the grid, -Q to Q: rounded here, and never again."""
    most = 2 ** SUM_BITS[degree]
    # proof: moments-box. Whatever rounding did before, the integer lies within the box.
    scaled = np.clip((x - middle) / half * most + 0.5, -most, most)
    return np.floor(scaled).astype(np.int64)
