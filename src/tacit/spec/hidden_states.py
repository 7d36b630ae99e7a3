"""Draws for hidden Markov models: paths of states, their profiles, or a whole chain's last word.

Rows fall into cells, one for each pair of a sequence and a time. A cell has a hidden state, a
state has a profile: the probabilities of the levels of each emission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.checks import doubles
from tacit.spec.errors import QueryError

MOST_STATES = 1000
_LEAST = 1e-12  # of a probability that is given


@dataclass(frozen=True)
class Panel:
    """The columns: whose cells, when, and what is seen in them."""

    sequence: str
    time: str
    emissions: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "emissions", tuple(self.emissions))
        names = (self.sequence, self.time, *self.emissions)
        if not self.emissions or not all(isinstance(n, str) for n in names):
            raise QueryError("Expected sequence, time and at least one emission, as column names.")
        if len(set(names)) < len(names):
            raise QueryError("Expected each column once: sequence, time and emissions differ.")

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "emissions": list(self.emissions)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Panel:
        return cls(facts["sequence"], facts["time"], tuple(facts["emissions"]))


@dataclass(frozen=True, eq=False)
class StatePaths:
    """The states of all cells at once, given public parameters.

    Parameters
    ----------
    panel
        The columns.
    start, transition
        Probabilities of the first state (K) and of the next one (K x K), all positive.
    profiles
        For each emission the probabilities of its levels (K x levels), all positive.
    """

    panel: Panel
    start: np.ndarray
    transition: np.ndarray
    profiles: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        given = [np.atleast_1d(doubles(x)) for x in (self.start, self.transition, *self.profiles)]
        states = len(given[0])
        if not 1 <= states <= MOST_STATES or len(self.profiles) != len(self.panel.emissions):
            raise QueryError("Expected 1 to 1000 states and a profile table for each emission.")
        shapes = [(states,), (states, states)]
        for array, shape in zip(given, [*shapes, *((states, a.shape[-1]) for a in given[2:])]):
            # Not (x > y): NaN is refused too.
            if array.shape != shape or not np.all((array >= _LEAST) & (array <= 1 + 1e-9)):
                raise QueryError(f"Expected probabilities from 1e-12 to 1 of shape {shape}.")
            array.setflags(write=False)
        object.__setattr__(self, "start", given[0])
        object.__setattr__(self, "transition", given[1])
        object.__setattr__(self, "profiles", tuple(given[2:]))

    @property
    def states(self) -> int:
        return len(self.start)

    def to_dict(self) -> dict[str, Any]:
        given = {**vars(self), "panel": self.panel.to_dict(), "profiles": list(self.profiles)}
        return {"type": "StatePaths", **given}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> StatePaths:
        panel, profiles = Panel.from_dict(facts["panel"]), tuple(facts["profiles"])
        return cls(panel, facts["start"], facts["transition"], profiles)


@dataclass(frozen=True, eq=False)
class StateProfiles:
    """The profiles of all states at once, given a public assignment of states to cells.

    Parameters
    ----------
    panel
        The columns.
    assignment
        The state of each cell, from 0 (sequences x times).
    states
        How many states there are.
    prior
        The Dirichlet prior's concentration, for each level.
    truncation
        The smallest probability of a level, as a share of the same for all: 0 < truncation < 1.
    """

    panel: Panel
    assignment: np.ndarray
    states: int
    prior: float = 1.0
    truncation: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_states(self.states)
        object.__setattr__(self, "prior", checked_prior(self.prior))
        object.__setattr__(self, "truncation", checked_share(self.truncation))
        cells = np.array(self.assignment)
        if cells.ndim != 2 or cells.dtype.kind not in "iu":
            raise QueryError("Expected assignment as whole numbers, sequences x times.")
        if cells.size and not (cells.min() >= 0 and cells.max() < self.states):
            raise QueryError(f"Expected states from 0 to {self.states - 1} in assignment.")
        cells = cells.astype(np.int64)
        cells.setflags(write=False)
        object.__setattr__(self, "assignment", cells)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "StateProfiles",
            "panel": self.panel.to_dict(),
            "states": self.states,
            "prior": self.prior,
            "truncation": self.truncation,
            "assignment": self.assignment,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> StateProfiles:
        rest = {k: v for k, v in facts.items() if k not in ("type", "panel")}
        return cls(Panel.from_dict(facts["panel"]), **rest)


@dataclass(frozen=True)
class StateChain:
    """The last state of a Gibbs chain that runs behind the wall: paths, profiles, transitions.

    Its guarantee is that of an exact draw from the tempered posterior, and assumes that the chain
    had come close to it. The certificate says so, and what holds if it had not.

    Parameters
    ----------
    panel, states, prior, truncation
        As in `StateProfiles`.
    transition_prior
        The Dirichlet prior's concentration for first and next states.
    sweeps
        How long the chain runs.
    """

    panel: Panel
    states: int
    prior: float = 1.0
    transition_prior: float = 1.0
    truncation: float = None  # type: ignore[assignment]
    sweeps: int = 200

    def __post_init__(self) -> None:
        check_states(self.states)
        object.__setattr__(self, "prior", checked_prior(self.prior))
        object.__setattr__(self, "transition_prior", checked_prior(self.transition_prior))
        if self.transition_prior < 1e-3:  # doubles could not tell apart what it makes of a state
            raise QueryError(f"Expected transition_prior={self.transition_prior} >= 1e-3.")
        object.__setattr__(self, "truncation", checked_share(self.truncation))
        whole = isinstance(self.sweeps, int) and not isinstance(self.sweeps, bool)
        if not whole or not 1 <= self.sweeps <= 10**5:
            raise QueryError(f"Expected sweeps={self.sweeps!r} to be a whole number to 100,000.")

    def to_dict(self) -> dict[str, Any]:
        return {"type": "StateChain", **vars(self), "panel": self.panel.to_dict()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> StateChain:
        rest = {k: v for k, v in facts.items() if k not in ("type", "panel")}
        return cls(Panel.from_dict(facts["panel"]), **rest)


def check_states(states: Any) -> None:
    if isinstance(states, bool) or not isinstance(states, int) or not 1 <= states <= MOST_STATES:
        raise QueryError(f"Expected states={states!r} to be a whole number from 1 to 1000.")


def checked_prior(prior: Any) -> float:
    if isinstance(prior, bool) or not isinstance(prior, (int, float)) or not 1e-6 <= prior <= 1e9:
        raise QueryError(f"Expected prior={prior!r} to be a number from 1e-6 to 1e9.")
    return float(prior)


def checked_share(truncation: Any) -> float:
    """The smallest probability as a share of the uniform one; there is no default."""
    number = isinstance(truncation, (int, float)) and not isinstance(truncation, bool)
    if not number or not 1e-4 <= truncation <= 0.999:
        raise QueryError(
            "Expected truncation, the smallest probability of a level as a share of the same for "
            f"all, from 1e-4 to 0.999, for example truncation=0.1; got {truncation!r}."
        )
    return float(truncation)
