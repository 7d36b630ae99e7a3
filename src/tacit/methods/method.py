"""What every method is: a value that plans what to spend, asks, and is told.

A method holds its options alone. What it needs to know of a fit is the `Task`; what it has learnt
so far is a state, a record of its own. What it asks and makes of an answer follows from the state,
so that a run that is repeated with the same answers comes to the same end: that is how runs are
replayed and resumed (`tacit.methods.run`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from tacit.spec.errors import ModelError
from tacit.spec.mechanisms import Exact, Exponential, Gaussian, Mechanism
from tacit.spec.plan import Plan
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum

State = TypeVar("State")


@dataclass(frozen=True)
class Task:
    """Public facts about a fit, before anything is asked.

    Attributes
    ----------
    model, schema
        What is to be fitted, and to which table.
    n_units
        How many units there are, where that is public; None under add_remove.
    options
        The sampling options that were given to `fit`: draws, chains, seed, noise.
    private
        Whether the data are behind a wall. Public data allow noise without a guarantee.
    seed
        Where the public randomness of a method comes from: proposals, and the noise of its steps
        that is not for privacy.
    """

    model: Any
    schema: Schema
    n_units: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    private: bool = True
    seed: int = 0

    @property
    def sampling_options(self) -> dict[str, Any]:
        """The options with a seed: a run under a name gives the same draws again."""
        given = self.options.get("seed")
        return {**self.options, "seed": self.seed if given is None else given}

    @cached_property
    def sampling(self) -> Sampling:
        return Sampling.of(self.sampling_options)  # type: ignore[arg-type]

    def rng(self, step: int) -> np.random.Generator:
        """The public randomness of one step: the same whenever it is taken again."""
        return np.random.default_rng([self.seed, step])

    def known_units(self, method: Any) -> int:
        """About how many units there are, from what is public."""
        known = self.n_units or method.n_units or self.schema.max_units
        if not known:
            raise ModelError(
                "Expected about how many units there are, which is secret under add_remove: write "
                f"{type(method).__name__}(..., n_units=10_000) or Schema(..., max_units=10_000)."
            )
        return known

    def refuse_draws(self, method: Any, option: str | None = None) -> None:
        """Refuse draws= and chains= where the number of draws is part of what is paid for."""
        for what in ("draws", "chains"):
            if self.options.get(what) is not None:
                said = "" if option is None else f", as many as {option} says"
                raise ModelError(
                    f"Expected no {what}= beside {type(method).__name__}: its draws are those that "
                    f"are paid for{said}."
                )


@dataclass(frozen=True)
class Once:
    """One release of the next question, paid for by itself."""

    mechanism: Mechanism


Payment = Once | Plan


@dataclass(frozen=True)
class Spending:
    """What a method pays for, in order, and one question of each form that it will ask.

    Questions are looked at before anything is paid: what the wall would refuse is refused then.
    """

    payments: tuple[Payment, ...]
    questions: tuple[Query, ...]

    @property
    def trials(self) -> tuple[tuple[Query, Mechanism], ...]:
        """Each question with a mechanism that it can be quoted for: its own, or one of its form."""
        found: list[Mechanism] = [p.mechanism for p in self.payments if isinstance(p, Once)]
        steps = [some for p in self.payments if isinstance(p, Plan) for some in p.steps]
        exact = any(isinstance(some.mechanism, Exact) for some in steps)
        for query in self.questions[len(found) :]:
            noise = Gaussian(1, "1e-6") if isinstance(query, BoundedSum) else Exponential(1)
            found.append(Exact() if exact else noise)
        return tuple(zip(self.questions, found, strict=True))


class Method(Protocol[State]):
    """A way to spend. `start`, `ask`, `tell` and `posterior` are run in a loop by `run`.

    `needs` names the functions that a model must have, "this or that" where one of two will do.
    What they are given and return is said in the method's own file. A method whose answers are
    large and whose state is not has `save` and `resume` too (`vips.py`): the state in place of old
    answers under a name.
    """

    needs: ClassVar[tuple[str, ...]]

    def plan(self, task: Task) -> Spending:
        """What will be paid for, and asked. Opens no data."""
        ...

    def start(self, task: Task) -> State:
        """The state before the first question."""
        ...

    def ask(self, state: State) -> Query:
        """The next question."""
        ...

    def tell(self, state: State, release: Release) -> State:
        """The state after an answer."""
        ...

    def posterior(self, state: State) -> Any:
        """What the answers say, after the last of them."""
        ...


@dataclass(frozen=True)
class Asked:
    """The state of a method with a single question: the task, what is asked, and the answer."""

    task: Task
    query: Query
    release: Release | None = None


class OneQuestion:
    """A method that asks once, and whose posterior is the model's for that release."""

    mechanism: Any

    def query(self, task: Task) -> Query:
        """The question."""
        raise NotImplementedError

    def plan(self, task: Task) -> Spending:
        return Spending((Once(self.mechanism),), (self.query(task),))

    def start(self, task: Task) -> Asked:
        return Asked(task, self.query(task))

    def ask(self, state: Asked) -> Query:
        return state.query

    def tell(self, state: Asked, release: Release) -> Asked:
        return replace(state, release=release)

    def posterior(self, state: Asked) -> Any:
        return state.task.model.posterior(state.release, **state.task.sampling_options)
