"""The wall: charge the ledger, then read, count, add exact noise, and let only that out."""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

import numpy as np

from tacit.accounting import Calibration, calibrate
from tacit.spec.budget import Budget, Spent
from tacit.spec.certificate import Certificate, LedgerMark
from tacit.spec.errors import BudgetError, LedgerError, QueryError, SchemaError, SourceError
from tacit.spec.mechanisms import Exact, Gaussian, Laplace, Mechanism
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.wall._chain import digest
from tacit.wall._evaluate import Resolved, Statistic, evaluate, resolve
from tacit.wall._ledger import Ledger
from tacit.wall._noise import draw, to_steps
from tacit.wall._source import open_source


class Wall:
    """Sensitive records, with a budget that cannot be overdrawn.

    Parameters
    ----------
    source
        A CSV or Parquet path, a pandas, polars or pyarrow table, a dict of arrays, or an Ibis
        table.
    schema
        What is public about it, and who is protected.
    budget
        All that may ever be spent on these people. Pinned when the ledger is created.
    ledger
        The path of the ledger, one for each protected population. ":memory:" forgets everything
        when the process ends, and its certificates say so.

    Formal guarantee: all releases together are (epsilon, delta)-differentially private for the
    schema's unit and relation, where (epsilon, delta) is the budget, however adaptively they were
    chosen.
    """

    def __init__(
        self,
        source: Any,
        schema: Schema | None = None,
        *,
        budget: Budget | None = None,
        ledger: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError("Expected a schema: Wall(source, tacit.Schema(...), ...).")
        if not isinstance(budget, Budget):
            raise BudgetError(
                "Expected budget=tacit.Budget(epsilon, delta), all that may be spent."
            )
        if ledger is None:
            raise LedgerError('Expected ledger="<path>", the file that remembers what was spent.')
        self._source = open_source(source, schema)
        self._schema = schema
        self._ledger = Ledger(ledger)
        self._ledger.open(
            {
                "unit": schema.unit,
                "max_rows_per_unit": schema.max_rows_per_unit,
                "neighbours": schema.neighbours,
                "schema": schema.digest,
            },
            budget,
        )

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Spent:
        """What is left of the budget."""
        return self._ledger.read().left

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """What a release would cost and how noisy it would be. Nothing is read or charged."""
        calibration = _calibrate(mechanism, resolve(query, self._schema))
        return Quote(calibration.cost, calibration.noise)

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with noise, after charging for it.

        The same question under the same `name` returns the stored release at no cost.
        """
        if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise QueryError(f"Expected name={name!r} to be a printable text.")
        resolved = resolve(query, self._schema)
        calibration = _calibrate(mechanism, resolved)
        event = describe(resolved, calibration)
        question = digest(json.dumps([event, str(calibration.cost)], sort_keys=True))
        # proof: charge-then-read. Durable before the next line; never undone.
        charge = self._ledger.charge(calibration.cost, event, name, question)
        if charge.stored is not None:
            return Release.from_json(charge.stored)
        statistic = self._read(resolved)
        release = publish(
            resolved,
            calibration,
            statistic,
            draw(calibration.noise, statistic.values.size),
            self._schema,
            self._certificate(calibration, event, charge.mark),
        )
        if name is not None:
            self._ledger.keep(name, release.to_json())
        return release

    def _read(self, resolved: Resolved) -> Statistic:
        # What an engine says about a failure may quote a cell: only the fact of it gets out.
        try:
            return evaluate(resolved, self._schema, self._source)
        except Exception:  # noqa: BLE001
            pass
        raise SourceError(
            "The source could not be read. The budget for this release is spent; check that the "
            "file or database is still there."
        )

    def _certificate(
        self, calibration: Calibration, event: dict[str, Any], mark: LedgerMark
    ) -> Certificate:
        assumptions = []
        if not self._ledger.durable:
            assumptions.append("the ledger is in memory: what was spent before is not known")
        return Certificate(
            unit=self._schema.protects,
            neighbours=self._schema.neighbours,
            epsilon=calibration.cost.epsilon,
            delta=calibration.cost.delta,
            accountant=calibration.accountant,
            events=(event,),
            assumptions=tuple(assumptions),
            ledger=mark,
        )

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self._schema.columns)
        return f"Wall(columns: {columns}; protects {self._schema.protects})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Wall cannot be copied or pickled; open it again from its source.")


def _calibrate(mechanism: Mechanism, resolved: Resolved) -> Calibration:
    match mechanism:
        case Laplace() | Gaussian():
            return calibrate(mechanism, resolved.sensitivity)
        case Exact():
            raise BudgetError("Exact() adds no noise: only tacit.Public accepts it.")
        case _:
            raise BudgetError(f"Expected tacit.Laplace or tacit.Gaussian, got {mechanism!r}.")


def describe(resolved: Resolved, calibration: Calibration) -> dict[str, Any]:
    """The facts of a release, for the ledger and the certificate."""
    sensitivity, noise = resolved.sensitivity, calibration.noise
    laplace = noise.family == "discrete_laplace"
    return {
        "noise": noise.family,
        "scale": noise.scale,
        "grid": noise.grid,
        "sensitivity": sensitivity.l1 if laplace else sensitivity.l2,
        "norm": "L1" if laplace else "L2",
        "coordinates": sensitivity.coordinates,
        "query": resolved.query.to_dict(),
    }


def publish(
    resolved: Resolved,
    calibration: Calibration,
    statistic: Statistic,
    noise_steps: np.ndarray,
    schema: Schema,
    certificate: Certificate,
) -> Release:
    """Statistic plus noise, in integers. The number of units goes out only where it is public."""
    return Release(
        steps=to_steps(statistic.values, calibration.noise) + noise_steps,
        blocks=resolved.blocks,
        noise=(calibration.noise,) * len(resolved.blocks),
        n=statistic.units if schema.neighbours == "replace_one" else None,
        schema=schema,
        query=resolved.query,
        certificate=certificate,
    )
