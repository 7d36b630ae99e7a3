"""Attacks on logistic regressions: chains, and minima with noise before or after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import expit

from tacit.audit.game import DELTA, Game, Scores, Table
from tacit.draws.logistic import LogisticAnswer, resolve_logistic
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical, Real
from tacit.spec.logistic import Logistic, LogisticDraw, LogisticMinimum, Perturbed
from tacit.spec.mechanisms import Exponential, Gaussian
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.noise import noised, os_entropy
from tacit.wall.statistics.statistic import Statistic

_FEATURES = tuple(f"x{i}" for i in range(8))
_RIDGE = 0.5
_RADIUS = 3.0  # of a row with all features at their ends, the constant included
Score = Callable[[np.ndarray], np.ndarray]


def logistic_games() -> list[Game]:
    one, other, none = _rows((1, "yes")), _rows((1, "no")), _rows()
    # Many rows that only say "no" pull the constant down: where "yes" is a surprise, a row has
    # its full slope, and two rows with opposite features differ by nearly twice that.
    pulled = [(0, "no")] * 300
    quiet, up, down = (_rows(*pulled, *last) for last in ([], [(1, "yes")], [(-1, "yes")]))
    return [
        _draw_game("add_remove", (none, one)),
        _draw_game("replace_one", (other, one)),
        _objective_game((other, one)),
        _volume_game((none, one)),
        _output_game("add_remove", (quiet, up), "noise for the mean of the losses", 1 / 300),
        _output_game("replace_one", (down, up), "noise for a row more or less", 1 / 2),
    ]


def _rows(*rows: tuple[float, str]) -> Table:
    """Rows whose features are all the same number, and their targets."""
    return {**{name: [x for x, _ in rows] for name in _FEATURES}, "y": [y for _, y in rows]}


def _resolved(query: LogisticDraw | LogisticMinimum, neighbours: Neighbours) -> LogisticAnswer:
    columns = [Real(name, -1, 1) for name in _FEATURES]
    target = Categorical("y", ["no", "yes"])
    most = 1 if neighbours == "add_remove" else None
    return resolve_logistic(query, Schema(*columns, target, neighbours=neighbours, max_units=most))


def _sampler(
    resolved: LogisticAnswer, tables: tuple[Table, Table], noise: Noise, score: Score
) -> Callable[[int], Scores]:
    """Runs of the wall's own code on both tables, scored by what an attacker would look at."""
    draws, size = resolved.blocks[0].shape

    def scores(runs: int) -> Scores:
        found = []
        for table in tables:
            statistic = resolved.evaluate(open_data(table, resolved.schema), (noise,))  # type: ignore[arg-type]
            if noise.family == "discrete_gaussian":  # one minimum, noised again and again
                many = Statistic(np.tile(statistic.integers, runs), statistic.units)
                block = Block("theta", (Axis("run", range(runs)), *resolved.blocks[0].axes))
                steps = [noised(many, (noise,), (block,), os_entropy)]
            else:
                times = range(-(-runs // draws))
                steps = [resolved.sample(statistic, (noise,), os_entropy) for _ in times]
            theta = np.concatenate(steps).reshape(-1, size)[:runs] * noise.grid
            found.append(score(theta))
        return found[0], found[1]

    return scores


def _draw_game(neighbours: Neighbours, tables: tuple[Table, Table]) -> Game:
    """Without other rows a draw is nearly normal around the pull of the one that differs."""
    law = Logistic("y", _FEATURES, precision=1.0)
    calibration = _resolved(LogisticDraw(law), neighbours).calibrate(Exponential(1, DELTA))
    several = _resolved(LogisticDraw(law, draws=1000), neighbours)
    noise = calibration.noise[0]
    return Game(
        f"Langevin draw of a logistic regression, {neighbours}",
        float(calibration.cost.epsilon),
        float(calibration.cost.delta),
        _sampler(several, tables, noise, _along),
        "a fifth of the temperature",
        _sampler(several, tables, replace(noise, scale=noise.scale / 5), _along),
    )


def _minimum(kind: Perturbed, neighbours: Neighbours, ridge: float = _RIDGE) -> LogisticAnswer:
    query = LogisticMinimum(Logistic("y", _FEATURES, precision=1.0), kind, ridge)
    return _resolved(query, neighbours)


def _along(theta: np.ndarray) -> np.ndarray:
    return theta.sum(axis=1)


def _features(theta: np.ndarray) -> np.ndarray:
    return theta[:, 1:].sum(axis=1)


def _objective_game(tables: tuple[Table, Table]) -> Game:
    """Two rows with opposite vectors: their slopes differ by one, wherever theta is."""
    resolved = _minimum("objective", "replace_one")
    noise = resolved.calibrate(Gaussian(2, DELTA)).noise[0]
    return Game(
        "objective perturbation, replace_one",
        2.0,
        DELTA,
        _sampler(resolved, tables, noise, _along),
        "a fifth of the noise",
        _sampler(resolved, tables, replace(noise, scale=noise.scale / 5), _along),
    )


def _volume_game(tables: tuple[Table, Table]) -> Game:
    """The ratio of densities is known: only the direction of the one row matters."""
    mechanism = Gaussian(2, DELTA)
    resolved = _minimum("objective", "add_remove")
    noise = resolved.calibrate(mechanism).noise[0]

    def scored(ridge: float) -> Score:
        def score(theta: np.ndarray) -> np.ndarray:
            at = theta.sum(axis=1) / _RADIUS
            pull = expit(-at)
            near, far = (ridge * at - pull) / noise.scale, ridge * at / noise.scale
            return np.log1p(pull * (1 - pull) / ridge) + (far**2 - near**2) / 2

        return score

    bare = 0.002
    return Game(
        "objective perturbation, add_remove",
        2.0,
        DELTA,
        _sampler(resolved, tables, noise, scored(_RIDGE)),
        "hardly any regularizer",
        _sampler(_minimum("objective", "add_remove", bare), tables, noise, scored(bare)),
    )


def _output_game(
    neighbours: Neighbours, tables: tuple[Table, Table], mistake: str, share: float
) -> Game:
    resolved = _minimum("output", neighbours)
    noise = resolved.calibrate(Gaussian(1, DELTA)).noise[0]
    steps = max(round(noise.scale / noise.grid * share), 1)
    return Game(
        f"output perturbation, {neighbours}",
        1.0,
        DELTA,
        _sampler(resolved, tables, noise, _features),
        mistake,
        _sampler(resolved, tables, replace(noise, scale=steps * noise.grid), _features),
        pace=20,
    )
