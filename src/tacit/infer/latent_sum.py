"""The posterior of one parameter given a noisy sum of the values, or private draws of a mean.

p(parameter | y) is proportional to prior * sum over s and n of p(s | parameter, n) * noise(y - s) *
p(n): a table over the parameter, each entry a quadrature over the sums that can
matter to it. Any prior density will do, and draws are independent.

A released draw is from a tempered posterior: of a mean normal, truncated or not, of a rate on a
list of points (`infer/drawn_rate.py`). Given the sum s and the number of rows n its law is known.
It takes the place of the noise. `infer/from_draw.py` is the analogue for counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from tacit.infer.drawn_rate import DrawnRate
from tacit.infer.from_draw import check_usable
from tacit.infer.latent_counts import MISSING, ROWS, Rows
from tacit.infer.noise import DEPTH, Law
from tacit.infer.one_parameter import OneParameter
from tacit.laws import truncated_normal
from tacit.spec import moments
from tacit.spec.draws import BoundedNormal, BoundedRate, ConjugateDraw
from tacit.spec.moments import Moments, scale_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

LogDensity = Callable[[np.ndarray], np.ndarray]

_NODES = 256  # of a quadrature over sums
_COARSE, _FINE = 128, 384  # grid points while locating the posterior, and at the end
_SMALL = 30
_ROWS = 32  # candidates for an unknown number of rows
_DEEP = 12.0  # their least log weight, below the maximum


@dataclass(frozen=True)
class NoisySum:
    """A noisy sum of u over the rows, the values being `middle + half * u`.

    Methods are those of the likelihood of a sum s of n values given a release: the sum where it is
    known exactly, a guess of it, bounds of the sums with non-negligible weight for each parameter,
    and the log-likelihood up to a constant independent of s and n.
    """

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
class DrawnMean:
    """Draws of the mean, their law, and the temperatures of the likelihood and of the prior."""

    draws: np.ndarray
    law: BoundedNormal
    temperature: float
    prior_temperature: float

    @classmethod
    def of(cls, release: Release) -> DrawnMean:
        """Return the released draws in the column's units."""
        query, temperature = release.query, release.noise[0].scale
        assert isinstance(query, ConjugateDraw)
        assert isinstance(query.law, BoundedNormal)
        kept = temperature if query.temper_prior else 1.0
        origin, unit = query.law.measure(kept)
        return cls(origin + unit * release.table("mean").value, query.law, temperature, kept)

    def exact(self, n: float) -> float | None:
        return None

    def guess(self, n: float) -> float:
        return n * float(self.draws.mean())

    def window(
        self, family: OneParameter, at: np.ndarray, n: float
    ) -> tuple[np.ndarray, np.ndarray]:
        return family.window(at, n)  # the draw's likelihood is never narrower

    def log(self, s: np.ndarray, n: float) -> np.ndarray:
        prior_mean, prior_sd = self.law.prior
        prior = 1 / (prior_sd**2 * self.prior_temperature)
        each = 1 / (self.law.sd**2 * self.temperature)
        precision = prior + n * each
        centre = (prior * prior_mean + s * each) / precision
        bounds = self.law.low, self.law.high
        return sum(
            truncated_normal.log_density(float(draw), centre, precision**-0.5, *bounds)
            for draw in self.draws
        )


@dataclass(frozen=True)
class RowsSeen:
    """Candidates for the number of complete rows, and their log weights."""

    n: np.ndarray
    log: np.ndarray

    @classmethod
    def known(cls, n: float) -> RowsSeen:
        return cls(np.array([float(n)]), np.zeros(1))

    @classmethod
    def noisy(cls, y: float, law: Law, most: float, log_prior: LogDensity) -> RowsSeen:
        """Return candidates around a noisy count, all integers or evenly spaced ones."""
        low = np.clip(np.floor(y - law.reach), 0, most)
        high = np.clip(np.ceil(y + law.reach), 0, most)
        n = np.unique(np.rint(np.linspace(low, high, 8 * _ROWS)))
        log = log_prior(n) + law.log(y - n)
        near = n[log > log.max() - _DEEP]
        n = np.unique(np.rint(np.linspace(near[0], near[-1], _ROWS)))
        # A candidate is weighted by the width of its cell.
        ends = np.concatenate([[near[0] - 0.5], (n[1:] + n[:-1]) / 2, [near[-1] + 0.5]])
        return cls(n, log_prior(n) + law.log(y - n) + np.log(np.diff(ends)))

    @classmethod
    def behind_draw(cls, release: Release, columns: Sequence[str]) -> RowsSeen:
        """Return candidates given the prior alone: a draw does not tell how many rows there are."""
        check_usable(release.schema)
        total = all(release.schema[name].default is not None for name in columns)
        bounds = Rows.behind(release)
        least, most = float(bounds.least) if total else 0.0, float(bounds.most)
        if least == most:
            return cls.known(most)
        n = np.unique(np.rint(np.linspace(least, most, _ROWS)))
        near = np.unique(np.rint(most - np.geomspace(1, most - least + 1, _ROWS) + 1))
        n = np.unique(np.concatenate([n, near[near >= least]]))
        ends = np.concatenate([[least - 0.5], (n[1:] + n[:-1]) / 2, [most + 0.5]])
        each = release.schema.max_rows_per_unit
        log_prior = log_rows_prior(None if total else release.n, each)
        return cls(n, log_prior(n) + np.log(np.diff(ends)))

    def drawn(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws of the number of rows."""
        if len(self.n) == 1:
            return np.full(size, self.n[0])
        return rng.choice(self.n, size, p=softmax(self.log))


Seen = NoisySum | DrawnMean | DrawnRate


def scales(release: Release, query: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half width of each column's bounds, as the release has scaled it."""
    centred = release.query.centred if isinstance(release.query, Moments) else True
    found = np.array([scale_of(release.schema[name], centred) for name in query.columns])
    return found[:, 0], found[:, 1]


def most_rows(release: Release) -> tuple[float, float | None]:
    """The most rows there can be, and the number of units if each has at most one row."""
    units = release.n if release.schema.max_rows_per_unit == 1 else None
    return float(Rows.behind(release).most), units


def draw_one_parameter(
    release: Release,
    query: Moments,
    family: OneParameter,
    log_prior: LogDensity,
    support: tuple[float, float],
    sampling: Sampling,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of the parameter and of the number of rows, from the sum of one column."""
    if isinstance(release.query, ConjugateDraw):
        rate = isinstance(release.query.law, BoundedRate)
        seen: Seen = DrawnRate.of(release) if rate else DrawnMean.of(release)
        rows = RowsSeen.behind_draw(release, query.columns)
    else:
        seen, rows = _sum_seen(release, query, sampling.noise == "plugin")
    size = sampling.chains * sampling.draws
    return draw_parameter(family, log_prior, support, seen, rows, size, rng)


def _sum_seen(release: Release, query: Moments, plugin: bool) -> tuple[NoisySum, RowsSeen]:
    """The one sum of a query with one column, and what is known of the number of rows."""
    (column,) = query.columns
    (middle,), (half,) = scales(release, query)
    most, units = most_rows(release)
    _, total, noise = release.table(column)
    y, law = float(total), Law.of(noise)
    if any(block.name == moments.ROWS for block in release.blocks):
        _, count, count_noise = release.table(moments.ROWS)
        count_law = Law.of(count_noise)
        rows = RowsSeen.known(float(np.clip(np.rint(float(count)), 0, most)))
        if not count_law.none and not plugin:
            prior = log_rows_prior(units, release.schema.max_rows_per_unit)
            rows = RowsSeen.noisy(float(count), count_law, most, prior)
    else:
        assert release.n is not None
        rows = RowsSeen.known(release.n)
    if plugin and not law.none:
        n = rows.n[0]
        y, law = float(np.clip(y, -n, n)), Law("none", 0.0)
    return NoisySum(y, law, float(middle), float(half)), rows


def draw_parameter(
    family: OneParameter,
    log_prior: LogDensity,
    support: tuple[float, float],
    seen: Seen,
    rows: RowsSeen,
    size: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return independent draws of the parameter and of the number of rows.

    `log_prior` is a density in the family's own coordinate, and `support` holds all but a
    negligible part of it.
    """

    def table(at: np.ndarray, rows: RowsSeen, nodes: int) -> np.ndarray:
        """Return log p(parameter, n, y), shape (number of rows, parameter)."""
        each = [log_seen(family, at, seen, n, nodes) for n in rows.n]
        return log_prior(at) + rows.log[:, None] + each

    pick = np.unique(np.linspace(0, len(rows.n) - 1, 7).round().astype(int))
    few = RowsSeen(rows.n[pick], rows.log[pick])
    at = _initial_grid(family, support, seen, few)
    for _ in range(60):
        total = logsumexp(table(at, few, _NODES // 3), axis=0)
        inside = np.flatnonzero(total > total.max() - DEPTH / 2)
        low = at[max(inside[0] - 1, 0)]
        high = at[min(inside[-1] + 1, len(at) - 1)]
        if len(inside) > len(at) // 4:
            break
        at = np.linspace(low, high, _COARSE)
    points, nodes = (_FINE, _NODES) if len(rows.n) == 1 else (_COARSE, _NODES // 3)
    at = np.linspace(low, high, points)
    return _drawn(at, table(at, rows, nodes), rows, size, rng)


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


def log_seen(
    family: OneParameter, at: np.ndarray, seen: Seen, n: float, nodes: int = _NODES
) -> np.ndarray:
    """Return log p(y | parameter, n), an integral over the sum s."""
    known = seen.exact(n)
    if n == 0:
        return np.full(len(at), 0.0 if known is not None else float(seen.log(np.zeros(1), n)[0]))
    if known is not None:
        return family.log_density(np.full((len(at), 1), known), at, n)[:, 0]
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
    log_weight: LogDensity,
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
) -> tuple[np.ndarray, np.ndarray]:
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
    return at[cell] + inside * (at[cell + 1] - at[cell]), n


def log_rows_prior(units: float | None, rows_per_unit: int) -> LogDensity:
    """Return the log of a weak prior of the number of complete rows (docs/adr/0002)."""

    def log(n: np.ndarray) -> np.ndarray:
        weight = gammaln(n + ROWS) - gammaln(n + 1.0)
        if units is not None and rows_per_unit == 1:  # the others have a missing value
            missing = np.maximum(units - n, 0)
            weight = weight + gammaln(missing + MISSING) - gammaln(missing + 1.0)
        return weight

    return log
