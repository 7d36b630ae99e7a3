"""A lease: steps that have been paid for, asked for one by one, with no I/O between them.

What was charged is fixed by the plan: how many steps, the noise relative to a unit's bound, who
takes part, and the geometry; for a draw its epsilon. The map, its state and the clip may change
from step to step, and so may what a draw is given.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacit.accounting.ranges import temperature
from tacit.accounting.sums import MOST_STEPS, laplace_noise, multiplied_noise
from tacit.spec.certificate import Certificate
from tacit.spec.choice import Choice
from tacit.spec.draws import ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import BudgetError, QueryError
from tacit.spec.hidden_states import StatePaths, StateProfiles
from tacit.spec.maps import SqlMap
from tacit.spec.mechanisms import Exact, Exponential, Gaussian, Laplace
from tacit.spec.plan import (
    Geometry,
    Plan,
    Steps,
)
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.wall._genuine import genuine
from tacit.wall.answers._choice import ResolvedChoice, resolve_choice
from tacit.wall.answers._draw import ResolvedDraw, resolve_draw
from tacit.wall.answers._states import ResolvedStates, resolve_states
from tacit.wall.chance._batches import Batches
from tacit.wall.chance._noise import Statistic, Words, draw_bulk
from tacit.wall.data._source import shielded
from tacit.wall.sums._sums import Data, ResolvedSum, resolve_sum

# Which contributions are of a geometry: a box and a simplex lie in the non-negative orthant.
_WITHIN: dict[Geometry, set[str]] = {
    "free": {"free", "nonnegative", "box", "simplex"},
    "nonnegative": {"nonnegative", "box", "simplex"},
    "box": {"box"},
    "simplex": {"simplex"},
}

_MOST_KNOWN = 64
Drawn = ResolvedChoice | ResolvedStates | ResolvedDraw


class _Answerable(NamedTuple):
    """A question that was checked, its noise, and copies of both for whoever asked.

    What has left the wall may be changed, and what it was copied from may not.
    """

    resolved: ResolvedSum
    noise: tuple[Noise, ...]
    certificate: Certificate
    shown_query: BoundedSum
    shown_noise: tuple[Noise, ...]


class Lease:
    """Steps of a plan that have been charged for. Made by `prepay` of a `Wall` or a `Public`.

    Formal guarantee: all steps together cost what the plan was charged, whatever is asked in them
    and however the questions depend on earlier answers. A lease cannot be copied, pickled, used in
    another process or made to answer more often than it was paid for.
    """

    def __init__(
        self,
        plan: Plan,
        schema: Schema,
        load: Callable[[tuple[str, ...]], Data],
        read: Callable[[ResolvedStates | ResolvedDraw], Statistic],
        certificate: Certificate,
        words: Words,
    ) -> None:
        self._plan, self._shown_plan = plan, genuine(plan)
        self._schema, self._shown_schema = schema, genuine(schema)
        self._load = load
        self._read = read
        self._certificate = certificate
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._used = 0
        self._known: dict[Any, _Answerable] = {}
        self._latest: tuple[Any, _Answerable] | None = None
        self._data: dict[tuple[str, ...], Data] = {}
        self._choices: dict[Any, ResolvedChoice] = {}
        self._tables: dict[Counts, Statistic] = {}
        self._words = words
        self._batches = Batches(words)

    @property
    def plan(self) -> Plan:
        return self._shown_plan

    @property
    def certificate(self) -> Certificate:
        return self._certificate

    @property
    def steps_left(self) -> int:
        return self._plan.count - self._used

    def release(self, query: Query) -> Release:
        """The next step: one noisy sum over the units that take part in it, or one draw."""
        check_process(self._process)
        with self._lock:
            steps = self._next()
            if type(query) is not BoundedSum:
                return self._draw(genuine(query), steps)
            answerable = self._resolve(query, steps)
            resolved, noise = answerable.resolved.at(query.state), answerable.noise
            check_process(self._process)  # a state that was read may have forked, too
            # proof: lease-count. A step is used up before the data are touched.
            self._used += 1
            data = self._rows(resolved.query.columns)
            units = self._batches.next(steps.sampling, data.units)
            pending = shielded(lambda: resolved.start(data, units, noise))
            # Drawn while the map runs. An empty batch gets its noise like any other.
            drawn = [
                np.zeros(bound.numbers, np.int64)
                if law.family == "none"
                else draw_bulk(law, bound.numbers, self._words)
                for law, bound in zip(noise, resolved.bounds, strict=True)
            ]
            total = shielded(pending)
        check_process(self._process)
        return Release(
            steps=total + (drawn[0] if len(drawn) == 1 else np.concatenate(drawn)),
            blocks=resolved.blocks,
            noise=answerable.shown_noise,
            n=data.units if self._schema.neighbours == "replace_one" else None,
            schema=self._shown_schema,
            query=answerable.shown_query.at(resolved.query.state),
            certificate=answerable.certificate,
        )

    def _draw(self, query: Query, steps: Steps) -> Release:
        """One draw, at the temperature that the step's epsilon affords."""
        resolved = self._drawable(query)
        noise = resolved.at_temperature(_temperature(steps, resolved))
        self._used += 1  # proof: lease-count
        if isinstance(resolved, ResolvedChoice):
            data = self._rows(resolved.scores.query.columns)
            statistic = shielded(lambda: resolved.evaluate_on(data))
        else:
            if resolved.counts not in self._tables:
                self._tables[resolved.counts] = shielded(lambda: self._read(resolved))
            statistic = self._tables[resolved.counts]
        drawn = shielded(lambda: resolved.sample(statistic, noise, self._words))
        check_process(self._process)
        return Release(
            steps=drawn,
            blocks=resolved.blocks,
            noise=genuine(noise),
            n=statistic.units if self._schema.neighbours == "replace_one" else None,
            schema=self._shown_schema,
            query=genuine(resolved.query),
            certificate=self._certificate.assuming(resolved.assumptions),
        )

    def _drawable(self, query: Query) -> Drawn:
        match query:
            case Choice(scores=scores):
                parts = scores.map, scores.columns, scores.blocks
                if parts not in self._choices:
                    if len(self._choices) >= _MOST_KNOWN:
                        self._choices.clear()
                    self._choices[parts] = resolve_choice(query, self._schema)
                return self._choices[parts].at(query)
            case StatePaths() | StateProfiles():
                return resolve_states(query, self._schema)
            case ConjugateDraw(draws=1, law=TruncatedDirichlet()):
                return resolve_draw(query, self._schema)
            case _:
                raise QueryError(
                    "Expected a BoundedSum with a NumbaMap, SparseMap or JaxMap in a lease, or a "
                    "single draw; ask for anything else with release() of the wall."
                )

    def _next(self) -> Steps:
        before = 0
        for steps in self._plan.steps:
            before += steps.count
            if self._used < before:
                return steps
        raise BudgetError(
            f"All {self._plan.count} steps of this lease are used. Nothing was read; "
            "prepay another plan to go on."
        )

    def _resolve(self, query: BoundedSum, steps: Steps) -> _Answerable:
        if isinstance(query.map, SqlMap):
            raise QueryError(
                "Expected a BoundedSum with a NumbaMap, SparseMap or JaxMap in a lease; "
                "ask for a SqlMap with release() of the wall."
            )
        parts = (steps, query.map, query.columns, query.blocks)
        # The same question at another state is the common case: recognised without hashing it.
        if self._latest is None or any(a is not b for a, b in zip(parts, self._latest[0])):
            own = genuine(query)
            key = (steps, own.map, own.columns, own.blocks)
            if key not in self._known:
                if len(self._known) >= _MOST_KNOWN:  # a clip that adapts leaves others behind
                    self._known.clear()
                self._known[key] = self._checked(own, steps)
            self._latest = parts, self._known[key]
        return self._latest[1]

    def _checked(self, query: BoundedSum, steps: Steps) -> _Answerable:
        """What the query needs, if it is within what was paid for."""
        resolved = resolve_sum(query, self._schema)
        for bound in resolved.bounds:
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
        certificate = self._certificate.assuming(resolved.assumptions)
        noise = _noise(steps, resolved)
        return _Answerable(resolved, noise, certificate, genuine(query), genuine(noise))

    def _rows(self, columns: tuple[str, ...]) -> Data:
        if columns not in self._data:
            self._data[columns] = shielded(lambda: self._load(columns))
        return self._data[columns]

    def __repr__(self) -> str:
        return f"Lease({self.steps_left} of {self._plan.count} steps left)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Lease cannot be copied or pickled: its steps would be taken twice.")


def check_process(process: int) -> None:
    """What one process has paid for is not answered in two."""
    if os.getpid() != process:
        raise BudgetError("Nothing is answered after a fork: what was paid once would be twice.")


def _noise(steps: Steps, resolved: ResolvedSum) -> tuple[Noise, ...]:
    match steps.mechanism:
        case Gaussian(noise_multiplier=float(multiplier)):
            return multiplied_noise(multiplier, resolved.bounds)
        case Laplace() as laplace:
            return laplace_noise(laplace, resolved.bounds, resolved.schema.neighbours, MOST_STEPS)
        case Exact():
            return resolved.exact()
        case _:
            raise QueryError("Expected steps with Gaussian or Laplace noise for a sum.")


def _temperature(steps: Steps, resolved: Drawn) -> float:
    match steps.mechanism:
        case Exponential(epsilon=epsilon):
            return temperature(resolved.span, epsilon)
        case Exact():
            return 1.0
        case _:
            raise QueryError("Expected steps with tacit.Exponential(epsilon) for a draw.")
