"""What the analyses of a study cost together, beside what its ledger already holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.accounting.filters import Accountant, accountant
from tacit.fitting import resolve
from tacit.methods.method import Task
from tacit.methods.run import name_of_payment, seed_of
from tacit.planning.plan import FitPlan, needs_units, planned, without_rows
from tacit.spec.budget import Amounts, Budget, Left, Spent
from tacit.spec.errors import NameTakenError, OverBudgetError, TacitError
from tacit.spec.schema_changes import changed_since, schema_changes
from tacit.study.file import Analysis, Study

if TYPE_CHECKING:  # what a ledger says; read by the command line, not here
    from tacit.wall.chain import Chain


@dataclass(frozen=True)
class PlannedAnalysis:
    """An analysis, its plan, and what would be charged for it now: nothing for stored answers."""

    analysis: Analysis
    plan: FitPlan
    due: Spent
    adds: Amounts  # to what its ledger adds up

    @property
    def name(self) -> str:
        return self.analysis.name

    @property
    def stored(self) -> bool:
        """Whether all of it has been paid for."""
        return self.due == Spent()


@dataclass(frozen=True)
class StudyPlan:
    """The plans of several analyses, and what is left for them.

    Attributes
    ----------
    analyses
        In the study's order.
    spent, limit, adds_up
        What the ledger says, or would say if it were made now.
    """

    analyses: tuple[PlannedAnalysis, ...]
    spent: Amounts
    limit: Budget
    adds_up: Accountant

    @property
    def due(self) -> Spent:
        """What is to be paid now costs alone, added up."""
        total = Spent()
        for each in self.analyses:
            if each.due.epsilon > 0:
                total += Budget(each.due.epsilon, each.due.delta)
        return total

    def check(self) -> None:
        """Refuse what cannot be paid as a whole, before any of it is."""
        adds, left = self._adds, self.adds_up.limits(self.limit) - self.spent
        if not adds.within(left):
            raise OverBudgetError(str(adds), str(left))

    @property
    def left(self) -> Left:
        return self.adds_up.left(self.spent, self.limit)

    @property
    def after(self) -> Left:
        """What would be left."""
        return self.adds_up.left(self.spent + self._adds, self.limit)

    @property
    def filtered(self) -> str:
        """What is to be paid now and what is left, as the ledger's filter adds up."""
        left = self.adds_up.limits(self.limit) - self.spent
        return f"Added up by its filter: to pay now {self._adds}; left {left}."

    @property
    def _adds(self) -> Amounts:
        return sum((each.adds for each in self.analyses), Amounts.none(self.adds_up.names))


def plan_study(
    study: Study,
    analyses: Sequence[Analysis],
    chain: Chain | None,
    n_units: Callable[[], int | None],
) -> StudyPlan:
    """Check every analysis against the schema and the ledger, and add up what is due.

    Parameters
    ----------
    study, analyses
        The study and which of its analyses.
    chain
        What its ledger says, if there is one.
    n_units
        Called for the number of units where a method's plan depends on it and it is not public.
    """
    if chain is None:
        terms = {"neighbours": study.schema.neighbours, "composition": study.composition}
        adds_up, limit = accountant(terms, study.budget), study.budget
        spent = Amounts.none(adds_up.names)
    else:
        adds_up, limit, spent = chain.adds_up, chain.limit, chain.spent
    found = [_planned(study, analysis, chain, adds_up, n_units) for analysis in analyses]
    return StudyPlan(tuple(found), spent, limit, adds_up)


def _planned(
    study: Study,
    analysis: Analysis,
    chain: Chain | None,
    adds_up: Accountant,
    n_units: Callable[[], int | None],
) -> PlannedAnalysis:
    with _named(analysis):
        method: Any = resolve(analysis.model, without_rows(study.schema), analysis.how)
        units = n_units() if getattr(method, "needs_units", False) else None
        if needs_units(method, study.schema) and not units:
            units = None  # the plan says what to write
        seed = seed_of(analysis.name, analysis.options.get("seed"))
        task = Task(analysis.model, study.schema, units, {**analysis.options}, seed=seed)
        plan = planned(method, task, analysis.how)
        due, adds, parts = Spent(), Amounts.none(adds_up.names), len(plan.payments)
        for paid, price in enumerate(plan.payments):
            name = name_of_payment(analysis.name, paid, parts)
            claim = None if chain is None or name is None else chain.claims.get(name)
            if claim is None:
                due += price.cost
                adds += adds_up.cost(price.cost, price.event)
            elif price.question is not None and claim.question != price.question:
                assert chain is not None
                new = schema_changes(chain.schema, study.schema)
                since = changed_since(chain.changes, claim.mark.entry, new)
                raise NameTakenError(
                    f"The name {name!r} was used for a different question: choose another name "
                    f"for this analysis. Nothing was read or spent.{since}"
                )
        return PlannedAnalysis(analysis, plan, due, adds)


@contextmanager
def _named(analysis: Analysis) -> Iterator[None]:
    """Add to errors raised inside the name of the analysis, and that nothing was spent."""
    try:
        yield
    except TacitError as error:
        told = "" if "spent" in str(error) else " Nothing was spent."
        error.args = (f"Analysis {analysis.name!r}: {error}{told}",)
        raise
