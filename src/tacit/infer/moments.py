"""From a release of moments to what inference needs: matrices of moments, or one noisy sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tacit.infer.conjugate import NormalPrior
from tacit.infer.from_normal_draw import mean_drawn
from tacit.infer.latent_moments import MomentsDensity, MomentsSeen, draw_moments
from tacit.infer.latent_sum import (
    NoisySum,
    RowsSeen,
    Seen,
    SumDraws,
    draw_parameter,
    log_rows_prior,
)
from tacit.infer.noise import Law
from tacit.infer.normal_rows import draw_rows
from tacit.infer.one_parameter import OneParameter
from tacit.spec.draws import ConjugateDraw
from tacit.spec.moments import ROWS, Moments, bounds_of, scale_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling


def scales(release: Release, query: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half width of each column's bounds, as the release has scaled it."""
    centred = release.query.centred if isinstance(release.query, Moments) else True
    found = np.array([scale_of(release.schema[name], centred) for name in query.columns])
    return found[:, 0], found[:, 1]


def weak_prior(
    release: Release,
    query: Moments,
    mean: Sequence[float] | None,
    mean_rows: float,
    sd: Sequence[float] | None,
    sd_rows: float,
) -> NormalPrior:
    """A prior in the columns' units; without one, the middle and a tenth of the width."""
    low, high = np.array([bounds_of(release.schema[name]) for name in query.columns]).T
    middle, half = scales(release, query)
    centre = (low + high) / 2 if mean is None else np.asarray(mean)
    spread = (high - low) / 10 if sd is None else np.asarray(sd)
    return NormalPrior.of((centre - middle) / half, mean_rows, spread / half, sd_rows)


def most_rows(release: Release) -> tuple[float, float | None]:
    """The most rows there can be, and the number of units if each has at most one row."""
    each = release.schema.max_rows_per_unit
    if release.n is not None:
        return float(release.n * each), float(release.n) if each == 1 else None
    units = release.schema.max_units
    return np.inf if units is None else float(units * each), None


def draw_matrices(
    release: Release, query: Moments, density: MomentsDensity, sampling: Sampling
) -> np.ndarray:
    """Draws of the moments' matrix, shape (chains * draws, D + 1, D + 1)."""
    size = sampling.chains * sampling.draws
    seen = matrix_seen(release, query)
    if not np.any(seen.scale > 0):
        matrix = seen.value.copy()
        matrix[0, 0] = matrix[0, 0] if seen.rows is None else seen.rows
        return np.broadcast_to(matrix, (size, *matrix.shape))
    if sampling.noise == "plugin":
        matrix = project(seen)
        return np.broadcast_to(matrix, (size, *matrix.shape))
    if (seen.most if seen.rows is None else seen.rows) <= seen.columns:  # too few for a density
        return draw_rows(seen, density, sampling.chains, sampling.draws, sampling.seed)
    found = draw_moments(seen, density, sampling.chains, sampling.draws, sampling.seed)
    return found.reshape(size, *seen.value.shape)


def matrix_seen(release: Release, query: Moments) -> MomentsSeen:
    """The released moments as a symmetric matrix, rows in its corner."""
    names = (ROWS, *query.columns)
    value, scale = np.zeros((2, len(names), len(names)))
    known = not any(block.name == ROWS for block in release.blocks)
    heavy = True
    for i, first in enumerate(names):
        for j, second in enumerate(names[i:], start=i):
            if i == j == 0 and known:
                continue
            name = second if i == 0 else _product(release, first, second)
            _, number, noise = release.table(name)
            law = Law.of(noise)
            value[i, j] = value[j, i] = float(number)
            scale[i, j] = scale[j, i] = law.scale
            heavy = law.heavy
    most, units = most_rows(release)
    rows = None
    if known:
        assert release.n is not None
        rows = value[0, 0] = float(release.n)
    return MomentsSeen(value, scale, heavy, rows, most, units)


def _product(release: Release, first: str, second: str) -> str:
    """The block of a product, whose columns may come in another order."""
    name = f"{first}*{second}"
    return name if any(b.name == name for b in release.blocks) else f"{second}*{first}"


def project(seen: MomentsSeen) -> np.ndarray:
    """The papers' projection onto moments that data can have, which forgets the noise."""
    n = float(np.clip(seen.value[0, 0], 0, seen.most))
    matrix = np.clip(seen.value, -n, n)
    matrix[0, 0] = n
    if n == 0:
        return matrix
    sums = matrix[0, 1:]
    values, vectors = np.linalg.eigh(matrix[1:, 1:] - np.outer(sums, sums) / n)
    matrix[1:, 1:] = (vectors * np.maximum(values, 0)) @ vectors.T + np.outer(sums, sums) / n
    return matrix


def draw_one_parameter(
    release: Release,
    query: Moments,
    family: OneParameter,
    log_prior: Callable[[np.ndarray], np.ndarray],
    support: tuple[float, float],
    sampling: Sampling,
    rng: np.random.Generator,
) -> SumDraws:
    """Draws of the parameter of a family with one, from the sum of one column."""
    if isinstance(release.query, ConjugateDraw):
        seen, rows = mean_drawn(release)
    else:
        seen, rows = sum_seen(release, query, sampling.noise == "plugin")
    size = sampling.chains * sampling.draws
    return draw_parameter(family, log_prior, support, seen, rows, size, rng)


def sum_seen(release: Release, query: Moments, plugin: bool) -> tuple[Seen, RowsSeen]:
    """The one sum of a query with one column, and what is known of the number of rows."""
    (column,) = query.columns
    (middle,), (half,) = scales(release, query)
    most, units = most_rows(release)
    _, total, noise = release.table(column)
    y, law = float(total), Law.of(noise)
    if any(block.name == ROWS for block in release.blocks):
        _, count, count_noise = release.table(ROWS)
        count_law, seen = Law.of(count_noise), float(count)
        if count_law.none or plugin:
            rows = RowsSeen.known(float(np.clip(np.rint(seen), 0, most)))
        else:
            each = release.schema.max_rows_per_unit
            rows = RowsSeen.noisy(seen, count_law, most, log_rows_prior(units, each))
    else:
        assert release.n is not None
        rows = RowsSeen.known(release.n)
    if plugin and not law.none:
        n = rows.n[0]
        y, law = float(np.clip(y, -n, n)), Law("none", 0.0)
    return NoisySum(y, law, float(middle), float(half)), rows
