"""Exact audits of draws: their density is known, so no game of chance is needed.

Over all small data sets and the worst large one, the largest log-ratio of the densities under
neighbours is computed with the wall's own temperature and concentration. A Kolmogorov-Smirnov test
then asks whether the wall's draws have the density that was audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from tacit.accounting.gaussian import gaussian_epsilon
from tacit.draws.conjugate import ConjugateAnswer, concentration, normal_law, resolve_draw
from tacit.laws import truncated_normal
from tacit.laws.truncated_dirichlet import log_kernel
from tacit.sources.data import open_data
from tacit.spec.columns import Categorical, Real
from tacit.spec.draws import BoundedNormal, ConjugateDraw, TruncatedDirichlet
from tacit.spec.mechanisms import Exponential
from tacit.spec.release import Noise
from tacit.spec.schema import Neighbours, Schema
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

ALARM = 1e-6  # of the test of the draws
_SMALL, _LARGE = 6, 1000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
Counts = tuple[int, ...]


@dataclass(frozen=True)
class ExactGame:
    """A claim and the loss that is computed for it, for the mechanism and for a broken twin.

    Both take a number of draws to test, and are infinite where those have another law.
    """

    name: str
    epsilon: float
    delta: float
    honest: Callable[[int], float]
    mistake: str
    broken: Callable[[int], float]


@dataclass(frozen=True)
class Simplex:
    """Points of the cut simplex with quadrature weights, dense towards its corners."""

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
        theta = truncation + room * np.column_stack([parts, left])
        return cls(theta, log + (levels - 1) * np.log(room))

    def log_integral(self, concentration: np.ndarray) -> float:
        return float(logsumexp(self.log_weight + log_kernel(self.theta, concentration)))


def largest_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """The largest |log density ratio| between neighbours at this temperature."""
    law = resolved.query.law
    levels = len(law.prior)
    simplex = Simplex.of(levels, law.truncation)
    corners = np.full((levels, levels), law.truncation)
    np.fill_diagonal(corners, 1 - (levels - 1) * law.truncation)
    points = np.concatenate([simplex.theta, corners])

    @cache  # every data set has many neighbours
    def log_density(counts: Counts) -> np.ndarray:
        at = concentration(resolved.query, np.array(counts), temperature)
        return log_kernel(points, at) - simplex.log_integral(at)

    pairs = _neighbours(levels, resolved.schema.neighbours)
    return max(float(np.abs(log_density(a) - log_density(b)).max()) for a, b in pairs)


def _neighbours(levels: int, relation: Neighbours) -> Iterator[tuple[Counts, Counts]]:
    """All pairs of few rows, and the worst one with many, all but one of them alike."""
    many = (_LARGE, *[0] * (levels - 1))
    small = [c for c in product(range(_SMALL + 1), repeat=levels) if sum(c) <= _SMALL]
    for counts in [*small, many]:
        for i, j in product(range(levels), repeat=2):
            changed = list(counts)
            changed[j] += 1
            if relation == "add_remove":
                if i == j:
                    yield counts, tuple(changed)
            elif i != j and counts[i]:
                changed[i] -= 1
                yield counts, tuple(changed)


def draws_p_value(
    resolved: ConjugateAnswer, counts: Counts, temperature: float, size: int
) -> float:
    """How well the wall's draws fit the audited density of the first level's probability."""
    law = resolved.query.law
    statistic = Statistic(np.array(counts), sum(counts))
    drawn = sampled(resolved, statistic, temperature, size)[:, 0]
    simplex = Simplex.of(len(law.prior), law.truncation)
    at = concentration(resolved.query, np.array(counts), temperature)
    log = simplex.log_weight + log_kernel(simplex.theta, at)
    order = np.argsort(simplex.theta[:, 0], kind="stable")
    first, weight = simplex.theta[order, 0], np.exp(log[order] - log.max())
    first, starts = np.unique(first, return_index=True)
    mass = np.add.reduceat(weight, starts)
    below = (np.cumsum(mass) - mass / 2) / mass.sum()
    low, high = law.truncation, 1 - (len(law.prior) - 1) * law.truncation
    cdf = lambda x: np.interp(x, [low, *first, high], [0.0, *below, 1.0])  # noqa: E731
    return float(kstest(drawn, cdf).pvalue)


def sampled(
    resolved: ConjugateAnswer, statistic: Statistic, temperature: float, size: int
) -> np.ndarray:
    """At least so many of the wall's draws of a statistic, on their grid, one in a row."""
    noise = (Noise("draw", temperature, resolved.exact()[0].grid),)
    each = resolved.blocks[0].shape[0]
    steps = [
        resolved.sample(statistic, noise, os_entropy).reshape(each, -1)
        for _ in range(-(-size // each))
    ]
    return np.concatenate(steps) * noise[0].grid


def largest_mean_loss(resolved: ConjugateAnswer, temperature: float) -> float:
    """The same for a mean: every row at the column's lower bound, at its upper one, or missing."""
    law = resolved.query.law
    assert isinstance(law, BoundedNormal)
    theta = np.linspace(law.low, law.high, 2001)

    @cache
    def log_density(counts: Counts) -> np.ndarray:
        at_low, at_high, _ = counts
        total = at_high - at_low
        moments = np.array([[at_low + at_high, total], [total, 0.0]])
        mean, sd = _mean_and_sd(resolved, moments, temperature)
        return truncated_normal.log_density(theta, np.array(mean), sd, law.low, law.high)

    pairs = _neighbours(3, resolved.schema.neighbours)
    return max(float(np.abs(log_density(a) - log_density(b)).max()) for a, b in pairs)


def _mean_and_sd(
    resolved: ConjugateAnswer, moments: np.ndarray, temperature: float
) -> tuple[float, float]:
    """The wall's law of a draw, as a normal law of the mean."""
    law = resolved.query.law
    assert isinstance(law, BoundedNormal)
    slope, curve = normal_law(resolved.query, moments, temperature, resolved.schema)
    origin, unit = law.measure(temperature if resolved.query.temper_prior else 1.0)
    return origin + unit * slope / curve, unit / curve**0.5


def exact_mean_epsilon(resolved: ConjugateAnswer, temperature: float, delta: float) -> float:
    """Epsilon at this delta of a mean without bounds, whose number of rows is public.

    Under neighbours its laws are normal with the same variance, so that it is that of Gaussian
    noise: every row at the column's lower bound or at its upper one.
    """
    mu = 0.0
    for pair in _neighbours(2, resolved.schema.neighbours):
        laws = []
        for at_low, at_high in pair:
            total = at_high - at_low
            moments = np.array([[at_low + at_high, total], [total, 0.0]])
            laws.append(_mean_and_sd(resolved, moments, temperature))
        (one, sd), (other, same) = laws
        assert sd == same
        mu = max(mu, abs(one - other) / sd)
    return gaussian_epsilon(mu, delta)


def means_p_value(resolved: ConjugateAnswer, temperature: float, size: int) -> float:
    """How well the wall's draws of a mean fit the audited density, for a few rows."""
    law = resolved.query.law
    assert isinstance(law, BoundedNormal)
    source = open_data({law.column: [0.0, 0.0, 0.0, 1.0, np.nan]}, resolved.schema)
    drawn = sampled(resolved, resolved.evaluate(source, ()), temperature, size)[:, 0]
    rows = 4.0 if resolved.schema[law.column].default is None else 5.0  # the default adds 0
    moments = np.array([[rows, -2.0], [-2.0, 0.0]])
    mean, sd = _mean_and_sd(resolved, moments, temperature)
    if not law.bounded:
        origin, unit = law.measure(1.0)
        return float(kstest(origin + unit * drawn, norm(mean, sd).cdf).pvalue)
    share = np.linspace(0, 1, 20_001)
    theta = law.low + (law.high - law.low) * share
    density = np.exp(truncated_normal.log_density(theta, np.array(mean), sd, law.low, law.high))
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(kstest(drawn, lambda x: np.interp(x, share, cdf / cdf[-1])).pvalue)


def draw_games() -> list[ExactGame]:
    """One draw of levels or of a mean, one row a unit, both relations."""
    return [
        _mean_game("add_remove"),
        _mean_game("replace_one"),
        _free_mean_game(),
        _game("Beta draw", 2, "add_remove", "half the temperature", factor=0.5),
        _game("Beta draw", 2, "replace_one", "temperature of add_remove", factor=0.5),
        _game("Dirichlet draw", 3, "add_remove", "half the temperature", factor=0.5),
        _game("Dirichlet draw", 3, "replace_one", "temperature of add_remove", factor=0.5),
    ]


def _game(
    name: str, levels: int, neighbours: Neighbours, mistake: str, *, factor: float
) -> ExactGame:
    labels = [str(i) for i in range(levels)]
    schema = Schema(Categorical("x", labels), neighbours=neighbours)
    law = TruncatedDirichlet("x", (1.0,) * levels, truncation=0.1)
    resolved = resolve_draw(ConjugateDraw(law, draws=1000), schema)
    one = resolve_draw(ConjugateDraw(law), schema)
    calibration = one.calibrate(Exponential(1))
    temperature = calibration.noise[0].scale

    def shown(scale: float) -> Callable[[int], float]:
        def loss(runs: int) -> float:
            some = (3, 2, *[0] * (levels - 2))
            fits = draws_p_value(resolved, some, scale, min(runs, 20_000)) > ALARM
            return largest_loss(one, scale) if fits else np.inf

        return loss

    return ExactGame(
        f"{name}, {neighbours}",
        float(calibration.cost.epsilon),
        float(calibration.cost.delta),
        shown(temperature),
        mistake,
        shown(temperature * factor),
    )


def _mean_game(neighbours: Neighbours) -> ExactGame:
    schema = Schema(Real("x", 0, 1), neighbours=neighbours)
    law = BoundedNormal("x", 0.5, (0.5, 1.0), 0.0, 1.0)
    resolved = resolve_draw(ConjugateDraw(law, draws=1000), schema)
    one = resolve_draw(ConjugateDraw(law), schema)
    calibration = one.calibrate(Exponential(1))
    temperature = calibration.noise[0].scale

    def shown(scale: float) -> Callable[[int], float]:
        def loss(runs: int) -> float:
            fits = means_p_value(resolved, scale, min(runs, 20_000)) > ALARM
            return largest_mean_loss(one, scale) if fits else np.inf

        return loss

    return ExactGame(
        f"draw of a mean, {neighbours}",
        float(calibration.cost.epsilon),
        float(calibration.cost.delta),
        shown(temperature),
        "half the temperature",
        shown(temperature * 0.5),
    )


def _free_mean_game() -> ExactGame:
    """A prior so narrow that a single row hardly narrows it: the claim is nearly attained."""
    schema = Schema(Real("x", 0, 1, default=0.5), neighbours="replace_one")
    law = BoundedNormal("x", 0.05, (0.4, 0.02), -np.inf, np.inf)
    resolved = resolve_draw(ConjugateDraw(law, draws=1000), schema)
    one = resolve_draw(ConjugateDraw(law), schema)
    calibration = one.calibrate(Exponential(1, "0.05"))
    temperature, delta = calibration.noise[0].scale, float(calibration.cost.delta)

    def shown(scale: float) -> Callable[[int], float]:
        def loss(runs: int) -> float:
            fits = means_p_value(resolved, scale, min(runs, 20_000)) > ALARM
            return exact_mean_epsilon(one, scale, delta) if fits else np.inf

        return loss

    return ExactGame(
        "draw of a mean without bounds, replace_one",
        float(calibration.cost.epsilon),
        delta,
        shown(temperature),
        "half the temperature",
        shown(temperature * 0.5),
    )
