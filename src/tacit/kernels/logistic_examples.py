"""Synthetic columns and states for the contract test of logistic kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tacit.kernels.example_columns import some_columns
from tacit.kernels.kernel import Example, State
from tacit.spec.columns import Categorical, Column, Integer
from tacit.spec.design import Design
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound

_SLACK = 1 + 1e-9  # rounding


def _setting(rng: np.random.Generator) -> tuple[tuple[Column, ...], State, int]:
    features = some_columns(rng, int(rng.integers(1, 6)))
    target = Categorical("y", ("no", "yes")) if rng.random() < 0.5 else Integer("y", 0, 1)
    schema = Schema(*features, target, neighbours="replace_one")
    design = Design.of([column.name for column in features], schema)
    encoding = tuple(np.ascontiguousarray(part) for part in design.encoding)
    return (*features, target), encoding, design.size


def _theta(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Coefficients from tiny to huge."""
    return rng.normal(size=shape) * 10.0 ** rng.choice([-300, -3, 0, 1, 3, 90])


def _at_theta(blocks: Callable[[int], tuple[Bound, ...]]) -> Callable[..., Example]:
    def example(rng: np.random.Generator) -> Example:
        columns, encoding, size = _setting(rng)
        return Example(columns, (_theta(rng, size), *encoding), blocks(size))

    return example


def _triangle(size: int) -> int:
    return size * (size + 1) // 2


gradient = _at_theta(lambda p: (Bound(p, 0.5 * _SLACK),))
hessian = _at_theta(lambda p: (Bound(p + _triangle(p), 0.5 * _SLACK),))
score = _at_theta(lambda p: (Bound(p, _SLACK),))
score_squares = _at_theta(lambda p: (Bound(p, _SLACK), Bound(_triangle(p), _SLACK)))


def constant(rng: np.random.Generator) -> Example:
    columns, encoding, size = _setting(rng)
    return Example(columns, encoding, (Bound(size, 0.5 * _SLACK),))


def squares(rng: np.random.Generator) -> Example:
    columns, encoding, size = _setting(rng)
    moments = rng.normal(size=_triangle(size))
    return Example(columns, (moments, *encoding), (Bound(_triangle(size), 0.25 * _SLACK),))


def likelihood(rng: np.random.Generator) -> Example:
    columns, encoding, size = _setting(rng)
    theta = _theta(rng, size)
    clip = (math.log(2) + float(np.linalg.norm(theta))) * _SLACK
    return Example(columns, (theta, *encoding), (Bound(1, clip),))


def at_points(rng: np.random.Generator) -> Example:
    columns, encoding, size = _setting(rng)
    points, width = _theta(rng, int(rng.integers(1, 6)), size), rng.uniform(0.1, 9)
    block = Bound(len(points), width * _SLACK, geometry="box")
    return Example(columns, (points, np.array([width]), *encoding), (block,))


def centred(rng: np.random.Generator) -> Example:
    columns, encoding, size = _setting(rng)
    lift, width = rng.uniform(0.1, 9, 2)
    state = _theta(rng, size), _theta(rng, size), np.array([lift, width]), *encoding
    return Example(columns, state, (Bound(1, width * _SLACK, geometry="box"),))
