"""Noisy statistics once, then any inference for free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tacit.methods.method import Asked, Once, Spending, Task
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import NOISE, Mechanism
from tacit.spec.queries import Query
from tacit.spec.release import Release


@dataclass(frozen=True)
class Statistics:
    """Release the model's statistic with noise; what a bare mechanism means in `fit`."""

    mechanism: Mechanism

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, NOISE):
            raise BudgetError(f"Expected Statistics(tacit.Laplace(...)), got {self.mechanism!r}.")

    def plan(self, task: Task) -> Spending:
        return Spending((Once(self.mechanism),), (task.model.query(),))

    def start(self, task: Task) -> Asked:
        return Asked(task, task.model.query())

    def ask(self, state: Asked) -> Query:
        return state.query

    def tell(self, state: Asked, release: Release) -> Asked:
        return replace(state, release=release)

    def posterior(self, state: Asked) -> Any:
        return state.task.model.posterior(state.release, **state.task.draws)
