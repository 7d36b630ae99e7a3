"""Metropolis steps through the wall: one question a step, whether to go."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.methods.common import refuse_sampling, whole_number
from tacit.methods.progress import counted
from tacit.spec.budget import Budget, Number
from tacit.spec.choice import Choice
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.mechanisms import Exact, Exponential, Gaussian
from tacit.spec.plan import Plan, Steps
from tacit.spec.protocols import Releaser, WalkModel
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.walks import Walk

Acceptance = Literal["barker", "penalty", "metropolis"]
_REACH = 6**0.5


@dataclass(frozen=True)
class PrivateMetropolis:
    """Walk through the parameters; at each step the data say, privately, whether to go.

    Parameters
    ----------
    epsilon, delta
        What all steps cost together.
    steps
        How many; the first half is not used.
    acceptance
        "barker": the wall draws whether to go, with probability sigmoid(log ratio / temperature).
        Going and staying both cost at most epsilon a step, which a Metropolis rule cannot promise.
        The walk's target is hotter than the posterior.
        "penalty": the wall releases the log ratio with Gaussian noise, and the test subtracts half
        its variance (Ceperley and Dewing 1999; Yildirim and Ermis 2019), so that the target is the
        posterior. It needs small steps and a start near the posterior.
        "metropolis": the rule of Foulds et al. (2016, Theorem C.1), for public data alone. Its
        (epsilon, delta) needs a bound on how often moves are rejected for every neighbouring data
        set, which no run of the chain can check.
    step
        The length of the longest step, on the scale on which the model walks. Default: such that
        "barker" can cross the prior, and that the noise of "penalty" has a standard deviation
        of about 1.
    start
        Where to begin, from public knowledge. Default: the middle of the prior.
    """

    epsilon: Decimal
    delta: Decimal
    steps: int
    acceptance: Acceptance
    step: float | None
    start: Any

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        steps: int | None = None,
        acceptance: Acceptance = "barker",
        step: float | None = None,
        start: Any = None,
    ) -> None:
        mechanism = Exponential(epsilon, delta)
        if acceptance not in get_args(Acceptance):
            raise ModelError(f"Expected acceptance={acceptance!r} among {get_args(Acceptance)}.")
        if acceptance == "penalty" and mechanism.delta == 0:
            raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
        if step is not None and not 0 < float(step) < 1e6:
            raise ModelError(f"Expected step={step} > 0.")
        object.__setattr__(self, "epsilon", mechanism.epsilon)
        object.__setattr__(self, "delta", mechanism.delta)
        object.__setattr__(self, "steps", whole_number(steps, "steps", 1000, most=10**6))
        object.__setattr__(self, "acceptance", acceptance)
        object.__setattr__(self, "step", None if step is None else float(step))
        object.__setattr__(self, "start", start)

    def run(
        self,
        model: WalkModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Any,
    ) -> Any:
        refuse_sampling(sampling, "PrivateMetropolis(steps=...)")
        if name is not None:
            raise ModelError("PrivateMetropolis takes no name=: its steps cannot be replayed.")
        walk = model.walk(releaser.schema)
        here = self._start(walk)
        length, plan = self._plan(walk, releaser)
        clip = walk.slope * length * releaser.schema.max_rows_per_unit
        rule = Rule(self.acceptance, walk, clip, self._heat(clip, releaser.schema))
        barker = self.acceptance == "barker"
        trial: Any = Exponential(1) if barker else Gaussian(1, "1e-6")
        releaser.quote(rule.question(here, here, 0.0), trial)  # refused before it is paid for
        lease = releaser.prepay(plan)
        rng = np.random.default_rng(sampling.get("seed"))
        places, release = np.empty((self.steps, here.size)), None
        for i in counted(self.steps, "Steps", progress):
            there = here + _in_ball(here.size, length, rng)
            log_prior = walk.log_prior(there) - walk.log_prior(here)
            release = lease.release(rule.question(here, there, log_prior))
            if rule.goes(release, log_prior, rng):
                here = there
            places[i] = here
        return model.walk_posterior(release, places[self.steps // 2 :])

    def _start(self, walk: Walk) -> np.ndarray:
        here = walk.start if self.start is None else np.atleast_1d(np.asarray(self.start, float))
        if here.shape != walk.start.shape or not np.all(np.isfinite(here)):
            raise ModelError(f"Expected start as {walk.start.size} finite numbers.")
        return here

    def _plan(self, walk: Walk, releaser: Releaser) -> tuple[float, Plan]:
        """How long the longest step is, and what is paid for."""
        budget, relation = Budget(self.epsilon, self.delta), releaser.schema.neighbours
        crossing = walk.scale * _REACH / self.steps**0.5
        match self.acceptance:
            case "barker":
                plan = largest_plan(
                    lambda x: Plan(Steps(self.steps, Exponential(x)), delta=self.delta),
                    budget,
                    relation,
                )
                return self.step or crossing, plan
            case "penalty":
                plan = largest_plan(
                    lambda x: Plan(
                        Steps(self.steps, Gaussian(noise_multiplier=1 / x), numbers=1),
                        delta=self.delta,
                    ),
                    budget,
                    relation,
                )
                (steps,) = plan.steps
                assert isinstance(steps.mechanism, Gaussian)
                multiplier = steps.mechanism.noise_multiplier or 1.0
                rows = releaser.schema.max_rows_per_unit
                quiet = 1 / (multiplier * walk.slope * rows)
                return self.step or min(crossing, quiet), plan
            case "metropolis":
                if releaser.remaining is not None:
                    raise BudgetError(
                        'acceptance="metropolis" is for tacit.Public alone: Theorem C.1 needs the '
                        "probability of a rejection to be at most delta for every data set, which "
                        'cannot be checked. Use the default, acceptance="barker".'
                    )
                plan = Plan(Steps(self.steps, Exact()), delta=self.delta or Decimal("1e-6"))
                return self.step or crossing, plan

    def _heat(self, clip: float, schema: Schema) -> float:
        """Of Theorem C.1, with the budget shared out evenly; the wall has its own for a choice."""
        both = 2 if schema.neighbours == "replace_one" else 1
        return max(1.0, both * clip * self.steps / float(self.epsilon))


@dataclass(frozen=True)
class Rule:
    """What is asked at a step, and what the answer means."""

    acceptance: Acceptance
    walk: Walk
    clip: float
    heat: float

    def question(self, here: np.ndarray, there: np.ndarray, log_prior: float) -> Query:
        columns, state = self.walk.columns, self.walk.state(here, there)
        if self.acceptance == "barker":
            scores = BoundedSum(
                Kernel(f"{self.walk.ratio.name}.two_sided"),
                columns,
                size=2,
                clip=self.clip,
                geometry="box",
                state=state,
            )
            return Choice(scores, (0.0, log_prior))
        return BoundedSum(self.walk.ratio, columns, size=1, clip=self.clip, state=state)

    def goes(self, release: Release, log_prior: float, rng: np.random.Generator) -> bool:
        answer = float(release.value[0])
        match self.acceptance:
            case "barker":
                return answer == 1
            case "penalty":
                return np.log(rng.random()) < answer + log_prior - release.noise[0].scale ** 2 / 2
            case "metropolis":
                return np.log(rng.random()) < answer / self.heat + log_prior


def _in_ball(size: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    """A uniform step of at most this length."""
    way = rng.standard_normal(size)
    return radius * rng.random() ** (1 / size) * way / np.linalg.norm(way)
