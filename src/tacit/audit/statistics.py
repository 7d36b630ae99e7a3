"""Attacks on releases of one statistic: counts, sums and moments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacit.audit.game import DELTA, Game, Scores, Table, attack, both_relations, schema_of
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical, Real
from tacit.spec.kernels import Kernel
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.moments import Moments
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.answers import TIERS, Answers, calibrated, read
from tacit.wall.noise import draw

_resolve = Answers.of(TIERS).resolve
_L1, _L2 = Laplace(1), Gaussian(1, DELTA)
_HALF, _OF_ADD = "half the noise", "sensitivity of add_remove"
Tables = tuple[Table, Table]


def count_games() -> list[Game]:
    kind, query = Categorical("kind", ["a", "b"]), Counts("kind")
    add, swap = both_relations(kind)
    joined = {"kind": ["b"]}, {"kind": ["b", "a"]}
    moved = {"kind": ["b", "a"]}, {"kind": ["b", "b"]}
    three = {"kind": ["a"] * 5, "who": [1, 2, 2, 2, 2]}, {"kind": ["a"], "who": [1]}
    most_three, most_one = (schema_of(kind, neighbours="add_remove", rows=n) for n in (3, 1))
    return [
        _game("counts, Laplace", add, query, _L1, joined, _HALF, 0.5),
        _game("counts, Laplace", swap, query, _L1, moved, _OF_ADD, add),
        _game("counts, Gaussian", add, query, _L2, joined, _HALF, 0.5),
        _game("counts, Gaussian", swap, query, _L2, moved, _HALF, 0.5),
        _game("counts, three rows a unit", most_three, query, _L1, three,
              "noise for one row a unit", most_one),
    ]  # fmt: skip


def sum_games() -> list[Game]:
    columns = Real("x", -1, 1), Real("y", -1, 1)
    add, swap = both_relations(*columns)
    joined = {"x": [0.0], "y": [0.0]}, {"x": [0.0, 1.0], "y": [0.0, 0.0]}
    turned = {"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]}
    across = {"x": [1.0], "y": [0.0]}, {"x": [0.0], "y": [1.0]}
    often = (
        {"x": [0.0], "y": [0.0], "who": [1]},
        {"x": [0.0, 1.0, 1.0, 1.0], "y": [0.0] * 4, "who": [1, 2, 2, 2]},
    )
    three = schema_of(*columns, neighbours="add_remove", rows=3)
    free, nonnegative = xy_sum(), xy_sum(geometry="nonnegative")
    add_x, swap_x = both_relations(columns[0])
    ends = {"x": [1.0]}, {"x": [-1.0]}
    return [
        _game("sum, Laplace", swap, xy_sum(norm="l1"), _L1, turned, _OF_ADD, add),
        _game("sum, Gaussian, free", add, free, _L2, joined, _HALF, 0.5),
        _game("sum, Gaussian, free", swap, free, _L2, turned, _OF_ADD, add),
        _game("sum, Gaussian, nonnegative", swap, nonnegative, _L2, across,
              "the square root of 2 forgotten", add),
        _game("sum, Gaussian, outer products", swap_x, outer_sum(), _L2, ends,
              "the square root of 2 forgotten", add_x),
        _game("sum, Gaussian, three rows a unit", three, free, _L2, often,
              "rows clipped, not units", 1.0, bounded_by=add),
    ]  # fmt: skip


def moment_games() -> list[Game]:
    add, swap = both_relations(Real("x", -1, 1), Real("y", -1, 1))
    _, total = both_relations(Real("x", -1, 1, 0.0), Real("y", -1, 1, 0.0))

    def corner(query: Moments, mechanism: Laplace | Gaussian) -> Tables:
        """A row of ones, and the row t (1, ..., 1) that is furthest from it by this noise."""
        noise, d = calibrated(_resolve(query, total), mechanism).noise, len(query.columns)
        t, scale = np.linspace(-1, 1, 2001)[:, None], np.array([law.scale for law in noise])
        gaps = np.where(np.arange(len(noise)) < d, 1 - t, 1 - t**2) / scale
        norm = 1 if isinstance(mechanism, Laplace) else 2
        worst = float(t[np.linalg.norm(gaps, norm, axis=1).argmax(), 0])
        return {"x": [1.0], "y": [1.0]}, {"x": [worst], "y": [worst]}

    line, square, sums = Moments("x"), Moments(["x", "y"]), Moments("x", split=(9, 1, 9))
    joined = {"x": [0.0], "y": [0.0]}, {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    turned = {"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]}
    return [
        _game("moments, Laplace", add, square, _L1, joined, _HALF, 0.5),
        _game("moments, Laplace", total, line, _L1, corner(line, _L1), _HALF, 0.5),
        _game("moments of two columns, Laplace", total, square, _L1, corner(square, _L1),
              _HALF, 0.5),
        _game("moments, Laplace", swap, sums, _L1, turned, _OF_ADD, add),
        _game("moments, Gaussian", total, line, _L2, corner(line, _L2), _HALF, 0.5),
        _game("moments, Gaussian", swap, sums, _L2, turned, _OF_ADD, add),
    ]  # fmt: skip


def xy_sum(**bound: Any) -> BoundedSum:
    """The sum of x and y as they are, with a clip of 1."""
    as_they_are = np.zeros(2), np.ones(2)  # midpoint and scale
    values = Kernel("columns.values")
    return BoundedSum(values, ["x", "y"], size=2, clip=1.0, state=as_they_are, **bound)


def outer_sum() -> BoundedSum:
    """The sum of (1, x)(1, x)': the two ends of x are orthogonal, each of norm 2."""
    one = np.ones(1)
    state = np.zeros(1), one, np.zeros(1), np.eye(1), one  # midpoint, scale, centre, axes, reach
    products = Kernel("normal_mixture.products")
    return BoundedSum(products, ["x"], size=3, clip=2.0, geometry="outer", state=state)


def _game(
    name: str,
    schema: Schema,
    query: Query,
    mechanism: Laplace | Gaussian,
    tables: Tables,
    mistake: str,
    broken: float | Schema,
    *,
    bounded_by: Schema | None = None,
) -> Game:
    """The wall's statistic on both tables, and its noise many times.

    The twin's noise is a multiple of the right one, or is for another schema; or its statistic is
    bounded as another schema says.
    """
    calibration = calibrated(_resolve(query, schema), mechanism)
    noise = calibration.noise

    def scores(setting: tuple[tuple[Noise, ...], Schema], runs: int) -> Scores:
        laws, bounded = setting
        resolved = _resolve(query, bounded)
        sizes = [block.size for block in resolved.blocks]
        grids = np.repeat([law.grid for law in noise], sizes)
        sources = [open_data(table, bounded) for table in tables]
        means = [read(source, resolved, noise).integers * grids for source in sources]
        return [_ratio(mean + _noise(laws, sizes, runs), means, laws, sizes) for mean in means]

    if isinstance(broken, Schema):
        twin = calibrated(_resolve(query, broken), mechanism).noise
    else:
        twin = tuple(_narrowed(law, broken) for law in noise)
    return attack(
        f"{name}, {schema.neighbours}", calibration.cost, scores, (noise, schema),
        mistake, (twin, bounded_by or schema), pace=20,
    )  # fmt: skip


def _narrowed(law: Noise, factor: float) -> Noise:
    if law.family == "discrete_laplace":
        return replace(law, scale=law.scale * factor)
    return replace(law, scale=round(law.scale * factor / law.grid) * law.grid)


def _noise(laws: tuple[Noise, ...], sizes: list[int], runs: int) -> np.ndarray:
    parts = [
        draw(law, size * runs).reshape(runs, size) * law.grid
        for law, size in zip(laws, sizes, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def _ratio(
    values: np.ndarray, means: list[np.ndarray], laws: tuple[Noise, ...], sizes: list[int]
) -> np.ndarray:
    """The log-likelihood ratio of the second data set against the first."""
    scale = np.repeat([law.scale for law in laws], sizes)
    from_first, from_second = ((values - mean) / scale for mean in means)
    if laws[0].family == "discrete_laplace":
        return (np.abs(from_first) - np.abs(from_second)).sum(axis=1)
    return (from_first**2 - from_second**2).sum(axis=1) / 2
