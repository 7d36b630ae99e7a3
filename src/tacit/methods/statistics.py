"""Noisy statistics once, then any inference for free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacit.methods.method import OneQuestion, Spending, Task
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import NOISE, Exact, Mechanism
from tacit.spec.queries import Query


@dataclass(frozen=True)
class Statistics(OneQuestion):
    """Release the model's statistic with noise; what a bare mechanism means in `fit`."""

    mechanism: Mechanism

    needs: ClassVar[tuple[str, ...]] = ("query",)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, NOISE):
            raise BudgetError(f"Expected Statistics(tacit.Laplace(...)), got {self.mechanism!r}.")

    def plan(self, task: Task) -> Spending:
        if hasattr(task.model, "check"):
            exact = isinstance(self.mechanism, Exact)
            task.model.check(task.schema, noise=task.options.get("noise", "aware"), exact=exact)
        return super().plan(task)

    def query(self, task: Task) -> Query:
        return task.model.query()
