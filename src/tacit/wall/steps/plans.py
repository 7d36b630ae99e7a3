"""Checks of a plan before it is charged, and the facts of its steps."""

from __future__ import annotations

from typing import Any

from tacit.spec.errors import BudgetError, QueryError
from tacit.spec.mechanisms import Exponential, Gaussian, Laplace
from tacit.spec.plan import Plan, WithoutReplacement
from tacit.spec.schema import Schema
from tacit.wall.answers import Answers


def plan_events(plan: Plan) -> tuple[dict[str, Any], ...]:
    """The facts of a lease's steps, for its certificate."""
    families = {Gaussian: "discrete_gaussian", Laplace: "discrete_laplace", Exponential: "draw"}
    return tuple(
        {"noise": families.get(type(steps.mechanism), "none"), **steps.to_dict()}
        for steps in plan.steps
    )


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


def check_population(plan: Plan, units: int | None) -> None:
    """Refuse a plan for another number of units than there are, which is public here."""
    for steps in plan.steps:
        match steps.sampling:
            case WithoutReplacement(population=population) if population != units:
                raise BudgetError(
                    f"The plan is for a population of {population} units, and there are {units}. "
                    "Nothing was charged."
                )
