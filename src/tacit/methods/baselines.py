"""Baselines: one noisy point estimate of a logistic regression, and no error bars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from tacit.methods.method import Asked, Once, Spending, Task
from tacit.spec.budget import Number
from tacit.spec.errors import ModelError
from tacit.spec.logistic import LogisticMinimum, Perturbed
from tacit.spec.mechanisms import Gaussian
from tacit.spec.protocols import LogisticModel
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class NoisyMinimum:
    """What both have in common."""

    epsilon: Decimal
    delta: Decimal
    regularizer: float | None

    _noise: ClassVar[Perturbed]

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        regularizer: float | None = None,
    ) -> None:
        mechanism = Gaussian(epsilon, delta)
        object.__setattr__(self, "epsilon", mechanism.epsilon)
        object.__setattr__(self, "delta", mechanism.delta)
        plain = float(regularizer) if isinstance(regularizer, Decimal) else regularizer
        object.__setattr__(self, "regularizer", plain)

    def plan(self, task: Task) -> Spending:
        for what in ("draws", "chains"):
            if task.options.get(what) is not None:
                raise ModelError(
                    f"Expected no {what}=: a noisy minimum is one point without error bars. "
                    "tacit.PrivateNewton(epsilon, delta) has them."
                )
        once = Once(Gaussian(self.epsilon, self.delta))
        return Spending((once,), (self.query(task.model, task.schema),))

    def start(self, task: Task) -> Asked:
        return Asked(task, self.query(task.model, task.schema))

    def ask(self, state: Asked) -> Query:
        return state.query

    def tell(self, state: Asked, release: Release) -> Asked:
        return replace(state, release=release)

    def posterior(self, state: Asked) -> Any:
        return state.task.model.posterior(state.release, **state.task.draws)

    def query(self, model: LogisticModel, schema: Schema) -> LogisticMinimum:
        """The minimum to ask for."""
        return LogisticMinimum(model.logistic(schema), self._noise, self.regularizer)


class ObjectivePerturbation(NoisyMinimum):
    """Minimise the loss plus a random slope (Chaudhuri et al. 2011, Kifer et al. 2012).

    The result is a point: its draws are all the same, and it says nothing of its own error. The
    noise is not Kifer's, which is for add_remove and larger than needed, but that of a proof which
    holds for both relations (wall/PROOFS.md).

    Parameters
    ----------
    epsilon, delta
        What it costs.
    regularizer
        The least loss is that of all rows together, plus regularizer |theta|^2 / 2. Default: by a
        public rule from the number of units, the number of coefficients and the noise.
    """

    _noise = "objective"


class OutputPerturbation(NoisyMinimum):
    """Minimise the loss, then add Gaussian noise to where it is least.

    The result is a point, as that of `ObjectivePerturbation`, and mostly a worse one.

    Parameters
    ----------
    epsilon, delta
        What it costs.
    regularizer
        As there. The noise in theta is in proportion to 1 / regularizer.
    """

    _noise = "output"
