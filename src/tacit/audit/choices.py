"""Exact audits of choices: votes, annealed runs, and the steps of a walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from tacit.audit.draws import ALARM, ExactGame
from tacit.audit.finite import Outcomes, finite_game, fits, heat_of, largest_loss
from tacit.draws.choice import ChoiceAnswer, resolve_choice
from tacit.methods.annealed import linear_scores
from tacit.methods.metropolis import Rule
from tacit.models import BetaBernoulli
from tacit.sources.data import open_data
from tacit.spec.choice import Choice
from tacit.spec.columns import Categorical
from tacit.spec.draws import TruncatedDirichlet
from tacit.spec.kernels import Kernel
from tacit.spec.keys import Is
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic


def _single(resolved: ChoiceAnswer, schema: Schema, kinds: Sequence[str]) -> np.ndarray:
    """The wall's statistic of each row alone."""
    tables = [{"x": [kind], "who": [1]} for kind in kinds]
    return np.array([resolved.evaluate(open_data(t, schema), ()).integers for t in tables])


def _options(resolved: ChoiceAnswer) -> Outcomes:
    grid = resolved.scores.exact()[0].grid
    weights = np.array(resolved.query.log_weights)
    return Outcomes(weights, np.eye(len(weights)) * grid)


def _choice_game(
    name: str,
    query: Choice,
    schema: Schema,
    kinds: Sequence[str],
    mistake: str,
    broken: Schema | float,
) -> ExactGame:
    """The twin's temperature is another schema's, or so many times the right one."""
    resolved = resolve_choice(query, schema)
    calibration = resolved.calibrate(Exponential(1))
    outcomes, relation = _options(resolved), schema.neighbours

    single = cache(lambda: _single(resolved, schema, kinds))

    def loss(heat: float) -> float:
        return largest_loss(outcomes, single(), schema.max_rows_per_unit, relation, heat)

    def law_fits(heat: float, runs: int) -> bool:
        steps = single().sum(axis=0)
        noise, statistic = resolved.at_temperature(heat), Statistic(steps, 1)
        drawn = [int(resolved.sample(statistic, noise, os_entropy)[0]) for _ in range(runs)]
        return fits(np.array(drawn), outcomes.log_law(steps, heat)) > ALARM

    heat = calibration.noise[0].scale
    twin = heat * broken if isinstance(broken, float) else heat_of(resolve_choice(query, broken))
    return finite_game(name, calibration, relation, mistake, loss, law_fits, twin)


def _levels(neighbours: Neighbours, rows: int | None = None) -> Schema:
    unit = None if rows is None else "who"
    column = Categorical("x", ["a", "b"])
    return Schema(column, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)


def choice_games() -> list[ExactGame]:
    add, swap = _levels("add_remove"), _levels("replace_one")
    votes = np.array([[3.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), np.array([0])  # (option, level)
    table = Kernel("table.scores")
    scores = BoundedSum(table, "x", size=3, clip=3.0, geometry="box", state=votes)
    kinds = ("a", "b", "")
    query = Choice(scores, (0.0, -2.0, 1.0))
    # Two runs that ended in opposite corners; draws in between are less of a risk.
    law = TruncatedDirichlet(Is("x", ("b",)), (1.0, 1.0), truncation=0.1)
    gains = np.array([[np.log(9), 0.0], [0.0, np.log(9)]])
    pairs = _levels("replace_one", 2)
    weights = Choice(linear_scores(law, pairs, gains))
    return [
        _choice_game("choice", query, add, kinds, "half the temperature", 0.5),
        _choice_game("choice", query, swap, kinds, "temperature of add_remove", add),
        _choice_game(
            "choice among annealed runs, two rows a unit", weights, pairs, kinds,
            "temperature of add_remove", _levels("add_remove", 2),
        ),
        _barker_game(),
    ]  # fmt: skip


def _barker_game() -> ExactGame:
    """A step down from log odds 7 to 5, where a failure says nearly all that its clip allows."""
    schema = _levels("add_remove")
    walk = BetaBernoulli("x", success="b").walk(schema)
    here, there = np.array([7.0]), np.array([5.0])
    log_prior = -0.5  # some prior's
    rule = Rule("barker", walk, 2 * walk.max_gradient, 1.0)
    query = rule.question(here, there, log_prior)
    assert isinstance(query, Choice)
    kinds = ("a", "b", "")
    honest = _choice_game("Barker step", query, schema, kinds, "", 0.5)
    resolved = resolve_choice(query, schema)
    heat, grid = heat_of(resolved), resolved.scores.exact()[0].grid

    def metropolis(runs: int) -> float:
        """Go with probability min(1, ratio): then no data set but one may ever stay."""
        single = _single(resolved, schema, kinds)
        worst = 0.0
        for base, row in product(range(4), range(len(kinds))):
            steps = base * single[1]
            logs = []
            for total in (steps, steps + single[row]):
                ratio = (total[1] - total[0]) * grid / heat + log_prior
                go = min(0.0, float(ratio))
                with np.errstate(divide="ignore"):
                    logs.append(np.array([np.log(-np.expm1(go)), go]))
            with np.errstate(invalid="ignore"):
                moved = np.abs(logs[1] - logs[0])
            worst = max(worst, float(np.nanmax(moved)))
        return worst

    return replace(honest, mistake="Metropolis's rule in its place", broken=metropolis)
