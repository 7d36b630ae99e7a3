"""What a fit would cost and how noisy it would be, from public facts alone. Opens no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tacit.accounting import plan_epsilon
from tacit.fitting import How, check_model, resolve
from tacit.methods.method import Once, Spending, Task
from tacit.planning.forecast import Forecast, epsilon_for, forecast
from tacit.public import Public
from tacit.spec.budget import Budget, Spent, round_up
from tacit.spec.errors import ModelError
from tacit.spec.html import facts_html
from tacit.spec.mechanisms import Exact
from tacit.spec.moments import Moments
from tacit.spec.plan import Plan
from tacit.spec.queries import Counts, Query, asked_of
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.wire import digest


class Price(NamedTuple):
    """What one payment costs alone, and the digest of what is asked by which a ledger knows it.

    `question` is None where what is asked follows from earlier answers. `event` is what a ledger
    would record, from which its composition has what the payment adds.
    """

    cost: Budget
    question: str | None
    event: Mapping[str, Any]


@dataclass(frozen=True)
class FitPlan:
    """What `fit` would do: the method, its payments and the tiers that a wall must allow.

    Attributes
    ----------
    method
        The method that `how` stands for, with its options.
    cost
        What all payments cost, each alone, added up.
    steps
        The number of questions.
    noise
        For each form of question, the standard deviation of one of its numbers, on the scale on
        which it is released: None for draws, which have no noise added.
    tiers
        What the wall must allow.
    payments
        The price of each payment, in order.

    How accurate the fit would be is a matter of simulation: `forecast`, and `epsilon_for`, which
    says how much a given accuracy would cost.
    """

    method: Any
    cost: Spent
    steps: int
    noise: Mapping[str, float | None]
    tiers: tuple[str, ...]
    payments: tuple[Price, ...] = ()
    request: Request | None = field(default=None, repr=False, compare=False)

    def forecast(self, **options: Any) -> Forecast:
        """How wide intervals would be, and how often right, at several epsilons: see `Forecast`.

        Parameters are those of `tacit.planning.forecast.forecast`: n_units, guess, epsilons,
        repeats, level, seed.
        """
        return forecast(*self._known(), **self._options(options))

    def epsilon_for(self, half_width: float, quantity: str | None = None, **options: Any) -> float:
        """About how much epsilon makes an interval this narrow, as in "plus or minus 2 points".

        Parameters
        ----------
        half_width
            Half the width of a 90% interval (or of `level=`): 0.02 for two percentage points.
        quantity
            Which, such as "p" or "coef[age]"; default: the widest of the main variable.
        **options
            As for `forecast`.
        """
        return epsilon_for(*self._known(), half_width, quantity=quantity, **self._options(options))

    def _known(self) -> tuple[Any, Schema, Any]:
        assert self.request is not None
        return self.request.model, self.request.schema, self.request.how

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        assert self.request is not None
        given = {"n_units": self.request.n_units, "sampling": self.request.options}
        return {**given, **options}

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

    def _repr_html_(self) -> str:
        facts = {
            "method": type(self.method).__name__,
            "questions": self.steps,
            "cost": self.cost,
            "the wall must allow": ", ".join(self.tiers),
        }
        return facts_html("FitPlan", facts)


class Request(NamedTuple):
    """What a plan was asked for."""

    model: Any
    schema: Schema
    how: Any
    n_units: int | None
    options: dict[str, Any]


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
    >>> model = tacit.BetaBernoulli("ill", success="yes")
    >>> planned = tacit.plan(model, schema, tacit.Laplace(0.5), n_units=1000)
    >>> print(planned)
    Statistics: 1 question, epsilon 0.5, delta 0
    the wall must allow: statistics
    Counts: noise of sd 5.64 on a number

    How much epsilon for plus or minus 3 points, if about a tenth is ill?

    >>> planned.epsilon_for(0.03, guess={"ill": {"no": 0.9, "yes": 0.1}}, repeats=4) < 1
    True
    """
    if not isinstance(schema, Schema):
        raise ModelError(f"Expected a tacit.Schema, got {type(schema).__name__}.")
    check_model(model)
    method: Any = resolve(model, without_rows(schema), how)
    return planned(method, Task(model, schema, n_units, options), how)


def without_rows(schema: Schema) -> Public:
    """Return an empty table of this schema, to ask what questions would cost."""
    names = [column.name for column in schema.columns]
    return Public({name: [] for name in (*names, schema.unit) if name is not None}, schema)


def needs_units(method: Any, schema: Schema) -> bool:
    """Whether a method's plan depends on the number of units, and nobody has said it."""
    said = getattr(method, "n_units", None) or schema.max_units
    return getattr(method, "needs_units", False) and not said


def planned(method: Any, task: Task, how: How) -> FitPlan:
    """Return the plan of a method for a task."""
    schema = task.schema
    if needs_units(method, schema) and not task.n_units:
        raise ModelError(f"Expected n_units=, about how many there are, to plan {how!r}.")
    empty = without_rows(schema)
    spending: Spending = method.plan(task)
    for query, mechanism in spending.trials:
        empty.quote(query, mechanism)  # what the wall would refuse
    cost = Spent()
    prices = tuple(_price(payment, spending.questions[0], empty) for payment in spending.payments)
    for price in prices:
        cost += price.cost
    if sum(isinstance(payment, Once) for payment in spending.payments) > 1:
        prices = tuple(price._replace(question=None) for price in prices)
    steps = sum(1 if isinstance(p, Once) else p.count for p in spending.payments)
    tiers = {"statistics", *(_tier(question) for question in spending.questions)}
    return FitPlan(
        method,
        cost,
        steps,
        {type(query).__name__: _sd(query, spending, empty) for query in spending.questions},
        tuple(tier for tier in ("statistics", "steps", "draws") if tier in tiers),
        prices,
        Request(task.model, schema, how, task.n_units, dict(task.options)),
    )


def _price(payment: Once | Plan, query: Query, empty: Public) -> Price:
    if isinstance(payment, Once):
        cost, event = empty.price(query, payment.mechanism), empty.event(query, payment.mechanism)
        question = digest([event, str(cost), asked_of(query, empty.schema)])
        return Price(cost, question, empty.recorded(query, payment.mechanism))
    if any(isinstance(steps.mechanism, Exact) for steps in payment.steps):
        raise ModelError("Exact() has no price: only tacit.Public accepts it.")
    spent, _ = plan_epsilon(payment, empty.schema.neighbours)
    cost = Budget(round_up(max(spent, 1e-9)), payment.delta)
    event = {"plan": payment.to_dict()}
    return Price(cost, digest([event, str(cost)]), event)


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
