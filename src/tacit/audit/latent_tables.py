"""Exact audits of latent classes' tables: two classes, one column, all assignments summed over."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from tacit.audit.draws import Simplex
from tacit.audit.exact import kolmogorov, temperature_of
from tacit.audit.game import Game, exact_game, schema_of
from tacit.draws.latent_tables import LatentAnswer, resolve_latent
from tacit.laws.truncated_dirichlet import log_kernel
from tacit.spec.columns import Categorical
from tacit.spec.latent_tables import WEIGHTS, LatentTables
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

Table = tuple[int, ...]  # how many rows there are of each type
_TRUNCATION = 0.3
_FEW, _ALIKE, _MANY = 1, 20, 4000
_FLAT = np.full((2, 2), 0.5)
# What a row is assigned is uncertain, or as good as certain from y.
LIKELY = np.array([[0.8, 0.2], [0.3, 0.7]])
CLEAR = np.array([[1.0, 1e-9], [1e-9, 1.0]])
TYPES = list(product((0, 1, -1), repeat=2))  # levels of x and y, or a missing one
_SIMPLEX = Simplex.of(2, _TRUNCATION / 2)
_NOTHING = -140.0  # of a log-probability: no density is so much larger than others
_POINTS = np.concatenate([_SIMPLEX.theta[-2:], _SIMPLEX.theta[[40, 140]]])  # corners first


def latent_games() -> list[Game]:
    add, swap, two = _schema("add_remove"), _schema("replace_one"), _schema("replace_one", 2)
    single = resolve_latent(query_of(LIKELY, ("x",)), add)
    part, at_add, at_one = map(
        temperature_of, (single, *(resolve_latent(query_of(LIKELY), s) for s in (add, swap)))
    )
    return [
        _game("", add, "range of one table of two", part),
        _game("", swap, "temperature of add_remove", at_add),
        _game(", two rows a unit", two, "temperature of one row a unit", at_one),
    ]


def _schema(neighbours: Neighbours, rows: int | None = None) -> Schema:
    return schema_of(
        Categorical("x", ["a", "b"]), Categorical("y", ["a", "b"]), neighbours=neighbours, rows=rows
    )


def query_of(table: np.ndarray, drawn: tuple[str, ...] = (WEIGHTS, "x")) -> LatentTables:
    """The classes' probabilities and x are drawn; y, which has the table, tells classes apart."""
    x = LIKELY if table is LIKELY else _FLAT
    return LatentTables(("x", "y"), np.array([0.6, 0.4]), (x, table), drawn, 1.0, _TRUNCATION)


def assignments(query: LatentTables, rows: Table) -> tuple[np.ndarray, np.ndarray]:
    """How many rows of each type are of each class (possibility, class, type), and log P of it."""
    tables = [np.column_stack([table, np.ones(2)]) for table in query.probabilities]
    p = np.column_stack([query.weights * tables[0][:, x] * tables[1][:, y] for x, y in TYPES])
    logs = []
    for n, first in zip(rows, p[0] / p.sum(axis=0), strict=True):
        logs.append(np.maximum(binom.logpmf(np.arange(n + 1), n, first), -1e9))
    found = np.array(list(product(*(np.flatnonzero(log > _NOTHING) for log in logs))))
    total = np.sum([log[found[:, i]] for i, log in enumerate(logs)], axis=0)
    return np.stack([found, np.array(rows) - found], axis=1), total


def laws_of(query: LatentTables, rows: Table, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Dirichlet laws (possibility, part, level) for all assignments, and log P of these.

    Parts are the classes' probabilities, and x in each class.
    """
    counts, log = assignments(query, rows)
    x = np.array([[level == seen for seen in (0, 1)] for level, _ in TYPES], float)
    parts = np.concatenate([counts.sum(axis=2)[:, None], counts @ x], axis=1)
    return query.prior + parts / temperature, log


def log_law(query: LatentTables, rows: Table, temperature: float) -> np.ndarray:
    """The log-density at 64 points of what is drawn, summed over assignments."""
    laws, log = laws_of(query, rows, temperature)
    each = log_kernel(_POINTS, laws[:, :, None]) - _SIMPLEX.log_integral(laws)[..., None]
    joint = each[:, 0, :, None, None] + each[:, 1, None, :, None] + each[:, 2, None, None, :]
    return np.asarray(logsumexp(log[:, None] + joint.reshape(len(log), -1), axis=0))


def pairs(schema: Schema, *, many: bool) -> list[tuple[Table, Table]]:
    """Neighbours: few rows of others or some that are alike, and one unit or another.

    Where `many`, a great many of one class besides, and some of the other.
    """
    one = np.eye(len(TYPES), dtype=int)
    bases = [0 * one[0], *one[:_FEW], *(_ALIKE * one[[0, 1, 8]])]
    if many:
        of = {pair: one[i] for i, pair in enumerate(TYPES)}
        bases += [_MANY * of[0, 0], _MANY * of[0, 0] + _MANY // 16 * of[0, 1]]
    some = range(1, schema.max_rows_per_unit + 1)
    # Rows without a value are left to the units of one row.
    full = [i for i, pair in enumerate(TYPES) if -1 not in pair]
    units = [
        *one,
        *(
            one[list(c)].sum(axis=0)
            for n in some[1:]
            for c in combinations_with_replacement(full, n)
        ),
    ]
    others = [0 * one[0]] if schema.neighbours == "add_remove" else units
    return [(tuple(b + u), tuple(b + v)) for b in bases for u in units for v in others]


def largest_move(query: LatentTables, schema: Schema, temperature: float, *, many: bool) -> float:
    """The largest |log-ratio| of densities over neighbours."""
    law = cache(lambda rows: log_law(query, rows, temperature))
    return max(float(np.abs(law(a) - law(b)).max()) for a, b in pairs(schema, many=many))


def _game(extra: str, schema: Schema, mistake: str, broken: float) -> Game:
    resolved = resolve_latent(query_of(LIKELY), schema)
    calibration = resolved.calibrate(Exponential(1))

    def loss(temperature: float) -> float:
        uncertain = largest_move(query_of(LIKELY), schema, temperature, many=False)
        return max(uncertain, largest_move(query_of(CLEAR), schema, temperature, many=True))

    name = f"tables of latent classes{extra}, {schema.neighbours}"
    p_value = lambda temperature, runs: _p_value(resolved, temperature, runs)  # noqa: E731
    return exact_game(name, calibration, loss, p_value, mistake, broken)


def _p_value(resolved: LatentAnswer, temperature: float, runs: int) -> float:
    """Bonferroni p-value of three tests: the classes' probabilities, and x in each class."""
    rows = (2, 1, 1, 1, 2, 0, 0, 1, 1)
    codes = np.repeat(np.array(TYPES), rows, axis=0).ravel()
    noise, statistic = resolved.at_temperature(temperature), Statistic(codes, sum(rows))
    drawn = [resolved.sample(statistic, noise, os_entropy) for _ in range(min(runs, 500))]
    laws, log = laws_of(resolved.query, rows, temperature)
    order = np.argsort(_SIMPLEX.theta[:, 1])
    law = logsumexp(log[:, None, None] + _SIMPLEX.log_density(laws), axis=0)[:, order]
    values = np.array(drawn)[:, 1::2].T * noise[0].grid
    return 3 * min(map(kolmogorov, values, [_SIMPLEX.theta[order, 1]] * 3, law))
