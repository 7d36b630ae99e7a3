"""Draws for hidden Markov models: the counts of all cells are read once, then drawn from.

Paths leave as whole numbers, probabilities as multiples of 2^-40.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import calibrate_range, chain_assumption
from tacit.accounting.latent import paths_range, profiles_range
from tacit.draws.conjugate import to_grid
from tacit.draws.draw import FLOAT_DRAW, Draw, exponential, uniforms
from tacit.laws import hidden_paths, truncated_dirichlet
from tacit.laws.truncated_dirichlet import LogGamma
from tacit.laws.uniform import Uniform
from tacit.sources.loaded import Loaded
from tacit.spec.draws import GRID, LEAST_TRUNCATION, MOST_LEVELS
from tacit.spec.errors import QueryError
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.queries import Counts
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy
from tacit.wall.statistics.counts import count_cells, resolve_counts
from tacit.wall.statistics.statistic import Statistic

StateDraw = StatePaths | StateProfiles | StateChain


@dataclass(frozen=True)
class StatesAnswer(Draw):
    """A draw of states or profiles; `tables` are the counts of (sequence, time, level)."""

    query: StateDraw
    tables: tuple[Block, ...]

    @property
    def stepwise(self) -> bool:
        return not isinstance(self.query, StateChain)

    @property
    def largest_prior(self) -> float:
        return 0.0 if isinstance(self.query, StatePaths) else self.query.prior

    def calibrate(self, mechanism: Any) -> Calibration:
        calibration = calibrate_range(exponential(mechanism), self.span, *self.grids)
        noise = self.at_temperature(calibration.noise[0].scale)
        calibration = replace(calibration, noise=noise)
        if not isinstance(self.query, StateChain):
            return calibration
        # A sweep looks at the data twice: for the paths and for the profiles.
        assumed = chain_assumption(calibration.cost, 2 * self.query.sweeps)
        return replace(calibration, assumptions=(assumed,))

    def evaluate(self, snapshot: Any, noise: tuple[Noise, ...]) -> Statistic:
        counts = _counts(self.query.panel)
        return Statistic(*count_cells(counts, self.schema, self.tables, snapshot))

    def evaluate_step(self, loaded: Loaded) -> Statistic:
        """The counts that paths and profiles are drawn from, read once in a lease."""
        key = _counts(self.query.panel)
        return loaded.once(key, lambda: self.evaluate(loaded.snapshot, self.exact()))

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        uniform, counts = partial(uniforms, entropy), self._unpacked(statistic)
        with np.errstate(all="ignore"):
            match self.query:
                case StatePaths(start=start, transition=transition, profiles=profiles):
                    given = start, transition, profiles
                    return paths(counts, *given, noise[0].scale, uniform).ravel()
                case StateProfiles(assignment=assignment):
                    return self._rounded(
                        self._profiles(counts, assignment, noise[0].scale, uniform)
                    )
                case StateChain() as chain:
                    return self._chain(chain, counts, noise[0].scale, uniform)

    def _unpacked(self, statistic: Statistic) -> list[np.ndarray]:
        ends = np.cumsum([block.size for block in self.tables])[:-1]
        parts = np.split(statistic.integers, ends)
        return [part.reshape(block.shape) for part, block in zip(parts, self.tables, strict=True)]

    def _profiles(
        self, counts: list[np.ndarray], assignment: np.ndarray, temperature: float, uniform: Uniform
    ) -> list[np.ndarray]:
        """Truncated Dirichlet draws for each state and emission."""
        query = self.query
        assert not isinstance(query, StatePaths)
        drawn = []
        for table in counts:
            # proof: profiles-range. Only counts / temperature depend on the data.
            levels = table.shape[-1]
            at = np.zeros((query.states, levels))
            np.add.at(at, assignment.ravel(), table.reshape(-1, levels))
            law = query.prior + at / temperature, query.truncation / levels
            one = np.ones_like(at)
            drawn.append(truncated_dirichlet.sample(*law, uniform) if levels > 1 else one)
        return drawn

    def _rounded(self, profiles: list[np.ndarray]) -> np.ndarray:
        """Multiples of the grid: sums of one by state and emission, none below the truncation."""
        query = self.query
        assert not isinstance(query, StatePaths)
        return np.concatenate([to_grid(p, query.truncation / p.shape[1]).ravel() for p in profiles])

    def _chain(
        self, chain: StateChain, counts: list[np.ndarray], temperature: float, uniform: Uniform
    ) -> np.ndarray:
        """Gibbs sweeps on exact counts, of which only the last state leaves."""
        shape, states = counts[0].shape[:2], chain.states
        path = np.minimum(uniform(shape[0] * shape[1]) * states, states - 1)
        path = path.astype(np.int64).reshape(shape)
        profiles: list[np.ndarray] = []
        start = transition = np.zeros(0)
        for _ in range(chain.sweeps):
            profiles = self._profiles(counts, path, temperature, uniform)
            start, transition = transitions(path, states, chain.transition_prior, uniform)
            path = paths(counts, start, transition, tuple(profiles), temperature, uniform)
        moves = [to_grid(table, 0.0).ravel() for table in (start[None], transition)]
        return np.concatenate([path.ravel(), *moves, self._rounded(profiles)])


def paths(
    counts: list[np.ndarray],
    start: np.ndarray,
    transition: np.ndarray,
    profiles: tuple[np.ndarray, ...],
    temperature: float,
    uniform: Uniform,
) -> np.ndarray:
    """The states of all cells, drawn together."""
    # proof: paths-range. The score of a path is linear in the counts.
    log = sum(table @ np.log(p).T for table, p in zip(counts, profiles, strict=True)) / temperature
    drawn = uniform(log.shape[0] * log.shape[1]).reshape(log.shape[:2])
    return hidden_paths.sample(np.ascontiguousarray(log), start, transition, drawn)


def transitions(
    path: np.ndarray, states: int, prior: float, uniform: Uniform
) -> tuple[np.ndarray, np.ndarray]:
    """First and next states' probabilities given the paths: Dirichlet draws."""
    moves = np.full((states + 1, states), prior)
    np.add.at(moves[states], path[:, 0], 1)
    np.add.at(moves, (path[:, :-1].ravel(), path[:, 1:].ravel()), 1)
    log = LogGamma.of(moves, np.ones_like(moves), -1e9, 700.0).sample(uniform)
    drawn = np.exp(log - log.max(axis=1, keepdims=True))
    drawn = np.maximum(drawn / drawn.sum(axis=1, keepdims=True), 1e-300)
    return drawn[states], drawn[:states]


def resolve_states(query: StateDraw, schema: Schema) -> StatesAnswer:
    """Look up what is public. Opens no data."""
    panel = query.panel
    by = tuple(Axis(name, schema[name].labels) for name in (panel.sequence, panel.time))
    levels = {name: Axis(name, schema[name].labels) for name in panel.emissions}
    tables = tuple(Block(name, (*by, axis)) for name, axis in levels.items())
    resolve_counts(_counts(panel), schema)  # refuses columns that cannot be counted, many cells
    _check_given(query, tables)
    path, assumed = Block("state", by), (FLOAT_DRAW,)
    if isinstance(query, StatePaths):
        span = paths_range(query, schema)
        return StatesAnswer(query, schema, (path,), span, (1.0,), assumed, tables)
    each, to = Axis("state", range(query.states)), Axis("next state", range(query.states))
    blocks = tuple(Block(f"profile of {name}", (each, axis)) for name, axis in levels.items())
    grids = (GRID,) * len(blocks)
    if isinstance(query, StateChain):  # paths are whole numbers
        blocks = (path, Block("start", (each,)), Block("transition", (each, to)), *blocks)
        grids = (1.0, GRID, GRID, *grids)
    span = profiles_range(panel, query.truncation, schema)
    return StatesAnswer(query, schema, blocks, span, grids, assumed, tables)


def _counts(panel: Panel) -> Counts:
    return Counts(panel.emissions, by=(panel.sequence, panel.time))


def _check_given(query: StateDraw, tables: tuple[Block, ...]) -> None:
    """The public state must be there and fit the columns."""
    sizes, cells = [block.shape[-1] for block in tables], tables[0].shape[:2]
    if isinstance(query, StatePaths):
        if [table.shape[1] for table in query.profiles] != sizes:
            raise QueryError(f"Expected profiles with {sizes} levels.")
        return
    if isinstance(query, StateProfiles) and query.assignment.shape != cells:
        raise QueryError(f"Expected an assignment of shape {cells}.")
    if max(sizes) > min(MOST_LEVELS, query.truncation / LEAST_TRUNCATION):
        raise QueryError(
            f"Expected a larger truncation than {query.truncation}: with {max(sizes)} levels the "
            f"smallest probability would be below {LEAST_TRUNCATION:g}."
        )
