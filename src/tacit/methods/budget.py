"""The method for a model and a budget, chosen without the data."""

from __future__ import annotations

from typing import Any

from tacit.methods.newton import PrivateNewton
from tacit.methods.statistics import Statistics
from tacit.methods.vips import VIPS
from tacit.spec.budget import Budget
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.protocols import NewtonModel, Releaser, VariationalModel


def for_budget(model: Any, releaser: Releaser, budget: Budget) -> Statistics | PrivateNewton | VIPS:
    """What is most accurate within this budget.

    Statistics with the mechanism that adds less noise to them; `PrivateNewton` for a model with
    slopes and curvatures: its intervals know the noise, and in accuracy no other method was clearly
    ahead of it where they were measured side by side (docs/logistic-regression.md); `VIPS` for one
    with expected statistics alone.
    """
    if isinstance(model, NewtonModel):
        if budget.delta == 0:
            raise BudgetError(
                f"Expected a delta for {type(model).__name__}, for example "
                f"tacit.Budget({budget.epsilon}, 1e-6); without one there is "
                f"tacit.OnePosteriorSample({budget.epsilon}, truncation=5)."
            )
        return PrivateNewton(budget.epsilon, budget.delta)
    if isinstance(model, VariationalModel):
        return VIPS(budget.epsilon, budget.delta)
    laplace = Laplace(budget.epsilon)
    if budget.delta == 0:
        return Statistics(laplace)
    gaussian = Gaussian(budget.epsilon, budget.delta)
    return Statistics(
        min(laplace, gaussian, key=lambda m: releaser.quote(model.query(), m).variance)
    )
