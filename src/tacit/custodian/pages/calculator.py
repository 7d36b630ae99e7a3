"""What a question would cost, and how wide its interval would be: from public facts alone.

A few models, one column, tables of bounded size: what is computed for a form is bounded by it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.spec.checks import whole_number
from tacit.spec.columns import Categorical, Column, Integer, Real
from tacit.spec.errors import QueryError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.schema import Schema

_MOST_UNITS, _REPEATS, _MOST_LEVELS = 100_000, 10, 50
_one = threading.Lock()  # simulations take a processor: one at a time


@dataclass(frozen=True)
class Expected:
    """The price of a question and what to expect of its answer."""

    model: str
    cost: str
    rows: list[tuple[str, str, str]]  # quantity, half width, half width without noise
    assumptions: tuple[str, ...]
    units: int


def offered(schema: Schema) -> list[str]:
    """The columns that the calculator knows a model for."""
    return [column.name for column in schema.columns if _known(column)]


def _known(column: Column) -> bool:
    if isinstance(column, Categorical):
        return 2 <= len(column.labels) <= _MOST_LEVELS
    return isinstance(column, (Real, Integer))


def expected(schema: Schema, form: Mapping[str, str]) -> Expected:
    """Plan the question of a form, and simulate its answer."""
    from tacit.models import BetaBernoulli, DirichletCategorical, NormalModel
    from tacit.planning.plan import plan

    name = form.get("column", "")
    if name not in offered(schema):
        raise QueryError("Expected one of the columns that are listed.")
    column = schema[name]
    try:
        units = whole_number(
            int(form.get("units", "")), "the number of units", least=10, most=_MOST_UNITS
        )
    except ValueError:
        raise QueryError(
            f"Expected a number of units from 10 to {_MOST_UNITS}, in digits."
        ) from None
    how: Any = (
        Laplace(form.get("epsilon", ""))
        if form.get("noise") == "laplace"
        else Gaussian(form.get("epsilon", ""), form.get("delta", ""))
    )
    model: Any = NormalModel(name)
    if isinstance(column, Categorical):
        levels = column.labels
        model = DirichletCategorical(name)
        if len(levels) == 2:
            model = BetaBernoulli(name, success=str(levels[1]))
    epsilon = float(how.epsilon)
    planned = plan(model, schema, how)
    if not _one.acquire(timeout=2):  # who waits takes a thread that others need
        raise QueryError("The calculator is busy: try again in a moment.")
    try:
        found = planned.forecast(n_units=units, epsilons=[epsilon], repeats=_REPEATS)
    finally:
        _one.release()
    width = found.table["half_width"]
    quantities = [quantity for at, quantity in width.index if at == epsilon]
    rows = [
        (str(each), f"{width[epsilon, each]:.3g}", f"{width[float('inf'), each]:.3g}")
        for each in quantities
    ]
    return Expected(type(model).__name__, str(planned.cost), rows, found.assumptions, units)
