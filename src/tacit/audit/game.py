"""A game, its verdict, and the lower bound on epsilon that guesses certify."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from tacit.accounting import Calibration
from tacit.spec.budget import Budget
from tacit.spec.columns import Column
from tacit.spec.schema import Neighbours, Schema

CONFIDENCE = 1 - 1e-5
# What Gaussian noise promises holds at every delta, and an attack sees most at a large one.
DELTA = 0.05
ALARM = 1e-6  # of a test that draws have the law that was audited
Scores = list[np.ndarray]
Table = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Game:
    """A claim, and what a number of runs shows of epsilon.

    `shown(setting, runs)` runs the mechanism as it is set: by `honest` as it makes the claim, by
    `broken` with a mistake that people make. A setting is what the twin gets wrong: noise, a
    temperature, a schema. Where `exact`, the loss is computed, and runs only test the law of draws.
    """

    name: str
    epsilon: float
    delta: float
    shown: Callable[[Any, int], float]
    honest: Any
    mistake: str
    broken: Any
    exact: bool = False


def attack(
    name: str,
    cost: Budget,
    scores: Callable[[Any, int], Scores],
    honest: Any,
    mistake: str,
    broken: Any,
    *,
    pace: float = 1,
) -> Game:
    """A game of guesses. `scores` are log-likelihood ratios of outputs on two data sets.

    It is played `pace` times as often as asked: quick games more often.
    """
    epsilon, delta = float(cost.epsilon), float(cost.delta)

    def shown(setting: Any, runs: int) -> float:
        return lower_bound(*scores(setting, int(runs * pace)), delta)

    return Game(name, epsilon, delta, shown, honest, mistake, broken)


def exact_game(
    name: str,
    calibration: Calibration,
    loss: Callable[[float], float],
    p_value: Callable[[float, int], float],
    mistake: str,
    broken: float | Callable[[], float],
    most: int = 4_000,
) -> Game:
    """A game whose loss is computed at a temperature; infinite if draws have another law.

    The twin has another temperature, or a loss of its own.
    """
    cost, temperature = calibration.cost, calibration.noise[0].scale

    def shown(setting: float | Callable[[], float], runs: int) -> float:
        if callable(setting):
            return setting()
        return loss(setting) if p_value(setting, min(runs, most)) > ALARM else np.inf

    claim = float(cost.epsilon), float(cost.delta)
    return Game(name, *claim, shown, temperature, mistake, broken, exact=True)


def both_relations(*columns: Column) -> tuple[Schema, Schema]:
    """A schema under add_remove, and under replace_one."""
    return Schema(*columns, neighbours="add_remove"), Schema(*columns, neighbours="replace_one")


def schema_of(*columns: Column, neighbours: Neighbours, rows: int | None = None) -> Schema:
    """A schema in which a unit is a row, or has at most `rows` rows."""
    unit = None if rows is None else "who"
    return Schema(*columns, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)


@dataclass(frozen=True)
class Verdict:
    """What a game showed: lower bounds on epsilon for the mechanism and for its broken twin."""

    game: Game
    bound: float
    twin: float

    @property
    def passed(self) -> bool:
        return self.bound <= self.game.epsilon

    @property
    def caught(self) -> bool:
        return self.twin > self.game.epsilon

    @property
    def cells(self) -> tuple[str, ...]:
        """One line of a table with `COLUMNS`."""
        return (
            self.game.name,
            f"{self.game.epsilon:.3f}",
            f"{self.game.delta:g}",
            f"{self.bound:.3f} {'holds' if self.passed else 'BROKEN'}",
            self.game.mistake,
            f"{self.twin:.3f} {'caught' if self.caught else 'MISSED'}",
        )


COLUMNS = ("mechanism", "claimed epsilon", "delta", "shown", "broken twin", "shown")


def play(game: Game, runs: int = 10_000) -> Verdict:
    """Play `runs` times, with the mechanism and with its twin."""
    return Verdict(game, game.shown(game.honest, runs), game.shown(game.broken, runs))


def lower_bound(
    here: np.ndarray, there: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> float:
    """The largest epsilon that two samples of scores rule out (0 if none).

    A threshold is chosen on a quarter of each sample and certified on the other three by
    Clopper and Pearson's intervals, in both directions. With probability `confidence` no private
    mechanism gets a bound above its epsilon.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bound = lower_bound(rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000), 0.0)
    >>> 0.75 < bound < 1
    True
    """
    alarm = (1 - confidence) / 4  # two rates in each of two directions
    found = [0.0]
    for low, high in ((here, there), (-there, -here)):
        train = [np.sort(side[::4]) for side in (low, high)]
        test = [np.sort(np.delete(side, np.s_[::4])) for side in (low, high)]
        candidates = np.unique(np.quantile(np.concatenate(train), np.linspace(0, 1, 400)))
        # Each run that chooses counts for the three that certify: intervals of the same width.
        thrice = [np.repeat(side, 3) for side in train]
        best = max(candidates, key=lambda cut: _certified(*thrice, cut, delta, alarm))
        found.append(_certified(*test, best, delta, alarm))
    return max(found)


def _certified(low: np.ndarray, high: np.ndarray, cut: float, delta: float, alarm: float) -> float:
    """log((P(high >= cut) - delta) / P(low >= cut)) with both rates at their worst."""
    hits = len(high) - np.searchsorted(high, cut)
    misses = len(low) - np.searchsorted(low, cut)
    rate = betaincinv(hits, len(high) - hits + 1, alarm) if hits else 0.0
    false = betaincinv(misses + 1, len(low) - misses, 1 - alarm) if misses < len(low) else 1.0
    return float(np.log((rate - delta) / false)) if rate > delta else -math.inf


def markdown(verdicts: Sequence[Verdict], runs: int) -> str:
    """The result as a page."""
    lines = (COLUMNS, ("---",) * len(COLUMNS), *(verdict.cells for verdict in verdicts))
    rows = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return _PAGE.format(runs=runs, day=dt.date.today(), rows=rows)


_PAGE = """# Attacks on the mechanisms

For each mechanism an adversary who knows everything but one unit guesses, from the output, which
of two worst neighbouring data sets it came from. The best guess is a threshold on the
log-likelihood ratio; how often it is right bounds epsilon from below (Clopper and Pearson,
confidence 1 - 1e-5, the threshold chosen on other runs). Every mechanism has a broken twin, which
the same attack must catch. Steps are real steps of a lease. A single statistic is computed by the
wall once and noised again, 20 times as often. Gaussian noise, steps, draws of coefficients and
logistic regressions are attacked at a large delta, where most can be shown. The density of other
draws is known: what is shown is the largest log-ratio over all data sets of up to six rows and the
worst one of a thousand (for a mean without bounds, the exact epsilon at its delta), and the draws
are tested to have that density (Kolmogorov and Smirnov, false-alarm rate 1e-6). Choices, draws
among points and hidden states have finitely many outcomes, which are all counted, and a chi-square
test asks whether the wall draws from that law. Of a Markov chain the target is
audited: the audit assumes that the chain has converged.

`tacit audit --runs {runs}`, {day}.

{rows}
"""
