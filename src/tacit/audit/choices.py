"""Exact audits of choices: votes, annealed runs, and the steps of a chain."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np

from tacit.audit.exact import Outcomes, finite_game, temperature_of
from tacit.audit.game import Game, schema_of
from tacit.draws.choice import ChoiceAnswer, resolve_choice
from tacit.methods.metropolis import choice_query
from tacit.models import BetaBernoulli
from tacit.sources.data import open_data
from tacit.spec.choice import Choice
from tacit.spec.columns import Categorical
from tacit.spec.kernels import Kernel
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.answers import read

_CELLS = ("a", "b", "")


def choice_games() -> list[Game]:
    add, swap = _schema("add_remove"), _schema("replace_one")
    votes = np.array([[3.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), np.array([0])  # (option, level)
    table = Kernel("table.scores")
    scores = BoundedSum(table, "x", size=3, clip=3.0, geometry="box", state=votes)
    query = Choice(scores, (0.0, -2.0, 1.0))
    # Two runs that ended in opposite corners; what lies in between is less of a risk.
    pairs = _schema("replace_one", 2)
    walk = BetaBernoulli("x", success="b").walk(pairs)
    corners = np.array([[-np.log(9)], [np.log(9)]])
    runs = choice_query(walk, corners, 2 * np.log(9))
    of_add = "temperature of add_remove"
    return [
        _game("choice", query, add, "half the temperature", 0.5),
        _game("choice", query, swap, of_add, add),
        _game("choice among annealed runs, two rows a unit", runs, pairs, of_add,
              _schema("add_remove", 2)),
        _barker_game(),
    ]  # fmt: skip


def _schema(neighbours: Neighbours, rows: int | None = None) -> Schema:
    return schema_of(Categorical("x", ["a", "b"]), neighbours=neighbours, rows=rows)


def _game(
    name: str,
    query: Choice,
    schema: Schema,
    mistake: str,
    broken: Schema | float | Callable[[], float],
) -> Game:
    """The twin's temperature is another schema's, or a multiple of the right one."""
    resolved = resolve_choice(query, schema)
    weights = np.array(query.log_weights)
    outcomes = Outcomes(weights, np.eye(len(weights)) * resolved.scores.exact()[0].grid)
    if isinstance(broken, Schema):
        broken = temperature_of(resolve_choice(query, broken))
    elif isinstance(broken, float):
        broken *= temperature_of(resolved)
    rows = cache(lambda: _single_rows(resolved))
    return finite_game(name, resolved, outcomes, rows, mistake, broken)


def _single_rows(resolved: ChoiceAnswer) -> np.ndarray:
    """The wall's statistic of each row alone."""
    sources = [open_data({"x": [cell], "who": [1]}, resolved.schema) for cell in _CELLS]
    return np.array([read(source, resolved, ()).integers for source in sources])


def _barker_game() -> Game:
    """A step down from log odds 7 to 5, where a failure says nearly all that its clip allows."""
    schema = _schema("add_remove")
    walk = BetaBernoulli("x", success="b").walk(schema)
    log_prior = -0.5  # of an arbitrary prior
    step = choice_query(walk, np.array([[7.0], [5.0]]), 2 * walk.max_gradient)
    query = Choice(step.scores, (0.0, log_prior))
    resolved = resolve_choice(query, schema)
    unit = resolved.scores.exact()[0].grid / temperature_of(resolved)

    def metropolis() -> float:
        """Go with probability min(1, ratio): then no data set but one may ever stay."""
        single = _single_rows(resolved)
        worst = 0.0
        for base, row in product(range(4), range(len(single))):
            totals = base * single[1] + np.array([0 * single[row], single[row]])
            go = np.minimum(0.0, (totals[:, 1] - totals[:, 0]) * unit + log_prior)
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = np.diff([np.log(-np.expm1(go)), go])
            worst = max(worst, float(np.nanmax(np.abs(moved))))
        return worst

    return _game("Barker step", query, schema, "Metropolis's rule in its place", metropolis)
