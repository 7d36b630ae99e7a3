"""Moments: sums of numbers and of their products, in integers from the start.

A value is scaled to [-1, 1] by its public bounds and rounded once, to an integer; products and sums
of integers are exact, so the sensitivity of the moments is that of points in a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.moments import SUM_BITS, MomentsOf, calibrate_moments, grids
from tacit.compile_cache import cached
from tacit.sources import columns as domain
from tacit.sources.rows import bounded
from tacit.sources.source import Snapshot
from tacit.spec.moments import Moments, scale_of
from tacit.spec.release import Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy, noised, refined
from tacit.wall.statistics.statistic import Statistic, check_additive


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
        check_additive(mechanism)
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


def _sums(resolved: MomentsAnswer, snapshot: Snapshot) -> tuple[list[int], int]:
    """All moments in grid units, in the order of the blocks, and the number of units."""
    query, schema = resolved.query, resolved.schema
    scales = np.array([scale_of(schema[name], query.centred) for name in query.columns])
    size, units = len(query.columns), 0
    totals = np.zeros(1 + size + size * (size + 1) // 2 * (query.degree == 2), object)
    for batch in bounded(snapshot, schema, query.columns):
        units += int(batch.first.sum())
        cells = [domain.values(schema[name], batch.columns[name]) for name in query.columns]
        # Whole numbers of at most 2^30, and products of 2^30: a batch's sum fits in 64 bits.
        sums = np.zeros(totals.size, np.int64)
        _add(np.stack(cells), scales, 2.0 ** SUM_BITS[query.degree], sums)
        totals += sums
    return [int(total) for total in (totals if resolved.what.counted else totals[1:])], units


@cached(nogil=True, error_model="numpy")
def _add(cells, scales, most, sums):
    """Add rows, sums and products of rows without a missing value; each number is rounded once."""
    whole, complete = np.zeros((len(cells), 1024), np.int32), np.empty(1024, np.int32)
    for first in range(0, cells.shape[1], 1024):  # in loops that fit into vector registers
        rows = min(1024, cells.shape[1] - first)
        complete[:] = 1
        for j in range(len(cells)):
            for i in range(rows):
                x = cells[j, first + i]
                complete[i] &= np.int32(x == x)  # noqa: PLR0124 - NaN
                scaled = (x - scales[j, 0]) / scales[j, 1] * most + 0.5
                # proof: moments-box. Whatever rounding did before, the integer lies within the box.
                scaled = scaled if scaled > -most else -most
                whole[j, i] = np.int32(np.floor(scaled if scaled < most else most))
        sums[0] += complete[:rows].sum()
        at = 1
        for j in range(-1, len(cells) if sums.size > 1 + len(cells) else 0):
            for k in range(max(j, 0), len(cells)):
                total = np.int64(0)
                for i in range(rows):
                    other = complete[i] if j < 0 else whole[j, i]
                    total += np.int64(other) * np.int64(whole[k, i] * complete[i])
                sums[at] += total
                at += 1
