"""Noisy statistics once, then any inference for free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacit.methods.method import OneQuestion, Task
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import NOISE, Mechanism
from tacit.spec.queries import Query


@dataclass(frozen=True)
class Statistics(OneQuestion):
    """Release the model's statistic with noise; what a bare mechanism means in `fit`."""

    mechanism: Mechanism

    needs: ClassVar[tuple[str, ...]] = ("query",)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, NOISE):
            raise BudgetError(f"Expected Statistics(tacit.Laplace(...)), got {self.mechanism!r}.")

    def query(self, task: Task) -> Query:
        return task.model.query()
