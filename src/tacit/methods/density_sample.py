"""From a model's log-likelihood and a region to the draw that is asked for.

The width, how much better one point may explain a row than another, is found on synthetic rows
within the public domain. It is a choice: the wall enforces it, whatever the rows are like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.kernels import KERNELS, RowKernel
from tacit.laws.regions import BallMap, BoxMap
from tacit.spec.columns import Column, Integer, Real, Tokens
from tacit.spec.density import Ball, Box, DensityDraw, Likelihood, Points
from tacit.spec.errors import ModelError
from tacit.spec.programs import Program
from tacit.spec.schema import Schema

GRID_POINTS = 1001
_ROWS, _TRIED = 64, 32
_WORK = 10_000  # rows times parameters
_ROOM = 1 + 1e-6  # single precision is enough for a log-likelihood


def density_query(
    likelihood: Likelihood,
    schema: Schema,
    *,
    truncation: Any,
    width: float | None,
    steps: int | None,
    draws: int,
) -> DensityDraw:
    """The draw to ask for, with the width and the lift that synthetic rows ask for."""
    region = region_of(truncation, likelihood.size)
    least, most = public_range(likelihood, region, schema)
    spread = (most - least) * _ROOM
    if width is None:
        if not 1e-6 <= spread <= 1e6:
            raise ModelError(
                "Expected width=, how much better one point may explain a row than another in "
                f"log-likelihood: on rows within the public domain it is {spread:g}."
            )
        width = spread
    lift = width * -least / (most - least) if 0 < most - least < np.inf else width / 2
    given: dict[str, Any] = {"width": width, "lift": min(lift, width), "draws": draws}
    given["constants"] = likelihood.constants
    if isinstance(region, Points):
        if steps is not None:
            raise ModelError("Expected no steps=: a draw among points is exact, without a chain.")
        weighted = Points(region.theta, region.log_weights + _log_prior(likelihood, region.theta))
        return DensityDraw(likelihood.kernel, likelihood.columns, weighted, **given)
    given |= {"prior": likelihood.prior, "gradient": likelihood.gradient, "steps": steps}
    return DensityDraw(likelihood.kernel, likelihood.columns, region, **given)


def region_of(truncation: Any, size: int) -> Points | Box | Ball:
    """A region as it is, a radius, or two ends that hold for every parameter."""
    match truncation:
        case Points() | Box() | Ball():
            region = truncation
        case (int() | float()) as radius if not isinstance(radius, bool) and size > 1:
            region = Ball(size, radius)
        case (int() | float()) as half if not isinstance(half, bool) and half > 0:
            region = Points(np.linspace(-half, half, GRID_POINTS))
        case (int() | float()) as low, (int() | float()) as high if low < high and size == 1:
            region = Points(np.linspace(low, high, GRID_POINTS))
        case (int() | float()) as low, (int() | float()) as high:
            region = Box((low,) * size, (high,) * size)
        case _:
            raise ModelError(
                "Expected truncation, where the parameters may lie: a radius, (low, high), "
                f"or Points, Box or Ball of tacit.queries; got {truncation!r}."
            )
    if region.size != size:
        raise ModelError(
            f"Expected a region of {size} parameters, got {region.size}: write (low, high) to have "
            "the same bounds for each."
        )
    return region


def public_range(
    likelihood: Likelihood, region: Points | Box | Ball, schema: Schema
) -> tuple[float, float]:
    """The least and most by which points differ for a synthetic row: from its best, or the centre.

    Points at the edge are tried along each row's own gradient, where a linear predictor is largest.
    """
    columns = [schema[name] for name in likelihood.columns]
    rows = synthetic_rows(columns, max(8, _WORK // likelihood.size))
    log_likelihood = _log_likelihood(likelihood, columns)
    with np.errstate(all="ignore"):
        if isinstance(region, Points):
            points = np.broadcast_to(region.theta, (len(rows), *region.theta.shape))
            values = log_likelihood(rows, points)
            spread = np.max(values, axis=1) - np.min(values, axis=1)
            return -float(np.max(spread)), 0.0
        nudges = np.diag(_half_widths(region)) * 1e-2
        nearby = np.concatenate([region.centre + nudges, region.centre - nudges])
        around = log_likelihood(rows, np.broadcast_to(nearby, (len(rows), *nearby.shape)))
        gradients = around[:, : likelihood.size] - around[:, likelihood.size :]
        points = np.stack([_tried(region, gradient) for gradient in gradients])
        values = log_likelihood(rows, points)
        moved = values[:, 1:] - values[:, :1]
    return min(0.0, float(np.min(moved))), max(0.0, float(np.max(moved)))


def synthetic_rows(columns: Sequence[Column], most: int = _ROWS) -> np.ndarray:
    """Rows within the public domain, as kernels see them: corners, and points in between."""
    ends = [_ends(column) for column in columns]
    low, high = (np.array(side, float) for side in zip(*ends))
    whole = np.array([not isinstance(column, Real) for column in columns])
    corners = 2 ** min(len(columns), 6)
    picks = (np.arange(corners)[:, None] >> np.arange(len(columns))) & 1
    uniform = np.random.default_rng(0).random((_ROWS, len(columns)))
    shares = np.where(uniform < 0.4, 0.0, np.where(uniform > 0.6, 1.0, (uniform - 0.4) / 0.2))
    if len(columns) > 6:
        picks = np.round(np.random.default_rng(1).random((corners, len(columns))))
    rows = low + np.concatenate([picks, shares]) * (high - low)
    return np.where(whole, np.floor(rows), rows)[:most]


def _ends(column: Column) -> tuple[float, float]:
    match column:
        case Real(low=low, high=high) | Integer(low=low, high=high):
            return low, high
        case Tokens():
            raise ModelError(f"Expected columns of numbers or levels, not {column.name!r}.")
        case _:
            return 0, len(column.labels) - 1


def _half_widths(region: Box | Ball) -> np.ndarray:
    if isinstance(region, Ball):
        return np.full(region.size, region.radius)
    return np.array(region.high) - region.centre


def _tried(region: Box | Ball, gradient: np.ndarray) -> np.ndarray:
    """The centre, both ends of the region along a gradient, and points anywhere in it."""
    gradient = np.nan_to_num(gradient, posinf=0.0, neginf=0.0)
    noise = np.random.default_rng(2).normal(size=(_TRIED, region.size))
    if isinstance(region, Ball):
        along = gradient / max(float(np.linalg.norm(gradient)), 1e-300) * region.radius
        onto: BoxMap | BallMap = BallMap(region.size, region.radius)
    else:
        low, high = np.array(region.low), np.array(region.high)
        along = np.sign(gradient) * (high - low) / 2
        onto = BoxMap(low, high)
    inside = [onto.point(u) for u in noise]
    return np.array([region.centre, region.centre + along, region.centre - along, *inside])


def _log_likelihood(
    likelihood: Likelihood, columns: Sequence[Column]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The log-likelihood of rows, each at its own points (row, point, parameter)."""
    state = (np.zeros(likelihood.size), *likelihood.constants)
    if isinstance(likelihood.kernel, Program):
        program = likelihood.kernel
        theta, *rest = program.leaves(state)

        def by_program(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
            typed = rows.astype(program.dtype), points.astype(theta.dtype)
            with program.precision():
                return np.asarray(_mapped(program)(*typed, tuple(rest)), float)[..., 0]

        return by_program
    kernel = KERNELS.get(likelihood.kernel.name)
    if not isinstance(kernel, RowKernel):
        raise ModelError(f"Expected a kernel of rows, got {likelihood.kernel.name!r}.")
    _, *constants = kernel.frozen(state)
    kernel.check(kernel.frozen(state), columns, [(1,)])  # it runs without index checks

    def by_kernel(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        found = np.zeros((*points.shape[:2], 1))
        for i, j in np.ndindex(points.shape[:2]):
            theta = np.array(points[i, j], float)
            theta.setflags(write=False)  # as the constants are
            kernel.function(rows[i].copy(), (theta, *constants), found[i, j])
        return found[..., 0]

    return by_kernel


@lru_cache(maxsize=16)
def _mapped(program: Program) -> Callable[..., Any]:
    """The program over rows, each at its own points, compiled."""
    import jax

    of_row = program.function()

    def at_point(row: Any, theta: Any, rest: Any) -> Any:
        return of_row(row, (theta, *rest))

    at_points = jax.vmap(at_point, (None, 0, None))
    return jax.jit(jax.vmap(at_points, (0, 0, None)))


def _log_prior(likelihood: Likelihood, theta: np.ndarray) -> np.ndarray:
    """Log prior at each point, maximum 0, floored at -1e5."""
    prior = likelihood.prior
    if prior is None:
        return np.zeros(len(theta))
    if isinstance(prior, Program):
        import jax

        of_point = prior.function()
        with prior.precision():
            of_points = jax.jit(jax.vmap(lambda at: of_point(at, ())[0]))
            logs = np.asarray(of_points(theta.astype(prior.dtype)), float)
    else:
        logs = -0.5 * (theta**2).sum(axis=1) / prior**2
    logs = np.nan_to_num(logs, nan=-np.inf, posinf=-np.inf)
    if not np.isfinite(logs).any():
        raise ModelError("Expected a prior that is not zero at every point.")
    return np.maximum(logs - logs.max(), -1e5)
