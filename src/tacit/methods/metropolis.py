"""Metropolis steps through the wall: one question a step, whether to go."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.methods.method import Spending, Task
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.choice import Choice
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.mechanisms import Exact, Exponential, Gaussian
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.walks import Walk

Acceptance = Literal["barker", "penalty", "metropolis"]
_REACH = 6**0.5


@dataclass(frozen=True)
class PrivateMetropolis:
    """Run a Metropolis chain; each step asks the data, privately, whether to accept.

    Parameters
    ----------
    epsilon, delta
        What all steps cost together.
    steps
        How many; the first half is not used.
    acceptance
        "barker": the wall draws whether to go, with probability sigmoid(log ratio / temperature).
        Going and staying both cost at most epsilon a step, which a Metropolis rule cannot promise.
        The chain's target is a tempered posterior.
        "penalty": the wall releases the log ratio with Gaussian noise, and the test subtracts half
        its variance (Ceperley and Dewing 1999; Yildirim and Ermis 2019), so that the target is the
        posterior. It needs small steps and a start near the posterior.
        "metropolis": the rule of Foulds et al. (2016, Theorem C.1), for public data alone. Its
        (epsilon, delta) needs a bound on how often moves are rejected for every neighbouring data
        set, which no run of the chain can check.
    step_size
        The length of the longest step, on the scale of `model.walk(schema)`. Default: such that
        "barker" can cross the prior, and that the noise of "penalty" has a standard deviation
        of about 1.
    initial
        Where to begin, from public knowledge. Default: the middle of the prior.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    steps: int = 1000
    acceptance: Acceptance = "barker"
    step_size: float | None = None
    initial: Any = None

    needs: ClassVar[tuple[str, ...]] = ("walk",)

    def __post_init__(self) -> None:
        mechanism = Exponential(self.epsilon, self.delta)
        one_of(self.acceptance, "acceptance", get_args(Acceptance), ModelError)
        if self.acceptance == "penalty" and mechanism.delta == 0:
            raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
        if self.step_size is not None and not 0 < float(self.step_size) < 1e6:
            raise ModelError(f"Expected step_size={self.step_size} > 0.")
        steps = whole_number(self.steps, "steps", 1000, most=10**6)
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta, steps=steps)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self, "steps=")
        state = self.start(task)
        _, plan = self._plan(state.walk, task)
        return Spending((plan,), (self._question(state, state.here, 0.0),))

    def start(self, task: Task) -> MetropolisState:
        walk = task.model.walk(task.schema)
        length, _ = self._plan(walk, task)
        clip = walk.max_gradient * length * task.schema.max_rows_per_unit
        return MetropolisState(task, walk, length, clip, self._first(walk))

    def ask(self, state: MetropolisState) -> Query:
        there, log_prior, _ = state.proposal()
        return self._question(state, there, log_prior)

    def tell(self, state: MetropolisState, release: Release) -> MetropolisState:
        there, log_prior, rng = state.proposal()
        answer = float(release.value[0])
        match self.acceptance:
            case "barker":
                accepted = answer == 1
            case "penalty":
                penalty = release.noise[0].scale ** 2 / 2
                accepted = np.log(rng.random()) < answer + log_prior - penalty
            case "metropolis":
                both = 2 if state.task.schema.neighbours == "replace_one" else 1
                # The temperature of Theorem C.1, for equal shares of the budget.
                temperature = max(1.0, both * state.clip * self.steps / float(self.epsilon or 1))
                accepted = np.log(rng.random()) < answer / temperature + log_prior
        here = there if accepted else state.here
        state.trace.append(here)
        return replace(state, here=here, step=state.step + 1, release=release)

    def posterior(self, state: MetropolisState) -> Any:
        theta = np.array(state.trace[self.steps // 2 :])
        return state.task.model.walk_posterior(state.release, theta)

    def _question(self, state: MetropolisState, there: np.ndarray, log_prior: float) -> Query:
        walk, here, clip = state.walk, state.here, state.clip
        if self.acceptance == "barker":
            return barker_query(walk, here, there, clip, log_prior)
        between = walk.state(here, there)
        return BoundedSum(walk.ratio, walk.columns, size=1, clip=clip, state=between)

    def _first(self, walk: Walk) -> np.ndarray:
        start = walk.start if self.initial is None else self.initial
        here = np.atleast_1d(np.asarray(start, float))
        if here.shape != walk.start.shape or not np.all(np.isfinite(here)):
            raise ModelError(f"Expected initial as {walk.start.size} finite numbers.")
        return here

    def _plan(self, walk: Walk, task: Task) -> tuple[float, Plan]:
        """How long the longest step is, and what is paid for."""
        crossing = walk.scale * _REACH / self.steps**0.5
        if self.acceptance == "metropolis":
            if task.private:
                raise BudgetError(
                    'acceptance="metropolis" is for tacit.Public alone: Theorem C.1 needs the '
                    "probability of a rejection to be at most delta for every data set, which "
                    'cannot be checked. Use the default, acceptance="barker".'
                )
            plan = Plan(Steps(self.steps, Exact()), delta=self.delta or "1e-6")
            return self.step_size or crossing, plan
        barker = self.acceptance == "barker"

        def make(x: float) -> Plan:
            if barker:
                return Plan(Steps(self.steps, Exponential(x)), delta=self.delta)
            noise = Gaussian(noise_multiplier=1 / x)
            return Plan(Steps(self.steps, noise, numbers=1), delta=self.delta)

        plan = largest_plan(make, Budget(self.epsilon, self.delta), task.schema.neighbours)
        if barker:
            return self.step_size or crossing, plan
        mechanism = plan.steps[0].mechanism
        assert isinstance(mechanism, Gaussian)
        noise = (mechanism.noise_multiplier or 1.0) * walk.max_gradient
        noise_limited = 1 / (noise * task.schema.max_rows_per_unit)
        return self.step_size or min(crossing, noise_limited), plan


def barker_query(
    walk: Walk, here: np.ndarray, there: np.ndarray, clip: float, log_prior: float
) -> Choice:
    """Whether to stay (0) or to go (1), given the log prior ratio of going."""
    scores = BoundedSum(
        Kernel(f"{walk.ratio.name}.two_sided"),
        walk.columns,
        size=2,
        clip=clip,
        geometry="box",
        state=walk.state(here, there),
    )
    return Choice(scores, (0.0, log_prior))


@dataclass(frozen=True)
class MetropolisState:
    """Where the chain is, and where it has been."""

    task: Task
    walk: Walk
    length: float
    clip: float
    here: np.ndarray
    step: int = 0
    release: Release | None = None
    trace: list[np.ndarray] = field(default_factory=list)

    def proposal(self) -> tuple[np.ndarray, float, np.random.Generator]:
        """The proposed point, its log prior ratio, and the randomness of the step."""
        rng = self.task.rng(self.step)
        there = self.here + _in_ball(self.here.size, self.length, rng)
        return there, self.walk.log_prior(there) - self.walk.log_prior(self.here), rng


def _in_ball(size: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    """A uniform step of at most this length."""
    direction = rng.standard_normal(size)
    return radius * rng.random() ** (1 / size) * direction / np.linalg.norm(direction)
