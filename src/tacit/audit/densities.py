"""Exact audits of draws from a log-likelihood: among points, and the law that a chain is to reach.

The log-likelihood is far steeper than its width allows, so that privacy hangs on the wall's cut.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from scipy.stats import kstest

from tacit.accounting.draws import calibrate_density
from tacit.audit.draws import ALARM, ExactGame
from tacit.audit.finite import Outcomes, finite_game, fits, largest_loss
from tacit.draws.choice import ChoiceAnswer
from tacit.draws.density import DensityAnswer, Loaded, resolve_density
from tacit.sources.data import open_data
from tacit.spec.columns import Real
from tacit.spec.density import Ball, Box, DensityDraw, Points
from tacit.spec.mechanisms import Exponential
from tacit.spec.programs import Program, trace
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.noise import os_entropy

_WIDTH = 2.0
_KINDS = (-1.0, 0.3, 1.0, None)
_PLACES = np.linspace(-1, 1, 41)[:, None]
_FEW = np.array([[-1.0], [-0.2], [0.3], [1.0]])
_ENOUGH = 250  # of a chain's draws


@cache
def _steep() -> Program:
    """The log-likelihood -6 |x - theta|."""
    return trace(lambda row, theta: -6 * abs(row - theta), 1, np.zeros(1))


def _schema(neighbours: Neighbours) -> Schema:
    return Schema(Real("x", -1, 1), neighbours=neighbours)


def _query(region: Points | Box | Ball, draws: int = 1) -> DensityDraw:
    return DensityDraw(_steep(), "x", region, width=_WIDTH, steps=60, draws=draws)


def _scores(resolved: ChoiceAnswer | DensityAnswer, cells: list[float | None]) -> np.ndarray:
    """What rows say for each place, by the wall's own integers."""
    table = {"x": np.array([np.nan if x is None else x for x in cells])}
    statistic = resolved.evaluate(open_data(table, resolved.schema), ())  # type: ignore[arg-type]
    if isinstance(statistic, Loaded):
        return np.array([resolved.score(place, statistic.data) for place in _PLACES])
    return statistic.integers * resolved.scores.exact()[0].grid


def _game(region: Points | Box | Ball, neighbours: Neighbours, *, cut: bool) -> ExactGame:
    """The twin has the temperature of add_remove, or (`cut`) forgets to cut at the width."""
    schema = _schema(neighbours)
    calibration = calibrate_density(Exponential(1), _query(region), schema)
    finite = isinstance(region, Points)
    places = _FEW if finite else _PLACES
    outcomes = Outcomes(np.zeros(len(places)), np.eye(len(places)))
    # Compiled when it is first played.
    several = cache(lambda draws: resolve_density(_query(region, draws), schema))
    single = cache(lambda: np.array([_scores(several(1), [kind]) for kind in _KINDS]))
    data = [-1.0, -1.0, 0.3, 0.3, 0.3, 1.0]

    def loss(heat: float) -> float:
        return largest_loss(outcomes, single(), 1, neighbours, heat)

    def law_fits(heat: float, runs: int) -> bool:
        many = several(_ENOUGH)
        statistic = many.evaluate(open_data({"x": data}, schema), ())  # type: ignore[arg-type]
        log_law = outcomes.log_law(_scores(many, list(data)), heat)
        noise = many.at_temperature(heat)
        if finite:
            times = -(-runs // _ENOUGH)
            drawn = [many.sample(statistic, noise, os_entropy) for _ in range(times)]
            return fits(np.concatenate(drawn), log_law) > ALARM
        at = region.places(many.sample(statistic, noise, os_entropy) * noise[0].grid)
        # by the trapezoidal rule between places
        density = np.exp(log_law)
        below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return bool(
            kstest(at, lambda x: np.interp(x, _PLACES[:, 0], below / below[-1])).pvalue > ALARM
        )

    def uncut(runs: int) -> float:
        rows = np.array([-6 * np.abs((kind or 0.0) - places[:, 0]) for kind in _KINDS])
        return largest_loss(outcomes, rows, 1, neighbours, calibration.noise[0].scale)

    name = "draw among points" if finite else "chain of a log-likelihood, its target"
    other = calibrate_density(Exponential(1), _query(region), _schema("add_remove"))
    mistake = "temperature of add_remove"
    game = finite_game(name, calibration, neighbours, mistake, loss, law_fits, other.noise[0].scale)
    return replace(game, mistake="width not enforced", broken=uncut) if cut else game


def density_games() -> list[ExactGame]:
    points, box = Points(_FEW), Box((-1.0,), (1.0,))
    return [
        _game(points, "replace_one", cut=False),
        _game(points, "add_remove", cut=True),
        _game(box, "replace_one", cut=False),
        _game(box, "add_remove", cut=True),
    ]
