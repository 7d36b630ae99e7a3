"""Noisy statistics once, then any inference for free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

from tacit.methods.common import ask_once
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import NOISE, Mechanism
from tacit.spec.protocols import Releaser, StatisticsModel
from tacit.spec.queries import Query
from tacit.spec.sampling import SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class Statistics:
    """Release the model's statistic with noise; what a bare mechanism means in `fit`."""

    mechanism: Mechanism

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, NOISE):
            raise BudgetError(f"Expected Statistics(tacit.Laplace(...)), got {self.mechanism!r}.")

    def question(self, model: StatisticsModel, schema: Schema) -> tuple[Query, Mechanism]:
        """What is asked of the wall, and how it is paid for."""
        return model.query(), self.mechanism

    def run(
        self,
        model: StatisticsModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Any:
        return ask_once(self, model, releaser, name, sampling)
