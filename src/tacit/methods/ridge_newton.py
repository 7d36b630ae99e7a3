"""Private Newton steps with a ridge, for logistic regressions of many coefficients."""

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
from tacit.spec.packing import packed_size, symmetric
from tacit.spec.plan import Plan, Steps
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum

_WITH_HESSIAN = 3  # the Hessian is asked for in every third iteration: it changes little
_LATE = 0.6  # share of the iterations that are averaged at the end
# Shares of the budget: of the part of the gradient that
# does not depend on the parameters, of all iterations, of the last question. Chosen on simulated
# and public data (docs/logistic-regression.md); halving or doubling any of it changes little.
_CONSTANT, _PATH, _LAST = 0.35, 0.55, 0.1
# The share of the ridge that would be best under a normal prior with one variance, which shrinks
# coefficients of different sizes too much.
_RIDGE = 0.25


# The Hessian of a row weighs p (1 - p) and its gradient |p - 1/2|, whose squares with this factor
# sum to at most 1/4: next to a gradient of norm 1/2 the Hessian costs nothing.
CURVATURE = 2.0


@dataclass(frozen=True)
class RidgeState:
    """What was released so far, and where the next question is asked.

    `constant` is the answer to the first question, `gradients` and `curvatures` those of the
    iterations, `last` the gradient of the last question. `spread` is the standard deviation of the
    coefficients as estimated so far, `prior` before that.
    """

    task: Task
    design: Design
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
class RidgeNewton:
    """Find many coefficients by noisy Newton steps with a ridge that is learnt on the way.

    Each iteration releases the gradient of the log-likelihood at a public point, and in every third
    the Hessian, with Gaussian noise that the posterior includes. Where noise hides most directions
    a common, unknown variance of the coefficients decides how far to follow them. For a
    `LogisticRegression` of more than 30 coefficients; with fewer, `PrivateNewton` has smaller
    errors and intervals that cover (docs/logistic-regression.md).

    Parameters
    ----------
    epsilon, delta
        What all questions cost together.
    steps
        How many iterations before the last question.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    steps: int = 24

    needs: ClassVar[tuple[str, ...]] = ("design",)

    def __post_init__(self) -> None:
        mechanism = Gaussian(self.epsilon, self.delta)
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta)
        whole_number(self.steps, "steps", 1, most=1000)

    @classmethod
    def exact(cls) -> RidgeNewton:
        """Without noise, for public data: what `tacit.Exact()` means."""
        made = cls(1, "1e-6")
        set_fields(made, epsilon=None)
        return made

    def plan(self, task: Task) -> Spending:
        state = self.start(task)
        question = _question(state, "gradient_and_hessian")  # the largest form
        return Spending((self._plan(state, question.numbers),), (question,))

    def start(self, task: Task) -> RidgeState:
        design = task.model.design(task.schema, squares=True)
        prior = task.model.prior_scale * design.radius
        return RidgeState(task, design, prior, prior, np.zeros(design.size))

    def ask(self, state: RidgeState) -> BoundedSum:
        done = len(state.gradients)
        if state.constant is None:
            return _question(state, "gradient_constant")
        if done < self.steps and done % _WITH_HESSIAN:
            return _question(state, "gradient_varying")
        return _question(state, "gradient_and_hessian")

    def tell(self, state: RidgeState, release: Release) -> RidgeState:
        done = len(state.gradients)
        if state.constant is None:
            return replace(state, constant=release)
        gradient = _gradient(state.constant, release, state.theta)
        if done == self.steps:
            return replace(state, last=gradient, release=release)
        gradients, curvatures = (*state.gradients, gradient), state.curvatures
        if not done % _WITH_HESSIAN:
            curvatures = (*curvatures, _curvature(release, len(state.theta)))
        variance = state.constant.noise[0].scale ** 2  # anticipated: last question + half the path
        variance *= 1 + _CONSTANT / (_LAST + _PATH / 2)
        recent = Curvature.mean(curvatures[len(curvatures) // 2 :])
        ridge = _RIDGE * best_ridge(recent, variance, state.spread)
        theta = next_iterate(gradient, recent, ridge)
        spread, _ = estimate_spread(theta, recent, variance, ridge, state.prior)
        if len(gradients) == self.steps:  # the last question: at the mean of late iterates
            late = [each.at for each in self._late(gradients)[1:]]
            theta = np.mean([*late, theta], axis=0)
        return replace(
            state, theta=theta, spread=spread, ridge=ridge, gradients=gradients,
            curvatures=curvatures,
        )  # fmt: skip

    def posterior(self, state: RidgeState) -> Any:
        assert state.constant is not None
        assert state.release is not None
        assert state.last is not None
        sampling, late = state.task.sampling, self._late(state.gradients)
        last = NoisyGradient.mean([*late, state.last], state.constant.noise[0].scale ** 2)
        recent = state.curvatures[-max(1, round(0.4 * len(state.curvatures))) :]
        curvature = Curvature.mean([*recent, _curvature(state.release, len(last.at))])
        theta = draw(last, curvature, state.ridge, state.prior, sampling)
        return state.task.model.vector_posterior(state.release, theta, sampling.noise)

    def _late(self, gradients: tuple[NoisyGradient, ...]) -> tuple[NoisyGradient, ...]:
        """The gradients near the end of the iterations."""
        return gradients[self.steps - math.ceil(_LATE * self.steps) :]

    def _plan(self, state: RidgeState, numbers: int) -> Plan:
        """All questions, with as little noise as the budget affords."""
        parts = (
            (1, _CONSTANT, len(state.theta)),
            (self.steps, _PATH, numbers),
            (1, _LAST, numbers),
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


def _question(state: RidgeState, kernel: str) -> BoundedSum:
    """A part of the gradient at theta: gradient = constant part - varying part.

    The Hessian, packed and times `CURVATURE`, follows the gradient in one block, each unit's
    contribution bounded as a whole: it has no more noise than the gradient alone, and takes longer.
    """
    model, schema, size = state.task.model, state.task.schema, state.design.size
    encoding = state.design.encoding
    return BoundedSum(
        Kernel(f"logistic.{kernel}"),
        (*model.features, model.target),
        size=size + packed_size(size) if kernel.endswith("hessian") else size,
        # A row's gradient is y - 1/2 against x, less p - 1/2: both within 1/2 whatever the row.
        clip=0.5 * schema.max_rows_per_unit,
        state=encoding if kernel.endswith("constant") else (state.theta, *encoding),
    )


def _gradient(constant: Release, varying: Release, theta: np.ndarray) -> NoisyGradient:
    """The gradient of the log-likelihood at theta, constant part - varying part."""
    value = constant.value - varying.value[: len(theta)]
    return NoisyGradient(theta, value, constant.noise[0].scale ** 2 + varying.noise[0].scale ** 2)


def _curvature(release: Release, size: int) -> Curvature:
    _, matrix = unpacked(release.value, size)
    least = 1e-9 * (1 + abs(float(np.trace(matrix))))  # without noise there is still rounding
    return Curvature(matrix, max(release.noise[0].scale / CURVATURE, least))


def unpacked(vector: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradient and the negative Hessian from a released `gradient_and_hessian`."""
    return vector[:size], symmetric(vector[size:] / CURVATURE, size)
