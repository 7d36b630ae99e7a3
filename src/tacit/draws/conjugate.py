"""Draws of the exponential mechanism: statistics are read, tempered, and drawn from.

`resolve_draw` knows only what is public; `evaluate` reads; `sample` draws from entropy. Draws leave
as multiples of 2^-40: probabilities as they are, means as fractions of the way from their lower to
their upper bound, or without bounds in standard deviations of the prior from its mean, coefficients
as shares of their ball's radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import calibrate_draw, draw_range, scaled_ends
from tacit.draws.draw import FLOAT_DRAW, PER_ONE, Draw, exponential, uniforms
from tacit.laws import (
    ball_normal,
    bounded_normals,
    bounded_rates,
    truncated_dirichlet,
    truncated_normal,
)
from tacit.spec.draws import (
    MOST_LEVELS,
    BallRegression,
    BoundedMeanSd,
    BoundedNormal,
    BoundedRate,
    ConjugateDraw,
    TruncatedDirichlet,
    TruncatedTables,
    checked_truncation,
    draw_grid,
)
from tacit.spec.errors import QueryError
from tacit.spec.keys import labels_of, name_of
from tacit.spec.moments import Moments, bounds_of, scale_of
from tacit.spec.queries import Counts
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy
from tacit.wall.statistics.counts import count_cells, resolve_counts
from tacit.wall.statistics.moments import moment_values, resolve_moments
from tacit.wall.statistics.statistic import Statistic
from tacit.wall.steps.lease import Loaded

_FAR = 2.0**60  # multiples of the grid, for a mean without bounds, within 64 bits
_LEAST = 1e-4
_MOST_NUMBERS = 10**7
_MOST_CAP = 1e5


@dataclass(frozen=True)
class ConjugateAnswer(Draw):
    """A draw with what is public about its columns."""

    query: ConjugateDraw

    @property
    def counts(self) -> Counts:
        """The tables that a draw of levels is from."""
        match self.query.law:
            case TruncatedDirichlet(key=key):
                return Counts((key,))
            case TruncatedTables(families=families):
                return Counts(families)
            case law:
                raise AssertionError(law)

    @property
    def stepwise(self) -> bool:
        return self.query.draws == 1 and isinstance(self.query.law, TruncatedDirichlet)

    def calibrate(self, mechanism: Any) -> Calibration:
        found = calibrate_draw(exponential(mechanism), self.query, self.schema)
        return replace(found, noise=found.noise * len(self.blocks))  # one temperature for all

    def evaluate(self, source: Any, noise: tuple[Noise, ...]) -> Statistic:
        """The statistics of all complete rows. A missing value adds nothing to the likelihood."""
        match self.query.law:
            case TruncatedDirichlet() | TruncatedTables():
                levels = tuple(Block(block.name, block.axes[1:]) for block in self.blocks)
                return Statistic(*count_cells(self.counts, self.schema, levels, source))
            case law:
                moments = resolve_moments(moments_of(law), self.schema)
                return moments.evaluate(source, moments.exact())

    def evaluate_step(self, loaded: Loaded) -> Statistic:
        """The counts that single draws of levels are from, read once in a lease."""
        return loaded.once(self.counts, lambda: self.evaluate(loaded.source, self.exact()))

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        """Draws of the tempered posterior, as points of the grid within its bounds."""
        query, temperature, uniform = self.query, noise[0].scale, partial(uniforms, entropy)
        with np.errstate(all="ignore"):
            match query.law:
                case TruncatedDirichlet(truncation=truncation):
                    at = concentration(query, statistic.integers, temperature)
                    rows = np.tile(at, (query.draws, 1))
                    drawn = truncated_dirichlet.sample(rows, truncation, uniform)
                    return to_grid(drawn, truncation).ravel()
                case TruncatedTables(truncation=truncation):
                    laws = self.tables(statistic, temperature)
                    repeated = [np.tile(at, (query.draws, 1)) for at in laws]
                    each = [truncated_dirichlet.sample(at, truncation, uniform) for at in repeated]
                    return np.concatenate([to_grid(p, truncation).ravel() for p in each])
                case BoundedNormal(bounded=bounded):
                    law = normal_law(query, self.moments(statistic), temperature, self.schema)
                    sample = truncated_normal.shares if bounded else truncated_normal.everywhere
                    least, most = (0, PER_ONE) if bounded else (-_FAR, _FAR)
                    drawn = sample(*law, query.draws, uniform)
                    return np.clip(np.rint(drawn * PER_ONE), least, most).astype(np.int64)
                case BoundedMeanSd():
                    log = mean_sd_weights(query, self.moments(statistic), temperature, self.schema)
                    sds, means = bounded_normals.sample(log, query.draws, uniform)
                    return np.concatenate([means, sds * bounded_normals.SD_STEP])
                case BoundedRate():
                    log = rate_weights(query, self.moments(statistic), temperature, self.schema)
                    return bounded_rates.sample(log, query.draws, uniform)
                case BallRegression(radius=radius):
                    centre, precision = regression_law(query, self.moments(statistic), temperature)
                    laws = [np.stack([part] * query.draws) for part in (centre, precision)]
                    drawn = ball_normal.sample(laws[0], laws[1], radius, uniform)
                    return np.trunc(drawn / radius * PER_ONE).astype(np.int64).ravel()

    def tables(self, statistic: Statistic, temperature: float) -> list[np.ndarray]:
        """For each family the Dirichlet laws drawn from, shape (levels of parents, levels)."""
        shapes = [(-1, len(block.axes[-1].labels)) for block in self.blocks]
        ends = np.cumsum([math.prod(block.shape[1:]) for block in self.blocks])[:-1]
        at = concentration(self.query, statistic.integers, temperature)
        return [part.reshape(s) for part, s in zip(np.split(at, ends), shapes, strict=True)]

    def moments(self, statistic: Statistic) -> np.ndarray:
        """The moments' matrix, number of rows in its corner, from their integers."""
        law = self.query.law
        assert isinstance(law, BoundedNormal | BoundedMeanSd | BoundedRate | BallRegression)
        return moment_values(resolve_moments(moments_of(law), self.schema), statistic)


def resolve_draw(query: ConjugateDraw, schema: Schema) -> ConjugateAnswer:
    """Look up what is public. Opens no data."""
    each = Axis("draw", range(query.draws))
    blocks: tuple[Block, ...]
    match query.law:
        case TruncatedDirichlet(key=key, prior=prior):
            labels = labels_of(key, schema)
            if len(labels) != len(prior):
                raise QueryError(
                    f"Expected {len(labels)} numbers in prior, one for each level of "
                    f"{name_of(key)!r}, got {len(prior)}."
                )
            blocks = (Block("p", (each, Axis(name_of(key), labels))),)
        case TruncatedTables(families=families) as law:
            blocks = _tables(law, each, Counts(families), schema)
        case BoundedNormal() as law:
            resolve_moments(moments_of(law), schema)
            _check_comparable(law, *scale_of(schema[law.column]))
            blocks = (Block("mean", (each,)),)
        case BoundedMeanSd() as law:
            resolve_moments(moments_of(law), schema)
            _check_mean_sd(law, schema)
            blocks = (Block("mean", (each,)), Block("sd", (each,)))
        case BoundedRate() as law:
            resolve_moments(moments_of(law), schema)
            _check_rates(law, schema)
            blocks = (Block("rate", (each,)),)
        case BallRegression(features=features) as law:
            resolve_moments(moments_of(law), schema)
            blocks = (Block("coef", (each, Axis("feature", ("(constant)", *features)))),)
    span = draw_range(query.law, schema)
    grids = (draw_grid(query.law),) * len(blocks)
    return ConjugateAnswer(query, schema, blocks, span, grids, (FLOAT_DRAW,))


def _tables(law: TruncatedTables, each: Axis, counts: Counts, schema: Schema) -> tuple[Block, ...]:
    """One block a family: draws of the column given its parents."""
    resolve_counts(counts, schema)  # refuses columns that cannot be counted, and many cells
    blocks = tuple(
        Block(name, (each, *(Axis(column, labels_of(column, schema)) for column in family)))
        for name, family in zip(counts.names, law.families, strict=True)
    )
    for block in blocks:
        levels = len(block.axes[-1].labels)
        if not 2 <= levels <= MOST_LEVELS:
            name = block.axes[-1].name
            raise QueryError(f"Expected 2 to {MOST_LEVELS} levels of {name!r} to draw.")
        checked_truncation(law.truncation, levels)
    numbers = sum(block.size for block in blocks)
    if numbers > _MOST_NUMBERS:
        raise QueryError(f"Expected at most {_MOST_NUMBERS} numbers in all draws, not {numbers}.")
    return blocks


def _check_comparable(law: BoundedNormal, middle: float, half: float) -> None:
    """Refuse scales so far from the column's own that doubles could not tell them apart."""
    mean, spread = law.prior
    sizes = {"sd": law.sd, "the prior's sd": spread}
    if law.bounded:
        sizes["high - low"] = law.high - law.low
    for what, size in sizes.items():
        if not _LEAST * half <= size <= half / _LEAST:
            raise QueryError(f"Expected {what}={size} within 10,000 times the column's bounds.")
    if not law.bounded:
        if abs(mean - middle) > min(half, spread) / _LEAST:
            raise QueryError(
                "Expected the prior's mean nearer to the column's bounds: within 10,000 times "
                "half their width, and the prior's sd."
            )
        return
    # The data's gradient is added to the prior's: it must not drown in the last digit of their sum.
    if law.high - law.low > spread / _LEAST:
        raise QueryError(f"Expected high - low of at most 10,000 times the prior's sd in {law}.")
    if max(abs(x - middle) for x in (law.low, law.high, mean)) > half / _LEAST:
        raise QueryError("Expected low, high and the prior's mean nearer to the column's bounds.")


def _check_mean_sd(law: BoundedMeanSd, schema: Schema) -> None:
    """Refuse ends and priors next to which doubles could not tell what one row does."""
    (low, high), (least, most) = scaled_ends(law, schema)
    bounds, (_, half) = bounds_of(schema[law.column]), scale_of(schema[law.column])
    prior_mean, _, prior_sd, _ = law.prior
    if not bounds[0] <= law.mean[0] < law.mean[1] <= bounds[1] or high - low < 0.01:
        raise QueryError(
            f"Expected mean={law.mean} within the bounds {bounds} of {law.column!r}, its ends at "
            "least half a hundredth of their width apart."
        )
    if not (least >= 0.002 and 1.01 * least <= most <= 10):
        raise QueryError(
            f"Expected sd={law.sd} from {0.002 * half:g} to {10 * half:g}, one end at least a "
            "hundredth above the other."
        )
    if not (bounds[0] <= prior_mean <= bounds[1] and 0 < prior_sd <= 2 * half):
        raise QueryError(
            f"Expected the prior's mean within the bounds {bounds} of {law.column!r}, and its sd "
            f"up to their width, got {law.prior}."
        )


def _check_rates(law: BoundedRate, schema: Schema) -> None:
    """Refuse columns without a cap above 0, and rates that no value within it speaks for."""
    low, cap = bounds_of(schema[law.column])
    counts = law.family == "poisson"
    if low != 0 or not 0 < cap <= _MOST_CAP or (counts and cap % 1):
        raise QueryError(f"Expected {law.column!r} to go from 0 to a cap of at most {_MOST_CAP:g}.")
    scale = cap if counts else 1 / cap
    if not 1e-6 * scale <= law.low < law.high <= 1e6 * scale:
        raise QueryError(f"Expected low={law.low} and high={law.high} nearer to {scale:g}.")


def moments_of(law: BoundedNormal | BoundedMeanSd | BoundedRate | BallRegression) -> Moments:
    """The statistics that a law needs."""
    match law:
        case BoundedNormal() | BoundedRate():
            return Moments((law.column,), degree=1)
        case BoundedMeanSd():
            return Moments((law.column,))
        case BallRegression():
            return Moments((*law.features, law.target))


def concentration(query: ConjugateDraw, counts: np.ndarray, temperature: float) -> np.ndarray:
    """The Dirichlet law that is drawn from, before truncation."""
    # proof: draw-range. Only counts / temperature depend on the data; the prior is public.
    assert isinstance(query.law, TruncatedDirichlet | TruncatedTables)
    prior = np.array(query.law.prior)
    if query.temper_prior:
        prior = 1 + (prior - 1) / temperature
    return prior + counts / temperature


def normal_law(
    query: ConjugateDraw, moments: np.ndarray, temperature: float, schema: Schema
) -> tuple[float, float]:
    """Gradient at the origin and curvature of the log density, in the units of the release.

    Everything is measured from their origin: no large numbers are taken from each other.
    """
    law = query.law
    assert isinstance(law, BoundedNormal)
    middle, half = scale_of(schema[law.column])
    kept = temperature if query.temper_prior else 1.0
    (origin, wide), rows = law.measure(kept), moments[0, 0]
    away = rows * (middle - origin) + half * moments[0, 1]  # sum of x - origin
    prior_mean, prior_sd = law.prior
    prior, row = 1 / (prior_sd**2 * kept), 1 / (temperature * law.sd**2)
    gradient = wide * (prior * (prior_mean - origin) + row * away)
    return float(gradient), float(wide**2 * (prior + row * rows))


def mean_sd_weights(
    query: ConjugateDraw, moments: np.ndarray, temperature: float, schema: Schema
) -> np.ndarray:
    """The log-weight of each standard deviation and mean that can be drawn, shape (sd, mean)."""
    law = query.law
    assert isinstance(law, BoundedMeanSd)
    means, sds = bounded_normals.points(*scaled_ends(law, schema))
    base = mean_sd_base(query, means, sds, temperature, schema)
    # proof: draw-mean-sd-range. Relative to one public point, so that no large number hides a row.
    row, column = np.unravel_index(int(base.argmax()), base.shape)
    at = int(row), int(column)
    constant, linear, square = bounded_normals.coefficients(means, sds, at)
    data = moments[0, 0] * constant + moments[0, 1] * linear + moments[1, 1] * square
    return (base - base[at]) + data / temperature


def mean_sd_base(
    query: ConjugateDraw, means: np.ndarray, sds: np.ndarray, temperature: float, schema: Schema
) -> np.ndarray:
    """The log-weight without data at points (sd, mean) of equal distances and equal ratios."""
    law = query.law
    assert isinstance(law, BoundedMeanSd)
    middle, half = scale_of(schema[law.column])
    mean, mean_rows, sd, sd_rows = law.prior
    log_sd, precision = np.log(sds)[:, None], 1 / sds[:, None] ** 2
    away = mean_rows * (means - (mean - middle) / half) ** 2 + sd_rows * (sd / half) ** 2
    prior = -(sd_rows + 2) * log_sd - 0.5 * away * precision
    return log_sd + prior / (temperature if query.temper_prior else 1.0)


def rate_weights(
    query: ConjugateDraw, moments: np.ndarray, temperature: float, schema: Schema
) -> np.ndarray:
    """The log-weight of each rate that can be drawn."""
    law = query.law
    assert isinstance(law, BoundedRate)
    middle, half = scale_of(schema[law.column])
    rows, total = moments[0, 0], middle * moments[0, 0] + half * moments[0, 1]
    at = bounded_rates.log_rates(law.low, law.high)
    theta, partition = bounded_rates.statistics(law.family, at, middle + half)
    shape, per = law.prior
    prior = (shape - 1) * at - per * np.exp(at)
    # A density of the rate, on points of equal ratios.
    base = at + prior / (temperature if query.temper_prior else 1.0)
    # proof: draw-rate-range. Relative to one public point, so that no large number hides a row.
    j = int(base.argmax())
    data = total * (theta - theta[j]) - rows * (partition - partition[j])
    return (base - base[j]) + data / temperature


def regression_law(
    query: ConjugateDraw, moments: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the normal law that is drawn from, before truncation."""
    law = query.law
    assert isinstance(law, BallRegression)
    kept = temperature if query.temper_prior else 1.0
    size, variance = len(law.features) + 1, temperature * law.sd**2
    # By its axes, so that no data make it singular: columns may depend on each other.
    curvatures, axes = np.linalg.eigh(moments[:size, :size])
    curvatures = np.maximum(curvatures, 0.0) / variance + 1 / (law.scale**2 * kept)
    mean = axes @ (axes.T @ moments[:size, size] / variance / curvatures)
    return mean, (axes * curvatures) @ axes.T


def to_grid(probability: np.ndarray, truncation: float) -> np.ndarray:
    """Multiples of the grid that sum to one in each row, none below the truncation."""
    least = int(np.ceil(truncation * PER_ONE))
    integers = np.maximum(np.rint(probability * PER_ONE).astype(np.int64), least)
    # The largest takes up what rounding moved: at most one for each level.
    rows, largest = np.arange(len(integers)), probability.argmax(axis=1)
    integers[rows, largest] += PER_ONE - integers.sum(axis=1)
    return integers
