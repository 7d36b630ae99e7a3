"""The posterior of one parameter when the sum of the values was seen through noise.

p(parameter | y) is proportional to prior * sum over s and n of p(s | parameter, n) * noise(y - s) *
what is known of n: a table over the parameter, each entry a quadrature over the sums that can
matter to it. Any prior density will do, and draws are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from tacit.infer.noise import DEPTH, Law
from tacit.infer.one_parameter import OneParameter

_NODES = 256  # sums that a quadrature looks at
_COARSE, _FINE = 128, 384  # entries of the table while looking for the posterior, and at the end
_SMALL = 30
_ROWS = 32  # numbers of rows looked at where it is not known
_DEEP = 12.0  # and how much less likely than the likeliest they may be, in logs


@dataclass(frozen=True)
class SumSeen:
    """A noisy sum of `middle + half * u` over the rows: y is the sum of u."""

    y: float
    law: Law
    middle: float
    half: float

    def over(self, n: float) -> tuple[float, Law]:
        """The sum in the units of the value if there are n rows, and its noise."""
        return n * self.middle + self.half * self.y, Law(
            self.law.family, self.law.scale * self.half
        )


@dataclass(frozen=True)
class RowsSeen:
    """What is known of the number of complete rows: candidates and their log weights."""

    n: np.ndarray
    log: np.ndarray

    @classmethod
    def known(cls, n: float) -> RowsSeen:
        return cls(np.array([float(n)]), np.zeros(1))

    @classmethod
    def noisy(
        cls, y: float, law: Law, most: float, log_prior: Callable[[np.ndarray], np.ndarray]
    ) -> RowsSeen:
        """Candidates around a noisy count, every one of them or evenly spread."""
        low = np.clip(np.floor(y - law.reach), 0, most)
        high = np.clip(np.ceil(y + law.reach), 0, most)
        if not np.isfinite(high):
            high = low + 1
        n = np.unique(np.rint(np.linspace(low, high, 8 * _ROWS)))
        seen = cls(n, log_prior(n) + (law.log(y - n) if not law.none else 0.0))
        near = seen.n[seen.log > seen.log.max() - _DEEP]
        n = np.unique(np.rint(np.linspace(near[0], near[-1], _ROWS)))
        # Each stands for the numbers up to half way to its neighbours.
        ends = np.concatenate([[near[0] - 0.5], (n[1:] + n[:-1]) / 2, [near[-1] + 0.5]])
        return cls(n, log_prior(n) + law.log(y - n) + np.log(np.diff(ends)))

    def thinned(self, to: int) -> RowsSeen:
        if len(self.n) <= to:
            return self
        pick = np.unique(np.linspace(0, len(self.n) - 1, to).round().astype(int))
        return RowsSeen(self.n[pick], self.log[pick])


@dataclass(frozen=True)
class SumDraws:
    at: np.ndarray
    rows: np.ndarray


def draw_parameter(
    family: OneParameter,
    log_prior: Callable[[np.ndarray], np.ndarray],
    support: tuple[float, float],
    seen: SumSeen,
    rows: RowsSeen,
    size: int,
    rng: np.random.Generator,
) -> SumDraws:
    """Independent draws of the parameter, and of the number of rows.

    `log_prior` is a density in the family's own coordinate, and `support` holds all but a
    negligible part of it.
    """
    few = rows.thinned(7)
    at = _first_guess(family, support, seen, few)
    for _ in range(60):
        log = _table(family, log_prior, at, seen, few, _NODES // 3)
        total = logsumexp(log, axis=0)
        inside = np.flatnonzero(total > total.max() - DEPTH / 2)
        low = at[max(inside[0] - 1, 0)]
        high = at[min(inside[-1] + 1, len(at) - 1)]
        if len(inside) > len(at) // 4:
            break
        at = np.linspace(low, high, _COARSE)
    at = np.linspace(low, high, _FINE if len(rows.n) == 1 else _COARSE)
    log = _table(family, log_prior, at, seen, rows, _NODES if len(rows.n) == 1 else _NODES // 3)
    return _drawn(at, log, rows, size, rng)


def _first_guess(
    family: OneParameter, support: tuple[float, float], seen: SumSeen, rows: RowsSeen
) -> np.ndarray:
    """A grid over the prior, dense around what the noisy sum suggests."""
    low, high = support
    points = [np.linspace(low, high, _COARSE)]
    for n in rows.n[rows.n > 0]:
        width = family.high - family.low
        average = np.clip(
            seen.over(n)[0] / n, family.low + 1e-9 * width, family.high - 1e-9 * width
        )
        centre = float(np.clip(family.at_mean(average), low, high))
        spread = (high - low) * 2.0 ** -np.arange(0, 40)
        points += [centre - spread, np.array([centre]), centre + spread]
    grid = np.unique(np.concatenate(points))
    return grid[(grid >= low) & (grid <= high)]


def _table(
    family: OneParameter,
    log_prior: Callable[[np.ndarray], np.ndarray],
    at: np.ndarray,
    seen: SumSeen,
    rows: RowsSeen,
    nodes: int,
) -> np.ndarray:
    """log p(parameter, n, y), a row for each number of rows."""
    log = np.empty((len(rows.n), len(at)))
    for i, n in enumerate(rows.n):
        log[i] = log_prior(at) + rows.log[i] + log_seen(family, at, seen, n, nodes)
    return log


def log_seen(
    family: OneParameter, at: np.ndarray, seen: SumSeen, n: float, nodes: int = _NODES
) -> np.ndarray:
    """log p(y | parameter, n): an integral over the sums that both laws allow."""
    y, law = seen.over(n)
    if n == 0:
        return np.full(len(at), 0.0 if law.none else float(law.log(np.array(y))))
    if law.none:
        return family.log_density(np.full((len(at), 1), y), at, n)[:, 0]
    peak = family.most_likely(family.natural(at), n, y, law)
    spread = np.sqrt(n * np.interp(peak / n, *family.spreads))
    # Where Laplace noise only tilts the sum's law, it does not narrow it.
    reach = np.where(law.heavy & (peak != y), np.inf, law.reach)
    low = peak - np.minimum(10 * spread, reach)
    high = peak + np.minimum(15 * spread + 10 * family.whole, reach)
    log = _log_integral(family, at, n, low, high, nodes, lambda s: law.log(y - s))
    if n <= _SMALL:  # where the correction for the bounds is least exact, it need not be
        log -= _log_integral(family, at, n, *_window(family, at, n), nodes, np.zeros_like)
    return log


def _window(family: OneParameter, at: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    """Between which sums nearly all of n values are."""
    mean, variance = family.moments(family.natural(at))
    spread = np.sqrt(n * variance)
    low = np.maximum(n * mean - 10 * spread, n * family.low)
    return low, np.minimum(n * mean + 15 * spread + 10 * family.whole, n * family.high)


def _log_integral(
    family: OneParameter,
    at: np.ndarray,
    n: float,
    low: np.ndarray,
    high: np.ndarray,
    nodes: int,
    log_weight: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """log of the sum's density times a weight, from low to high: whole sums where they are few."""
    least, most = n * family.low, n * family.high
    low, high = np.clip(low, least, most), np.clip(high, least, most)
    log = np.empty(len(at))
    few = family.whole & (high - low < nodes - 2)
    for part, whole in ((few, True), (~few, False)):
        if not np.any(part):
            continue
        if whole:
            step = np.ones(np.sum(part))
            s = np.floor(low[part])[:, None] + np.arange(int(np.max((high - low)[part])) + 2)
        else:
            step = np.maximum((high - low)[part], 1e-300) / nodes
            s = low[part, None] + (np.arange(nodes) + 0.5) * step[:, None]
        inside = np.minimum(s, most)
        parts = family.log_density(inside, at[part], n) + log_weight(inside)
        log[part] = logsumexp(np.where(s > most, -np.inf, parts), axis=1) + np.log(step)
    return log


def _drawn(
    at: np.ndarray, log: np.ndarray, rows: RowsSeen, size: int, rng: np.random.Generator
) -> SumDraws:
    """Draws from the table: a straight line between its entries, then a number of rows."""
    total = logsumexp(log, axis=0)
    density = np.exp(total - total.max())
    piece = (density[1:] + density[:-1]) / 2
    cell = rng.choice(len(piece), size=size, p=piece / piece.sum())
    left, right = density[cell], density[cell + 1]
    u, slope = rng.random(size), right - left
    root = np.sqrt(left**2 + u * (right**2 - left**2))
    inside = np.where(np.abs(slope) < 1e-9 * (left + right), u, (root - left) / np.where(
        slope == 0, 1.0, slope))  # fmt: skip
    near = cell + (inside > 0.5)
    chance = np.exp(log - total)
    chosen = (rng.random(size) > np.cumsum(chance, axis=0)[:, near]).sum(axis=0)
    n = rows.n[np.minimum(chosen, len(rows.n) - 1)]
    return SumDraws(at[cell] + inside * (at[cell + 1] - at[cell]), n)


def log_rows_prior(units: int | None, rows_per_unit: int) -> Callable[[np.ndarray], np.ndarray]:
    """Weak beliefs about the number of complete rows (docs/adr/0002)."""

    def log(n: np.ndarray) -> np.ndarray:
        weight = gammaln(n + 0.5) - gammaln(n + 1.0)
        if units is not None and rows_per_unit == 1:  # the others have a missing value
            lost = np.maximum(units - n, 0)
            weight = weight + gammaln(lost + 0.25) - gammaln(lost + 1.0)
        return weight

    return log
