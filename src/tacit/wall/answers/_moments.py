"""Moments: one aggregate in the engine that holds the data, in integers from the first step on.

A value is scaled to [-1, 1] by its public bounds and rounded once, to an integer; products and sums
of integers are exact, so the sensitivity of the moments is that of points in a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.moments import SUM_BITS, MomentsOf, calibrate_moments, grids
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.moments import Moments, scale_of
from tacit.spec.release import Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.chance._noise import Statistic, Words, noised, refined
from tacit.wall.data._columns import real, value
from tacit.wall.data._rows import bounded_rows
from tacit.wall.data._source import Source


@dataclass(frozen=True)
class ResolvedMoments:
    """A query whose columns have their public scales: what one unit can move is known."""

    query: Moments
    schema: Schema
    what: MomentsOf
    blocks: tuple[Block, ...]

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def calibrate(self, mechanism: Laplace | Gaussian) -> Calibration:
        return calibrate_moments(mechanism, self.what, self.query.split)

    def exact(self) -> tuple[Noise, ...]:
        return tuple(Noise("none", 0.0, grid) for grid in grids(self.what))

    def bound(self, noise: Noise) -> dict[str, Any]:
        return {"rows_per_unit": self.what.rows_per_unit}  # the query says the rest

    def evaluate(self, source: Source, noise: tuple[Noise, ...]) -> Statistic:
        values, units = _sums(self, source)
        finest = grids(self.what)
        steps = [refined(*v) for v in zip(values, finest, noise, strict=True)]
        return Statistic(np.array(steps, dtype=np.int64), units)

    def sample(self, statistic: Statistic, noise: tuple[Noise, ...], words: Words) -> np.ndarray:
        return noised(statistic, noise, self.blocks, words)


def resolve_moments(query: Moments, schema: Schema) -> ResolvedMoments:
    """Look up the bounds of the columns. Opens no data."""
    for name in query.columns:
        scale_of(schema[name])  # refuses what has no two numbers
    counted = not query.rows_are_public(schema)  # proof: moments-rows
    rows, width = schema.max_rows_per_unit, len(query.columns)
    what = MomentsOf(width, query.degree, counted, rows, schema.neighbours)
    names = query.names if counted else query.names[1:]
    return ResolvedMoments(query, schema, what, tuple(Block(name, ()) for name in names))


def moment_values(resolved: ResolvedMoments, statistic: Statistic) -> np.ndarray:
    """The exact moments as a symmetric matrix, the number of rows in its corner."""
    what = resolved.what
    values = list(statistic.steps * np.array(grids(what)))
    size = what.width + 1
    places = [(0, i) for i in range(0 if what.counted else 1, size)]
    if what.degree == 2:
        places += [(i, j) for i in range(1, size) for j in range(i, size)]
    matrix = np.zeros((size, size))
    matrix[0, 0] = statistic.units  # unless it is counted
    for (i, j), moment in zip(places, values, strict=True):
        matrix[i, j] = matrix[j, i] = moment
    return matrix


def _sums(resolved: ResolvedMoments, source: Source) -> tuple[list[int], int]:
    """All moments in steps of their grids, in the order of the blocks, and the number of units."""
    query, schema = resolved.query, resolved.schema
    with np.errstate(all="ignore"), source.read() as table:
        rows = bounded_rows(table, source, schema)
        cells = {
            f"x{i}": value(schema[name], rows[source.name_of(name)])
            for i, name in enumerate(query.columns)
        }
        rows = rows.select(first=rows["first"], **cells)
        rows = rows.mutate(complete=ibis.and_(*[rows[x].notnull() for x in cells]))
        whole = {
            f"q{i}": ibis.ifelse(
                rows["complete"],
                _steps(rows[f"x{i}"], *scale_of(schema[name], query.centred), query.degree),
                0,
            )
            for i, name in enumerate(query.columns)
        }
        rows = rows.select(first=rows["first"], rows=rows["complete"].cast("int64"), **whole)
        # By place, never by name: a column may be called "units" or "rows".
        moments = [rows["rows"]] if resolved.what.counted else []
        moments += [rows[q] for q in whole]
        if query.degree == 2:
            moments += [rows[a] * rows[b] for a, b in combinations_with_replacement(whole, 2)]
        totals = [moment.sum().fill_null(0) for moment in (rows["first"], *moments)]
        found = rows.agg(**{f"s{i}": total for i, total in enumerate(totals)}).to_pyarrow()
        units, *values = (int(column[0].as_py()) for column in found.columns)
    return values, units


def _steps(x: ir.FloatingValue, middle: float, half: float, degree: int) -> ir.IntegerValue:
    """A value as a whole number of steps, -Q to Q: rounded here, and never again."""
    most = 2 ** SUM_BITS[degree]
    scaled = (x - real(middle)) / real(half) * real(float(most)) + real(0.5)
    # proof: moments-box. Whatever rounding did before, the integer lies within the box.
    inside = ibis.ifelse(scaled < real(float(most)), scaled, real(float(most)))
    inside = ibis.ifelse(inside > real(float(-most)), inside, real(float(-most)))
    return inside.floor().cast("int64")
