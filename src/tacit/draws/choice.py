"""A choice by the exponential mechanism: integer scores, and exact arithmetic down to the coin."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import calibrate_density, calibrate_range, choice_range
from tacit.draws.draw import Draw, exponential
from tacit.laws.discrete import Stream
from tacit.sources.data import AnySnapshot
from tacit.sources.loaded import Loaded
from tacit.spec.choice import Choice
from tacit.spec.density import DensityDraw
from tacit.spec.release import Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy, settled
from tacit.wall.statistics.statistic import Statistic
from tacit.wall.steps.sums import BoundedSums, resolve_sum

_LOG2_E = Fraction(14426, 10_000)  # a little less than 1 / log 2
_MOST_HALVINGS = 256


@dataclass(frozen=True)
class ChoiceAnswer(Draw):
    """A choice, or several draws among points, whose scores have been compiled."""

    scores: BoundedSums
    log_weights: tuple[float, ...]
    draws: int = 1

    @property
    def stepwise(self) -> bool:
        return isinstance(self.query, Choice)

    def calibrate(self, mechanism: Any) -> Calibration:
        if isinstance(self.query, Choice):
            return calibrate_range(exponential(mechanism), self.span, *self.grids)
        return calibrate_density(exponential(mechanism), self.query, self.schema)

    def evaluate(self, snapshot: AnySnapshot, noise: tuple[Noise, ...]) -> Statistic:
        return self.scores.evaluate(snapshot, self.scores.exact())

    def evaluate_step(self, loaded: Loaded) -> Statistic:
        """The scores of all units, from what a lease has read."""
        data = loaded.rows(self.scores.query.columns)
        everyone = np.arange(data.units)
        return Statistic(self.scores.sum(data, everyone, self.scores.exact()), data.units)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        """The numbers of options, by rejection with exact coins."""
        # proof: choice-exact. No double decides anything here.
        unit = Fraction(self.scores.exact()[0].grid) / Fraction(noise[0].scale)
        scores = [
            int(integer) * unit + Fraction(weight)
            for integer, weight in zip(statistic.integers, self.log_weights, strict=True)
        ]
        top = max(scores)
        short = [top - score for score in scores]
        # Proposed with probability 2^-m, at least exp(-short) and at most some twice that.
        halvings = [min(int(each * _LOG2_E), _MOST_HALVINGS) for each in short]
        ends = list(accumulate(1 << (_MOST_HALVINGS - m) for m in halvings))

        def choose(stream: Stream) -> int:
            while True:
                option = bisect_right(ends, stream.below(ends[-1]))
                each = short[option]
                if stream.coin(each.numerator, each.denominator, halvings[option]):
                    return option

        drawn = [settled(choose, entropy(64), entropy)[0] for _ in range(self.draws)]
        return np.array(drawn, np.int64)


def resolve_choice(query: Choice, schema: Schema) -> ChoiceAnswer:
    """Compile the scores. Opens no data."""
    return choice_among(query, query, Block("choice", ()), schema)


def choice_among(
    query: Choice | DensityDraw, choice: Choice, block: Block, schema: Schema
) -> ChoiceAnswer:
    """The answer to a query that is a choice among options."""
    scores = resolve_sum(choice.scores, schema)
    span, draws = choice_range(scores.bounds[0], schema), getattr(query, "draws", 1)
    public = query, schema, (block,), span, (1.0,), scores.assumptions
    return ChoiceAnswer(*public, scores, choice.log_weights, draws)
