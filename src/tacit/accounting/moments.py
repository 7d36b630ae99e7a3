"""How far one unit moves the moments of columns scaled to [-1, 1], and noise to cover it.

A row adds (1, u, u u') to the number of rows, the sums and the products, u in the box [-1, 1]^d.
The noise of a coordinate is `Shape` times one common factor, so all that is needed is the
sensitivity of the moments divided by their shape, in L1 for Laplace and in L2 for Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.accounting.calibrate import (
    GRID_BITS,
    Calibration,
    check_scale,
    discrete_loss,
    gaussian,
    gaussian_noise,
    price,
    pure,
)
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.release import Noise
from tacit.spec.schema import Neighbours

# A row's value and product in grid units: their sums over 2^32 rows fit in 64 bits.
SUM_BITS = {1: 30, 2: 15}
# How much a squared error of the rows, a sum and a product matters: to the mean and the standard
# deviation together, in units of the latter, if it is a quarter of the way from the middle to a
# bound and the mean lies a third of the way from it (degree 2); to the mean alone, if that lies
# anywhere (degree 1).
_MATTERS = {1: (1 / 3, 1.0, 0.0), 2: (2.0, 48.0, 64.0)}


@dataclass(frozen=True)
class MomentsOf:
    """What is released: moments of `width` columns, k rows of a unit."""

    width: int
    degree: int
    counted: bool
    rows_per_unit: int
    neighbours: Neighbours

    @property
    def products(self) -> int:
        return self.width * (self.width + 1) // 2 if self.degree == 2 else 0

    @property
    def coordinates(self) -> int:
        return self.counted + self.width + self.products


@dataclass(frozen=True)
class Shape:
    """The relative noise of the rows, a sum, and the product of a column with itself."""

    rows: float
    sum: float
    square: float


def l1_sensitivity(what: MomentsOf, shape: Shape) -> float:
    """The largest L1 distance of neighbours, each coordinate divided by its shape."""
    rows, sums = 1 / shape.rows, what.width / shape.sum
    products = what.products / shape.square
    one = rows * what.counted + sums + products  # proof: moments-one-row
    if what.neighbours == "add_remove":
        return what.rows_per_unit * one
    # proof: moments-l1. The worst rows are u = (1, ..., 1) and v = t u.
    pair = 2 * sums if sums >= 2 * products else products * (1 + sums / (2 * products)) ** 2
    return what.rows_per_unit * max(pair, one if what.counted else 0.0)


def l2_sensitivity(what: MomentsOf, shape: Shape) -> float:
    """The largest L2 distance of neighbours, each coordinate divided by its shape.

    The products of two columns have the shape of a square over sqrt(2).
    """
    one = unit_norm(what, shape)  # proof: moments-one-row
    if what.neighbours == "add_remove":
        return one
    d, a = what.width, 1 / shape.sum**2
    b = 1 / shape.square**2 if what.degree == 2 else 0.0
    pair = _pair_on_a_line(a, b) if d == 1 else _pair_in_a_ball(a, b, d)  # proof: moments-l2
    return max(what.rows_per_unit * math.sqrt(pair), one if what.counted else 0.0)


def unit_norm(what: MomentsOf, shape: Shape) -> float:
    """The largest L2 norm of what one unit adds, each coordinate divided by its shape."""
    d = what.width
    square = d**2 / shape.square**2 if what.degree == 2 else 0.0
    rows = 1 / shape.rows**2 if what.counted else 0.0
    return what.rows_per_unit * math.sqrt(rows + d / shape.sum**2 + square)


def _pair_on_a_line(a: float, b: float) -> float:
    """max of a (u - v)^2 + b (u^2 - v^2)^2 over [-1, 1], at u = 1."""
    if b <= 2 * a:
        return 4 * a
    v = (math.sqrt(1 - 2 * a / b) - 1) / 2
    return max(4 * a, (1 - v) ** 2 * (a + b * (1 + v) ** 2))


def _pair_in_a_ball(a: float, b: float, square: int) -> float:
    """max of a |u - v|^2 + b |u u' - v v'|^2 over |u|^2, |v|^2 <= square."""
    opposed = square if b == 0 else min(a / (2 * b), square)  # -<u, v>
    return 2 * a * (square + opposed) + 2 * b * (square**2 - opposed**2)


def calibrate_moments(
    mechanism: Laplace | Gaussian, what: MomentsOf, split: tuple[float, float, float] | None
) -> Calibration:
    """Noise for every moment in order, and the cost of all of them together."""
    by_l1 = isinstance(mechanism, Laplace)
    shape = Shape(*split) if split is not None else best_shape(what, by_l1)
    margin = 1 + 1e-12  # more than floating point can lose in a formula of ten operations
    mixed = shape.square / (1.0 if by_l1 else math.sqrt(2))  # of the products of two columns
    d = what.width
    shapes = [shape.rows] * what.counted + [shape.sum] * d
    if what.degree == 2:
        shapes += [shape.square if i == j else mixed for i in range(d) for j in range(i, d)]
    scales = zip(shapes, grids(what), strict=True)
    if isinstance(mechanism, Laplace):
        factor = l1_sensitivity(what, shape) * margin / float(mechanism.epsilon)
        return pure(mechanism, tuple(_laplace(factor * s, grid) for s, grid in scales))
    unit = unit_norm(what, shape)
    loss = discrete_loss(what.coordinates, 2.0**GRID_BITS)
    relative = l2_sensitivity(what, shape) / unit * margin
    multiplier, cost = price(mechanism, relative, loss)
    factor = multiplier * unit * margin
    noise = tuple(gaussian_noise(factor * s, grid) for s, grid in scales)
    return gaussian(noise, cost, relative / multiplier, loss)


def grids(what: MomentsOf) -> tuple[float, ...]:
    """The grid of each moment: 1 for rows, and powers of two below it for sums and products."""
    grid = 2.0 ** -SUM_BITS[what.degree]
    return (1.0,) * what.counted + (grid,) * what.width + (grid**2,) * what.products


def _laplace(scale: float, grid: float) -> Noise:
    ratio = scale / grid
    check_scale(ratio)
    # A multiple of the grid where that costs nothing; else a hair more than the scale itself.
    ratio = float(math.ceil(ratio)) if ratio > 2**20 else math.nextafter(ratio, math.inf)
    return Noise("discrete_laplace", ratio * grid, grid)


@lru_cache(maxsize=256)
def best_shape(what: MomentsOf, by_l1: bool) -> Shape:
    """The shape with the least weighted squared error at equal cost."""
    from scipy.optimize import minimize

    matters = _MATTERS[what.degree]
    numbers = (float(what.counted), float(what.width), float(what.products))
    sensitivity = l1_sensitivity if by_l1 else l2_sensitivity

    def shape(logs: Sequence[float]) -> Shape:
        return Shape(math.exp(logs[0]), 1.0, math.exp(logs[1]))

    def error(logs: Any) -> Any:
        at = shape(logs)
        parts = zip(numbers, matters, (at.rows, at.sum, at.square), strict=True)
        total = sum(count * weight * noise**2 for count, weight, noise in parts)
        # A little of everything counts, so that nothing that is free is left noisier than it need.
        spare = 1e-6 * (abs(logs[0]) + abs(logs[1]))
        return math.log(total) + 2 * math.log(sensitivity(what, at)) + spare

    starts = [np.array([x, y]) for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)]
    tries = [minimize(error, start, method="Nelder-Mead") for start in starts]
    best = min(tries, key=lambda found: float(found.fun)).x
    return shape([min(max(round(float(x), 2), -7.0), 7.0) for x in best])  # alike on all machines
