"""Metropolis steps through the wall: one question a step, whether to go, or where to."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.methods.method import Spending, Task, noted, tempered_note
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.choice import Choice
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.mechanisms import Exact, Exponential, Gaussian
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.walks import Walk

Acceptance = Literal["barker", "penalty", "metropolis"]
_REACH = 6**0.5
_WIDTH = 2.4  # standard deviations of the target that a default step may be long
_LEAST = -1e5  # of a log prior ratio: as good as impossible, and still a number


@dataclass(frozen=True)
class PrivateMetropolis:
    """Run a Metropolis chain; each step asks the data, privately, whether to accept.

    Every step is released, so that the guarantee holds whether or not the chain has converged.

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
    candidates
        How many points "barker" may go to in one step, all within the length of a step of each
        other (Tjelmeland 2004). A choice among more points costs no more.
    step_size
        The length of the longest step, on the scale of `model.walk(schema)`. Default for
        "barker": about as long as the tempered target is wide, where the number of units is
        known, and long enough to cross the prior. For "penalty": such that the noise of the
        longest step has a standard deviation of 1, or less where the posterior is narrower.
    initial
        Where to begin, from public knowledge. Default: the middle of the prior.
    n_units
        About how many units there are, where that is secret.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    steps: int = 1000
    acceptance: Acceptance = "barker"
    candidates: int = 1
    step_size: float | None = None
    initial: Any = None
    n_units: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("walk",)
    needs_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        mechanism = Exponential(self.epsilon, self.delta)
        one_of(self.acceptance, "acceptance", get_args(Acceptance), ModelError)
        if self.acceptance == "penalty" and mechanism.delta == 0:
            raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
        if self.acceptance != "barker" and self.candidates != 1:
            raise ModelError(f'Expected candidates=1 beside acceptance="{self.acceptance}".')
        if self.step_size is not None and not 0 < float(self.step_size) < 1e6:
            raise ModelError(f"Expected step_size={self.step_size} > 0.")
        counts = {
            "steps": whole_number(self.steps, "steps", 1000, most=10**6),
            "candidates": whole_number(self.candidates, "candidates", 1, most=10**4),
        }
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta, **counts)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self, "steps=")
        state = self.start(task)
        _, plan = self._plan(state.walk, task)
        return Spending((plan,), (self.ask(state),))

    def start(self, task: Task) -> MetropolisState:
        walk = task.model.walk(task.schema)
        length, _ = self._plan(walk, task)
        clip = walk.max_gradient * length * task.schema.max_rows_per_unit
        return MetropolisState(task, walk, length, clip, self._first(walk))

    def ask(self, state: MetropolisState) -> Query:
        points, _ = self._proposed(state)
        if self.acceptance == "barker":
            return choice_query(state.walk, points, state.clip)
        kernel, between = state.walk.combinations(points, np.array([[-1.0, 1.0]]))
        # A shorter step says less, and has less noise.
        clip = state.clip * float(np.linalg.norm(points[1] - points[0])) / state.length
        return BoundedSum(kernel, state.walk.columns, size=1, clip=clip, state=between)

    def tell(self, state: MetropolisState, release: Release) -> MetropolisState:
        points, rng = self._proposed(state)
        answer = float(release.value[0])
        log_prior = log_ratios(state.walk, points)[1]
        match self.acceptance:
            case "barker":
                chosen = int(answer)
            case "penalty":
                penalty = release.noise[0].scale ** 2 / 2
                chosen = int(np.log(rng.random()) < answer + log_prior - penalty)
            case "metropolis":
                tempered = answer / self._public_temperature(state)
                chosen = int(np.log(rng.random()) < tempered + log_prior)
        here = points[chosen]
        state.trace.append(here)
        return replace(state, here=here, step=state.step + 1, release=release)

    def posterior(self, state: MetropolisState) -> Any:
        assert state.release is not None
        theta = np.array(state.trace[self.steps // 2 :])
        found = state.task.model.walk_posterior(state.release, theta)
        law = state.release.noise[0]
        temperature = law.scale if law.family == "draw" else 1.0
        if self.acceptance == "metropolis":
            temperature = self._public_temperature(state)
        return stamped(found.diagnosed(), self.steps, temperature)

    def _public_temperature(self, state: MetropolisState) -> float:
        """The temperature of Theorem C.1, for equal shares of the budget."""
        both = 2 if state.task.schema.neighbours == "replace_one" else 1
        return max(1.0, both * state.clip * self.steps / float(self.epsilon or 1))

    def _proposed(self, state: MetropolisState) -> tuple[np.ndarray, np.random.Generator]:
        """The present point and where the step may go to, with the randomness of the step."""
        rng = state.task.rng(state.step)
        if self.candidates > 1:
            return nearby(state.here, state.length, self.candidates, rng), rng
        there = state.here + _in_ball(1, state.here.size, state.length, rng)
        return np.concatenate([state.here[None], there]), rng

    def _first(self, walk: Walk) -> np.ndarray:
        start = walk.start if self.initial is None else self.initial
        here = np.atleast_1d(np.asarray(start, float))
        if here.shape != walk.start.shape or not np.all(np.isfinite(here)):
            raise ModelError(f"Expected initial as {walk.start.size} finite numbers.")
        return here

    def _plan(self, walk: Walk, task: Task) -> tuple[float, Plan]:
        """How long the longest step is, and what is paid for."""
        schema = task.schema
        most_rows = schema.max_rows_per_unit
        units = task.n_units or self.n_units or schema.max_units
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

        plan = largest_plan(make, Budget(self.epsilon, self.delta), schema.neighbours)
        if self.step_size is not None:
            return self.step_size, plan
        # The log-likelihood's curvature, and how far one unit moves a ratio for a step of length 1.
        information = None if units is None else units * most_rows * walk.curvature
        moved = walk.max_gradient * most_rows
        match plan.steps[0].mechanism:
            case Exponential(epsilon=each) if information is not None:
                both = 2 if schema.neighbours == "replace_one" else 1
                # At the length l the temperature is l both moved / epsilon: so wide is the target.
                balanced = _WIDTH**2 * both * moved / (information * float(each))
                untempered = min(float(each) / (both * moved), _WIDTH / information**0.5)
                drifting = 8 * walk.scale * walk.start.size**0.5 / self.steps
                return max(balanced, untempered, drifting), plan
            case Gaussian(noise_multiplier=float(multiplier)):
                width = walk.scale if information is None else _WIDTH / information**0.5
                return min(1 / (multiplier * moved), width), plan
        return crossing, plan


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


def choice_query(walk: Walk, points: np.ndarray, clip: float) -> Choice:
    """A choice among points by their posterior, the first of which is the present one."""
    kernel, state = walk.combinations(points, np.eye(len(points)), lifted=True)
    scores = BoundedSum(
        kernel, walk.columns, size=len(points), clip=clip, geometry="box", state=state
    )
    return Choice(scores, log_ratios(walk, points).tolist())


def log_ratios(walk: Walk, points: np.ndarray) -> np.ndarray:
    """Log prior densities of points, relative to the first."""
    log_prior = walk.log_prior(points)
    return np.clip(np.nan_to_num(log_prior - log_prior[0], nan=_LEAST), _LEAST, -_LEAST)


def nearby(here: np.ndarray, length: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """The present point and as many others, no two of them further apart than the length.

    All lie around a random centre that is as likely from each of them, so that to choose among
    them in proportion to a density leaves that density unchanged (Tjelmeland 2004).
    """
    centre = here + _in_ball(1, here.size, length / 2, rng)
    return np.concatenate([here[None], centre + _in_ball(count, here.size, length / 2, rng)])


def stamped(posterior: Any, steps: int, temperature: float, *notes: str) -> Any:
    """A chain's posterior, with the temperature of its target on the certificate."""
    public = f"every one of the {steps} steps is public: the guarantee needs no convergence"
    found = noted(posterior, public, tempered_note(temperature), *notes)
    return replace(found, noise="tempered" if temperature > 1 + 1e-6 else "aware")


def _in_ball(count: int, size: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    """Steps (step, coordinate) that are uniform in a ball."""
    direction = rng.standard_normal((count, size))
    lengths = radius * rng.random((count, 1)) ** (1 / size)
    return lengths * direction / np.linalg.norm(direction, axis=1, keepdims=True)
