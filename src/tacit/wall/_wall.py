"""The wall: charge the ledger, then read, add exact noise or draw, and let only that out."""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from tacit.accounting import plan_epsilon
from tacit.spec.budget import Budget, Spent, round_up
from tacit.spec.certificate import Certificate, LedgerMark
from tacit.spec.errors import BudgetError, LedgerError, QueryError, SchemaError
from tacit.spec.mechanisms import Exact, Exponential, Gaussian, Laplace, Mechanism
from tacit.spec.plan import Plan, WithoutReplacement
from tacit.spec.protocols import Quote
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.wall._chain import digest
from tacit.wall._evaluate import Resolved, calibrated, open_data, public_units, resolve
from tacit.wall._genuine import genuine
from tacit.wall._lease import Lease, check_process
from tacit.wall._ledger import Ledger
from tacit.wall._replay import KeptLease, ReplayedLease
from tacit.wall.chance._noise import os_words
from tacit.wall.data._source import shielded
from tacit.wall.sums._sums import Data, load


class Wall:
    """Sensitive records, with a budget that cannot be overdrawn.

    Parameters
    ----------
    source
        A CSV or Parquet path, a pandas, polars or pyarrow table, a dict of arrays, an Ibis
        table, or a sparse matrix of documents by words.
    schema
        What is public about it, and who is protected.
    budget
        All that may ever be spent on these people. Pinned when the ledger is created.
    ledger
        The path of the ledger, one for each protected population. ":memory:" forgets everything
        when the process ends, and its certificates say so.
    units
        Beside a sparse matrix: who wrote each document.

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
        units: Any = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError("Expected a schema: Wall(source, tacit.Schema(...), ...).")
        if not isinstance(budget, Budget):
            raise BudgetError(
                "Expected budget=tacit.Budget(epsilon, delta), all that may be spent."
            )
        if ledger is None:
            raise LedgerError('Expected ledger="<path>", the file that remembers what was spent.')
        schema, budget = genuine(schema), genuine(budget)
        self._source = open_data(source, schema, units)
        self._schema, self._shown_schema = schema, genuine(schema)
        self._loaded: WeakValueDictionary[tuple[str, ...], Data] = WeakValueDictionary()
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
        return self._shown_schema

    @property
    def remaining(self) -> Spent:
        """What is left of the budget."""
        return self._ledger.read().left

    @property
    def units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        return public_units(self._source, self._schema)

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """What a release would cost and how noisy it would be. Nothing is read or charged."""
        calibration = calibrated(genuine(mechanism), resolve(genuine(query), self._schema))
        return Quote(genuine(calibration.cost), genuine(calibration.noise))

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with noise, after charging for it.

        The same question under the same `name` returns the stored release at no cost.
        """
        _check_name(name)
        resolved = resolve(genuine(query), self._schema)
        calibration = calibrated(genuine(mechanism), resolved)
        event = describe(resolved, calibration.noise)
        question = digest(json.dumps([event, str(calibration.cost)], sort_keys=True))
        process = os.getpid()
        # proof: charge-then-read. Durable before the next line; never undone.
        charge = self._ledger.charge(calibration.cost, event, name, question)
        if charge.stored is not None:
            return Release.from_json(charge.stored)
        check_process(process)
        statistic = shielded(lambda: resolved.evaluate(self._source, calibration.noise))  # type: ignore[arg-type]
        certificate = self._certificate(
            calibration.cost, calibration.accountant, (event,), charge.mark
        ).assuming(resolved.assumptions + calibration.assumptions)
        sample = lambda: resolved.sample(statistic, calibration.noise, os_words)  # noqa: E731
        steps = shielded(sample)
        check_process(process)
        release = publish(resolved, calibration.noise, statistic.units, steps, certificate)
        if name is not None:
            self._ledger.keep(name, release.to_json())
        return release

    def prepay(self, plan: Plan, *, name: str | None = None) -> Lease | KeptLease | ReplayedLease:
        """Charge for all steps of a plan at once and return the lease that answers them.

        Taking several smaller plans, one after another, lets a loop stop early; each is charged
        for itself. Under the same `name` the same plan returns the answers that were given before,
        to the same questions, at no cost.
        """
        _check_name(name)
        plan = genuine(plan)
        check_plan(plan, self._schema)
        if any(isinstance(steps.mechanism, Exact) for steps in plan.steps):
            raise BudgetError("Exact() adds no noise: only tacit.Public accepts it.")
        spent, accountant = plan_epsilon(plan, self._schema.neighbours)
        cost = Budget(round_up(max(spent, 1e-9)), plan.delta)
        event = {"plan": plan.to_dict()}
        question = digest(json.dumps([event, str(cost)], sort_keys=True))
        process = os.getpid()
        charge = self._ledger.charge(cost, event, name, question)  # proof: charge-then-read
        if name is not None and charge.stored is not None:
            return ReplayedLease(plan, charge.stored, name)
        certificate = self._certificate(cost, accountant, plan_events(plan), charge.mark)
        read = lambda resolved: resolved.evaluate(self._source, ())  # noqa: E731
        lease = Lease(plan, self._schema, self._load, read, certificate, os_words)
        check_process(process)
        if name is None:
            return lease
        return KeptLease(lease, lambda answers: self._ledger.keep(name, answers))

    def _load(self, columns: tuple[str, ...]) -> Data:
        """The columns in memory, shared by the leases that are alive."""
        data = self._loaded.get(columns)
        if data is None:
            data = self._loaded[columns] = load(self._source, self._schema, columns)
        return data

    def _certificate(
        self, cost: Budget, accountant: str, events: tuple[dict[str, Any], ...], mark: LedgerMark
    ) -> Certificate:
        assumptions = []
        if not self._ledger.durable:
            assumptions.append("the ledger is in memory: what was spent before is not known")
        return Certificate(
            unit=self._schema.protects,
            neighbours=self._schema.neighbours,
            epsilon=cost.epsilon,
            delta=cost.delta,
            accountant=accountant,
            events=events,
            assumptions=tuple(assumptions),
            ledger=mark,
        )

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self._schema.columns)
        return f"Wall(columns: {columns}; protects {self._schema.protects})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Wall cannot be copied or pickled; open it again from its source.")


def _check_name(name: Any) -> None:
    if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise QueryError(f"Expected name={name!r} to be a printable text.")


def describe(resolved: Resolved, noise: tuple[Noise, ...]) -> dict[str, Any]:
    """The facts of a release, for the ledger and the certificate."""
    laws = noise[:1] if isinstance(resolved.query, Counts) else noise
    one = len(laws) == 1
    return {
        "noise": noise[0].family,
        "scale": laws[0].scale if one else [law.scale for law in laws],
        "grid": laws[0].grid if one else [law.grid for law in laws],
        **resolved.bound(noise[0]),
        "coordinates": sum(block.size for block in resolved.blocks),
        "query": resolved.query.to_dict(),
    }


def plan_events(plan: Plan) -> tuple[dict[str, Any], ...]:
    """The same for the steps of a lease."""
    families = {Gaussian: "discrete_gaussian", Laplace: "discrete_laplace", Exponential: "draw"}
    return tuple(
        {"noise": families.get(type(steps.mechanism), "none"), **steps.to_dict()}
        for steps in plan.steps
    )


def check_plan(plan: Plan, schema: Schema) -> None:
    """Refuse what no query can use, and sampling that would tell a secret size."""
    if not isinstance(plan, Plan):
        raise BudgetError(f"Expected tacit.Plan(tacit.Steps(...), delta=...), got {plan!r}.")
    for steps in plan.steps:
        if isinstance(steps.sampling, WithoutReplacement) and schema.neighbours != "replace_one":
            raise BudgetError(
                "WithoutReplacement needs the number of units, which is secret under "
                "add_remove: sample with tacit.Poisson(rate)."
            )


def publish(
    resolved: Resolved,
    noise: tuple[Noise, ...],
    units: int,
    steps: np.ndarray,
    certificate: Certificate,
) -> Release:
    """What was sampled, in integers. The number of units goes out only where it is public.

    With copies of the rest: whoever has a release may change what it holds.
    """
    schema = genuine(resolved.schema)
    return Release(
        steps=steps,
        blocks=resolved.blocks,
        noise=genuine(noise),
        n=units if schema.neighbours == "replace_one" else None,
        schema=schema,
        query=genuine(resolved.query),
        certificate=certificate,
    )
