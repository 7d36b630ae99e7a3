"""What a fit would cost and how noisy it would be, from public facts alone. Opens no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.accounting import plan_epsilon
from tacit.fitting import How, check_model, resolve
from tacit.methods.method import Once, Spending, Task
from tacit.public import Public
from tacit.spec.budget import Budget, Spent, round_up
from tacit.spec.errors import ModelError
from tacit.spec.mechanisms import Exact
from tacit.spec.moments import Moments
from tacit.spec.plan import Plan
from tacit.spec.queries import Counts, Query
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class FitPlan:
    """What `fit` would do: the method, its payments and the tiers that a wall must allow.

    Attributes
    ----------
    method
        The method that `how` stands for, with its options.
    cost
        What all payments cost together.
    steps
        The number of questions.
    noise
        For each form of question, the standard deviation of one of its numbers, on the scale on
        which it is released: None for draws, which have no noise added.
    tiers
        What the wall must allow.
    """

    method: Any
    cost: Spent
    steps: int
    noise: Mapping[str, float | None]
    tiers: tuple[str, ...]

    def __str__(self) -> str:
        name = type(self.method).__name__
        lines = [
            f"{name}: {self.steps} question{'s' * (self.steps > 1)}, {self.cost}",
            f"the wall must allow: {', '.join(self.tiers)}",
        ]
        for question, sd in self.noise.items():
            text = "a draw, no noise added" if sd is None else f"noise of sd {sd:.3g} on a number"
            lines.append(f"{question}: {text}")
        return "\n".join(lines)


def plan(
    model: Any,
    schema: Schema,
    how: How,
    *,
    n_units: int | None = None,
    **options: Any,
) -> FitPlan:
    """What fitting the model would cost. Nothing is opened, read or charged.

    Parameters
    ----------
    model, how
        As for `fit`.
    schema
        The public description of the data.
    n_units
        About how many units there are. Needed by methods whose plan depends on it (VIPS), where the
        schema has no max_units.
    **options
        Sampling options, as for `fit`.

    Examples
    --------
    >>> import tacit
    >>> schema = tacit.Schema(tacit.Categorical("ill", ["no", "yes"]), neighbours="replace_one")
    >>> print(tacit.plan(tacit.BetaBernoulli("ill", success="yes"), schema, tacit.Laplace(0.5)))
    Statistics: 1 question, epsilon 0.5, delta 0
    the wall must allow: statistics
    Counts: noise of sd 5.64 on a number
    """
    if not isinstance(schema, Schema):
        raise ModelError(f"Expected a tacit.Schema, got {type(schema).__name__}.")
    check_model(model)
    names = [column.name for column in schema.columns]
    empty = Public({name: [] for name in (*names, schema.unit) if name is not None}, schema)
    method: Any = resolve(model, empty, how)
    if getattr(method, "needs_units", False) and not (n_units or schema.max_units):
        raise ModelError(f"Expected n_units=, about how many there are, to plan {how!r}.")
    task = Task(model, schema, n_units, options)
    spending: Spending = method.plan(task)
    cost = Spent()
    for payment in spending.payments:
        cost += _cost(payment, spending.questions[0], schema, empty)
    steps = sum(1 if isinstance(p, Once) else p.count for p in spending.payments)
    tiers = {"statistics", *(_tier(question) for question in spending.questions)}
    return FitPlan(
        method,
        cost,
        steps,
        {type(query).__name__: _sd(query, spending, empty) for query in spending.questions},
        tuple(tier for tier in ("statistics", "steps", "draws") if tier in tiers),
    )


def _cost(payment: Once | Plan, query: Query, schema: Schema, empty: Public) -> Budget:
    if isinstance(payment, Once):
        return empty.price(query, payment.mechanism)
    if any(isinstance(steps.mechanism, Exact) for steps in payment.steps):
        raise ModelError("Exact() has no price: only tacit.Public accepts it.")
    spent, _ = plan_epsilon(payment, schema.neighbours)
    return Budget(round_up(max(spent, 1e-9)), payment.delta)


def _tier(query: Query) -> str:
    match query:
        case Counts() | Moments():
            return "statistics"
        case BoundedSum():
            return "steps"
        case _:
            return "draws"


def _sd(query: Query, spending: Spending, empty: Public) -> float | None:
    """The noise of the last payment that such a question can have."""
    match spending.payments[-1]:
        case Once(mechanism=mechanism):
            variance = empty.quote(query, mechanism).variance
            return None if variance is None else variance**0.5
        case Plan(steps=steps):
            multiplier = getattr(steps[-1].mechanism, "noise_multiplier", None)
            if not isinstance(query, BoundedSum) or multiplier is None:
                return None
            return float(multiplier) * max(bound.clip for bound in query.bounds)
