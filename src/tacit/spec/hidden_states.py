"""Draws for hidden Markov models: paths of states, their profiles, or a whole chain's last word.

Rows fall into cells, one for each pair of a sequence and a time. A cell has a hidden state, a
state has a profile: the probabilities of the levels of each emission.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.spec.checks import distinct_columns, doubles, number, set_fields, whole_number
from tacit.spec.draws import checked_share
from tacit.spec.errors import QueryError
from tacit.spec.wire import Record

if TYPE_CHECKING:
    from tacit.spec.release import Release

MOST_STATES = 1000
_LEAST = 1e-12  # of a probability that is given


@dataclass(frozen=True)
class Panel(Record):
    """The columns: whose cells, when, and what is seen in them."""

    sequence: str
    time: str
    emissions: tuple[str, ...]

    def __post_init__(self) -> None:
        set_fields(self, emissions=tuple(self.emissions))
        if not self.emissions:
            raise QueryError("Expected at least one emission, beside sequence and time.")
        distinct_columns((self.sequence, self.time, *self.emissions))


@dataclass(frozen=True, eq=False)
class StatePaths(Record):
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
        _check_panel(self.panel)
        given = [np.atleast_1d(doubles(x)) for x in (self.start, self.transition, *self.profiles)]
        states = len(given[0])
        if not 1 <= states <= MOST_STATES or len(self.profiles) != len(self.panel.emissions):
            raise QueryError("Expected 1 to 1000 states and a profile table for each emission.")
        shapes = [(states,), (states, states)]
        for array, shape in zip(given, [*shapes, *((states, a.shape[-1]) for a in given[2:])]):
            # Not (x > y): NaN is refused too.
            if array.shape != shape or not np.all((array >= _LEAST) & (array <= 1 + 1e-9)):
                raise QueryError(f"Expected probabilities from 1e-12 to 1 of shape {shape}.")
        set_fields(self, start=given[0], transition=given[1], profiles=tuple(given[2:]))

    @property
    def states(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class StateProfiles(Record):
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
        _keep_common(self)
        cells = np.array(self.assignment)
        if cells.ndim != 2 or cells.dtype.kind not in "iu":
            raise QueryError("Expected assignment as whole numbers, sequences x times.")
        if cells.size and not (cells.min() >= 0 and cells.max() < self.states):
            raise QueryError(f"Expected states from 0 to {self.states - 1} in assignment.")
        set_fields(self, assignment=cells.astype(np.int64))


@dataclass(frozen=True)
class StateChain(Record):
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
        _keep_common(self)
        whole_number(self.sweeps, "sweeps", most=10**5, error=QueryError)
        # With less, doubles could not tell apart what it makes of a state.
        first = number(self.transition_prior, "transition_prior", 1e-3, 1e9)
        set_fields(self, transition_prior=first)


def _check_panel(panel: Any) -> None:
    if not isinstance(panel, Panel):
        raise QueryError(f"Expected Panel(sequence, time, emissions), got {panel!r}.")


def _keep_common(query: StateProfiles | StateChain) -> None:
    """Check and keep the panel, the states, the prior and the truncation, which has no default."""
    _check_panel(query.panel)
    whole_number(query.states, "states", most=MOST_STATES, error=QueryError)
    truncation = checked_share(query.truncation)
    set_fields(query, prior=number(query.prior, "prior", 1e-6, 1e9), truncation=truncation)


@dataclass(frozen=True)
class Sweep:
    """One public sweep of a Gibbs sampler: states of the cells, and the parameters they are of."""

    release: Release
    path: np.ndarray
    start: np.ndarray
    transition: np.ndarray
    profiles: tuple[np.ndarray, ...]
