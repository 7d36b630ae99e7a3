"""A game, its verdict, and the lower bound on epsilon that guesses certify."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from tacit.audit.draws import ExactGame

CONFIDENCE = 1 - 1e-5
# What Gaussian noise promises holds at every delta, and an attack sees most at a large one.
DELTA = 0.05
Scores = tuple[np.ndarray, np.ndarray]
Table = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Game:
    """A claim, the mechanism that makes it, and a twin that does not deserve it.

    `honest` and `broken` play so many times on both data sets and return the log-likelihood
    ratios of the outputs.
    """

    name: str
    epsilon: float
    delta: float
    honest: Callable[[int], Scores]
    mistake: str
    broken: Callable[[int], Scores]
    pace: int = 1  # quick games are played more often


@dataclass(frozen=True)
class Verdict:
    """What a game showed: lower bounds on epsilon for the mechanism and for its broken twin."""

    game: Game | ExactGame
    runs: int
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


def play(game: Game | ExactGame, runs: int = 10_000) -> Verdict:
    """Play on both data sets so many times, with the mechanism and with its twin."""
    if isinstance(game, ExactGame):
        return Verdict(game, runs, game.honest(runs), game.broken(runs))
    runs *= game.pace
    bounds = (lower_bound(*side(runs), game.delta) for side in (game.honest, game.broken))
    return Verdict(game, runs, *bounds)


def lower_bound(
    here: np.ndarray, there: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> float:
    """The largest epsilon that two samples of scores rule out (0 if none).

    A threshold is chosen on one half of each sample and certified on the other half by
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
        train = [np.sort(side[::2]) for side in (low, high)]
        test = [np.sort(side[1::2]) for side in (low, high)]
        candidates = np.unique(np.quantile(np.concatenate(train), np.linspace(0, 1, 400)))
        best = max(candidates, key=lambda cut: _certified(*train, cut, delta, alarm))
        found.append(_certified(*test, best, delta, alarm))
    return max(found)


def _certified(low: np.ndarray, high: np.ndarray, cut: float, delta: float, alarm: float) -> float:
    """log((P(high >= cut) - delta) / P(low >= cut)) with both rates at their worst."""
    hits = len(high) - np.searchsorted(high, cut)
    misses = len(low) - np.searchsorted(low, cut)
    rate = betaincinv(hits, len(high) - hits + 1, alarm) if hits else 0.0
    false = betaincinv(misses + 1, len(low) - misses, 1 - alarm) if misses < len(low) else 1.0
    return float(np.log((rate - delta) / false)) if rate > delta else -math.inf
