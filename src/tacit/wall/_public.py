"""The wall's interface for data that are public or simulated: no charge and no guarantee."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from typing import Any

import numpy as np

from tacit.spec.budget import Spent
from tacit.spec.certificate import Certificate
from tacit.spec.errors import SchemaError
from tacit.spec.mechanisms import Exact, Mechanism
from tacit.spec.plan import Plan
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.wall._evaluate import Resolved, calibrated, open_data, public_units, resolve
from tacit.wall._lease import Lease
from tacit.wall._wall import check_plan, describe, plan_events, publish
from tacit.wall.chance._noise import Statistic, Words, os_words
from tacit.wall.sums._sums import load


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
        units: Any = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError("Expected a schema: Public(source, tacit.Schema(...)).")
        self._source = open_data(source, schema, units)
        self._schema = schema
        self._words = os_words if seed is None else seeded_words(str(seed))

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Spent | None:
        return None

    @property
    def units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        return public_units(self._source, self._schema)

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """How noisy a release would be; nothing is spent here."""
        return Quote(None, _noise(mechanism, resolve(query, self._schema)))

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with the wall's noise law, or none."""

        def read(resolved: Resolved, noise: tuple[Noise, ...]) -> Statistic:
            return resolved.evaluate(self._source, noise)  # type: ignore[arg-type]

        return answer(self._schema, query, mechanism, read, self._words)

    def prepay(self, plan: Plan, *, name: str | None = None) -> Lease:
        """The steps of a plan, for nothing."""
        check_plan(plan, self._schema)
        certificate = _stamp(self._schema, plan_events(plan))
        rows = lambda columns: load(self._source, self._schema, columns)  # noqa: E731
        read = lambda resolved: resolved.evaluate(self._source, ())  # noqa: E731
        return Lease(plan, self._schema, rows, read, certificate, self._words)

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self._schema.columns)
        return f"Public(columns: {columns})"


def answer(
    schema: Schema,
    query: Query,
    mechanism: Mechanism,
    read: Callable[[Resolved, tuple[Noise, ...]], Statistic],
    words: Words = os_words,
) -> Release:
    """A release that nobody paid for, stamped as such."""
    resolved = resolve(query, schema)
    noise = _noise(mechanism, resolved)
    statistic = read(resolved, noise)
    steps = resolved.sample(statistic, noise, words)
    certificate = _stamp(schema, (describe(resolved, noise),))
    return publish(resolved, noise, statistic.units, steps, certificate)


def _stamp(schema: Schema, events: tuple[dict[str, Any], ...]) -> Certificate:
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


def _noise(mechanism: Mechanism, resolved: Resolved) -> tuple[Noise, ...]:
    if isinstance(mechanism, Exact):
        return resolved.exact()
    return calibrated(mechanism, resolved).noise


def seeded_words(seed: str) -> Words:
    """Repeatable words for public data, from a hash: never for a Wall."""
    turn = count()

    def words(size: int) -> np.ndarray:
        stream = hashlib.shake_256(f"{seed}/{next(turn)}".encode()).digest(4 * size)
        return np.frombuffer(stream, "<u4")

    return words
