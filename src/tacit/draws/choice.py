"""A choice by the exponential mechanism: integer scores, and exact arithmetic down to the coin."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.ranges import calibrate_range, choice_range
from tacit.laws.discrete import Stream
from tacit.sources.data import AnySource
from tacit.spec.choice import Choice
from tacit.spec.mechanisms import Exponential
from tacit.spec.release import Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy, settled
from tacit.wall.statistics.statistic import Statistic, refuse_mechanism
from tacit.wall.steps.lease import Loaded
from tacit.wall.steps.sums import BoundedSums, resolve_sum

_LOG2_E = Fraction(14426, 10_000)  # a little less than 1 / log 2
_MOST_HALVINGS = 256


@dataclass(frozen=True)
class ChoiceAnswer:
    """A choice whose scores have been compiled."""

    query: Choice
    schema: Schema
    blocks: tuple[Block, ...]
    scores: BoundedSums

    stepwise = True

    @property
    def span(self) -> float:
        return choice_range(self.scores.bounds[0], self.schema)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self.scores.assumptions

    def calibrate(self, mechanism: Any) -> Calibration:
        if not isinstance(mechanism, Exponential):
            refuse_mechanism("tacit.queries.Exponential(epsilon) for a draw", mechanism)
        return calibrate_range(mechanism, self.span, 1.0)

    def at_temperature(self, heat: float) -> tuple[Noise, ...]:
        return (Noise("draw", heat, 1.0),)

    def exact(self) -> tuple[Noise, ...]:
        """The options' own probabilities: temperature 1."""
        return self.at_temperature(1.0)

    def bound(self, noise: Noise) -> dict[str, Any]:
        return {"range": self.span}

    def evaluate(self, source: AnySource, noise: tuple[Noise, ...]) -> Statistic:
        return self.scores.evaluate(source, self.scores.exact())

    def evaluate_step(self, loaded: Loaded) -> Statistic:
        """The scores of all units, from what a lease has read."""
        data = loaded.rows(self.scores.query.columns)
        everyone = np.arange(data.units)
        return Statistic(self.scores.sum(data, everyone, self.scores.exact()), data.units)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        """The number of one option."""
        return self.several(statistic, noise, entropy, 1)

    def several(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy, count: int
    ) -> np.ndarray:
        """So many options of the same law, by rejection with exact coins."""
        # proof: choice-exact. No double decides anything here.
        step = Fraction(self.scores.exact()[0].grid) / Fraction(noise[0].scale)
        scores = [
            int(steps) * step + Fraction(weight)
            for steps, weight in zip(statistic.integers, self.query.log_weights, strict=True)
        ]
        top = max(scores)
        short = [top - score for score in scores]
        # Proposed with a chance of 2^-m, at least exp(-short) and at most some twice that.
        halvings = [min(int(each * _LOG2_E), _MOST_HALVINGS) for each in short]
        ends = list(accumulate(1 << (_MOST_HALVINGS - m) for m in halvings))

        def choose(stream: Stream) -> int:
            while True:
                option = bisect_right(ends, stream.below(ends[-1]))
                each = short[option]
                if stream.coin(each.numerator, each.denominator, halvings[option]):
                    return option

        return np.array([settled(choose, entropy(64), entropy)[0] for _ in range(count)], np.int64)


def resolve_choice(query: Choice, schema: Schema) -> ChoiceAnswer:
    """Compile the scores. Opens no data."""
    return ChoiceAnswer(query, schema, (Block("choice", ()),), resolve_sum(query.scores, schema))
