"""Gibbs sampling through the wall: each update is a draw, paid for in advance."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.methods.common import ask_once, refuse_sampling, whole_number
from tacit.methods.progress import counted
from tacit.spec.budget import Budget, Number
from tacit.spec.errors import ModelError
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles
from tacit.spec.mechanisms import Exponential
from tacit.spec.plan import Plan, Steps
from tacit.spec.protocols import GibbsModel, Releaser, Sweep
from tacit.spec.schema import Schema

_LEAST = 1e-12  # of a transition's probability


@dataclass(frozen=True)
class PrivateGibbs:
    """Draw hidden states and their profiles in turn, both by the exponential mechanism.

    Foulds et al. (2016, section 4.1), with all paths of a sweep drawn at once, the range of the
    scores in place of their bound, and bounded-range composition: 400 updates at epsilon 1 cost 96
    and not 400. Every sweep is released. What comes out is hotter than the posterior: its spread
    is the price.

    Parameters
    ----------
    epsilon, delta
        What all sweeps cost together, or with `assume_converged` the last one.
    truncation
        The smallest probability of a level, as a share of 1 / levels. Smaller is more faithful
        and hotter.
    sweeps
        How often states and profiles are drawn. The first half is not used.
    assume_converged
        Run the chain behind the wall and release its last sweep alone, as one posterior sample.
        That costs (epsilon, delta) only if the chain had come close to its target: the certificate
        lists this assumption, how close that delta allows, and what is left of the guarantee if
        it fails.
    """

    epsilon: Decimal
    delta: Decimal
    truncation: float
    sweeps: int
    assume_converged: bool

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        truncation: Any = None,
        sweeps: int | None = None,
        assume_converged: bool = False,
    ) -> None:
        mechanism = Exponential(epsilon, delta)
        default = 200 if assume_converged else 10
        object.__setattr__(self, "epsilon", mechanism.epsilon)
        object.__setattr__(self, "delta", mechanism.delta)
        object.__setattr__(self, "truncation", _float(truncation))
        object.__setattr__(self, "sweeps", whole_number(sweeps, "sweeps", default, most=10**5))
        object.__setattr__(self, "assume_converged", assume_converged)

    def question(self, model: GibbsModel, schema: Schema) -> tuple[StateChain, Exponential]:
        """What is asked of the wall where it runs the chain itself."""
        if not self.assume_converged:
            raise ModelError(
                "PrivateGibbs asks many questions, each depending on the last: it cannot be "
                "released in one file. Use assume_converged=True, or tacit.fit."
            )
        query = model.state_chain(truncation=self.truncation, sweeps=self.sweeps)
        return query, Exponential(self.epsilon, self.delta)

    def run(
        self,
        model: GibbsModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Any,
    ) -> Any:
        refuse_sampling(sampling, "PrivateGibbs(sweeps=...)")
        if self.assume_converged:
            return ask_once(self, model, releaser, name, sampling)
        if name is not None:
            raise ModelError("PrivateGibbs takes no name=: its steps cannot be replayed.")
        chain, schema = model.state_chain(truncation=self.truncation, sweeps=1), releaser.schema
        releaser.quote(chain, Exponential(1))  # what cannot be drawn is refused before it is paid
        budget = Budget(self.epsilon, self.delta)
        plan = largest_plan(
            lambda x: Plan(Steps(2 * self.sweeps, Exponential(x)), delta=self.delta),
            budget,
            schema.neighbours,
        )
        lease = releaser.prepay(plan)
        rng = np.random.default_rng(sampling.get("seed"))
        panel, states = chain.panel, chain.states
        shape = len(schema[panel.sequence].labels), len(schema[panel.time].labels)
        path = rng.integers(states, size=shape)
        kept: list[Sweep] = []
        for _ in counted(self.sweeps, "Sweeps", progress):
            drawn = lease.release(StateProfiles(panel, path, states, chain.prior, chain.truncation))
            start, transition = transitions(path, states, chain.transition_prior, rng)
            profiles = tuple(drawn.table(block.name).value for block in drawn.blocks)
            seen = lease.release(StatePaths(panel, start, transition, profiles))
            path = np.rint(seen.value).astype(np.int64).reshape(shape)
            kept.append(Sweep(seen, path, start, transition, profiles))
        return model.chain_posterior(kept[self.sweeps // 2 :])


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


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
