"""Audits of conjugate draws: levels, a mean, and coefficients.

Where a density is known, the largest log-ratio between neighbours is computed over all small data
sets and the worst large one, with the wall's own temperature and concentration. A
Kolmogorov-Smirnov test then asks whether the wall's draws have the density that was audited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from tacit.accounting.gaussian import gaussian_epsilon
from tacit.audit.exact import kolmogorov, largest_loss
from tacit.audit.game import DELTA, Game, Scores, Table, attack, exact_game
from tacit.draws.conjugate import (
    ConjugateAnswer,
    concentration,
    normal_law,
    rate_weights,
    regression_law,
    resolve_draw,
)
from tacit.draws.mean_sd import mean_sd_weights
from tacit.laws import bounded_normals, truncated_normal
from tacit.laws.truncated_dirichlet import log_kernel
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical, Column, Integer, Real
from tacit.spec.draws import (
    BallRegression,
    BoundedMeanSd,
    BoundedNormal,
    BoundedRate,
    ConjugateDraw,
    DrawLaw,
    TruncatedDirichlet,
    TruncatedTables,
)
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.answers import read
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

_SMALL, _LARGE = 6, 1000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_HALF, _OF_ADD = "half the temperature", "temperature of add_remove"


_COUNTS = BoundedRate("x", "poisson", (1.0, 1.0), 0.3, 3.0)
_BOTH = BoundedMeanSd("x", (0.5, 0.1, 0.3, 1.0), (0.0, 1.0), (0.2, 1.0))
_WAITS = BoundedRate("x", "exponential", (1.0, 1.0), 0.2, 2.0)


def coefficient_games() -> list[Game]:
    rest = {"x": [0.0], "y": [0.0]}
    joined = {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    moved = {"x": [0.0, 1.0], "y": [0.0, -1.0]}
    return [
        _coefficient_game("add_remove", (rest, joined)),
        _coefficient_game("replace_one", (joined, moved)),
    ]


def draw_games() -> list[Game]:
    """One draw of levels or of a mean, one row a unit, both relations."""
    mean = BoundedNormal("x", 0.5, (0.5, 1.0), 0.0, 1.0)
    # A prior so narrow that a single row hardly narrows it: the claim is nearly attained.
    free = BoundedNormal("x", 0.05, (0.4, 0.02), -np.inf, np.inf)
    unit, total = Real("x", 0, 1), Real("x", 0, 1, default=0.5)
    add, swap = "add_remove", "replace_one"
    return [
        _game("draw of a mean", mean, unit, add, _mean_loss, means_p_value, _HALF),
        _game("draw of a mean", mean, unit, swap, _mean_loss, means_p_value, _HALF),
        _game("draw of a mean without bounds", free, total, swap, _free_mean_epsilon,
              means_p_value, _HALF, delta=DELTA),
        _levels_game("Beta draw", 2, add, _HALF),
        _levels_game("Beta draw", 2, swap, _OF_ADD),
        _levels_game("Dirichlet draw", 3, add, _HALF),
        _levels_game("Dirichlet draw", 3, swap, _OF_ADD),
        _tables_game(add, _HALF),
        _tables_game(swap, _OF_ADD),
        _game("draw of a mean and an sd", _BOTH, unit, add, _mean_sd_loss, mean_sds_p_value, _HALF),
        _game("draw of a mean and an sd", _BOTH, unit, swap, _mean_sd_loss, mean_sds_p_value,
              _OF_ADD),
        _game("draw of a rate of counts", _COUNTS, Integer("x", 0, 3), add, _rate_loss,
              rates_p_value, _HALF),
        _game("draw of a rate of counts", _COUNTS, Integer("x", 0, 3), swap, _rate_loss,
              rates_p_value, _HALF),
        _game("draw of a rate of waits", _WAITS, Real("x", 0, 3), add, _rate_loss,
              rates_p_value, _HALF),
        _game("draw of a rate of waits", _WAITS, Real("x", 0, 3), swap, _rate_loss,
              rates_p_value, _HALF),
    ]  # fmt: skip


def _game(
    name: str,
    law: DrawLaw,
    column: Column | tuple[Column, ...],
    neighbours: Neighbours,
    loss: Callable[[ConjugateAnswer, float], float],
    p_value: Callable[[ConjugateAnswer, float, int], float],
    mistake: str,
    *,
    delta: float = 0,
) -> Game:
    """The twin has half the temperature, which add_remove needs for half the range."""
    columns = column if isinstance(column, tuple) else (column,)
    schema = Schema(*columns, neighbours=neighbours)
    one, several = (resolve_draw(ConjugateDraw(law, draws=n), schema) for n in (1, 1000))
    calibration = one.calibrate(Exponential(1, delta))
    losses, tests = partial(loss, one), partial(p_value, several)
    half = calibration.noise[0].scale / 2
    full = f"{name}, {neighbours}"
    return exact_game(full, calibration, losses, tests, mistake, half, most=20_000)


def _levels_game(name: str, levels: int, neighbours: Neighbours, mistake: str) -> Game:
    law = TruncatedDirichlet("x", (1.0,) * levels, truncation=0.1)
    column = Categorical("x", [str(i) for i in range(levels)])
    counts = 3, 2, *[0] * (levels - 2)
    p_value = partial(draws_p_value, counts)
    return _game(name, law, column, neighbours, _levels_loss, p_value, mistake)


def _tables_game(neighbours: Neighbours, mistake: str) -> Game:
    """A network of two columns, y given x: three probabilities of two levels each."""
    law = TruncatedTables((("x",), ("x", "y")), prior=1.0, truncation=0.1)
    columns = Categorical("x", ["0", "1"]), Categorical("y", ["0", "1"])
    name = "draw of a network's tables"
    return _game(name, law, columns, neighbours, _tables_loss, tables_p_value, mistake)


def _tables_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """Over all small tables of rows (x, y), and some of many rows, most of them alike."""
    simplex = Simplex.of(2, resolved.query.law.truncation)

    def log_law(counts: np.ndarray) -> np.ndarray:
        each = [
            np.concatenate(resolved.tables(Statistic(one.astype(np.int64), 0), temperature))
            for one in counts
        ]
        return simplex.log_density(np.array(each))

    rows = np.array([_row_counts(x, y) for x, y in product((0, 1), repeat=2)])
    small = [np.array(n) @ rows for n in product(range(3), repeat=4)]
    large = [np.array(n) @ rows for n in product((0, _LARGE, 20 * _LARGE), repeat=4)]
    return largest_loss(log_law, [*small, *large], rows, resolved.schema.neighbours)


def _row_counts(x: int, y: int) -> np.ndarray:
    """What one row adds to the counts of x, and of y in each level of x."""
    return np.concatenate([np.eye(2)[x], np.outer(np.eye(2)[x], np.eye(2)[y]).ravel()])


def tables_p_value(resolved: ConjugateAnswer, temperature: float, size: int) -> float:
    """How well the wall's draws fit each audited density, for a few rows; the worst of three."""
    data = {"x": ["0", "0", "0", "1", ""], "y": ["0", "1", "1", "1", "0"]}
    statistic = read(open_data(data, resolved.schema), resolved, ())
    simplex = Simplex.of(2, resolved.query.law.truncation)
    drawn = sampled(resolved, statistic, temperature, size)
    laws = np.concatenate(resolved.tables(statistic, temperature))
    found = []
    for at, values in zip(laws, np.moveaxis(drawn[..., 0], -1, 0), strict=True):
        order = np.argsort(simplex.theta[:, 0])
        log = simplex.log_density(at)[order]
        found.append(kolmogorov(values, simplex.theta[order, 0], log))
    return min(1.0, len(found) * min(found))


@dataclass(frozen=True)
class Simplex:
    """Points of the cut simplex with quadrature weights, dense towards its corners.

    The corners are its last points, without weight.
    """

    theta: np.ndarray
    log_weight: np.ndarray

    @classmethod
    def of(cls, levels: int, truncation: float) -> Simplex:
        edges = np.concatenate([[0.0], 0.5 ** np.arange(12, 0, -1), 1 - 0.5 ** np.arange(2, 13)])
        edges = np.append(edges, 1.0)
        half = np.diff(edges) / 2
        unit = ((edges[1:] + edges[:-1]) / 2)[:, None] + half[:, None] * _NODES
        weight = (half[:, None] * _WEIGHTS).ravel()
        room = 1 - levels * truncation
        # One coordinate after another, as a share of the room that is left.
        log = np.zeros(1)
        parts, left = np.zeros((1, 0)), np.ones(1)
        for _ in range(levels - 1):
            share = np.tile(unit.ravel(), len(left))
            repeated = np.repeat(left, weight.size)
            log = np.repeat(log, weight.size) + np.log(np.tile(weight, len(left)))
            log = log + np.log(repeated)
            parts = np.column_stack([np.repeat(parts, weight.size, axis=0), repeated * share])
            left = repeated * (1 - share)
        shares = np.concatenate([np.column_stack([parts, left]), np.eye(levels)])
        log = np.append(log + (levels - 1) * np.log(room), np.full(levels, -np.inf))
        return cls(truncation + room * shares, log)

    def log_integral(self, concentration: np.ndarray) -> np.ndarray:
        """The log normaliser for each row of concentrations."""
        log = log_kernel(self.theta, concentration[..., None, :])
        return logsumexp(self.log_weight + log, axis=-1)

    def log_density(self, concentration: np.ndarray) -> np.ndarray:
        """The log density at all points, for each row of concentrations."""
        log = log_kernel(self.theta, concentration[..., None, :])
        return log - logsumexp(self.log_weight + log, axis=-1, keepdims=True)


def _all_small(levels: int) -> list[np.ndarray]:
    """Counts of few rows, and of many that are all alike."""
    small = [c for c in product(range(_SMALL + 1), repeat=levels) if sum(c) <= _SMALL]
    return [np.array(counts) for counts in (*small, (_LARGE, *[0] * (levels - 1)))]


def _levels_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """The largest |log density ratio| between neighbours at this temperature."""
    law, levels = resolved.query.law, len(resolved.query.law.prior)
    simplex = Simplex.of(levels, law.truncation)

    def log_law(counts: np.ndarray) -> np.ndarray:
        at = concentration(resolved.query, counts, temperature)
        return simplex.log_density(at)[:, None]

    relation = resolved.schema.neighbours
    return largest_loss(log_law, _all_small(levels), np.eye(levels), relation)


def _rate_law(resolved: ConjugateAnswer, counts: np.ndarray, temperature: float) -> np.ndarray:
    """Log-probabilities of all rates, for each row of counts (rows at 0, rows at the cap)."""
    each = []
    for none, most in counts[:, :2].astype(float):
        moments = np.array([[none + most, most - none], [most - none, 0.0]])
        log = rate_weights(resolved.query, moments, temperature, resolved.schema)
        each.append(log - logsumexp(log))
    return np.array(each)


def _rate_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """Every row is 0, at the cap, or missing."""

    def log_law(counts: np.ndarray) -> np.ndarray:
        return _rate_law(resolved, counts, temperature)[:, None]

    few = [np.array(c) for c in product(range(3), repeat=2)]
    bases = [np.array([*c, 0]) for c in (*few, (_LARGE, 0), (0, _LARGE))]
    return largest_loss(log_law, bases, np.eye(3), resolved.schema.neighbours)


def rates_p_value(resolved: ConjugateAnswer, temperature: float, size: int) -> float:
    """How well the wall's draws fit the audited probabilities, for a few rows."""
    source = open_data({"x": [0, 0, 3, 3, None]}, resolved.schema)
    statistic, most = read(source, resolved, ()), min(size, 2000)
    noise = resolved.at_temperature(temperature)
    each = resolved.blocks[0].shape[0]
    found = [resolved.sample(statistic, noise, os_entropy) for _ in range(-(-most // each))]
    log = _rate_law(resolved, np.array([[2, 2]]), temperature)[0]
    below = np.cumsum(np.exp(log)) - np.exp(log) / 2
    return float(kstest(below[np.concatenate(found)], "uniform").pvalue)


def _mean_sd_law(resolved: ConjugateAnswer, counts: np.ndarray, temperature: float) -> np.ndarray:
    """Log-probabilities of all points (sd, mean), of `counts` rows at -1, at 0 and at 1."""
    lows, middles, highs = counts.astype(float)
    total = highs - lows
    moments = np.array([[lows + middles + highs, total], [total, lows + highs]])
    log = mean_sd_weights(resolved.query, moments, temperature, resolved.schema)
    top = log.max()
    return np.asarray(log - top - np.log(np.exp(log - top).sum()))


def _mean_sd_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """Every row is at a bound, in the middle, or missing; the points are some of all, and the ends.

    Log-ratios are quadratic in the mean and largest at an end of the standard deviations.
    """

    def log_law(counts: np.ndarray) -> np.ndarray:
        some = [_mean_sd_law(resolved, one[:3], temperature)[::64, ::64] for one in counts]
        return np.array(some).reshape(len(counts), 1, -1)

    bases = [np.array(c) for c in ((0, 0, 0, 0), (_LARGE, 0, 0, 0), (0, _LARGE, 0, 0))]
    return largest_loss(log_law, bases, np.eye(4, dtype=int), resolved.schema.neighbours)


def mean_sds_p_value(resolved: ConjugateAnswer, temperature: float, size: int) -> float:
    """How well the wall's draws fit the audited probabilities, for a few rows; the worse of two."""
    source = open_data({"x": [0.0, 0.5, 0.5, 1.0, np.nan]}, resolved.schema)
    statistic, most = read(source, resolved, ()), min(size, 2000)
    drawn = [
        resolved.sample(statistic, resolved.at_temperature(temperature), os_entropy)
        for _ in range(-(-most // resolved.blocks[0].shape[0]))
    ]
    means, sds = np.concatenate([part.reshape(2, -1) for part in drawn], axis=1)
    p = np.exp(_mean_sd_law(resolved, np.array([1, 2, 1]), temperature))
    found = []
    for indices, mass in ((means, p.sum(axis=0)), (sds // bounded_normals.SD_STEP, p.sum(axis=1))):
        below = np.cumsum(mass) - mass / 2
        found.append(float(kstest(below[indices], "uniform").pvalue))
    return min(1.0, 2 * min(found))


def draws_p_value(
    counts: tuple[int, ...], resolved: ConjugateAnswer, temperature: float, size: int
) -> float:
    """How well the wall's draws fit the audited density of the first level's probability."""
    law = resolved.query.law
    statistic = Statistic(np.array(counts), sum(counts))
    drawn = sampled(resolved, statistic, temperature, size)[:, 0]
    simplex = Simplex.of(len(law.prior), law.truncation)
    at = concentration(resolved.query, np.array(counts), temperature)
    weight = np.exp(simplex.log_weight + simplex.log_density(at))
    first, index = np.unique(simplex.theta[:, 0], return_inverse=True)
    mass = np.bincount(index, weight)
    below = (np.cumsum(mass) - mass / 2) / mass.sum()
    return float(kstest(drawn, lambda x: np.interp(x, first, below)).pvalue)


def sampled(
    resolved: ConjugateAnswer, statistic: Statistic, temperature: float, size: int
) -> np.ndarray:
    """At least `size` of the wall's draws of a statistic, on their grid, one in a row.

    Those of a network's tables have shape (draw, vector, level).
    """
    noise = resolved.at_temperature(temperature)
    each, found = resolved.blocks[0].shape[0], []
    ends = np.cumsum([block.size for block in resolved.blocks])[:-1]
    last = resolved.blocks[0].shape[-1] if len(resolved.blocks) > 1 else None
    for _ in range(-(-size // each)):
        integers = resolved.sample(statistic, noise, os_entropy)
        if last is None:
            found.append(integers.reshape(each, -1))
        else:
            parts = [part.reshape(each, -1, last) for part in np.split(integers, ends)]
            found.append(np.concatenate(parts, axis=1))
    return np.concatenate(found) * noise[0].grid


def _mean_and_sd(
    resolved: ConjugateAnswer, at_low: float, at_high: float, temperature: float
) -> tuple[float, float]:
    """The wall's law of a mean before truncation, of a number of rows at each bound."""
    law = resolved.query.law
    assert isinstance(law, BoundedNormal)
    total = at_high - at_low
    moments = np.array([[at_low + at_high, total], [total, 0.0]])
    gradient, curvature = normal_law(resolved.query, moments, temperature, resolved.schema)
    origin, unit = law.measure(temperature if resolved.query.temper_prior else 1.0)
    return origin + unit * gradient / curvature, unit / curvature**0.5


def _log_mean_law(
    resolved: ConjugateAnswer, counts: np.ndarray, temperature: float, theta: np.ndarray
) -> np.ndarray:
    """The log density of a mean for each row of counts (at the lower bound, at the upper)."""
    law = resolved.query.law
    laws = [_mean_and_sd(resolved, *each, temperature) for each in counts.astype(float)]
    mean, sd = np.array(laws).T[..., None]
    return truncated_normal.log_density(theta, mean, sd, law.low, law.high)


def _mean_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """Every row is at the column's lower bound, at its upper one, or missing."""
    law = resolved.query.law
    theta = np.linspace(law.low, law.high, 2001)

    def log_law(counts: np.ndarray) -> np.ndarray:
        return _log_mean_law(resolved, counts[:, :2], temperature, theta)[:, None]

    return largest_loss(log_law, _all_small(3), np.eye(3), resolved.schema.neighbours)


def _free_mean_epsilon(resolved: ConjugateAnswer, temperature: float) -> float:
    """Epsilon at `DELTA` of a mean without bounds, whose number of rows is public.

    Under neighbours its laws are normal with the same variance, so that it is that of Gaussian
    noise: every row at the column's lower bound or at its upper one.
    """
    mu = 0.0
    for base in _all_small(2):
        laws = [_mean_and_sd(resolved, *(base + row), temperature) for row in np.eye(2)]
        (one, sd), (other, same) = laws
        assert sd == same
        mu = max(mu, abs(one - other) / sd)
    return gaussian_epsilon(mu, DELTA)


def means_p_value(resolved: ConjugateAnswer, temperature: float, size: int) -> float:
    """How well the wall's draws of a mean fit the audited density, for a few rows."""
    law = resolved.query.law
    assert isinstance(law, BoundedNormal)
    source = open_data({law.column: [0.0, 0.0, 0.0, 1.0, np.nan]}, resolved.schema)
    drawn = sampled(resolved, read(source, resolved, ()), temperature, size)[:, 0]
    # a default, in the middle, adds a row and nothing to the total
    more = 0.0 if resolved.schema[law.column].default is None else 0.5
    if not law.bounded:
        origin, unit = law.measure(1.0)
        mean, sd = _mean_and_sd(resolved, 3 + more, 1 + more, temperature)
        return float(kstest(origin + unit * drawn, norm(mean, sd).cdf).pvalue)
    theta = np.linspace(law.low, law.high, 20_001)
    log = _log_mean_law(resolved, np.array([[3 + more, 1 + more]]), temperature, theta)[0]
    return kolmogorov(law.low + (law.high - law.low) * drawn, theta, log)


def _coefficient_game(neighbours: Neighbours, tables: tuple[Table, Table]) -> Game:
    """A prior that is narrow in its ball, where the claim is nearly attained."""
    schema = Schema(Real("x", -1, 1), Real("y", -1, 1), neighbours=neighbours)
    law = BallRegression("y", ("x",), sd=0.1, scale=0.05, radius=0.2)
    one, several = (resolve_draw(ConjugateDraw(law, draws=n), schema) for n in (1, 1000))
    calibration = one.calibrate(Exponential(1, DELTA))

    def scores(temperature: float, runs: int) -> Scores:
        sides = [read(open_data(table, schema), several, ()) for table in tables]
        laws = [regression_law(several.query, several.moments(s), temperature) for s in sides]
        found = []
        for side in sides:
            x = law.radius * sampled(several, side, temperature, runs)
            here, there = (
                -0.5 * np.einsum("ni,ij,nj->n", x - mean, precision, x - mean)
                for mean, precision in laws
            )
            found.append(there - here)
        return found

    name, temperature = f"draw of coefficients, {neighbours}", calibration.noise[0].scale
    return attack(name, calibration.cost, scores, temperature, _HALF, temperature / 2, pace=20)
