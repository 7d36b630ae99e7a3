"""The wall's interface for data that are public or simulated: no charge and no guarantee."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from typing import Any

import numpy as np
from scipy.special import ndtri

from tacit.accounting import Calibration, calibrate
from tacit.spec.budget import Budget, Spent
from tacit.spec.certificate import Certificate
from tacit.spec.errors import BudgetError, SchemaError
from tacit.spec.mechanisms import Exact, Gaussian, Laplace, Mechanism
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.wall._evaluate import Resolved, Statistic, evaluate, resolve
from tacit.wall._noise import draw
from tacit.wall._source import open_source
from tacit.wall._wall import describe, publish


class Public:
    """Data that need no protection: for baselines, tests and planning.

    It alone accepts `Exact()`, and its noise can be seeded. Everything that comes out is stamped
    "public data".
    """

    def __init__(
        self, source: Any, schema: Schema | None = None, *, seed: int | None = None
    ) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError("Expected a schema: Public(source, tacit.Schema(...)).")
        self._source = open_source(source, schema)
        self._schema = schema
        self._seed = seed
        self._turn = count()

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Spent | None:
        return None

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """How noisy a release would be; nothing is spent here."""
        return Quote(None, _calibrate(mechanism, resolve(query, self._schema)).noise)

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with the wall's noise law, or none."""
        seed = None if self._seed is None else f"{self._seed}/{next(self._turn)}"
        read = lambda resolved: evaluate(resolved, self._schema, self._source)  # noqa: E731
        return answer(self._schema, query, mechanism, read, seed)

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self._schema.columns)
        return f"Public(columns: {columns})"


def answer(
    schema: Schema,
    query: Query,
    mechanism: Mechanism,
    read: Callable[[Resolved], Statistic],
    seed: str | None = None,
) -> Release:
    """A release that nobody paid for, stamped as such."""
    resolved = resolve(query, schema)
    calibration = _calibrate(mechanism, resolved)
    statistic = read(resolved)
    certificate = Certificate(
        unit=schema.protects,
        neighbours=schema.neighbours,
        epsilon=Decimal("Infinity"),
        delta=Decimal(0),
        accountant="none",
        events=(describe(resolved, calibration),),
        assumptions=("the data are public or simulated",),
        data="public data",
    )
    noise_steps = _noise(calibration.noise, statistic.values.size, seed)
    return publish(resolved, calibration, statistic, noise_steps, schema, certificate)


def _noise(noise: Noise, size: int, seed: str | None) -> np.ndarray:
    if noise.family == "none":
        return np.zeros(size, dtype=np.int64)
    return draw(noise, size) if seed is None else _seeded(noise, size, seed)


def _calibrate(mechanism: Mechanism, resolved: Resolved) -> Calibration:
    match mechanism:
        case Exact():
            return Calibration(Noise("none", 0.0, 1.0), Budget(1), "none")
        case Laplace() | Gaussian():
            return calibrate(mechanism, resolved.sensitivity)
        case _:
            raise BudgetError(f"Expected Laplace, Gaussian or Exact, got {mechanism!r}.")


def _seeded(noise: Noise, size: int, seed: str) -> np.ndarray:
    """Repeatable noise for public data, by inversion of a hash stream: never for a Wall."""
    stream = hashlib.shake_256(seed.encode()).digest(16 * size)
    uniform = (np.frombuffer(stream, "<u8") >> 11).astype(float) * 2.0**-53 + 2.0**-54
    first, second = uniform.reshape(2, size)
    scale = noise.scale / noise.grid
    if noise.family == "discrete_gaussian":
        return np.rint(scale * ndtri(first)).astype(np.int64)
    geometric = np.floor(-scale * np.log([first, second])).astype(np.int64)
    return geometric[0] - geometric[1]
