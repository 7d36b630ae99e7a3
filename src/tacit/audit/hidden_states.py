"""Exact audits of hidden states: two months of one region, two states."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import kstest

from tacit.audit.draws import ALARM, ExactGame
from tacit.audit.finite import MANY, Outcomes, finite_game, fits, heat_of, largest_loss
from tacit.draws.states import resolve_states
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

_PANEL = Panel("region", "month", ("a", "b"))
_START, _MOVE = np.array([0.9999, 0.0001]), np.array([[0.9999, 0.0001], [0.9, 0.1]])
_ALIKE = np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.3, 0.7]])
_CUT = 0.3
_MONTHS = 2


_KINDS = list(product(("1", "2"), ("no", "yes", ""), ("low", "high", "")))


def _panel_schema(neighbours: Neighbours, rows: int | None = None, regions: int = 1) -> Schema:
    return Schema(
        Categorical("region", [str(i) for i in range(regions)]),
        Categorical("month", ["1", "2"]),
        Categorical("a", ["no", "yes"]),
        Categorical("b", ["low", "high"]),
        neighbours=neighbours,
        unit=None if rows is None else "who",
        max_rows_per_unit=rows,
    )


@cache
def _counts() -> np.ndarray:
    """The wall's counts (row, emission, month, level) of rows, each in a region of its own."""
    schema = _panel_schema("add_remove", regions=len(_KINDS))
    resolved = resolve_states(StatePaths(_PANEL, _START, _MOVE, _ALIKE), schema)
    month, a, b = zip(*_KINDS)
    table = {"region": [str(i) for i in range(len(_KINDS))], "month": month, "a": a, "b": b}
    source = open_data({name: list(cells) for name, cells in table.items()}, schema)
    steps = resolved.evaluate(source, ()).integers  # type: ignore[arg-type]
    return steps.reshape(2, len(_KINDS), _MONTHS, 2).transpose(1, 0, 2, 3)


def _paths() -> list[tuple[int, ...]]:
    return list(product(range(2), repeat=_MONTHS))


def _path_outcomes() -> Outcomes:
    """All paths; the counts are of (emission, month, level)."""
    log_prior, of_steps = [], []
    for z in _paths():
        log_prior.append(np.log(_START[z[0]]) + np.log(_MOVE[z[0], z[1]]))
        of_steps.append(np.concatenate([np.log(p[list(z)]).ravel() for p in _ALIKE]))
    return Outcomes(np.array(log_prior), np.array(of_steps).T)


def _codes(paths: np.ndarray) -> np.ndarray:
    return paths.reshape(-1, _MONTHS) @ 2 ** np.arange(_MONTHS - 1, -1, -1)


def _paths_game(schema: Schema, mistake: str, broken: Schema | float, extra: str) -> ExactGame:
    query = StatePaths(_PANEL, _START, _MOVE, _ALIKE)
    resolved = resolve_states(query, schema)
    calibration = resolved.calibrate(Exponential(1))
    outcomes = _path_outcomes()

    def loss(heat: float) -> float:
        single = _counts().reshape(len(_KINDS), -1)
        return largest_loss(outcomes, single, schema.max_rows_per_unit, schema.neighbours, heat)

    def law_fits(heat: float, runs: int) -> bool:
        # many that speak for the rare state, so that all paths are seen
        steps = np.array([0, 12, 0, 9, 0, 12, 0, 9])
        noise, statistic = resolved.at_temperature(heat), Statistic(steps, 1)
        drawn = np.array([resolved.sample(statistic, noise, os_entropy) for _ in range(runs)])
        return fits(_codes(drawn), outcomes.log_law(steps, heat)) > ALARM

    heat = calibration.noise[0].scale
    twin = heat * broken if isinstance(broken, float) else heat_of(resolve_states(query, broken))
    name = f"paths of hidden states{extra}"
    return finite_game(name, calibration, schema.neighbours, mistake, loss, law_fits, twin)


def _theta(least: float, size: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the second level with quadrature weights, and both ends."""
    nodes, weights = np.polynomial.legendre.leggauss(size)
    edges = np.concatenate([[0], 0.5 ** np.arange(8, 0, -1), 1 - 0.5 ** np.arange(2, 9), [1]])
    wide = np.diff(edges)[:, None]
    share = (edges[:-1, None] + wide * (nodes + 1) / 2).ravel()
    log_weight = np.log((wide * weights / 2).ravel())
    inside = least + (1 - 2 * least) * share
    return (
        np.concatenate([inside, [least, 1 - least]]),
        np.concatenate([log_weight, [-np.inf, -np.inf]]),
    )


def _log_profiles(counts: np.ndarray, prior: float, heat: float) -> tuple[np.ndarray, np.ndarray]:
    """Of tables (..., 2) of counts: the log-density on `_theta`, and its normaliser."""
    theta, log_weight = _theta(_CUT / 2)
    concentration = prior - 1 + counts / heat
    log = concentration @ np.stack([np.log1p(-theta), np.log(theta)])
    normaliser = logsumexp(log + log_weight, axis=-1, keepdims=True)
    return log - normaliser, normaliser[..., 0]


def _profiles_game(schema: Schema, mistake: str, twin_of: Schema | Panel) -> ExactGame:
    """Month 1 is of state 0 and month 2 of state 1: four independent laws, whose losses add."""
    query = StateProfiles(_PANEL, np.array([[0, 1]]), 2, 1.0, _CUT)
    resolved = resolve_states(query, schema)
    calibration = resolved.calibrate(Exponential(1))

    def loss(heat: float) -> float:
        rows = _counts().reshape(-1, 4, 2)
        worst = 0.0
        for base in (np.zeros((4, 2)), *rows[:4], np.tile([MANY, 0], (4, 1))):
            after, _ = _log_profiles(base + rows, 1.0, heat)
            before, _ = _log_profiles(base[None], 1.0, heat)
            for one in before if schema.neighbours == "add_remove" else after:
                moved = after - one
                for side in (moved, -moved):
                    worst = max(worst, float(side.max(axis=-1).sum(axis=-1).max()))
        return worst

    def law_fits(heat: float, runs: int) -> bool:
        """Each of the four laws, by Kolmogorov and Smirnov."""
        steps = np.array([5, 2, 0, 0, 0, 9, 1, 1])
        noise, statistic = resolved.at_temperature(heat), Statistic(steps, 1)
        drawn = np.array(
            [resolved.sample(statistic, noise, os_entropy) for _ in range(min(runs, 250))]
        )
        log, _ = _log_profiles(steps.reshape(4, 2), 1.0, heat)
        theta, log_weight = _theta(_CUT / 2)
        chances = []
        for values, density in zip(drawn[:, 1::2].T * noise[0].grid, log):
            mass = np.exp(density + log_weight)[:-2]
            below = np.concatenate([[0.0], np.cumsum(mass) - mass / 2, [1.0]])
            at = np.concatenate([theta[-2:-1], theta[:-2], theta[-1:]])
            chances.append(kstest(values, lambda x: np.interp(x, at, below)).pvalue)  # noqa: B023
        return bool(min(chances) > ALARM / 4)

    if isinstance(twin_of, Schema):
        twin = heat_of(resolve_states(query, twin_of))
    else:
        part = StateProfiles(twin_of, np.array([[0, 1]]), 2, 1.0, _CUT)
        twin = heat_of(resolve_states(part, schema))
    name = "profiles of hidden states"
    return finite_game(name, calibration, schema.neighbours, mistake, loss, law_fits, twin)


def _chain_game(neighbours: Neighbours) -> ExactGame:
    """The target of a chain, states and profiles together; and a chain of a few sweeps.

    What is audited is the law that the chain is assumed to have come close to.
    """
    schema = _panel_schema(neighbours)
    panel = Panel("region", "month", ("a",))
    query = StateChain(panel, 2, 1.0, 1.0, truncation=_CUT, sweeps=8)
    resolved = resolve_states(query, schema)
    calibration = resolved.calibrate(Exponential(1))

    def log_joint(counts: np.ndarray, heat: float) -> tuple[np.ndarray, np.ndarray]:
        """Of a table (month, level): log-densities (path, state, theta) and log P(path)."""
        each, log_z = [], []
        for z in _paths():
            owned = np.array([counts[np.array(z) == k].sum(axis=0) for k in range(2)])
            log, normaliser = _log_profiles(owned, 1.0, heat)
            first = np.bincount(z[:1], minlength=2)
            moved = np.zeros((2, 2))
            moved[z[0], z[1]] += 1
            prior = sum(_log_dirichlet(1.0 + n) for n in (first, *moved))
            each.append(log + normaliser[:, None])
            log_z.append(prior + normaliser.sum())
        # Shared out evenly between the states, whose densities are added up later.
        total = logsumexp(log_z)
        priors = np.array(log_z) - total
        return np.array(each) - total / 2, priors

    def loss(heat: float) -> float:
        rows = np.unique(_counts()[:, 0], axis=0)  # of one emission
        worst = 0.0
        many = np.zeros((2, 2))
        many[:, 0] = MANY
        for base in (np.zeros((2, 2)), *rows, many):
            after = [log_joint(base + row, heat)[0] for row in rows]
            before = [log_joint(base, heat)[0]] if neighbours == "add_remove" else after
            for one, other in product(after, before):
                moved = one - other  # (path, state, theta): what the prior says cancels
                for side in (moved, -moved):
                    worst = max(worst, float(side.max(axis=2).sum(axis=1).max()))
        return worst

    def law_fits(heat: float, runs: int) -> bool:
        steps = np.array([1, 6, 5, 0])
        noise, statistic = resolved.at_temperature(heat), Statistic(steps, 1)
        drawn = np.array(
            [
                resolved.sample(statistic, noise, os_entropy)[:_MONTHS].astype(int)
                for _ in range(min(runs, 80))
            ]
        )
        return fits(_codes(drawn), log_joint(steps.reshape(2, 2), heat)[1]) > ALARM

    heat = calibration.noise[0].scale
    mistake = "half the temperature"
    name = "chain of hidden states, its target"
    return finite_game(name, calibration, neighbours, mistake, loss, law_fits, heat / 2)


def _log_dirichlet(concentration: np.ndarray) -> float:
    return float(gammaln(concentration).sum() - gammaln(concentration.sum()))


def state_games() -> list[ExactGame]:
    add, swap = _panel_schema("add_remove"), _panel_schema("replace_one")
    return [
        _paths_game(add, "half the temperature", 0.5, ""),
        _paths_game(swap, "temperature of add_remove", add, ""),
        _paths_game(
            _panel_schema("replace_one", 2), "temperature of one row a unit",
            _panel_schema("replace_one", 1), ", two rows a unit",
        ),
        _profiles_game(add, "range of one emission of two", Panel("region", "month", ("a",))),
        _profiles_game(swap, "temperature of add_remove", add),
        _chain_game("add_remove"),
        _chain_game("replace_one"),
    ]  # fmt: skip
