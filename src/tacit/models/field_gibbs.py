"""Gibbs sampling of a Markov random field: one log potential at a time, from a grid of values.

    log p(row) = sum of the row's log potentials - log Z,     Z by listing all states

With the others fixed, Z is 1 - m + m e^(g - theta) times a constant, m the probability of the
potential's cell, so that a row's score of a value g is known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from tacit.infer.random_field import MAX_STATES, Field
from tacit.spec.choice import Choice
from tacit.spec.columns import Integer
from tacit.spec.draws import checked_share
from tacit.spec.errors import ModelError
from tacit.spec.gibbs import Values
from tacit.spec.programs import Program, trace
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum

THETA = "theta"
_POINTS = 65  # of the grid, 0 among them
_ROOM = 1 + 1e-6  # a clip that cuts nothing off by rounding


@dataclass(frozen=True)
class FieldBlocks:
    """Log potentials of all cells of all cliques, each a block and a choice among a grid's points.

    `cells` has the clique of each and the numbers that a row has there.
    """

    field: Field = field(repr=False)
    names: tuple[str, ...]
    cells: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]
    grid: np.ndarray
    log_prior: np.ndarray
    rows: int
    together = False

    @classmethod
    def of(
        cls,
        levels: Mapping[str, int],
        cliques: Sequence[tuple[str, ...]],
        sd: float,
        truncation: Any,
        schema: Schema,
    ) -> FieldBlocks:
        most = math.log(1 / checked_share(truncation))
        grid = np.linspace(-most, most, _POINTS)
        names, cells = [], []
        for clique in cliques:
            columns = [schema[name] for name in clique]
            lows = [column.low if isinstance(column, Integer) else 0 for column in columns]
            for at in product(*(range(levels[name]) for name in clique)):
                labels = [str(column.labels[i]) for column, i in zip(columns, at, strict=True)]
                names.append(f"{','.join(clique)}[{','.join(labels)}]")
                cells.append((clique, tuple(float(a + b) for a, b in zip(at, lows, strict=True))))
        listed = field_of(levels, cliques)
        weights = -0.5 * (grid / sd) ** 2
        rows = schema.max_rows_per_unit
        return cls(listed, tuple(names), tuple(cells), grid, weights, rows)

    def start(self, rng: np.random.Generator) -> Values:
        return {THETA: np.zeros(len(self.names))}

    def query(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator | None = None
    ) -> Choice:
        at = self.names.index(names[0])
        clique, wanted = self.cells[at]
        inside, outside = self.scores(values[THETA], at)
        state = (np.array(wanted), np.stack([outside, inside]))
        program = _scores(len(clique), state[1].shape[1])
        sums = BoundedSum(
            program, clique, size=len(self.grid), clip=self.clip, geometry="box", state=state
        )
        return Choice(sums, self.log_prior)

    @property
    def clip(self) -> float:
        """The range of a row's scores, whatever the others are: one temperature for all blocks.

        Either of the two scores moves by less for given others, but what is drawn at temperatures
        that change has no target.
        """
        return float(self.grid[-1] - self.grid[0]) * self.rows * _ROOM

    def scores(self, theta: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
        """What a row in the cell, and one outside of it, says of each value; least 0."""
        m = float(self.field.mean(theta)[at])
        log_z = np.log(1 - m + m * np.exp(self.grid - theta[at]))
        inside = self.grid - log_z
        return inside - inside.min(), log_z.max() - log_z

    def read(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator, release: Release
    ) -> Values:
        theta = values[THETA].copy()
        theta[self.names.index(names[0])] = self.grid[int(release.value[0])]
        return {THETA: theta}


def field_of(levels: Mapping[str, int], cliques: Sequence[tuple[str, ...]]) -> Field:
    """Return all states of the columns, of which there must not be too many."""
    if math.prod(levels.values()) > MAX_STATES:
        raise ModelError(
            f"Expected at most {MAX_STATES} combinations of levels, over which the field is "
            f"normalised; these columns have {math.prod(levels.values())}."
        )
    columns = list(levels)
    indices = [tuple(columns.index(name) for name in clique) for clique in cliques]
    return Field.of(list(levels.values()), indices)


def tables_of(
    levels: Mapping[str, int], cliques: Sequence[tuple[str, ...]], theta: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the cliques' probabilities and log potentials, shapes (draw, columns...)."""
    listed = field_of(levels, cliques)
    shapes = [tuple(levels[name] for name in clique) for clique in cliques]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def tables(flat: np.ndarray) -> list[np.ndarray]:
        parts = np.split(flat, ends, axis=1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]

    return tables(np.array([listed.mean(each) for each in theta])), tables(theta)


@cache
def _scores(columns: int, points: int) -> Program:
    """The scores of a row, whether it is in the cell or not."""
    import jax.numpy as jnp

    def scores(row: Any, state: Any) -> Any:
        wanted, (outside, inside) = state
        return jnp.where(jnp.all(row == wanted), inside, outside)

    state = np.zeros(columns), np.zeros((2, points))
    return trace(scores, columns, state, blocks=(("sum", (points,)),))
