"""Exact audits of hidden states: two months of one region, two states."""

from __future__ import annotations

from functools import cache, partial
from itertools import product

import numpy as np
from scipy.special import gammaln, logsumexp

from tacit.audit.draws import Simplex
from tacit.audit.exact import (
    MANY,
    Outcomes,
    chi_square,
    finite_game,
    kolmogorov,
    largest_loss,
    temperature_of,
)
from tacit.audit.game import Game, exact_game, schema_of
from tacit.draws.states import resolve_states
from tacit.laws.truncated_dirichlet import log_kernel
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.answers import read
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

_PANEL = Panel("region", "month", ("a", "b"))
_FIRST = Panel("region", "month", ("a",))
_START, _MOVE = np.array([0.9999, 0.0001]), np.array([[0.9999, 0.0001], [0.9, 0.1]])
_ALIKE = np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.3, 0.7]])
_PATHS = StatePaths(_PANEL, _START, _MOVE, _ALIKE)
_TRUNCATION = 0.3
_MONTHS = 2
_ROWS = list(product(("1", "2"), ("no", "yes", ""), ("low", "high", "")))
_STATES = list(product(range(2), repeat=_MONTHS))  # all paths


def state_games() -> list[Game]:
    add, swap = _schema("add_remove"), _schema("replace_one")
    one, two = _schema("replace_one", 1), _schema("replace_one", 2)
    half = temperature_of(resolve_states(_PATHS, add)) / 2
    at_add, at_one = (temperature_of(resolve_states(_PATHS, other)) for other in (add, one))
    part, whole = (temperature_of(resolve_states(_profiles(p), add)) for p in (_FIRST, _PANEL))
    return [
        _paths_game("", add, "half the temperature", half),
        _paths_game("", swap, "temperature of add_remove", at_add),
        _paths_game(", two rows a unit", two, "temperature of one row a unit", at_one),
        _profiles_game(add, "range of one emission of two", part),
        _profiles_game(swap, "temperature of add_remove", whole),
        _chain_game(add),
        _chain_game(swap),
    ]


def _schema(neighbours: Neighbours, rows: int | None = None, regions: int = 1) -> Schema:
    return schema_of(
        Categorical("region", [str(i) for i in range(regions)]),
        Categorical("month", ["1", "2"]),
        Categorical("a", ["no", "yes"]),
        Categorical("b", ["low", "high"]),
        neighbours=neighbours,
        rows=rows,
    )


@cache
def _counts() -> np.ndarray:
    """The wall's counts (row, emission, month, level) of rows, each in a region of its own."""
    schema = _schema("add_remove", regions=len(_ROWS))
    month, a, b = map(list, zip(*_ROWS))
    regions = [str(i) for i in range(len(_ROWS))]
    source = open_data({"region": regions, "month": month, "a": a, "b": b}, schema)
    integers = read(source, resolve_states(_PATHS, schema), ()).integers
    return integers.reshape(2, len(_ROWS), _MONTHS, 2).transpose(1, 0, 2, 3)


def _path_number(paths: np.ndarray) -> np.ndarray:
    """The index of each path among all of them."""
    return paths.reshape(-1, _MONTHS) @ 2 ** np.arange(_MONTHS - 1, -1, -1)


def _paths_game(extra: str, schema: Schema, mistake: str, broken: float) -> Game:
    log_prior = np.array([np.log(_START[a] * _MOVE[a, b]) for a, b in _STATES])
    # The counts are of (emission, month, level).
    each = [np.concatenate([np.log(p[list(z)]).ravel() for p in _ALIKE]) for z in _STATES]
    return finite_game(
        f"paths of hidden states{extra}",
        resolve_states(_PATHS, schema),
        Outcomes(log_prior, np.array(each).T),
        lambda: _counts().reshape(len(_ROWS), -1),
        mistake,
        broken,
        # many that speak for the rare state, so that all paths are seen
        drawn_at=np.array([0, 12, 0, 9, 0, 12, 0, 9]),
        outcome_of=_path_number,
    )


_SIMPLEX = Simplex.of(2, _TRUNCATION / 2)


def _profiles(panel: Panel) -> StateProfiles:
    """Month 1 is of state 0 and month 2 of state 1."""
    return StateProfiles(panel, np.array([[0, 1]]), 2, 1.0, _TRUNCATION)


def _profiles_game(schema: Schema, mistake: str, broken: float) -> Game:
    """Four independent laws, whose losses add."""
    resolved = resolve_states(_profiles(_PANEL), schema)

    def log_law(counts: np.ndarray, temperature: float) -> np.ndarray:
        return _SIMPLEX.log_density(1 + counts / temperature)

    def loss(temperature: float) -> float:
        rows = _counts().reshape(-1, 4, 2)
        bases = np.zeros((4, 2)), *rows[:4], np.tile([MANY, 0], (4, 1))
        law = partial(log_law, temperature=temperature)
        return largest_loss(law, bases, rows, schema.neighbours)

    def p_value(temperature: float, runs: int) -> float:
        """Bonferroni p-value of four tests."""
        integers = np.array([5, 2, 0, 0, 0, 9, 1, 1])
        noise, statistic = resolved.at_temperature(temperature), Statistic(integers, 1)
        drawn = [resolved.sample(statistic, noise, os_entropy) for _ in range(min(runs, 250))]
        order = np.argsort(_SIMPLEX.theta[:, 1])
        log = log_law(integers.reshape(4, 2), temperature)[:, order]
        values = np.array(drawn)[:, 1::2].T * noise[0].grid
        return 4 * min(map(kolmogorov, values, [_SIMPLEX.theta[order, 1]] * 4, log))

    calibration = resolved.calibrate(Exponential(1))
    name = f"profiles of hidden states, {schema.neighbours}"
    return exact_game(name, calibration, loss, p_value, mistake, broken)


def _chain_game(schema: Schema) -> Game:
    """The target of a chain, states and profiles together; and a chain of a few sweeps.

    What is audited is the law that the chain is assumed to have come close to.
    """
    query = StateChain(_FIRST, 2, 1.0, 1.0, truncation=_TRUNCATION, sweeps=8)
    resolved = resolve_states(query, schema)
    calibration = resolved.calibrate(Exponential(1))

    def log_joint(counts: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """Log-densities (path, state, theta) and log P(path), given a table (month, level)."""
        each, log_path = [], []
        for z in _STATES:
            owned = np.array([counts[np.array(z) == k].sum(axis=0) for k in range(2)])
            moved = np.zeros((2, 2))
            moved[z[0], z[1]] += 1
            prior = sum(_log_dirichlet(1 + n) for n in (np.eye(2)[z[0]], *moved))
            at = 1 + owned / temperature
            each.append(log_kernel(_SIMPLEX.theta, at[:, None]))
            log_path.append(prior + _SIMPLEX.log_integral(at).sum())
        # The normaliser is shared out evenly between the states, whose densities are added up.
        total = logsumexp(log_path)
        return np.array(each) - total / 2, np.array(log_path) - total

    def loss(temperature: float) -> float:
        rows = np.unique(_counts()[:, 0], axis=0)  # of one emission
        bases = np.zeros((2, 2)), *rows, np.array([[MANY, 0.0], [MANY, 0.0]])
        # What the prior says of a path cancels, and so it stands apart from the parts.
        log_law = lambda tables: np.array([log_joint(t, temperature)[0] for t in tables])  # noqa: E731
        return largest_loss(log_law, bases, rows, schema.neighbours)

    def p_value(temperature: float, runs: int) -> float:
        integers = np.array([1, 6, 5, 0])
        noise, statistic = resolved.at_temperature(temperature), Statistic(integers, 1)
        drawn = [resolved.sample(statistic, noise, os_entropy) for _ in range(min(runs, 80))]
        paths = np.array(drawn)[:, :_MONTHS].astype(int)
        return chi_square(_path_number(paths), log_joint(integers.reshape(2, 2), temperature)[1])

    name = f"chain of hidden states, its target, {schema.neighbours}"
    half = calibration.noise[0].scale / 2
    return exact_game(name, calibration, loss, p_value, "half the temperature", half)


def _log_dirichlet(concentration: np.ndarray) -> float:
    return float(gammaln(concentration).sum() - gammaln(concentration.sum()))
