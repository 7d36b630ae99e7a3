"""Gibbs sampling through the wall: each update is a draw, paid for in advance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.methods.method import OneQuestion, Spending, Task, noted, tempered_note
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import set_fields, whole_number
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles, Sweep
from tacit.spec.mechanisms import Exponential
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Release

_LEAST = 1e-12  # of a transition's probability


@dataclass(frozen=True)
class PrivateGibbs(OneQuestion):
    """Draw hidden states and their profiles in turn, both by the exponential mechanism.

    Foulds et al. (2016, section 4.1), with all paths of a sweep drawn at once, the range of the
    scores in place of their bound, and bounded-range composition: 400 updates at epsilon 1 cost 96
    and not 400. Every sweep is released. Draws are of a tempered posterior, wider than the
    posterior itself: that is the price.

    Parameters
    ----------
    epsilon, delta
        What all sweeps cost together, or with `assume_converged` the last one.
    truncation
        The smallest probability of a level, as a share of 1 / levels. Smaller is more faithful,
        at a higher temperature.
    sweeps
        How often states and profiles are drawn. The first half is not used.
    assume_converged
        Run the chain behind the wall and release its last sweep alone, as one posterior sample.
        That costs (epsilon, delta) only if the chain had come close to its target: the certificate
        lists this assumption, how close that delta allows, and what is left of the guarantee if
        it fails.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    truncation: float | None = None
    sweeps: int | None = None
    assume_converged: bool = False

    needs: ClassVar[tuple[str, ...]] = ("state_chain",)

    def __post_init__(self) -> None:
        default = 200 if self.assume_converged else 10
        sweeps = whole_number(self.sweeps, "sweeps", default, most=10**5)
        set_fields(self, epsilon=self.mechanism.epsilon, delta=self.mechanism.delta, sweeps=sweeps)

    @property
    def mechanism(self) -> Exponential:
        return Exponential(self.epsilon, self.delta)

    def query(self, task: Task) -> StateChain:
        """The chain, as the wall runs it by itself; of one sweep where it does not."""
        sweeps = self.sweeps if self.assume_converged else 1
        return task.model.state_chain(truncation=self.truncation, sweeps=sweeps)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self, "sweeps=")
        if self.assume_converged:
            return super().plan(task)
        updates = 2 * (self.sweeps or 0)
        plan = largest_plan(
            lambda x: Plan(Steps(updates, Exponential(x)), delta=self.delta),
            Budget(self.epsilon, self.delta),
            task.schema.neighbours,
        )
        return Spending((plan,), (self.query(task),))

    def start(self, task: Task) -> Any:
        if self.assume_converged:
            return super().start(task)
        chain, schema = self.query(task), task.schema
        shape = len(schema[chain.panel.sequence].labels), len(schema[chain.panel.time].labels)
        return GibbsState(task, chain, task.rng(0).integers(chain.states, size=shape))

    def ask(self, state: Any) -> Query:
        match state:
            case GibbsState(chain=chain, profiles=None):
                return StateProfiles(
                    chain.panel, state.path, chain.states, chain.prior, chain.truncation
                )
            case GibbsState(chain=chain, profiles=tuple(profiles)):
                return StatePaths(chain.panel, *state.transitions(), profiles)
        return super().ask(state)

    def tell(self, state: Any, release: Release) -> Any:
        match state:
            case GibbsState(profiles=None):
                found = tuple(release.table(block.name).value for block in release.blocks)
                return replace(state, profiles=found, profiles_at=release.noise[0].scale)
            case GibbsState(profiles=tuple(profiles)):
                path = np.rint(release.value).astype(np.int64).reshape(state.path.shape)
                state.kept.append(Sweep(release, path, *state.transitions(), profiles))
                return replace(state, path=path, profiles=None)
        return super().tell(state, release)

    def posterior(self, state: Any) -> Any:
        if self.assume_converged:
            found = super().posterior(state)
            return noted(found, tempered_note(state.release.noise[0].scale))
        kept = state.kept[(self.sweeps or 0) // 2 :]
        at = [sweep.release.noise[0].scale for sweep in kept]
        return noted(
            state.task.model.chain_posterior(kept).diagnosed(),
            f"every one of the {2 * len(state.kept)} updates is public: the guarantee needs no "
            "convergence",
            f"the target is tempered, prior x likelihood^(1/T): T = {state.profiles_at:.4g} for "
            f"profiles, and from {min(at):.4g} to {max(at):.4g} for states",
        )


@dataclass(frozen=True)
class GibbsState:
    """Hidden states, and the profiles that were drawn for them, until new states are drawn."""

    task: Task
    chain: StateChain
    path: np.ndarray
    profiles: tuple[np.ndarray, ...] | None = None
    profiles_at: float = 1.0  # the temperature
    kept: list[Sweep] = field(default_factory=list)

    def transitions(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of first and next states, drawn given the public path."""
        rng = self.task.rng(1 + len(self.kept))
        return transitions(self.path, self.chain.states, self.chain.transition_prior, rng)


def transitions(
    path: np.ndarray, states: int, prior: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """First and next states' probabilities given public paths."""
    moves = np.full((states + 1, states), prior)
    np.add.at(moves[states], path[:, 0], 1)
    np.add.at(moves, (path[:, :-1].ravel(), path[:, 1:].ravel()), 1)
    drawn = np.maximum(rng.standard_gamma(moves), 1e-300)
    drawn = np.maximum(drawn / drawn.sum(axis=1, keepdims=True), _LEAST)
    return drawn[states], drawn[:states]
