"""Draws of the exponential mechanism: counts are read, divided by the temperature, and drawn from.

`resolve_draw` knows only what is public; `evaluate` reads; `sample` draws from entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import GRID, calibrate_draw, draw_range
from tacit.laws import truncated_dirichlet
from tacit.spec.draws import ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import QueryError
from tacit.spec.keys import labels_of, name_of
from tacit.spec.mechanisms import Exponential
from tacit.spec.queries import Counts
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall._counts import count_cells
from tacit.wall._noise import Statistic, Words, uniforms
from tacit.wall._source import Source

_STEPS = round(1 / GRID)
FLOAT_DRAW = (
    "float draw: computed in double precision and rounded to multiples of 2^-40; the guarantee is "
    "that of the exact law"
)


@dataclass(frozen=True)
class ResolvedDraw:
    """A draw with its public levels, and the range that one unit can move its log-density by."""

    query: ConjugateDraw
    schema: Schema
    blocks: tuple[Block, ...]
    span: float

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (FLOAT_DRAW,)

    def calibrate(self, mechanism: Exponential) -> Calibration:
        return calibrate_draw(mechanism, self.span, self.query.draws)

    def exact(self) -> tuple[Noise, ...]:
        """The posterior itself: temperature 1."""
        return (Noise("draw", 1.0, GRID),)

    def bound(self, noise: Noise) -> dict[str, Any]:
        """The range that the temperature is for, as the ledger records it."""
        return {"range": self.span, "draws": self.query.draws}

    def evaluate(self, source: Source, noise: tuple[Noise, ...]) -> Statistic:
        """The counts of all levels. A missing value adds nothing to the likelihood."""
        law = self.query.law
        levels = (Block(name_of(law.key), self.blocks[0].axes[1:]),)
        return Statistic(*count_cells(Counts((law.key,)), self.schema, levels, source))

    def sample(self, statistic: Statistic, noise: tuple[Noise, ...], words: Words) -> np.ndarray:
        """Draws of the tempered posterior, as points of the grid inside the truncation."""
        law = self.query.law
        with np.errstate(all="ignore"):
            at = concentration(self.query, statistic.steps, noise[0].scale)
            rows = np.tile(at, (self.query.draws, 1))
            drawn = truncated_dirichlet.sample(rows, law.truncation, lambda n: uniforms(words, n))
            return to_grid(drawn, law.truncation).ravel()


def resolve_draw(query: ConjugateDraw, schema: Schema) -> ResolvedDraw:
    """Look up the levels and derive the range. Opens no data."""
    match query.law:
        case TruncatedDirichlet(key=key, prior=prior):
            labels = labels_of(key, schema)
            if len(labels) != len(prior):
                raise QueryError(
                    f"Expected {len(labels)} numbers in prior, one for each level of "
                    f"{name_of(key)!r}, got {len(prior)}."
                )
    axes = (Axis("draw", range(query.draws)), Axis(name_of(key), labels))
    span = draw_range(query.law, schema.neighbours, schema.max_rows_per_unit)
    return ResolvedDraw(query, schema, (Block("p", axes),), span)


def concentration(query: ConjugateDraw, counts: np.ndarray, temperature: float) -> np.ndarray:
    """The Dirichlet law that is drawn from, before truncation."""
    # proof: draw-range. Only counts / temperature depend on the data; the prior is public.
    prior = np.array(query.law.prior)
    if query.temper_prior:
        prior = 1 + (prior - 1) / temperature
    return prior + counts / temperature


def to_grid(probability: np.ndarray, truncation: float) -> np.ndarray:
    """Whole steps that sum to one in each row, none below the truncation."""
    least = int(np.ceil(truncation * _STEPS))
    steps = np.maximum(np.rint(probability * _STEPS).astype(np.int64), least)
    # The largest takes up what rounding moved: at most a step for each level.
    rows, largest = np.arange(len(steps)), probability.argmax(axis=1)
    steps[rows, largest] += _STEPS - steps.sum(axis=1)
    return steps
