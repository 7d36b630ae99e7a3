"""What every method is: an ask-tell state machine that plans what it spends.

A method holds its options alone; the `Task` has what it needs to know of a fit, a state what it has
learnt so far. What it asks and makes of an answer follows from the state, so that a run with the
same answers comes to the same end: that is how runs are replayed and resumed (`tacit.methods.run`).

What `needs` names in a model (* and then `posterior(release, draws=, chains=, seed=, noise=)`):

    query() -> Query *, and check(schema, noise=, exact=), which refuses what the posterior would
    draw_query(schema, truncation=, draws=, temper_prior=) -> ConjugateDraw or LogisticDraw *
    likelihood(schema) -> Likelihood *
    logistic(schema) -> Logistic *
    gradients(schema) -> Gradients
    derivatives(schema) -> Derivatives, or None for more than 30 parameters
    walk(schema) -> Walk, and walk_posterior(release, theta)
    gibbs(schema, truncation=) -> GibbsBlocks, and gibbs_posterior(release, kept)
    design(schema, squares=True) -> Design, and vector_posterior(release, theta, noise), features,
        target, prior_scale
    variational(schema, setting) -> Variational, and
        variational_posterior(release, parameters, sums, sampling)
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
        The seed of public randomness: proposals, and noise that is not for privacy.
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
        if self.n_units is not None:
            return max(1, self.n_units)  # an empty table: a wide posterior
        known = method.n_units or self.schema.max_units
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
                count = "" if option is None else f", as many as {option} says"
                raise ModelError(
                    f"Expected no {what}= beside {type(method).__name__}: its draws are those that "
                    f"are paid for{count}."
                )


@dataclass(frozen=True)
class Once:
    """One release of the next question, paid for by itself."""

    mechanism: Mechanism


Payment = Once | Plan


@dataclass(frozen=True)
class Spending:
    """What a method pays for, in order, and one question of each form (or the largest).

    Questions are looked at before anything is paid: what the wall would refuse is refused then.
    """

    payments: tuple[Payment, ...]
    questions: tuple[Query, ...]

    @property
    def trials(self) -> tuple[tuple[Query, Mechanism], ...]:
        """Each question with a mechanism that it can be quoted for: its own, or one of its form."""
        found: list[Mechanism] = [p.mechanism for p in self.payments if isinstance(p, Once)]
        steps = [part for p in self.payments if isinstance(p, Plan) for part in p.steps]
        exact = any(isinstance(part.mechanism, Exact) for part in steps)
        # The noisiest step: what would vanish in its grid is refused before it is paid for.
        noises = (getattr(part.mechanism, "noise_multiplier", None) or 1.0 for part in steps)
        gaussian = Gaussian(noise_multiplier=max([1.0, *noises]), delta="1e-6")
        # At a lower temperature a prior that is too large for it would not show.
        draws = [part.mechanism for part in steps if isinstance(part.mechanism, Exponential)]
        highest = min(draws, key=lambda draw: draw.epsilon, default=Exponential(1))
        for query in self.questions[len(found) :]:
            noise = gaussian if isinstance(query, BoundedSum) else highest
            found.append(Exact() if exact else noise)
        return tuple(zip(self.questions, found, strict=True))


class Method(Protocol[State]):
    """An inference method. `start`, `ask`, `tell` and `posterior` are run in a loop by `run`.

    `needs` names the functions that a model must have (the table above), "this or that" where one
    of two will do. A method whose answers are large and whose state is not has `save` and `resume`
    too (`vips.py`): the state in place of old answers under a name.
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
        """The posterior, after the last answer."""
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


def noted(posterior: Any, *notes: str) -> Any:
    """A posterior of one release, with notes on its certificate."""
    (release,) = posterior.releases
    certificate = release.certificate.assuming(notes)
    return replace(posterior, releases=(replace(release, certificate=certificate),))


def tempered_note(temperature: float) -> str:
    """How a certificate states the temperature of a chain's target."""
    if temperature > 1 + 1e-6:
        return (
            f"the target is a tempered posterior: prior x likelihood^(1/T), T = {temperature:.4g}"
        )
    return "the target is the posterior, at temperature 1"
