"""A lease: steps that have been paid for, asked for one by one, with no I/O between them.

What was charged is fixed by the plan: how many steps, the noise relative to a unit's bound, who
takes part, and the geometry; for a draw its epsilon. The kernel, its state and the clip may change
from step to step, and so may what a draw is given.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacit.accounting.calibrate import laplace_noise, step_noise
from tacit.accounting.draws import temperature
from tacit.sources.loaded import Loaded
from tacit.sources.workers import LOST
from tacit.spec.certificate import Certificate
from tacit.spec.errors import BudgetError, QueryError, SourceError
from tacit.spec.mechanisms import Exact, Exponential, Gaussian, Laplace
from tacit.spec.plan import Geometry, Plan, Poisson, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.sums import BoundedSum
from tacit.wall.answers import Answers, publish
from tacit.wall.noise import Entropy, draw
from tacit.wall.shield import shielded, without_locals
from tacit.wall.steps.batches import Batches
from tacit.wall.steps.sums import BoundedSums, resolve_sum

# Which contributions are of a geometry: a box and a simplex lie in the non-negative orthant, and
# no two outer products have a negative inner product either.
_WITHIN: dict[Geometry, set[str]] = {
    "free": {"free", "nonnegative", "box", "simplex", "outer"},
    "nonnegative": {"nonnegative", "box", "simplex", "outer"},
    "box": {"box"},
    "simplex": {"simplex"},
    "outer": {"outer"},
}


class _Checked(NamedTuple):
    """A sum that is within what was paid for, and its noise."""

    sums: BoundedSums
    noise: tuple[Noise, ...]
    certificate: Certificate


class Lease:
    """Steps of a plan that have been charged for. Made by `prepay` of a `Wall` or a `Public`.

    Formal guarantee: all steps together cost what the plan was charged, whatever is asked in them
    and however the questions depend on earlier answers. A lease cannot be copied, pickled, used
    after a fork or made to answer more often than it was paid for.
    """

    def __init__(
        self,
        plan: Plan,
        answers: Answers,
        loaded: Loaded,
        certificate: Certificate,
        entropy: Entropy,
        used: int = 0,
    ) -> None:
        self.plan, self.certificate = plan, certificate
        self._answers, self.loaded, self._entropy = answers, loaded, entropy
        self._schema = loaded.schema
        self._process, self._lock, self._used = os.getpid(), threading.Lock(), used
        self._latest: tuple[Any, _Checked] | None = None
        self._batches = Batches(entropy)

    @property
    def steps_left(self) -> int:
        return self.plan.count - self._used

    @without_locals
    def release(self, query: Query) -> Release:
        """The next step: one noisy sum over the units that take part in it, or one draw."""
        if os.getpid() != self._process:
            raise BudgetError("A lease cannot be used after a fork: its steps were paid once.")
        with self._lock:
            steps = self._next()
            if isinstance(query, BoundedSum):
                return self._sum(query, steps)
            return self._draw(query, steps)

    def _sum(self, query: BoundedSum, steps: Steps) -> Release:
        checked = self._check(query, steps)
        sums, noise = checked.sums.at(query.state), checked.noise
        self._used += 1  # proof: lease-count. A step is used up before the data are touched.
        data = shielded(lambda: self.loaded.spread(query.columns))
        units = self._batches.next(steps.sampling, data.units)
        pending = shielded(lambda: sums.start(data, units, noise))
        # Drawn while the kernel runs. An empty batch gets its noise like any other.
        drawn = [draw(law, b.numbers, self._entropy) for law, b in zip(noise, sums.bounds)]
        total = shielded(pending)
        if total is None:  # proof: workers. No noise was added to anything, and nothing goes out.
            raise SourceError(LOST)
        total += drawn[0] if len(drawn) == 1 else np.concatenate(drawn)
        return publish(sums, noise, data.units, total, checked.certificate)

    def _draw(self, query: Query, steps: Steps) -> Release:
        """One draw, at the temperature that the step's epsilon affords."""
        answer: Any = self._answers.resolve(query, self._schema)
        if not getattr(answer, "stepwise", False):
            raise QueryError(
                "Expected a BoundedSum or a single draw in a lease; ask for anything else with "
                "release() of the wall."
            )
        noise = answer.at_temperature(_temperature(steps, answer.span))
        self._used += 1  # proof: lease-count
        statistic = shielded(lambda: answer.evaluate_step(self.loaded))
        drawn = shielded(lambda: answer.sample(statistic, noise, self._entropy))
        certificate = self.certificate.assuming(answer.assumptions)
        return publish(answer, noise, statistic.units, drawn, certificate)

    def _next(self) -> Steps:
        before = 0
        for steps in self.plan.steps:
            before += steps.count
            if self._used < before:
                return steps
        raise BudgetError(
            f"All {self.plan.count} steps of this lease are used. Nothing was read; "
            "prepay another plan to go on."
        )

    def _check(self, query: BoundedSum, steps: Steps) -> _Checked:
        """The query with its noise, if it is within what was paid for."""
        parts = (steps, query.kernel, query.columns, query.blocks)
        # The same question at another state is the common case: recognised without comparing it.
        if self._latest is None or any(a is not b for a, b in zip(parts, self._latest[0])):
            if BoundedSum not in self._answers.resolvers:
                self._answers.resolve(query, self._schema)  # refuses
            sums = resolve_sum(query, self._schema)
            for bound in sums.bounds:
                if bound.geometry not in _WITHIN[steps.geometry]:
                    raise QueryError(
                        f"The steps were paid for with geometry={steps.geometry!r}; "
                        f"this query has {bound.geometry!r}."
                    )
            if query.numbers > steps.numbers:
                raise QueryError(
                    f"The steps were paid for with at most {steps.numbers} numbers each; "
                    f"this query has {query.numbers}."
                )
            certificate = self.certificate.assuming(sums.assumptions)
            self._latest = parts, _Checked(sums, _noise(steps, sums), certificate)
        return self._latest[1]

    def __repr__(self) -> str:
        return f"Lease({self.steps_left} of {self.plan.count} steps left)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Lease cannot be copied or pickled: its steps would be taken twice.")


def _noise(steps: Steps, sums: BoundedSums) -> tuple[Noise, ...]:
    match steps.mechanism:
        case Gaussian(noise_multiplier=float(multiplier)):
            sampled = isinstance(steps.sampling, Poisson)
            by = sums.schema.neighbours
            return step_noise(multiplier, sums.bounds, steps.geometry, sampled, by)
        case Laplace() as laplace:
            return laplace_noise(laplace, sums.bounds, sums.schema.neighbours)
        case Exact():
            return sums.exact()
        case _:
            raise QueryError("Expected steps with Gaussian or Laplace noise for a sum.")


def _temperature(steps: Steps, span: float) -> float:
    match steps.mechanism:
        case Exponential(epsilon=epsilon):
            return temperature(span, epsilon)  # proof: choice-chain
        case Exact():
            return 1.0
        case _:
            raise QueryError("Expected steps with tacit.queries.Exponential(epsilon) for a draw.")
