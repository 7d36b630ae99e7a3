"""Attacks on draws of coefficients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.audit.draws import sampled
from tacit.audit.game import DELTA, Game, Scores, Table
from tacit.draws.conjugate import regression_law, resolve_draw
from tacit.sources.data import open_data
from tacit.spec.columns import Real
from tacit.spec.draws import BallRegression, ConjugateDraw
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours, Schema


def coefficient_games() -> list[Game]:
    rest = {"x": [0.0], "y": [0.0]}
    joined = {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    moved = {"x": [0.0, 1.0], "y": [0.0, -1.0]}
    return [
        _coefficient_game("add_remove", (rest, joined)),
        _coefficient_game("replace_one", (joined, moved)),
    ]


def _coefficient_game(neighbours: Neighbours, tables: tuple[Table, Table]) -> Game:
    """A prior that is narrow in its ball, where the claim is nearly attained."""
    schema = Schema(Real("x", -1, 1), Real("y", -1, 1), neighbours=neighbours)
    law = BallRegression("y", ("x",), sd=0.1, scale=0.05, radius=0.2)
    calibration = resolve_draw(ConjugateDraw(law), schema).calibrate(Exponential(1, DELTA))
    several = resolve_draw(ConjugateDraw(law, draws=1000), schema)

    def sampler(temperature: float) -> Callable[[int], Scores]:
        def scores(runs: int) -> Scores:
            sides = [several.evaluate(open_data(table, schema), ()) for table in tables]
            laws = [
                regression_law(several.query, several.moments(side), temperature) for side in sides
            ]
            found = []
            for side in sides:
                x = law.radius * sampled(several, side, temperature, runs)
                logs = [
                    -0.5 * np.einsum("ni,ij,nj->n", x - mean, precision, x - mean)
                    for mean, precision in laws
                ]
                found.append(logs[1] - logs[0])
            return found[0], found[1]

        return scores

    temperature = calibration.noise[0].scale
    return Game(
        f"draw of coefficients, {neighbours}",
        float(calibration.cost.epsilon),
        float(calibration.cost.delta),
        sampler(temperature),
        "half the temperature",
        sampler(temperature / 2),
        pace=20,
    )
