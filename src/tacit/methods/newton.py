"""A private Newton method: noisy gradients and Hessians, then a noise-aware posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tacit.accounting.plans import largest_plan
from tacit.methods.method import Spending, Task
from tacit.methods.pilots import Pilots, begun, pilot_steps, posterior_of
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import set_fields
from tacit.spec.errors import ModelError
from tacit.spec.mechanisms import Gaussian
from tacit.spec.plan import Plan
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class NewtonState:
    """The task, the pilot queries so far, and the last answer."""

    task: Task
    pilots: Pilots
    release: Release | None = None


@dataclass(frozen=True)
class PrivateNewton:
    """Find the mode by noisy Newton steps, and draw from a noise-aware posterior.

    Nine questions: six small ones find the mode and the scale of each parameter, three at the mode
    have most of the budget. Each releases the gradient and the Hessian of the log-likelihood at a
    public point, with Gaussian noise that the posterior includes. For models of at most 30
    parameters whose log-likelihood is nearly quadratic around its mode: `LogisticRegression`, and
    any `LogDensity`.

    Parameters
    ----------
    epsilon, delta
        What all questions cost together.
    """

    epsilon: Number | None = None
    delta: Number | None = None

    needs: ClassVar[tuple[str, ...]] = ("derivatives",)

    def __post_init__(self) -> None:
        mechanism = Gaussian(self.epsilon, self.delta)
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta)

    @classmethod
    def exact(cls) -> PrivateNewton:
        """Without noise, for public data: what `tacit.Exact()` means."""
        made = cls(1, "1e-6")
        set_fields(made, epsilon=None)
        return made

    def plan(self, task: Task) -> Spending:
        state = self.start(task)
        size = state.pilots.derivatives.size

        def made(x: float) -> Plan:
            return Plan(*pilot_steps(size, 1.0, x), delta=self.delta)

        if self.epsilon is None:
            plan = made(math.inf)
        else:
            plan = largest_plan(made, Budget(self.epsilon, self.delta), task.schema.neighbours)
        return Spending((plan,), (state.pilots.question,))

    def start(self, task: Task) -> NewtonState:
        derivatives = task.model.derivatives(task.schema)
        if derivatives is None:
            raise ModelError(
                "Expected at most 30 parameters for PrivateNewton: take "
                "tacit.methods.RidgeNewton(epsilon, delta) for a LogisticRegression, or "
                "tacit.methods.SGNHT(epsilon, delta). Nothing was read or spent."
            )
        return NewtonState(task, begun(derivatives, task.schema.max_rows_per_unit))

    def ask(self, state: NewtonState) -> BoundedSum:
        return state.pilots.question

    def tell(self, state: NewtonState, release: Release) -> NewtonState:
        return replace(state, pilots=state.pilots.told(release), release=release)

    def posterior(self, state: NewtonState) -> Any:
        assert state.release is not None
        pilots, task = state.pilots, state.task
        return posterior_of(pilots.law, pilots, state.release, task, pilots.warnings)
