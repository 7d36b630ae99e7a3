"""The posterior of one parameter given a noisy sum of the values.

p(parameter | y) is proportional to prior * sum over s and n of p(s | parameter, n) * noise(y - s) *
p(n): a table over the parameter, each entry a quadrature over the sums that can
matter to it. Any prior density will do, and draws are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln, logsumexp

from tacit.infer.latent_counts import MISSING, ROWS
from tacit.infer.noise import DEPTH, Law
from tacit.infer.one_parameter import OneParameter

_NODES = 256  # of a quadrature over sums
_COARSE, _FINE = 128, 384  # grid points while locating the posterior, and at the end
_SMALL = 30
_ROWS = 32  # candidates for an unknown number of rows
_DEEP = 12.0  # their least log weight, below the maximum


class Seen(Protocol):
    """The likelihood of a sum s of n values given a release."""

    def exact(self, n: float) -> float | None:
        """Return the sum where it is known exactly, else None."""
        ...

    def guess(self, n: float) -> float: ...

    def window(
        self, family: OneParameter, at: np.ndarray, n: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the sums with non-negligible weight, for each parameter."""
        ...

    def log(self, s: np.ndarray, n: float) -> np.ndarray:
        """Return the log-likelihood of sums, up to a constant independent of s and n."""
        ...


@dataclass(frozen=True)
class NoisySum:
    """A noisy sum of u over the rows, the values being `middle + half * u`."""

    y: float
    law: Law
    middle: float
    half: float

    def exact(self, n: float) -> float | None:
        return self.guess(n) if self.law.none else None

    def guess(self, n: float) -> float:
        return n * self.middle + self.half * self.y

    def window(
        self, family: OneParameter, at: np.ndarray, n: float
    ) -> tuple[np.ndarray, np.ndarray]:
        y, law = self.guess(n), Law(self.law.family, self.law.scale * self.half)
        peak = family.most_likely(family.natural(at), n, y, law)
        spread = np.sqrt(n * np.interp(peak / n, *family.spreads))
        # Where Laplace noise only tilts the sum's law, it does not narrow it.
        reach = np.where(law.heavy & (peak != y), np.inf, law.reach)
        low = peak - np.minimum(10 * spread, reach)
        return low, peak + np.minimum(15 * spread + 10 * family.whole, reach)

    def log(self, s: np.ndarray, n: float) -> np.ndarray:
        return self.law.log((self.guess(n) - s) / self.half)


@dataclass(frozen=True)
class RowsSeen:
    """Candidates for the number of complete rows, and their log weights."""

    n: np.ndarray
    log: np.ndarray

    @classmethod
    def known(cls, n: float) -> RowsSeen:
        return cls(np.array([float(n)]), np.zeros(1))

    @classmethod
    def noisy(
        cls, y: float, law: Law, most: float, log_prior: Callable[[np.ndarray], np.ndarray]
    ) -> RowsSeen:
        """Return candidates around a noisy count, all integers or evenly spaced ones."""
        low = np.clip(np.floor(y - law.reach), 0, most)
        high = np.clip(np.ceil(y + law.reach), 0, most)
        if not np.isfinite(high):
            high = low + 1
        n = np.unique(np.rint(np.linspace(low, high, 8 * _ROWS)))
        seen = cls(n, log_prior(n) + (law.log(y - n) if not law.none else 0.0))
        near = seen.n[seen.log > seen.log.max() - _DEEP]
        n = np.unique(np.rint(np.linspace(near[0], near[-1], _ROWS)))
        # A candidate is weighted by the width of its cell.
        ends = np.concatenate([[near[0] - 0.5], (n[1:] + n[:-1]) / 2, [near[-1] + 0.5]])
        return cls(n, log_prior(n) + law.log(y - n) + np.log(np.diff(ends)))

    @classmethod
    def unseen(
        cls, least: float, most: float, log_prior: Callable[[np.ndarray], np.ndarray]
    ) -> RowsSeen:
        """Return candidates given the prior alone, weighted by the widths of their cells."""
        n = np.unique(np.rint(np.linspace(least, most, _ROWS)))
        near = np.unique(np.rint(most - np.geomspace(1, most - least + 1, _ROWS) + 1))
        n = np.unique(np.concatenate([n, near[near >= least]]))
        ends = np.concatenate([[least - 0.5], (n[1:] + n[:-1]) / 2, [most + 0.5]])
        return cls(n, log_prior(n) + np.log(np.diff(ends)))

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
    seen: Seen,
    rows: RowsSeen,
    size: int,
    rng: np.random.Generator,
) -> SumDraws:
    """Return independent draws of the parameter and of the number of rows.

    `log_prior` is a density in the family's own coordinate, and `support` holds all but a
    negligible part of it.
    """
    few = rows.thinned(7)
    at = _initial_grid(family, support, seen, few)
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


def _initial_grid(
    family: OneParameter, support: tuple[float, float], seen: Seen, rows: RowsSeen
) -> np.ndarray:
    """Return a grid over the prior's support, dense near the noisy sum's estimate."""
    low, high = support
    points = [np.linspace(low, high, _COARSE)]
    for n in rows.n[rows.n > 0]:
        width = family.high - family.low
        average = np.clip(seen.guess(n) / n, family.low + 1e-9 * width, family.high - 1e-9 * width)
        centre = float(np.clip(family.at_mean(average), low, high))
        spread = (high - low) * 2.0 ** -np.arange(0, 40)
        points += [centre - spread, np.array([centre]), centre + spread]
    grid = np.unique(np.concatenate(points))
    return grid[(grid >= low) & (grid <= high)]


def _table(
    family: OneParameter,
    log_prior: Callable[[np.ndarray], np.ndarray],
    at: np.ndarray,
    seen: Seen,
    rows: RowsSeen,
    nodes: int,
) -> np.ndarray:
    """Return log p(parameter, n, y), shape (number of rows, parameter)."""
    log = np.empty((len(rows.n), len(at)))
    for i, n in enumerate(rows.n):
        log[i] = log_prior(at) + rows.log[i] + log_seen(family, at, seen, n, nodes)
    return log


def log_seen(
    family: OneParameter, at: np.ndarray, seen: Seen, n: float, nodes: int = _NODES
) -> np.ndarray:
    """Return log p(y | parameter, n), an integral over the sum s."""
    if n == 0:
        known = seen.exact(n) is not None
        return np.full(len(at), 0.0 if known else float(seen.log(np.zeros(1), n)[0]))
    known_sum = seen.exact(n)
    if known_sum is not None:
        return family.log_density(np.full((len(at), 1), known_sum), at, n)[:, 0]
    low, high = seen.window(family, at, n)
    log = _log_integral(family, at, n, low, high, nodes, lambda s: seen.log(s, n))
    if n <= _SMALL:  # the correction for bounds is least exact: normalise numerically
        log -= _log_integral(family, at, n, *family.window(at, n), nodes, np.zeros_like)
    return log


def _log_integral(
    family: OneParameter,
    at: np.ndarray,
    n: float,
    low: np.ndarray,
    high: np.ndarray,
    nodes: int,
    log_weight: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return log of the integral of density times weight, or of the sum over few integers."""
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
    """Return draws from the piecewise linear density of the table, and numbers of rows."""
    total = logsumexp(log, axis=0)
    density = np.exp(total - total.max())
    piece = (density[1:] + density[:-1]) / 2
    cell = rng.choice(len(piece), size=size, p=piece / piece.sum())
    left, right = density[cell], density[cell + 1]
    u, rise = rng.random(size), right - left
    root = np.sqrt(left**2 + u * (right**2 - left**2))
    inside = np.where(np.abs(rise) < 1e-9 * (left + right), u, (root - left) / np.where(
        rise == 0, 1.0, rise))  # fmt: skip
    near = cell + (inside > 0.5)
    probability = np.exp(log - total)
    chosen = (rng.random(size) > np.cumsum(probability, axis=0)[:, near]).sum(axis=0)
    n = rows.n[np.minimum(chosen, len(rows.n) - 1)]
    return SumDraws(at[cell] + inside * (at[cell + 1] - at[cell]), n)


def log_rows_prior(units: int | None, rows_per_unit: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the log of a weak prior of the number of complete rows (docs/adr/0002)."""

    def log(n: np.ndarray) -> np.ndarray:
        weight = gammaln(n + ROWS) - gammaln(n + 1.0)
        if units is not None and rows_per_unit == 1:  # the others have a missing value
            missing = np.maximum(units - n, 0)
            weight = weight + gammaln(missing + MISSING) - gammaln(missing + 1.0)
        return weight

    return log
