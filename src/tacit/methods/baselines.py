"""Baselines: one noisy point estimate of a logistic regression, and no error bars."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tacit.methods.method import OneQuestion, Spending, Task
from tacit.spec.budget import Number
from tacit.spec.checks import set_fields
from tacit.spec.logistic import LogisticMinimum, Perturbed
from tacit.spec.mechanisms import Gaussian


@dataclass(frozen=True)
class NoisyMinimum(OneQuestion):
    """Options shared by both baselines."""

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    regularizer: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("logistic",)
    noise: ClassVar[Perturbed]

    def __post_init__(self) -> None:
        set_fields(self, epsilon=self.mechanism.epsilon, delta=self.mechanism.delta)

    @property
    def mechanism(self) -> Gaussian:
        return Gaussian(self.epsilon, self.delta)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self)
        return super().plan(task)

    def query(self, task: Task) -> LogisticMinimum:
        """The minimum to ask for."""
        return LogisticMinimum(task.model.logistic(task.schema), self.noise, self.regularizer)


class ObjectivePerturbation(NoisyMinimum):
    """Minimise the loss plus a random linear term (Chaudhuri et al. 2011, Kifer et al. 2012).

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

    noise = "objective"


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

    noise = "output"
