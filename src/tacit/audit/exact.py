"""Exact losses: the law of a draw is known, so that no game of chance is needed.

Over all small data sets, and with many rows that are all alike, the largest log-ratio between
neighbours is computed from the wall's own integers and temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.special import logsumexp
from scipy.stats import chi2, kstest

from tacit.audit.game import Game, exact_game
from tacit.draws.choice import ChoiceAnswer
from tacit.draws.latent_tables import LatentAnswer
from tacit.draws.states import StatesAnswer
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

_FEW = 2
MANY = 400  # rows that are all alike


def largest_loss(
    log_law: Callable[[np.ndarray], np.ndarray],
    bases: Iterable[np.ndarray],
    units: np.ndarray,
    relation: Neighbours,
) -> float:
    """The largest |log-ratio| between a base and one unit more, or with one of two units more.

    `log_law` has log-densities (statistic, part, outcome); parts are independent, so losses add.
    """
    worst = 0.0
    for base in bases:
        after = log_law(base + units)
        for one in log_law(base[None]) if relation == "add_remove" else after:
            for side in (after - one, one - after):
                worst = max(worst, float(side.max(axis=-1).sum(axis=-1).max()))
    return worst


@dataclass(frozen=True)
class Outcomes:
    """What can come out: the score of a data set for each outcome, linear in its statistic.

    `log_prior` is the outcomes' log-weight, `scores` (statistic, outcome) what 1 of it adds.
    """

    log_prior: np.ndarray
    scores: np.ndarray

    def log_law(self, integers: np.ndarray, temperature: float) -> np.ndarray:
        log = self.log_prior + integers @ self.scores / temperature
        return log - logsumexp(log, axis=-1, keepdims=True)

    def largest_loss(
        self, rows: np.ndarray, each: int, relation: Neighbours, temperature: float
    ) -> float:
        """The largest |log-ratio| between neighbours. `rows` are the statistics of single rows."""
        units = np.unique(
            [
                rows[list(unit)].sum(axis=0)
                for n in range(1, each + 1)
                for unit in combinations_with_replacement(range(len(rows)), n)
            ],
            axis=0,
        )
        some = units[:: 1 + len(units) // 8]
        few = [
            sum(others, np.zeros_like(units[0]))
            for n in range(_FEW + 1)
            for others in combinations_with_replacement(some, n)
        ]
        log_law = lambda integers: self.log_law(integers, temperature)[:, None]  # noqa: E731
        return largest_loss(log_law, [*few, *(MANY * rows)], units, relation)


def chi_square(drawn: np.ndarray, log_law: np.ndarray) -> float:
    """The p-value of a chi-square test; rare outcomes count as one."""
    expected = np.exp(log_law) * len(drawn)
    seen = np.bincount(drawn, minlength=len(log_law)).astype(float)
    rare = expected < 5
    distance = float(((seen - expected) ** 2 / expected)[~rare].sum())
    distance += float((seen[rare].sum() - expected[rare].sum()) ** 2) / max(
        float(expected[rare].sum()), 5.0
    )
    return float(chi2.sf(distance, max((~rare).sum(), 1)))


def kolmogorov(drawn: np.ndarray, at: np.ndarray, log_density: np.ndarray) -> float:
    """The p-value of Kolmogorov and Smirnov's test; the density is linear between the points."""
    below = cumulative_trapezoid(np.exp(log_density), at, initial=0)
    return float(kstest(drawn, lambda x: np.interp(x, at, below / below[-1])).pvalue)


def temperature_of(resolved: ChoiceAnswer | StatesAnswer | LatentAnswer) -> float:
    return resolved.calibrate(Exponential(1)).noise[0].scale


def finite_game(
    name: str,
    resolved: ChoiceAnswer | StatesAnswer,
    outcomes: Outcomes,
    rows: Callable[[], np.ndarray],
    mistake: str,
    broken: float | Callable[[], float],
    *,
    drawn_at: np.ndarray | None = None,
    outcome_of: Callable[[np.ndarray], np.ndarray] = np.ravel,
) -> Game:
    """Finitely many outcomes. `rows()` are the wall's statistics of single rows.

    Draws are tested for the statistic `drawn_at`, or for all rows together; `outcome_of` numbers
    what the wall draws.
    """
    schema = resolved.schema

    def loss(temperature: float) -> float:
        each, relation = schema.max_rows_per_unit, schema.neighbours
        return outcomes.largest_loss(rows(), each, relation, temperature)

    def p_value(temperature: float, runs: int) -> float:
        integers = rows().sum(axis=0) if drawn_at is None else drawn_at
        noise, statistic = resolved.at_temperature(temperature), Statistic(integers, 1)
        drawn = np.array([resolved.sample(statistic, noise, os_entropy) for _ in range(runs)])
        return chi_square(outcome_of(drawn), outcomes.log_law(integers, temperature))

    calibration = resolved.calibrate(Exponential(1))
    full = f"{name}, {schema.neighbours}"
    return exact_game(full, calibration, loss, p_value, mistake, broken)
