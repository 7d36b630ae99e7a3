"""The wall: charge the ledger, then read, add exact noise or draw, and let only that out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from tacit.accounting.filters import CompositionName
from tacit.sources.data import check_header, open_data, protected, units_of_data
from tacit.sources.loaded import Readings
from tacit.spec.budget import Budget, Left
from tacit.spec.certificate import Stored
from tacit.spec.errors import BudgetError, LedgerError, QueryError, SchemaError
from tacit.spec.mechanisms import Mechanism
from tacit.spec.plan import Plan
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query, asked_of
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.spec.wire import digest
from tacit.wall.answers import TIERS, Answer, Answers, calibrated, describe, publish, read
from tacit.wall.ledger import Ledger
from tacit.wall.noise import os_entropy
from tacit.wall.shield import shielded, without_locals
from tacit.wall.steps.kept import KeptLease
from tacit.wall.steps.lease import Lease
from tacit.wall.steps.plans import Leases


class Wall:
    """Sensitive records, with a budget that cannot be overdrawn.

    Parameters
    ----------
    source
        A CSV or Parquet path, a pandas, polars or pyarrow table, a dict of arrays, a
        `tacit.Table` of an engine, or a sparse matrix of documents by words.
    schema
        What is public about it, and who is protected.
    budget
        All that may ever be spent on these people. Pinned when the ledger is created.
    ledger
        The path of the ledger, one for each protected population. ":memory:" forgets everything
        when the process ends, and its certificates say so.
    owners
        Beside a sparse matrix: who wrote each document.
    allow
        Which queries are answered: "statistics" (counts and moments), "steps" (bounded sums and
        leases), "draws" (the exponential mechanism and noisy minima). Pinned in the ledger, so
        that who allows less need trust, and read, less of the code.
    composition
        How releases add up. "basic": epsilons and deltas. Filters for many releases, which need a
        delta: "gdp" (of mu^2: best where noise is Gaussian) and "rdp" (of Renyi divergences at one
        order). Pinned in the ledger.
    workers
        Who computes the steps of leases: processes on a cluster of Ray that is the custodian's own,
        by its address ("ray://host:port"), or so many on this machine. Default: threads.

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
        owners: Any = None,
        allow: Sequence[str] = TIERS,
        composition: CompositionName = "basic",
        workers: int | str | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError("Expected a schema: Wall(source, tacit.Schema(...), ...).")
        if not isinstance(budget, Budget):
            raise BudgetError(
                "Expected budget=tacit.Budget(epsilon, delta), all that may be spent."
            )
        if ledger is None:
            raise LedgerError('Expected ledger="<path>", the file that remembers what was spent.')
        self._answers = Answers.of(allow)
        self._source = open_data(source, schema, owners)
        self._schema = schema
        self._ledger = Ledger(ledger)
        readings = Readings(self._source, schema, workers)
        self._leases = Leases(readings, self._answers, self._ledger)
        terms = {"allow": list(self._answers.allow), "composition": composition}  # proof: tiers
        self._ledger.open({**protected(schema), **terms}, budget, schema)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Left:
        """What one more release may cost; where a filter adds up, one with Laplace noise."""
        return self._ledger.read().left

    @property
    @without_locals
    def n_units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        if self._schema.neighbours != "replace_one":  # proof: units
            return None
        return shielded(lambda: units_of_data(self._source, self._schema), paid=False)

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """What a release would cost and how noisy it would be. Nothing is read or charged."""
        calibration = calibrated(self._answers.resolve(query, self._schema), mechanism)
        return Quote(calibration.cost, calibration.noise)

    @without_locals
    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with noise, after charging for it.

        The same question under the same `name` returns the stored release at no cost, whatever
        the data are by now; its certificate says so, and from when it is. If the question was
        charged and no answer is stored, because the process died or is still busy, it is answered
        under that charge; whoever stores first decides what all of them return.
        """
        _check_name(name)
        answer = self._answers.resolve(query, self._schema)
        calibration = calibrated(answer, mechanism)
        event, cost = describe(answer, calibration.noise), calibration.cost
        check_header(self._source)
        # proof: charge-then-read. Durable before the next line; never undone.
        question = digest([event, str(cost), asked_of(query, self._schema)])
        facts = calibration.recorded(event)
        facts |= self._source.declared
        charge = self._ledger.charge(cost, facts, name, question, takeover=True)
        if charge.stored is not None:
            return _replayed(charge.stored)
        integers, units = self._sampled(answer, calibration.noise)
        certificate = self._ledger.certificate(
            self._schema, cost, calibration.accountant, (event,), charge.mark
        ).assuming(answer.assumptions + calibration.assumptions)
        release = publish(answer, calibration.noise, units, integers, certificate)
        return release if name is None else self._kept(release, name, charge.token)

    def _sampled(self, answer: Answer, noise: tuple[Noise, ...]) -> tuple[np.ndarray, int]:
        """The noisy answer and the number of units; the exact answer stays in this frame."""
        statistic = shielded(lambda: read(self._source, answer, noise))
        return shielded(lambda: answer.sample(statistic, noise, os_entropy)), statistic.units

    def _kept(self, release: Release, name: str, token: str) -> Release:
        """Store the release; return what is stored under the name, by whichever attempt."""
        try:  # proof: claim. Only what is stored goes out.
            stored = self._ledger.keep(name, token, release.to_json())
        except LedgerError as error:
            # proof: frames. Neither this answer nor the exact one goes out with the error.
            raise LedgerError(
                f"{error} The data were read and the budget is spent: ask again under the name "
                f"{name!r}, which is answered without another charge."
            ) from None
        return release if stored is None else _replayed(stored)

    @without_locals
    def prepay(self, plan: Plan, *, name: str | None = None) -> Lease | KeptLease:
        """Charge for all steps of a plan at once and return the lease that answers them.

        Taking several smaller plans, one after another, lets a loop stop early; each is charged
        for itself. Under a `name` each answer is stored beside the ledger before it is handed out:
        the same plan under the same name gives the same answers to the same questions at no cost,
        and goes on after the last of them under the same charge.
        """
        _check_name(name)
        return self._leases.prepay(plan, name, lambda: self.n_units)

    def __repr__(self) -> str:
        return f"Wall(columns: {self._schema.listed}; protects {self._schema.protects})"

    def _repr_html_(self) -> str:
        return self._schema.to_html("Wall", {"budget left": self.remaining})

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Wall cannot be copied or pickled; open it again from its source.")


def _replayed(stored: Stored) -> Release:
    release = Release.from_json(stored.body)
    return replace(release, certificate=release.certificate.replayed(stored.time))


def _check_name(name: Any) -> None:
    if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise QueryError(f"Expected name={name!r} to be a printable text.")
