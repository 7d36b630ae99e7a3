"""Gibbs sampling of a hidden Markov model: profiles given public states, and states given them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.spec.gibbs import Values
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles, Sweep
from tacit.spec.release import Release
from tacit.spec.schema import Schema

PROFILES, STATES = "profiles", "states"
_LEAST = 1e-12  # of a transition's probability


@dataclass(frozen=True)
class StateBlocks:
    """All profiles, and all states, each drawn at once; `chain` has the options of both.

    Transitions are drawn in public, given public states.
    """

    chain: StateChain
    schema: Schema
    names = PROFILES, STATES
    together = False

    def start(self, rng: np.random.Generator) -> Values:
        panel, states = self.chain.panel, self.chain.states
        shape = [len(self.schema[name].labels) for name in (panel.sequence, panel.time)]
        sizes = {name: len(self.schema[name].labels) for name in panel.emissions}
        flat = {name: np.full((states, size), 1 / size) for name, size in sizes.items()}
        path = rng.integers(states, size=shape)
        first, to = transitions(path, states, self.chain.transition_prior, rng)
        return {STATES: path, "(start)": first, "(transition)": to, **flat}

    def query(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator
    ) -> StateProfiles | StatePaths:
        chain = self.chain
        if names == (PROFILES,):
            return StateProfiles(
                chain.panel, values[STATES], chain.states, chain.prior, chain.truncation
            )
        profiles = tuple(values[name] for name in chain.panel.emissions)
        return StatePaths(chain.panel, *self._transitions(values, rng), profiles)

    def read(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator, release: Release
    ) -> Values:
        if names == (PROFILES,):
            tables = {e: release.table(f"profile of {e}").value for e in self.chain.panel.emissions}
            return {**values, **tables}
        path = np.rint(release.value).astype(np.int64).reshape(values[STATES].shape)
        start, transition = self._transitions(values, rng)
        return {**values, STATES: path, "(start)": start, "(transition)": transition}

    def _transitions(
        self, values: Values, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        return transitions(values[STATES], self.chain.states, self.chain.transition_prior, rng)


def sweep_of(release: Release, values: Values, emissions: tuple[str, ...]) -> Sweep:
    """Return the state of the sampler after a sweep."""
    profiles = tuple(values[name] for name in emissions)
    return Sweep(release, values[STATES], values["(start)"], values["(transition)"], profiles)


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
