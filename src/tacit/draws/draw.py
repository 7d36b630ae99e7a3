"""What draws of the exponential mechanism share: temperatures, and uniform numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.draws.scales import check_prior
from tacit.spec.draws import GRID
from tacit.spec.mechanisms import Exponential
from tacit.spec.release import Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy
from tacit.wall.statistics.statistic import refuse_mechanism

PER_ONE = round(1 / GRID)  # multiples of the grid
FLOAT_DRAW = (
    "float draw: computed in double precision and rounded to multiples of 2^-40; the guarantee is "
    "that of the exact law"
)


@dataclass(frozen=True)
class Draw:
    """A draw with what is public about it: one unit moves its scores by a range of `span`."""

    query: Any
    schema: Schema
    blocks: tuple[Block, ...]
    span: float
    grids: tuple[float, ...]
    assumptions: tuple[str, ...]

    @property
    def largest_prior(self) -> float:
        """The largest concentration that counts / temperature are added to; 0 if there is none."""
        return 0.0

    def at_temperature(self, temperature: float) -> tuple[Noise, ...]:
        """The law of each block. Refuses a prior that is too large for it."""
        check_prior(self.largest_prior, temperature)
        return tuple(Noise("draw", temperature, grid) for grid in self.grids)

    def exact(self) -> tuple[Noise, ...]:
        """The posterior itself: temperature 1."""
        return self.at_temperature(1.0)

    def bound(self, noise: Noise) -> dict[str, Any]:
        """What the temperature is for, as the ledger records it."""
        draws = {"draws": self.query.draws} if hasattr(self.query, "draws") else {}
        return {"range": None if np.isinf(self.span) else self.span, **draws}


def exponential(mechanism: Any) -> Exponential:
    if not isinstance(mechanism, Exponential):
        refuse_mechanism("tacit.queries.Exponential(epsilon) for a draw", mechanism)
    return mechanism


def uniforms(entropy: Entropy, count: int) -> np.ndarray:
    """Numbers strictly between 0 and 1, near 0 with all bits that a double has there.

    128 bits each: samplers put the tails of their laws at 0, where too few bits would leave gaps
    wider than the grid of what is released, and where the gaps are would tell of the data.
    """  # proof: draw-dense
    parts = entropy(4 * count).reshape(4, -1).astype(np.uint64)
    low, high = (parts[i] << np.uint64(32) | parts[i + 1] for i in (0, 2))
    inside = high.astype(float) * 2.0**-64 + (low.astype(float) + 0.5) * 2.0**-128
    return np.minimum(inside, 1 - 2.0**-53)
