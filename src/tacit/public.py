"""The wall's interface for data that are public or simulated: no charge and no guarantee."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from itertools import count
from typing import Any

import numpy as np

from tacit.sources.data import open_data, units_of_data
from tacit.sources.loaded import Loaded
from tacit.sources.workers import Workers
from tacit.spec.budget import Budget, Left
from tacit.spec.certificate import Certificate
from tacit.spec.errors import SchemaError
from tacit.spec.mechanisms import Exact, Mechanism
from tacit.spec.plan import Plan
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.wall.answers import TIERS, Answer, Answers, calibrated, describe, publish, read
from tacit.wall.noise import Entropy, os_entropy
from tacit.wall.statistics.statistic import Statistic
from tacit.wall.steps.lease import Lease
from tacit.wall.steps.plans import check_plan


class Public:
    """Data that need no protection: for baselines, tests and planning.

    It alone accepts `Exact()`, and its noise can be seeded. Everything that comes out is stamped
    "public data".
    """

    def __init__(
        self,
        source: Any,
        schema: Schema | None = None,
        *,
        seed: int | None = None,
        owners: Any = None,
        workers: int | str | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError("Expected a schema: Public(source, tacit.Schema(...)).")
        self._source = open_data(source, schema, owners)
        self._schema, self._workers = schema, None if workers is None else Workers(workers)
        self._answers = Answers.of(TIERS)
        self._entropy = os_entropy if seed is None else seeded_entropy(str(seed))

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Left | None:
        return None

    @property
    def n_units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        replaced = self._schema.neighbours == "replace_one"
        return units_of_data(self._source, self._schema) if replaced else None

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """How noisy a release would be; nothing is spent here."""
        return Quote(None, law_of(self._answers.resolve(query, self._schema), mechanism))

    def price(self, query: Query, mechanism: Mechanism) -> Budget:
        """What a wall would charge for a release."""
        return calibrated(self._answers.resolve(query, self._schema), mechanism).cost

    def event(self, query: Query, mechanism: Mechanism) -> dict[str, Any]:
        """The facts of a release, as a wall's certificate would have them."""
        answer = self._answers.resolve(query, self._schema)
        return describe(answer, law_of(answer, mechanism))

    def recorded(self, query: Query, mechanism: Mechanism) -> dict[str, Any]:
        """What a wall would write into its ledger about a release."""
        calibration = calibrated(self._answers.resolve(query, self._schema), mechanism)
        return calibration.recorded(self.event(query, mechanism))

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with the wall's noise law, or none."""
        answer = self._answers.resolve(query, self._schema)
        noise = law_of(answer, mechanism)
        return answered(answer, noise, read(self._source, answer, noise), self._entropy)

    def prepay(self, plan: Plan, *, name: str | None = None) -> Lease:
        """Return the steps of a plan; nothing is charged."""
        check_plan(plan, self._schema, self._answers)
        certificate = stamp(self._schema, plan.events)
        loaded = Loaded(self._source, self._schema, self._workers)
        return Lease(plan, self._answers, loaded, certificate, self._entropy)

    def __repr__(self) -> str:
        return f"Public(columns: {self._schema.listed})"


def answered(
    answer: Answer, noise: tuple[Noise, ...], statistic: Statistic, entropy: Entropy
) -> Release:
    """Return a release without a privacy guarantee, which its certificate says."""
    integers = answer.sample(statistic, noise, entropy)
    certificate = stamp(answer.schema, (describe(answer, noise),))
    return publish(answer, noise, statistic.units, integers, certificate)


def stamp(schema: Schema, events: tuple[dict[str, Any], ...]) -> Certificate:
    """Return the certificate of a release without a privacy guarantee."""
    return Certificate(
        unit=schema.protects,
        neighbours=schema.neighbours,
        epsilon=Decimal("Infinity"),
        delta=Decimal(0),
        accountant="none",
        events=events,
        assumptions=("the data are public or simulated",),
        data="public data",
    )


def law_of(answer: Answer, mechanism: Mechanism) -> tuple[Noise, ...]:
    """The law of the noise that the wall would add; none for `Exact`."""
    if isinstance(mechanism, Exact):
        return answer.exact()
    return calibrated(answer, mechanism).noise


def seeded_entropy(seed: str) -> Entropy:
    """Return a repeatable source of random 32-bit integers, for public data alone."""
    turn = count()

    def random_bits(size: int) -> np.ndarray:
        stream = hashlib.shake_256(f"{seed}/{next(turn)}".encode()).digest(4 * size)
        return np.frombuffer(stream, "<u4")

    return random_bits
