"""Synthetic columns and a valid state for each kernel, with the bounds that its docstring states.

The contract test runs every kernel of the registry on its example here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.kernels.kernel import State
from tacit.kernels.mixing import flush_denormals
from tacit.kernels.mixtures import BINS
from tacit.spec.columns import Categorical, Column, Integer
from tacit.spec.design import Design
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound
from tests.kernels.example_columns import documents, labels, numbers, scaling, some_columns

SLACK = 1 + 1e-9  # rounding


@dataclass(frozen=True)
class Example:
    columns: tuple[Column, ...]
    state: State
    blocks: tuple[Bound, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(block.shape for block in self.blocks)


Made = Callable[[np.random.Generator], Example]


def belief_network(rng: np.random.Generator) -> Example:
    visible, hidden = (int(n) for n in rng.integers(1, 5, 2))
    spread = 10.0 ** rng.integers(-2, 3)
    mean = rng.normal(size=(visible, hidden + 1)) * spread
    state = (
        rng.normal(size=hidden) * spread,
        mean,
        mean[:, :, None] * mean[:, None] + rng.uniform(0, 1) * np.eye(hidden + 1),
        rng.integers(0, 9, 1),
    )
    columns = tuple(Categorical(f"x{j}", ("no", "yes")) for j in range(visible))
    size = hidden + 1
    count = size + visible * size + visible * (size * (size + 1) // 2 - hidden)
    return Example(columns, state, (Bound(count, SLACK, geometry="box"),))


def latent_classes(rng: np.random.Generator) -> Example:
    columns = labels(rng, int(rng.integers(1, 5)))
    counts = [len(column.levels) for column in columns]
    shape = int(rng.integers(1, 5)), sum(counts)
    spread = 10.0 ** rng.integers(-2, 4)
    state = (
        rng.normal(size=shape[0]) * spread,
        rng.normal(size=shape) * spread,
        np.cumsum([0, *counts[:-1]]),
    )
    clip = math.sqrt(len(columns)) * SLACK
    return Example(columns, state, (Bound(shape, clip, geometry="nonnegative"),))


def encoded(rng: np.random.Generator) -> tuple[tuple[Column, ...], State, int]:
    """Columns of a logistic regression, their encoding and its number of parameters."""
    features = some_columns(rng, int(rng.integers(1, 6)))
    target = Categorical("y", ("no", "yes")) if rng.random() < 0.5 else Integer("y", 0, 1)
    schema = Schema(*features, target, neighbours="replace_one")
    design = Design.of([column.name for column in features], schema)
    encoding = tuple(np.ascontiguousarray(part) for part in design.encoding)
    return (*features, target), encoding, design.size


def coefficients(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Coefficients from tiny to huge."""
    return rng.normal(size=shape) * 10.0 ** rng.choice([-300, -3, 0, 1, 3, 90])


def at_theta(blocks: Callable[[int], tuple[Bound, ...]]) -> Made:
    def example(rng: np.random.Generator) -> Example:
        columns, encoding, size = encoded(rng)
        return Example(columns, (coefficients(rng, size), *encoding), blocks(size))

    return example


def in_a_basis(blocks: Callable[[int, float], tuple[Bound, ...]]) -> Made:
    """The norm of basis' x is at most that of the basis: x has norm 1 at most."""

    def example(rng: np.random.Generator) -> Example:
        columns, encoding, size = encoded(rng)
        basis = rng.normal(size=(size, size)) * 10.0 ** rng.choice([-50, -3, 0, 3, 45])
        norm = float(np.linalg.norm(basis))
        state = coefficients(rng, size), basis, *encoding
        return Example(columns, state, blocks(size, norm))

    return example


def in_a_basis_with_a_clip(rng: np.random.Generator) -> Example:
    """A clip far below or above what the basis allows; all numbers together keep to it."""
    columns, encoding, size = encoded(rng)
    basis = rng.normal(size=(size, size)) * 10.0 ** rng.choice([-50, -3, 0, 3, 45])
    clip = rng.choice([1.2, 3.0, 1e30])
    state = coefficients(rng, size), basis, np.array([clip]), *encoding
    return Example(columns, state, (Bound(size + triangle(size) + 1, clip * SLACK),))


def triangle(size: int) -> int:
    return size * (size + 1) // 2


def gradient_constant(rng: np.random.Generator) -> Example:
    columns, encoding, size = encoded(rng)
    return Example(columns, encoding, (Bound(size, 0.5 * SLACK),))


def polya_gamma_squares(rng: np.random.Generator) -> Example:
    columns, encoding, size = encoded(rng)
    moments = rng.normal(size=triangle(size))
    return Example(
        columns, (moments, *encoding), (Bound(triangle(size), 0.25 * SLACK, geometry="outer"),)
    )


def log_likelihood(rng: np.random.Generator) -> Example:
    columns, encoding, size = encoded(rng)
    theta = coefficients(rng, size)
    clip = (math.log(2) + float(np.linalg.norm(theta))) * SLACK
    return Example(columns, (theta, *encoding), (Bound(1, clip),))


def at_points(rng: np.random.Generator) -> Example:
    columns, encoding, size = encoded(rng)
    points, width = coefficients(rng, int(rng.integers(1, 6)), size), rng.uniform(0.1, 9)
    block = Bound(len(points), width * SLACK, geometry="box")
    return Example(columns, (points, np.array([width]), *encoding), (block,))


def centred(rng: np.random.Generator) -> Example:
    columns, encoding, size = encoded(rng)
    lift, width = rng.uniform(0.1, 9, 2)
    state = coefficients(rng, size), coefficients(rng, size), np.array([lift, width]), *encoding
    return Example(columns, state, (Bound(1, width * SLACK, geometry="box"),))


def scaled(rng: np.random.Generator) -> tuple[tuple[Column, ...], np.ndarray, np.ndarray]:
    columns = numbers(rng, int(rng.integers(1, 4)))
    midpoint, half = (np.array(part, float) for part in zip(*map(scaling, columns)))
    return columns, midpoint, 1 / half


def mixture_statistics(rng: np.random.Generator) -> Example:
    columns, *scale = scaled(rng)
    shape = int(rng.integers(1, 4)), len(columns)
    state = (
        *scale,
        rng.normal(size=shape[0]),
        rng.uniform(-1, 1, shape),
        10.0 ** rng.uniform(-3, 6, shape),
        rng.uniform(0.01, 2, shape),
    )
    clip = math.sqrt(len(columns)) * SLACK
    return Example(columns, state, (Bound((*shape, 3), clip, geometry="nonnegative"),))


def products(rng: np.random.Generator) -> Example:
    columns, *scale = scaled(rng)
    size = len(columns)
    axes = rng.normal(size=(size, size))
    state = (*scale, rng.uniform(-1, 1, size), axes, rng.uniform(1e-3, 2, size))
    block = Bound(triangle(size + 1), (1 + size) * SLACK, geometry="outer")
    return Example(columns, state, (block,))


def histograms(rng: np.random.Generator) -> Example:
    made = products(rng)
    size = len(made.columns)
    slices = rng.integers(1, 5, size)
    shape = math.prod(slices.tolist()), size, BINS
    block = Bound(shape, math.sqrt(size) * SLACK, geometry="nonnegative")
    return Example(made.columns, (*made.state, slices), (block,))


def scores(rng: np.random.Generator) -> Example:
    low = int(rng.integers(-3, 3))
    count, options = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    state = rng.uniform(0, 2, (options, count)), np.array([low], np.int64)
    column = Integer("x", low, low + count - 1)
    return Example((column,), state, (Bound(options, 2, geometry="box"),))


def values(rng: np.random.Generator) -> Example:
    columns = some_columns(rng, int(rng.integers(1, 6)))
    midpoint, half = (np.array(part, float) for part in zip(*map(scaling, columns)))
    factor = rng.normal(size=len(columns))
    clip = float(np.linalg.norm(factor)) * SLACK
    return Example(columns, (midpoint, factor / half), (Bound(len(columns), clip),))


def expected_counts(rng: np.random.Generator) -> Example:
    column = documents(rng)
    words, topics = len(column.vocabulary), int(rng.integers(1, 20))
    table = flush_denormals(rng.gamma(0.3, size=(words, topics)) + 1e-30)
    length, roots = float(rng.choice([0, 0.5, 7])), int(rng.integers(2))
    state = (
        table,
        rng.integers(0, 2, words).astype(np.float32),
        np.array([rng.uniform(0.01, 1), 1e-3, length]),
        np.array([rng.integers(0, 30), roots, rng.integers(0, 2**53)]),
    )
    clip = 1.0 if roots else length or float(column.max_length)
    clip *= 1 + 1e-4  # single precision
    block = Bound((words, topics), clip, geometry="nonnegative" if roots else "simplex")
    return Example((column,), state, (block,))


def root_frequencies(rng: np.random.Generator) -> Example:
    column = documents(rng)
    block = Bound((len(column.vocabulary), 1), SLACK, geometry="nonnegative")
    return Example((column,), (), (block,))


def cooccurrence(rng: np.random.Generator) -> Example:
    column = documents(rng)
    vocabulary = len(column.vocabulary)
    kept = int(rng.integers(1, vocabulary + 1))
    positions = np.full(vocabulary, -1)
    positions[rng.permutation(vocabulary)[:kept]] = rng.permutation(kept)
    block = Bound((kept, kept), SLACK, geometry="nonnegative")
    return Example((column,), (positions,), (block,))


def quadratics(rng: np.random.Generator) -> Example:
    (column,) = numbers(rng, 1)
    middle, half = scaling(column)
    options = int(rng.integers(1, 9))
    largest = abs(middle) + half
    polynomials = rng.normal(size=(options, 3)) / largest ** np.arange(3)
    clip = 3 * float(np.abs(polynomials * largest ** np.arange(3)).max()) * options**0.5
    return Example((column,), (polynomials,), (Bound(options, clip),))


def lifted_quadratics(rng: np.random.Generator) -> Example:
    made = quadratics(rng)
    (block,) = made.blocks
    return Example(made.columns, made.state, (Bound(block.size, 2 * block.clip, geometry="box"),))


EXAMPLES: dict[str, Made] = {
    "belief_network.expected_statistics": belief_network,
    "columns.values": values,
    "latent_classes.responsibilities": latent_classes,
    "logistic.gradient_and_hessian": at_theta(lambda p: (Bound(p + triangle(p), 0.5 * SLACK),)),
    "logistic.gradient_constant": gradient_constant,
    "logistic.gradient_varying": at_theta(lambda p: (Bound(p, 0.5 * SLACK),)),
    "logistic.log_likelihood": log_likelihood,
    "logistic.log_likelihood.at_points": at_points,
    "logistic.log_likelihood.centred": centred,
    "logistic.polya_gamma_squares": polya_gamma_squares,
    "logistic.score": at_theta(lambda p: (Bound(p, SLACK),)),
    "logistic.score_and_squares": at_theta(
        lambda p: (Bound(p, SLACK), Bound(triangle(p), SLACK, geometry="outer"))
    ),
    "logistic.whitened_score": in_a_basis(lambda p, c: (Bound(p, c * SLACK),)),
    "logistic.whitened_score_and_hessian": in_a_basis_with_a_clip,
    "logistic.whitened_score_and_squares": in_a_basis(
        lambda p, c: (Bound(p, c * SLACK), Bound(triangle(p), c**2 * SLACK, geometry="outer"))
    ),
    "normal_mixture.expected_statistics": mixture_statistics,
    "normal_mixture.histograms": histograms,
    "normal_mixture.products": products,
    "table.scores": scores,
    "topics.cooccurrence": cooccurrence,
    "topics.expected_counts": expected_counts,
    "topics.expected_counts_resampled": expected_counts,
    "topics.root_frequencies": root_frequencies,
    "walk.quadratics": quadratics,
    "walk.quadratics.lifted": lifted_quadratics,
}
