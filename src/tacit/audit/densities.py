"""Exact audits of draws from a log-likelihood: among points, and the law that a chain is to reach.

The log-likelihood is far steeper than its width allows, so that privacy hangs on the wall's cut.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from tacit.accounting.draws import calibrate_density
from tacit.audit.exact import Outcomes, chi_square, kolmogorov
from tacit.audit.game import Game, exact_game
from tacit.draws.choice import ChoiceAnswer
from tacit.draws.density import DensityAnswer, DensityData, resolve_density
from tacit.sources.data import open_data
from tacit.spec.columns import Real
from tacit.spec.density import Box, DensityDraw, Points
from tacit.spec.mechanisms import Exponential
from tacit.spec.programs import Program, trace
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.answers import read
from tacit.wall.noise import os_entropy

_WIDTH = 2.0
_CELLS = (-1.0, 0.3, 1.0, np.nan)
_POINTS = np.linspace(-1, 1, 41)[:, None]
_FEW = np.array([[-1.0], [-0.2], [0.3], [1.0]])
_ENOUGH = 250  # of a chain's draws


def density_games() -> list[Game]:
    return [
        _game(region, neighbours)
        for region in (Points(_FEW), Box((-1.0,), (1.0,)))
        for neighbours in ("replace_one", "add_remove")
    ]


@cache
def _steep() -> Program:
    """The log-likelihood -6 |x - theta|."""
    return trace(lambda row, theta: -6 * abs(row - theta), 1, np.zeros(1))


def _schema(neighbours: Neighbours) -> Schema:
    return Schema(Real("x", -1, 1), neighbours=neighbours)


def _query(region: Points | Box, draws: int = 1) -> DensityDraw:
    return DensityDraw(_steep(), "x", region, width=_WIDTH, steps=60, draws=draws)


def _game(region: Points | Box, neighbours: Neighbours) -> Game:
    """The twin has the temperature of add_remove; or there, forgets to cut at the width."""
    schema = _schema(neighbours)
    calibration = calibrate_density(Exponential(1), _query(region), schema)
    finite = isinstance(region, Points)
    points = _FEW if finite else _POINTS
    outcomes = Outcomes(np.zeros(len(points)), np.eye(len(points)))
    # Compiled when it is first played.
    several = cache(lambda draws: resolve_density(_query(region, draws), schema))
    single = cache(lambda: np.array([_scores(several(1), [cell]) for cell in _CELLS]))

    def loss(temperature: float) -> float:
        return outcomes.largest_loss(single(), 1, neighbours, temperature)

    def p_value(temperature: float, runs: int) -> float:
        data = [-1.0, -1.0, 0.3, 0.3, 0.3, 1.0]
        many = several(_ENOUGH)
        statistic = read(open_data({"x": data}, schema), many, ())
        log_law = outcomes.log_law(_scores(many, data), temperature)
        noise = many.at_temperature(temperature)
        if finite:
            times = range(-(-runs // _ENOUGH))
            drawn = [many.sample(statistic, noise, os_entropy) for _ in times]
            return chi_square(np.concatenate(drawn), log_law)
        at = region.parameters(many.sample(statistic, noise, os_entropy) * noise[0].grid)
        return kolmogorov(at, _POINTS[:, 0], log_law)

    def uncut() -> float:
        rows = -6 * np.abs(np.nan_to_num(_CELLS)[:, None] - points[:, 0])
        return outcomes.largest_loss(rows, 1, neighbours, calibration.noise[0].scale)

    name = "draw among points" if finite else "chain of a log-likelihood, its target"
    game = partial(exact_game, f"{name}, {neighbours}", calibration, loss, p_value)
    if neighbours == "add_remove":
        return game("width not enforced", uncut)
    twin = calibrate_density(Exponential(1), _query(region), _schema("add_remove"))
    return game("temperature of add_remove", twin.noise[0].scale)


def _scores(resolved: ChoiceAnswer | DensityAnswer, cells: list[float]) -> np.ndarray:
    """The score of each point, by the wall's own integers."""
    source = open_data({"x": np.array(cells)}, resolved.schema)
    statistic = read(source, resolved, ())
    if isinstance(statistic, DensityData):
        return np.array([resolved.score(point, statistic.data) for point in _POINTS])
    return statistic.integers * resolved.scores.exact()[0].grid
