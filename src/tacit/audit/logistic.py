"""Attacks on logistic regressions: chains, and minima with noise before or after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import expit

from tacit.audit.game import DELTA, Game, Scores, Table, attack
from tacit.draws.logistic import LogisticAnswer, resolve_logistic
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical, Real
from tacit.spec.logistic import Logistic, LogisticDraw, LogisticMinimum
from tacit.spec.mechanisms import Exponential, Gaussian
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.answers import read
from tacit.wall.noise import noised, os_entropy
from tacit.wall.statistics.statistic import Statistic

_FEATURES = tuple(f"x{i}" for i in range(8))
_RADIUS = 3.0  # of a row with all features at their ends, the constant included
_LAW = Logistic("y", _FEATURES, precision=1.0)
_OBJECTIVE, _BARE, _OUTPUT = (
    LogisticMinimum(_LAW, perturbed, ridge)
    for perturbed, ridge in (("objective", 0.5), ("objective", 0.002), ("output", 0.5))
)
Score = Callable[[np.ndarray], np.ndarray]
Tables = tuple[Table, Table]
Setting = tuple[LogisticDraw | LogisticMinimum, Noise, Score]


def logistic_games() -> list[Game]:
    one, other, none = _rows((1, "yes")), _rows((1, "no")), _rows()
    # Many rows that only say "no" lower the constant: where "yes" is a surprise, a row has
    # its full gradient, and two rows with opposite features differ by nearly twice that.
    negative = [(0, "no")] * 300
    none_yes, up, down = (_rows(*negative, *last) for last in ([], [(1, "yes")], [(-1, "yes")]))
    return [
        _draw_game("add_remove", (none, one)),
        _draw_game("replace_one", (other, one)),
        _objective_game((other, one)),
        _volume_game((none, one)),
        _output_game("add_remove", (none_yes, up), "noise for the mean of the losses", 1 / 300),
        _output_game("replace_one", (down, up), "noise for a row more or less", 1 / 2),
    ]


def _rows(*rows: tuple[float, str]) -> Table:
    """Rows whose features are all the same number, and their targets."""
    return {**{name: [x for x, _ in rows] for name in _FEATURES}, "y": [y for _, y in rows]}


def _draw_game(neighbours: Neighbours, tables: Tables) -> Game:
    """Without other rows a draw is nearly normal around the gradient of the one that differs."""
    several, mechanism = LogisticDraw(_LAW, draws=1000), Exponential(1, DELTA)
    noise = _noise(LogisticDraw(_LAW), neighbours, mechanism)
    return _game(
        "Langevin draw of a logistic regression", neighbours, tables, mechanism,
        (several, noise, _along),
        "a fifth of the temperature", (several, replace(noise, scale=noise.scale / 5), _along),
    )  # fmt: skip


def _objective_game(tables: Tables) -> Game:
    """Two rows with opposite vectors: their gradients differ by one, wherever theta is."""
    noise = _noise(_OBJECTIVE, "replace_one", mechanism := Gaussian(2, DELTA))
    return _game(
        "objective perturbation", "replace_one", tables, mechanism, (_OBJECTIVE, noise, _along),
        "a fifth of the noise", (_OBJECTIVE, replace(noise, scale=noise.scale / 5), _along),
    )  # fmt: skip


def _volume_game(tables: Tables) -> Game:
    """The ratio of densities is known: only the direction of the one row matters."""
    noise = _noise(_OBJECTIVE, "add_remove", mechanism := Gaussian(2, DELTA))

    def score(ridge: float, theta: np.ndarray) -> np.ndarray:
        at = theta.sum(axis=1) / _RADIUS
        residual = expit(-at)
        near, far = (ridge * at - residual) / noise.scale, ridge * at / noise.scale
        return np.log1p(residual * (1 - residual) / ridge) + (far**2 - near**2) / 2

    honest, bare = (
        (query, noise, partial(score, query.regularizer)) for query in (_OBJECTIVE, _BARE)
    )
    name = "objective perturbation"
    mistake = "hardly any regularizer"
    return _game(name, "add_remove", tables, mechanism, honest, mistake, bare)


def _output_game(neighbours: Neighbours, tables: Tables, mistake: str, share: float) -> Game:
    noise = _noise(_OUTPUT, neighbours, mechanism := Gaussian(1, DELTA))
    less = replace(noise, scale=max(round(noise.scale / noise.grid * share), 1) * noise.grid)
    return _game(
        "output perturbation", neighbours, tables, mechanism, (_OUTPUT, noise, _features),
        mistake, (_OUTPUT, less, _features), pace=20,
    )  # fmt: skip


def _along(theta: np.ndarray) -> np.ndarray:
    return theta.sum(axis=1)


def _features(theta: np.ndarray) -> np.ndarray:
    return theta[:, 1:].sum(axis=1)


def _resolved(query: LogisticDraw | LogisticMinimum, neighbours: Neighbours) -> LogisticAnswer:
    columns = [Real(name, -1, 1) for name in _FEATURES]
    target = Categorical("y", ["no", "yes"])
    most = 1 if neighbours == "add_remove" else None
    return resolve_logistic(query, Schema(*columns, target, neighbours=neighbours, max_units=most))


def _noise(
    query: LogisticDraw | LogisticMinimum, neighbours: Neighbours, mechanism: Exponential | Gaussian
) -> Noise:
    return _resolved(query, neighbours).calibrate(mechanism).noise[0]


def _game(
    name: str,
    neighbours: Neighbours,
    tables: Tables,
    mechanism: Exponential | Gaussian,
    honest: Setting,
    mistake: str,
    broken: Setting,
    *,
    pace: float = 1,
) -> Game:
    """Runs of the wall's own code on both tables, scored by what an attacker would look at."""

    def scores(setting: Setting, runs: int) -> Scores:
        query, noise, score = setting
        resolved = _resolved(query, neighbours)
        draws, size = resolved.blocks[0].shape
        found = []
        for table in tables:
            statistic = read(open_data(table, resolved.schema), resolved, (noise,))
            if noise.family == "discrete_gaussian":  # one minimum, noised again and again
                many = Statistic(np.tile(statistic.integers, runs), statistic.units)
                block = Block("theta", (Axis("run", range(runs)), *resolved.blocks[0].axes))
                integers = [noised(many, (noise,), (block,), os_entropy)]
            else:
                times = range(-(-runs // draws))
                integers = [resolved.sample(statistic, (noise,), os_entropy) for _ in times]
            theta = np.concatenate(integers).reshape(-1, size)[:runs] * noise.grid
            found.append(score(theta))
        return found

    full = f"{name}, {neighbours}"
    return attack(full, mechanism, scores, honest, mistake, broken, pace=pace)
