"""Plans: checked, paid for at once, and the leases that answer their steps."""

from __future__ import annotations

from collections.abc import Callable

from tacit.accounting import plan_epsilon
from tacit.sources.data import check_header
from tacit.sources.loaded import Readings
from tacit.spec.budget import Budget, round_up
from tacit.spec.errors import BudgetError, LedgerError, QueryError
from tacit.spec.mechanisms import Exact, Exponential
from tacit.spec.plan import Plan, WithoutReplacement
from tacit.spec.schema import Schema
from tacit.spec.wire import digest
from tacit.wall.answers import Answers
from tacit.wall.ledger import Ledger
from tacit.wall.noise import os_entropy
from tacit.wall.steps.kept import AnswerStore, KeptLease
from tacit.wall.steps.lease import Lease


class Leases:
    """The leases of one wall."""

    def __init__(self, readings: Readings, answers: Answers, ledger: Ledger) -> None:
        self._readings, self._answers = readings, answers
        self._source, self._schema = readings.source, readings.schema
        self._ledger, self._kept = ledger, AnswerStore(ledger.store)

    def prepay(
        self, plan: Plan, name: str | None, units: Callable[[], int | None]
    ) -> Lease | KeptLease:
        """`Wall.prepay`; `units` counts them, for a plan that says how many there are."""
        check_plan(plan, self._schema, self._answers)
        if any(isinstance(steps.mechanism, Exact) for steps in plan.steps):
            raise BudgetError("Exact() adds no noise: only tacit.Public accepts it.")
        sampled = [steps.sampling for steps in plan.steps]
        known = {each.population for each in sampled if isinstance(each, WithoutReplacement)}
        if known and (wrong := known - {n := units()}):
            raise BudgetError(
                f"The plan is for a population of {min(wrong)} units, and there are {n}. "
                "Nothing was charged."
            )
        spent, accountant = plan_epsilon(plan, self._schema.neighbours)
        cost = Budget(round_up(max(spent, 1e-9)), plan.delta)
        event = {"plan": plan.to_dict()}
        question = digest([event, str(cost)])
        check_header(self._source)
        if name is not None:
            self._kept.ready()
        # proof: charge-then-read
        facts = {**event, **self._source.declared}
        charge = self._ledger.charge(cost, facts, name, question, takeover=True)
        certificate = self._ledger.certificate(
            self._schema, cost, accountant, plan.events, charge.mark
        )

        def lease(used: int) -> Lease:
            return Lease(
                plan, self._answers, self._readings.loaded(), certificate, os_entropy, used
            )

        if name is None:
            return lease(0)
        # proof: replay. Answers may be out that were in a file which is gone, or was made anew.
        begun = self._kept.begin(charge.mark.head)
        if begun != (charge.opened or self._ledger.open_lease(name, begun)):
            raise LedgerError(
                f"The answers that were given under the name {name!r} are gone from "
                f"{self._kept.store}: choose another name. Nothing was read or charged."
            )
        return KeptLease(plan, certificate, self._kept, begun, name, self._schema, lease)


def check_plan(plan: Plan, schema: Schema, answers: Answers) -> None:
    """Refuse what no query can use, and sampling that would tell a secret size."""
    if not isinstance(plan, Plan):
        raise BudgetError(
            f"Expected tacit.queries.Plan(tacit.queries.Steps(...), delta=...), got {plan!r}."
        )
    if len(answers.allow) == 1:
        raise QueryError("This wall answers statistics only: its ledger allows no steps or draws.")
    for steps in plan.steps:
        tier = "draws" if isinstance(steps.mechanism, Exponential) else "steps"
        if tier not in answers.allow:
            raise QueryError(
                f"The plan has steps of {tier}, which this wall does not allow: its ledger was "
                f"created with allow={answers.allow}. Nothing was charged."
            )
        if isinstance(steps.sampling, WithoutReplacement) and schema.neighbours != "replace_one":
            raise BudgetError(
                "WithoutReplacement needs the number of units, which is secret under "
                "add_remove: sample with tacit.subsampling.Poisson(rate)."
            )
