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
from tacit.accounting.draws import calibrate_draw, draw_range
from tacit.draws.draw import FLOAT_DRAW, PER_ONE, Draw, exponential, uniforms
from tacit.draws.mean_sd import check_mean_sd, mean_sd_weights
from tacit.draws.moments import moment_values
from tacit.draws.scales import check_comparable, check_rates
from tacit.laws import (
    ball_normal,
    bounded_normals,
    bounded_rates,
    truncated_dirichlet,
    truncated_normal,
)
from tacit.sources.loaded import Loaded
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
from tacit.spec.moments import Moments, scale_of
from tacit.spec.queries import Counts
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy
from tacit.wall.statistics.counts import count_cells, resolve_counts
from tacit.wall.statistics.moments import resolve_moments
from tacit.wall.statistics.statistic import Statistic

_FAR = 2.0**60  # multiples of the grid, for a mean without bounds, within 64 bits
_MOST_NUMBERS = 10**7


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

    @property
    def largest_prior(self) -> float:
        match self.query.law:
            case TruncatedDirichlet(prior=prior) | TruncatedTables(prior=prior):
                # Tempered it is 1 + (prior - 1) / T: at most 1, or about prior / T.
                return 1.0 if self.query.temper_prior else float(np.max(prior))
            case _:
                return 0.0

    def calibrate(self, mechanism: Any) -> Calibration:
        found = calibrate_draw(exponential(mechanism), self.query, self.schema)
        return replace(found, noise=self.at_temperature(found.noise[0].scale))  # one for all

    def evaluate(self, snapshot: Any, noise: tuple[Noise, ...]) -> Statistic:
        """The statistics of all complete rows. A missing value adds nothing to the likelihood."""
        match self.query.law:
            case TruncatedDirichlet() | TruncatedTables():
                levels = tuple(Block(block.name, block.axes[1:]) for block in self.blocks)
                return Statistic(*count_cells(self.counts, self.schema, levels, snapshot))
            case law:
                moments = resolve_moments(moments_of(law), self.schema)
                return moments.evaluate(snapshot, moments.exact())

    def evaluate_step(self, loaded: Loaded) -> Statistic:
        """The counts that single draws of levels are from, read once in a lease."""
        return loaded.once(self.counts, lambda: self.evaluate(loaded.snapshot, self.exact()))

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
            check_comparable(law, *scale_of(schema[law.column]))
            blocks = (Block("mean", (each,)),)
        case BoundedMeanSd() as law:
            resolve_moments(moments_of(law), schema)
            check_mean_sd(law, schema)
            blocks = (Block("mean", (each,)), Block("sd", (each,)))
        case BoundedRate() as law:
            resolve_moments(moments_of(law), schema)
            check_rates(law, schema)
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
