"""Who answers a query: one protocol for all answers, and one dictionary from query to answer.

Tier 1 answers `Counts` and `Moments`, tier 2 `BoundedSum`; draws have a room of their own
(`tacit.draws`). What a wall allows is pinned in its ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tacit.accounting import Calibration
from tacit.spec.certificate import Certificate
from tacit.spec.errors import BudgetError, QueryError
from tacit.spec.mechanisms import MECHANISMS, Exact, Mechanism
from tacit.spec.moments import Moments
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Block, Noise, Release
from tacit.spec.schema import Schema
from tacit.spec.wire import described
from tacit.wall.noise import Entropy
from tacit.wall.statistics.counts import resolve_counts
from tacit.wall.statistics.moments import resolve_moments
from tacit.wall.statistics.statistic import Statistic

TIERS = ("statistics", "steps", "draws")


class Answer(Protocol):
    """A query with what is public about it: what one unit can move, and how it is answered.

    `calibrate` refuses mechanisms that do not fit. `evaluate` reads, once; `sample` adds noise to
    the statistic, or draws from it, and gives the integers that are released.
    """

    @property
    def query(self) -> Any: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def blocks(self) -> tuple[Block, ...]: ...

    @property
    def assumptions(self) -> tuple[str, ...]: ...

    def calibrate(self, mechanism: Any) -> Calibration: ...

    def exact(self) -> tuple[Noise, ...]:
        """The law of an answer without privacy, for public data."""
        ...

    def bound(self, noise: Noise) -> dict[str, Any]:
        """The sensitivity that the noise is for, as the ledger records it."""
        ...

    def evaluate(self, snapshot: Any, noise: tuple[Noise, ...]) -> Statistic: ...

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray: ...


Resolver = Callable[[Any, Schema], Answer]


@dataclass(frozen=True)
class Answers:
    """The queries that a wall answers, by their types."""

    allow: tuple[str, ...]
    resolvers: Mapping[type, Resolver] = field(repr=False)

    @classmethod
    def of(cls, allow: Sequence[str]) -> Answers:
        """The answers of some tiers; one that is not allowed is not looked up."""
        if isinstance(allow, str) or not set(allow) <= set(TIERS) or "statistics" not in allow:
            raise QueryError(
                f'Expected allow= with "statistics" and, if wanted, "steps" and "draws", '
                f"got {allow!r}."
            )
        found: dict[type, Resolver] = {Counts: resolve_counts, Moments: resolve_moments}
        if "steps" in allow:
            from tacit.wall.steps.sums import STEPS

            found |= STEPS
        if "draws" in allow:
            from tacit.draws import DRAWS

            found |= DRAWS
        return cls(tuple(tier for tier in TIERS if tier in allow), found)

    def resolve(self, query: Query, schema: Schema) -> Answer:
        """Look up what is public and derive the sensitivity. Opens no data."""
        resolver = self.resolvers.get(type(query))  # proof: tiers
        if resolver is not None:
            return resolver(query, schema)
        if type(query).__module__.startswith("tacit.spec."):
            raise QueryError(
                f"This wall answers {', '.join(self.allow)}, and no {type(query).__name__}: "
                "its ledger was created with this allow=. Nothing was charged or read."
            )
        raise QueryError(f"Expected a query such as tacit.queries.Counts(...), got {query!r}.")


def calibrated(answer: Answer, mechanism: Mechanism) -> Calibration:
    """The law of a private answer and what it costs."""
    if isinstance(mechanism, Exact):
        raise BudgetError("Exact() is not private: only tacit.Public accepts it.")
    if type(mechanism) not in MECHANISMS.values():
        raise BudgetError(f"Expected a mechanism such as tacit.Laplace(1), got {mechanism!r}.")
    return answer.calibrate(mechanism)


def read(source: Any, answer: Answer, noise: tuple[Noise, ...]) -> Statistic:
    """The exact answer, and the number of units, from one version of the data."""
    with source.snapshot() as snapshot:
        return answer.evaluate(snapshot, noise)


def describe(answer: Answer, noise: tuple[Noise, ...]) -> dict[str, Any]:
    """The facts of a release, for the ledger and the certificate."""
    laws = noise[:1] if isinstance(answer.query, Counts) else noise
    one = len(laws) == 1
    return {
        "noise": noise[0].family,
        "scale": laws[0].scale if one else [law.scale for law in laws],
        "grid": laws[0].grid if one else [law.grid for law in laws],
        **answer.bound(noise[0]),
        "coordinates": sum(block.size for block in answer.blocks),
        "query": described(answer.query.to_dict()),
    }


def publish(
    answer: Answer,
    noise: tuple[Noise, ...],
    units: int,
    integers: np.ndarray,
    certificate: Certificate,
) -> Release:
    """What was sampled, in integers. The number of units goes out only where it is public."""
    schema = answer.schema
    return Release(
        integers=integers,
        blocks=answer.blocks,
        noise=noise,
        n=units if schema.neighbours == "replace_one" else None,  # proof: units
        schema=schema,
        query=answer.query,
        certificate=certificate,
    )
