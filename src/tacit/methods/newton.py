"""A private Newton method: noisy gradients and Hessians, then a noise-aware posterior."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.infer.newton import (
    Curvature,
    NoisyGradient,
    best_ridge,
    draw,
    estimate_spread,
    next_iterate,
)
from tacit.methods.method import Spending, Task
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import set_fields, whole_number
from tacit.spec.design import Design
from tacit.spec.kernels import Kernel
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.packing import symmetric
from tacit.spec.plan import Plan, Steps
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum

_WITH_HESSIAN = 3  # the Hessian is asked for in every third iteration: it changes little
_LATE = 0.6  # share of the iterations that are averaged at the end


@dataclass(frozen=True)
class NewtonSchedule:
    """How many iterations there are, and which shares of the budget their parts have.

    `constant` is for the part of the gradient that does not depend on the parameters, `path` for
    all iterations, `last` for the last question. Chosen on simulated and public data
    (docs/logistic-regression.md); halving or doubling any of it changes little. `ridge` is a share
    of the one that would be best under a normal prior with one variance, which shrinks coefficients
    of different sizes too much. `averaged` is whether late gradients are averaged.
    """

    iterations: int
    constant: float
    path: float
    last: float
    ridge: float
    averaged: bool


# With few coefficients every curvature exceeds its noise, and one precise gradient at the end is
# best; with many most do not, and the iterations are what finds them.
_FEW = NewtonSchedule(12, constant=0.3, path=0.35, last=0.35, ridge=0.75, averaged=False)
_MANY = NewtonSchedule(24, constant=0.35, path=0.55, last=0.1, ridge=0.25, averaged=True)
_MOST_OF_FEW = 30


# The Hessian of a row weighs p (1 - p) and its gradient |p - 1/2|, whose squares with this factor
# sum to at most 1/4: next to a gradient of norm 1/2 the Hessian costs nothing.
CURVATURE = 2.0


@dataclass(frozen=True)
class NewtonState:
    """What was released so far, and where the next question is asked.

    `constant` is the answer to the first question, `gradients` and `curvatures` those of the
    iterations, `last` the gradient of the last question. `spread` is the standard deviation of the
    coefficients as estimated so far, `prior` before that.
    """

    task: Task
    design: Design
    schedule: NewtonSchedule
    prior: float
    spread: float
    theta: np.ndarray
    ridge: float = 0.0
    constant: Release | None = None
    gradients: tuple[NoisyGradient, ...] = ()
    curvatures: tuple[Curvature, ...] = ()
    last: NoisyGradient | None = None
    release: Release | None = None


@dataclass(frozen=True)
class PrivateNewton:
    """Find the parameters by noisy Newton steps, and draw from their noise-aware posterior.

    Each iteration releases the gradient of the log-likelihood at a public point, and in every third
    the Hessian, with Gaussian noise that the posterior includes (docs/logistic-regression.md says
    where its intervals cover, and where not). For `LogisticRegression`, whose kernels it uses.

    Parameters
    ----------
    epsilon, delta
        What all questions cost together.
    steps
        How many iterations before the last question. Default: 12, or 24 for more than 30
        coefficients.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    steps: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("design",)

    def __post_init__(self) -> None:
        mechanism = Gaussian(self.epsilon, self.delta)
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta)
        if self.steps is not None:
            whole_number(self.steps, "steps", 1, most=1000)

    @classmethod
    def exact(cls) -> PrivateNewton:
        """Without noise, for public data: what `tacit.Exact()` means."""
        made = cls(1, "1e-6")
        set_fields(made, epsilon=None)
        return made

    def plan(self, task: Task) -> Spending:
        state = self.start(task)
        question = _question(state, "gradient_and_hessian")  # the largest form
        return Spending((self._plan(state, question.numbers),), (question,))

    def start(self, task: Task) -> NewtonState:
        design = task.model.design(task.schema, squares=True)
        schedule = _FEW if design.size <= _MOST_OF_FEW else _MANY
        if self.steps is not None:
            schedule = replace(schedule, iterations=self.steps)
        prior = task.model.prior_scale * design.radius
        return NewtonState(task, design, schedule, prior, prior, np.zeros(design.size))

    def ask(self, state: NewtonState) -> BoundedSum:
        done = len(state.gradients)
        if state.constant is None:
            return _question(state, "gradient_constant")
        if done < state.schedule.iterations and done % _WITH_HESSIAN:
            return _question(state, "gradient_varying")
        return _question(state, "gradient_and_hessian")

    def tell(self, state: NewtonState, release: Release) -> NewtonState:
        schedule, done = state.schedule, len(state.gradients)
        if state.constant is None:
            return replace(state, constant=release)
        gradient = _gradient(state.constant, release, state.theta)
        if done == schedule.iterations:
            return replace(state, last=gradient, release=release)
        gradients, curvatures = (*state.gradients, gradient), state.curvatures
        if not done % _WITH_HESSIAN:
            curvatures = (*curvatures, _curvature(release, len(state.theta)))
        variance = state.constant.noise[0].scale ** 2  # anticipated: last question + half the path
        variance *= 1 + schedule.constant / (schedule.last + schedule.path / 2)
        recent = Curvature.mean(curvatures[len(curvatures) // 2 :])
        ridge = schedule.ridge * best_ridge(recent, variance, state.spread)
        theta = next_iterate(gradient, recent, ridge)
        spread, _ = estimate_spread(theta, recent, variance, ridge, state.prior)
        if len(gradients) == schedule.iterations:  # the last question: at the mean of late iterates
            late = [each.at for each in _late(gradients, schedule)[1:]]
            theta = np.mean([*late, theta], axis=0)
        return replace(
            state, theta=theta, spread=spread, ridge=ridge, gradients=gradients,
            curvatures=curvatures,
        )  # fmt: skip

    def posterior(self, state: NewtonState) -> Any:
        assert state.constant is not None
        assert state.release is not None
        assert state.last is not None
        sampling, last = state.task.sampling, state.last
        if state.schedule.averaged:
            late = _late(state.gradients, state.schedule)
            last = NoisyGradient.mean([*late, last], state.constant.noise[0].scale ** 2)
        recent = state.curvatures[-max(1, round(0.4 * len(state.curvatures))) :]
        curvature = Curvature.mean([*recent, _curvature(state.release, len(last.at))])
        theta = draw(last, curvature, state.ridge, state.prior, sampling)
        return state.task.model.vector_posterior(state.release, theta, sampling.noise)

    def _plan(self, state: NewtonState, numbers: int) -> Plan:
        """All questions, with as little noise as the budget affords."""
        schedule = state.schedule
        parts = (
            (1, schedule.constant, len(state.theta)),
            (schedule.iterations, schedule.path, numbers),
            (1, schedule.last, numbers),
        )
        if self.epsilon is None:
            steps = (Steps(count, Exact(), numbers=most) for count, _, most in parts)
            return Plan(*steps, delta=self.delta)

        def less_noise(x: float) -> Plan:
            noise = (Gaussian(noise_multiplier=(n / share) ** 0.5 / x) for n, share, _ in parts)
            steps = (Steps(n, law, numbers=most) for (n, _, most), law in zip(parts, noise))
            return Plan(*steps, delta=self.delta)

        budget = Budget(self.epsilon, self.delta)
        return largest_plan(less_noise, budget, state.task.schema.neighbours)


def _question(state: NewtonState, kernel: str) -> BoundedSum:
    """A part of the gradient at theta: gradient = constant part - varying part.

    The Hessian, packed and times `CURVATURE`, follows the gradient in one block, each unit's
    contribution bounded as a whole: it has no more noise than the gradient alone, and takes longer.
    """
    model, schema, size = state.task.model, state.task.schema, state.design.size
    encoding = state.design.encoding
    return BoundedSum(
        Kernel(f"logistic.{kernel}"),
        (*model.features, model.target),
        size=size + size * (size + 1) // 2 if kernel.endswith("hessian") else size,
        # A row's gradient is y - 1/2 against x, less p - 1/2: both within 1/2 whatever the row.
        clip=0.5 * schema.max_rows_per_unit,
        state=encoding if kernel.endswith("constant") else (state.theta, *encoding),
    )


def _gradient(constant: Release, varying: Release, theta: np.ndarray) -> NoisyGradient:
    """The gradient of the log-likelihood at theta, constant part - varying part."""
    value = constant.value - varying.value[: len(theta)]
    return NoisyGradient(theta, value, constant.noise[0].scale ** 2 + varying.noise[0].scale ** 2)


def _late(
    gradients: tuple[NoisyGradient, ...], schedule: NewtonSchedule
) -> tuple[NoisyGradient, ...]:
    """The gradients near the end of the iterations."""
    return gradients[schedule.iterations - math.ceil(_LATE * schedule.iterations) :]


def _curvature(release: Release, size: int) -> Curvature:
    _, matrix = unpacked(release.value, size)
    least = 1e-9 * (1 + abs(float(np.trace(matrix))))  # without noise there is still rounding
    return Curvature(matrix, max(release.noise[0].scale / CURVATURE, least))


def unpacked(vector: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradient and the negative Hessian from a released `gradient_and_hessian`."""
    return vector[:size], symmetric(vector[size:] / CURVATURE, size)
