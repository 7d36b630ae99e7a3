"""Exact audits of choices and hidden states: their outcomes can be counted, one by one.

Over all small data sets, and with many rows that are all alike, the largest log-ratio between
neighbours is computed from the wall's own integers and temperature. A chi-square test then asks
whether what the wall draws has the law that was audited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2

from tacit.accounting import Calibration
from tacit.audit.draws import ExactGame
from tacit.draws.choice import ChoiceAnswer
from tacit.draws.states import StatesAnswer
from tacit.spec.mechanisms import Exponential
from tacit.spec.schema import Neighbours

_FEW = 2
MANY = 400  # rows that are all alike
_DRAWS = 4_000
Resolved = ChoiceAnswer | StatesAnswer


@dataclass(frozen=True)
class Outcomes:
    """What can come out: the score of a data set for each outcome, linear in its statistic.

    `log_prior` is the outcomes' log-weight, `of_steps` (statistic, outcome) what a step adds.
    """

    log_prior: np.ndarray
    of_steps: np.ndarray

    def log_law(self, steps: np.ndarray, heat: float) -> np.ndarray:
        log = self.log_prior + steps @ self.of_steps / heat
        return log - logsumexp(log, axis=-1, keepdims=True)


def largest_loss(
    outcomes: Outcomes, rows: np.ndarray, each: int, relation: Neighbours, heat: float
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
    few = [
        sum((units[i] for i in others), np.zeros_like(units[0]))
        for n in range(_FEW + 1)
        for others in combinations_with_replacement(range(0, len(units), 1 + len(units) // 8), n)
    ]
    worst = 0.0
    for base in [*few, *(MANY * rows)]:
        after = outcomes.log_law(base + units, heat)
        before = outcomes.log_law(base[None], heat) if relation == "add_remove" else after
        for one in before:
            worst = max(worst, float(np.abs(after - one).max()))
    return worst


def fits(drawn: np.ndarray, log_law: np.ndarray) -> float:
    """The p-value of a chi-square test; rare outcomes count as one."""
    expected = np.exp(log_law) * len(drawn)
    seen = np.bincount(drawn, minlength=len(log_law)).astype(float)
    rare = expected < 5
    distance = float(((seen - expected) ** 2 / expected)[~rare].sum())
    distance += float((seen[rare].sum() - expected[rare].sum()) ** 2) / max(
        float(expected[rare].sum()), 5.0
    )
    return float(chi2.sf(distance, max((~rare).sum(), 1)))


def finite_game(
    name: str,
    calibration: Calibration,
    relation: Neighbours,
    mistake: str,
    loss: Callable[[float], float],
    law_fits: Callable[[float, int], bool],
    broken_heat: float,
) -> ExactGame:
    heat = calibration.noise[0].scale

    def shown(scale: float) -> Callable[[int], float]:
        return lambda runs: loss(scale) if law_fits(scale, min(runs, _DRAWS)) else np.inf

    return ExactGame(
        f"{name}, {relation}",
        float(calibration.cost.epsilon),
        float(calibration.cost.delta),
        shown(heat),
        mistake,
        shown(broken_heat),
    )


def heat_of(resolved: Resolved) -> float:
    return resolved.calibrate(Exponential(1)).noise[0].scale
