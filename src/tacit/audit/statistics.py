"""Attacks on releases of one statistic: counts, sums and moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.audit.game import DELTA, Game, Scores, Table
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical, Real
from tacit.spec.kernels import Kernel
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.moments import Moments
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Noise
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.answers import TIERS, Answers, calibrated
from tacit.wall.noise import draw

resolve = Answers.of(TIERS).resolve


def _release_game(
    name: str,
    schema: Schema,
    query: Query,
    mechanism: Laplace | Gaussian,
    tables: tuple[Table, Table],
    mistake: str,
    *,
    narrow: float = 1.0,
    noise_of: Schema | None = None,
    rows_of: Schema | None = None,
) -> Game:
    """The wall's statistic on both tables, and its noise many times.

    The twin has noise `narrow` times as wide, or calibrated for another schema, or its
    statistic bounded as another schema says.
    """
    noise = calibrated(resolve(query, schema), mechanism).noise

    def sampler(laws: tuple[Noise, ...], bounded: Schema) -> Callable[[int], Scores]:
        resolved = resolve(query, bounded)
        steps = [resolved.evaluate(open_data(table, bounded), noise).integers for table in tables]
        sizes = [block.size for block in resolved.blocks]
        grids = np.repeat([law.grid for law in noise], sizes)
        means = [side * grids for side in steps]

        def scores(runs: int) -> Scores:
            return tuple(  # type: ignore[return-value]
                _ratio(mean + _noise(laws, sizes, runs), means, laws, sizes) for mean in means
            )

        return scores

    other = noise if noise_of is None else calibrated(resolve(query, noise_of), mechanism).noise
    other = tuple(_narrowed(law, narrow) for law in other)
    cost = calibrated(resolve(query, schema), mechanism).cost
    return Game(
        f"{name}, {schema.neighbours}",
        float(cost.epsilon),
        float(cost.delta),
        sampler(noise, schema),
        mistake,
        sampler(other, rows_of or schema),
        pace=20,
    )


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


def xy_sum(**bound: Any) -> BoundedSum:
    """The sum of x and y as they are, with a clip of 1."""
    as_they_are = np.zeros(2), np.ones(2)  # midpoint and scale
    values = Kernel("columns.values")
    return BoundedSum(values, ["x", "y"], size=2, clip=1.0, state=as_they_are, **bound)


def count_games() -> list[Game]:
    def schema(neighbours: Neighbours, rows: int | None = None) -> Schema:
        column = Categorical("kind", ["a", "b"])
        unit = None if rows is None else "who"
        return Schema(column, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)

    add, swap = schema("add_remove"), schema("replace_one")
    nobody, someone = {"kind": ["b"]}, {"kind": ["b", "a"]}
    moved = ({"kind": ["b", "a"]}, {"kind": ["b", "b"]})
    three = {"kind": ["a"] * 5, "who": [1, 2, 2, 2, 2]}, {"kind": ["a"], "who": [1]}
    query = Counts("kind")
    return [
        _release_game(
            "counts, Laplace", add, query, Laplace(1), (nobody, someone), "half the noise",
            narrow=0.5,
        ),
        _release_game(
            "counts, Laplace", swap, query, Laplace(1), moved, "sensitivity of add_remove",
            noise_of=add,
        ),
        _release_game(
            "counts, Gaussian", add, query, Gaussian(1, DELTA), (nobody, someone),
            "half the noise", narrow=0.5,
        ),
        _release_game(
            "counts, Gaussian", swap, query, Gaussian(1, DELTA), moved, "half the noise",
            narrow=0.5,
        ),
        _release_game(
            "counts, three rows a unit", schema("add_remove", 3), query, Laplace(1), three,
            "noise for one row a unit", noise_of=schema("add_remove", 1),
        ),
    ]  # fmt: skip


def sum_games() -> list[Game]:
    def schema(neighbours: Neighbours, rows: int | None = None) -> Schema:
        unit = None if rows is None else "who"
        columns = Real("x", -1, 1), Real("y", -1, 1)
        return Schema(*columns, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)

    add, swap = schema("add_remove"), schema("replace_one")
    nobody, someone = {"x": [0.0], "y": [0.0]}, {"x": [0.0, 1.0], "y": [0.0, 0.0]}
    turned = ({"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]})
    across = ({"x": [1.0], "y": [0.0]}, {"x": [0.0], "y": [1.0]})
    often = (
        {"x": [0.0], "y": [0.0], "who": [1]},
        {"x": [0.0, 1.0, 1.0, 1.0], "y": [0.0] * 4, "who": [1, 2, 2, 2]},
    )
    return [
        _release_game(
            "sum, Laplace", swap, xy_sum(norm="l1"), Laplace(1), turned,
            "sensitivity of add_remove", noise_of=add,
        ),
        _release_game(
            "sum, Gaussian, free", add, xy_sum(), Gaussian(1, DELTA), (nobody, someone),
            "half the noise", narrow=0.5,
        ),
        _release_game(
            "sum, Gaussian, free", swap, xy_sum(), Gaussian(1, DELTA), turned,
            "sensitivity of add_remove", noise_of=add,
        ),
        _release_game(
            "sum, Gaussian, nonnegative", swap, xy_sum(geometry="nonnegative"), Gaussian(1, DELTA),
            across, "the square root of 2 forgotten", noise_of=add,
        ),
        _release_game(
            "sum, Gaussian, three rows a unit", schema("add_remove", 3), xy_sum(),
            Gaussian(1, DELTA), often, "rows clipped, not units", rows_of=add,
        ),
    ]  # fmt: skip


def moment_games() -> list[Game]:
    def schema(neighbours: Neighbours, default: float | None = None) -> Schema:
        columns = Real("x", -1, 1, default), Real("y", -1, 1, default)
        return Schema(*columns, neighbours=neighbours)

    def corner(query: Moments, mechanism: Laplace | Gaussian) -> tuple[Table, Table]:
        """A row of ones, and the row t (1, ..., 1) that is furthest from it by this noise."""
        noise, d = calibrated(resolve(query, total), mechanism).noise, len(query.columns)
        t, scale = np.linspace(-1, 1, 2001)[:, None], np.array([law.scale for law in noise])
        gaps = np.where(np.arange(len(noise)) < d, 1 - t, 1 - t**2) / scale
        norm = 1 if isinstance(mechanism, Laplace) else 2
        worst = float(t[np.linalg.norm(gaps, norm, axis=1).argmax(), 0])
        return {"x": [1.0], "y": [1.0]}, {"x": [worst], "y": [worst]}

    add, swap, total = schema("add_remove"), schema("replace_one"), schema("replace_one", 0.0)
    line, square, sums = Moments("x"), Moments(["x", "y"]), Moments("x", split=(9, 1, 9))
    nobody, someone = {"x": [0.0], "y": [0.0]}, {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    turned = ({"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]})
    by_l1, by_l2, forgotten = Laplace(1), Gaussian(1, DELTA), "sensitivity of add_remove"
    return [
        _release_game(
            "moments, Laplace", add, square, by_l1, (nobody, someone), "half the noise", narrow=0.5,
        ),
        _release_game(
            "moments, Laplace", total, line, by_l1, corner(line, by_l1), "half the noise",
            narrow=0.5,
        ),
        _release_game(
            "moments of two columns, Laplace", total, square, by_l1, corner(square, by_l1),
            "half the noise", narrow=0.5,
        ),
        _release_game("moments, Laplace", swap, sums, by_l1, turned, forgotten, noise_of=add),
        _release_game(
            "moments, Gaussian", total, line, by_l2, corner(line, by_l2), "half the noise",
            narrow=0.5,
        ),
        _release_game("moments, Gaussian", swap, sums, by_l2, turned, forgotten, noise_of=add),
    ]  # fmt: skip
