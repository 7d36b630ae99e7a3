"""The exact posterior of a Dirichlet-categorical model given noisy counts.

Given the true counts s, the data are Dirichlet-multinomial, and the noise of each cell is
independent. Hence

    p(s, m | y)  proportional to  prod_j g_j(s_j) * V(T) * g_missing(m) * W(T + m),   T = sum_j s_j,

with g_j(s) = Gamma(s + a_j) / s! * noise(y_j - s), and V, W functions of a sum alone (`Rows`). A
product of one-cell weights under a weight on their sum is a chain of convolutions: sampled
backwards it gives exact, independent draws: no Markov chain and no large-sample approximation.
Where the noise is so wide that a window would hold more than 2^15 counts, counts are taken in
blocks a few hundred times narrower than the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import digamma, gammaln, logsumexp

from tacit.compile_cache import cached
from tacit.infer.noise import DEPTH, Law
from tacit.spec.release import Release

_WIDEST = 2**15  # a window with more counts than this is cut into blocks
_FLOOR = 1e-14  # relative rounding error of a Fourier convolution

# Weak priors on nuisance parameters (docs/adr/0002, docs/calibration.md): an unknown number of
# rows is Poisson with Jeffreys' prior on its rate; a value is missing with a probability that is
# Beta(1/4, 1/2).
ROWS = 0.5
MISSING, PRESENT = 0.25, 0.5


@dataclass(frozen=True)
class Rows:
    """Bounds on the number of rows, and a noisy count of those without a value.

    `most` is infinite where there is no bound, `missing` is None where every row counted has a
    value. All numbers are in blocks of `block` rows.
    """

    least: int
    most: float
    missing: float | None = None
    block: int = 1

    @classmethod
    def behind(cls, release: Release, missing: float | None = None) -> Rows:
        """Return the bounds that schema and public `n` imply."""
        each, units = release.schema.max_rows_per_unit, release.schema.max_units
        if release.n is not None:
            return cls(release.n, release.n * each, missing)
        # Without a public n, missing rows are not informative about the others.
        return cls(0, np.inf if units is None else units * each)

    def in_blocks(self, block: int) -> Rows:
        missing = None if self.missing is None else self.missing / block
        return Rows(round(self.least / block), float(np.rint(self.most / block)), missing, block)

    @property
    def present(self) -> float:
        return 1.0 if self.missing is None else PRESENT

    def log_with_value(self, rows: np.ndarray, concentration: float) -> np.ndarray:
        """Return log V, the log weight of the number of rows that have a value."""
        n = self.block * rows
        return gammaln(n + self.present) - gammaln(n + concentration)

    def log_derivative_with_value(self, rows: float, concentration: float) -> float:
        """Return the derivative of log V in the number of rows."""
        n = self.block * rows
        return self.block * float(digamma(n + self.present) - digamma(n + concentration))

    def log_all(self, rows: np.ndarray) -> np.ndarray:
        """Return log W, the log weight of the number of all rows."""
        inside = (rows >= self.least) & (rows <= self.most)
        n = self.block * rows
        log = gammaln(n + ROWS) - gammaln(n + 1.0)
        if self.missing is not None:
            log += gammaln(n + 1.0) - gammaln(n + MISSING + PRESENT)
        return np.where(inside, log, -np.inf)


@dataclass(frozen=True)
class Weights:
    """Log weights of a whole number over low, low + 1, ..."""

    low: int
    log: np.ndarray

    @property
    def high(self) -> int:
        return self.low + len(self.log) - 1

    @property
    def support(self) -> np.ndarray:
        return np.arange(self.low, self.high + 1, dtype=float)

    def plus(self, log: np.ndarray) -> Weights:
        return Weights(self.low, self.log + log)

    def tilted(self, tilt: float) -> Weights:
        return self.plus(tilt * self.support)

    @property
    def relative(self) -> np.ndarray:
        return np.exp(self.log - self.log.max())

    def trimmed(self) -> Weights:
        """Return the weights without the ends that are below rounding error."""
        kept = np.flatnonzero(self.log >= self.log.max() + np.log(_FLOOR))
        return Weights(self.low + int(kept[0]), self.log[kept[0] : kept[-1] + 1])


def sample_counts(
    seen: np.ndarray,
    prior: np.ndarray,
    law: Law,
    rows: Rows,
    size: int,
    rng: np.random.Generator,
    *,
    power: float = 1.0,
) -> np.ndarray:
    """Return `size` independent draws of the true counts, shape (size, cells).

    `power` is an exponent of the noise's likelihood. It is one half where two cells share one
    measurement, y and n - y, since the law is symmetric.
    """
    widest = max(high - low for low, high in _windows(seen, law, rows))
    # Odd: a block has a central count.
    block = int(np.ceil(widest / _WIDEST)) | 1 if widest > _WIDEST else 1
    known = rows.least if rows.least == rows.most and rows.missing is None else None
    if block > 1:
        seen, law, rows = seen / block, Law(law.family, law.scale / block), rows.in_blocks(block)
    cells, tilt = _tilted_cells(seen, prior, law, rows, power)
    tails = tails_of(cells)
    valued = tails[0].tilted(-tilt)
    valued = valued.plus(rows.log_with_value(valued.support, float(prior.sum())))

    if rows.missing is None:
        left = drawn_from(valued.plus(rows.log_all(valued.support)), size, rng)
    else:
        lost = _missing(law, rows)
        shift = tilt_into_bounds([valued, lost], rows.least, rows.most)
        valued, lost = valued.tilted(shift), lost.tilted(shift)
        everyone = convolved(valued, lost).tilted(-shift)
        everyone = everyone.plus(rows.log_all(everyone.support))
        left = split_between(valued, lost, drawn_from(everyone, size, rng), rng)

    counts = np.empty((size, len(cells)), dtype=np.int64)
    for j, cell in enumerate(cells[:-1]):
        counts[:, j] = split_between(cell, tails[j + 1], left, rng)
        left = left - counts[:, j]
    counts[:, -1] = left
    if block > 1:
        counts = within_blocks(counts, prior, block, rng)
        if known is not None:
            counts[:, counts.sum(axis=0).argmax()] += known - counts.sum(axis=1)
    return counts


def _tilted_cells(
    seen: np.ndarray, prior: np.ndarray, law: Law, rows: Rows, power: float
) -> tuple[list[Weights], float]:
    """Return the cells' weights times e^(tilt * s) on sufficiently wide windows, and the tilt.

    Exponential tilting does not change the law of the cells given their sum. It centres the
    probable sums in their range, where a Fourier convolution is accurate.
    """
    low, high = _windows(seen, law, rows).T
    while True:
        cells = []
        for a, y, first, last in zip(prior, seen, low, high, strict=True):
            s = np.arange(first, last + 1)
            log = log_cell(s, a, rows.block) + power * law.log(y - s)
            cells.append(Weights(int(first), log))
        tilt = tilt_of(cells, float(prior.sum()), rows)
        cells = [cell.tilted(tilt) for cell in cells]
        # A strong prior can outweigh the noise: widen windows with weight at an edge.
        width = high - low + 1
        edge = [[cell.log[i] > cell.log.max() - DEPTH for i in (0, -1)] for cell in cells]
        grow = np.array(edge) & np.stack([low > 0, high < rows.most], axis=1)
        if not grow.any():
            return [cell.trimmed() for cell in cells], tilt
        low = np.where(grow[:, 0], np.maximum(low - width, 0), low)
        high = np.where(grow[:, 1], np.minimum(high + width, rows.most), high)


def _windows(seen: np.ndarray, law: Law, rows: Rows) -> np.ndarray:
    """Return the initial window (low, high) of each count."""
    centre = np.clip(seen, 0, rows.most)
    # A known total may shift a cell by the whole difference from the noisy sum.
    known = rows.least == rows.most and rows.missing is None
    reach = 2 * law.reach + (abs(rows.least - centre.sum()) if known else 0.0)
    low = np.maximum(np.floor(centre - reach), 0)
    return np.stack([low, np.minimum(np.ceil(centre + reach), rows.most)], axis=1)


def log_cell(count: np.ndarray, a: float, block: int) -> np.ndarray:
    """Return log of Gamma(s + a) / s! summed over each block, exactly for the first block."""
    log = gammaln(block * count + a) - gammaln(block * count + 1) + np.log(block)
    if block > 1 and count[0] == 0:
        log[0] = logsumexp(_first_block(a, block).log)
    return log


def _first_block(a: float, block: int) -> Weights:
    return Weights(0, log_cell(np.arange(block // 2 + 1, dtype=float), a, 1))


def within_blocks(
    blocks: np.ndarray, prior: Sequence[float], block: int, rng: np.random.Generator
) -> np.ndarray:
    """Return a draw of the count within each block (draw, cell).

    Totals then agree to within blocks, far below the noise.
    """
    counts = block * blocks + rng.integers(-(block // 2), block // 2 + 1, size=blocks.shape)
    for j, a in enumerate(prior):
        first = blocks[:, j] == 0
        counts[first, j] = drawn_from(_first_block(a, block), int(first.sum()), rng)
    return counts


def tilt_of(cells: Sequence[Weights], concentration: float, rows: Rows) -> float:
    """Return the tilt t with t = (log V)'(mean of the sum at tilt t), moved into the bounds."""

    def gap(tilt: float) -> float:
        return tilt - rows.log_derivative_with_value(_mean(cells, tilt), concentration)

    tilt = 0.0
    if gap(0.0) > 0:  # else V increases slowly, and no tilt is needed
        from scipy.optimize import brentq

        steepest = rows.log_derivative_with_value(0.0, concentration) - 1e-9
        tilt = float(brentq(gap, steepest, 0.0, xtol=1e-9))
    tilted = [cell.tilted(tilt) for cell in cells]
    return tilt + tilt_into_bounds(tilted, rows.least if rows.missing is None else 0, rows.most)


def tilt_into_bounds(cells: Sequence[Weights], least: float, most: float) -> float:
    """Return the additional tilt that moves the mean of the sum into its bounds; often 0."""
    middle = _mean(cells, 0.0)
    target = float(np.clip(middle, least, most))
    if target == middle:
        return 0.0
    from scipy.optimize import brentq

    bound = 1.0
    while _mean(cells, -bound) > target or _mean(cells, bound) < target:
        bound *= 2
        if bound > 1e3:  # only the ends of all windows reach this total
            return float(np.copysign(bound, target - middle))
    return float(brentq(lambda t: _mean(cells, t) - target, -bound, bound, xtol=1e-9))


def _mean(cells: Sequence[Weights], tilt: float) -> float:
    """Return the mean of the sum of independent numbers with these tilted weights."""
    total = 0.0
    for cell in cells:
        weight = cell.tilted(tilt).relative
        total += float((weight * cell.support).sum() / weight.sum())
    return total


def _missing(law: Law, rows: Rows) -> Weights:
    ((low, high),) = _windows(np.array([rows.missing]), law, rows)
    m = np.arange(low, high + 1)
    return Weights(int(low), log_cell(m, MISSING, rows.block) + law.log(rows.missing - m))


def convolved(a: Weights, b: Weights) -> Weights:
    """Return the weights of the sum of two independent numbers."""
    size = len(a.log) + len(b.log) - 1
    padded = next_fast_len(size, real=True)
    weight = irfft(rfft(a.relative, padded) * rfft(b.relative, padded), padded)[:size]
    with np.errstate(divide="ignore"):
        log = np.log(np.where(weight < _FLOOR * weight.max(), 0.0, weight))
    return Weights(a.low + b.low, log).trimmed()


def tails_of(cells: Sequence[Weights]) -> list[Weights]:
    """Return the weights of the sums of each number and those after it."""
    return list(accumulate(reversed(cells), lambda tail, cell: convolved(cell, tail)))[::-1]


def drawn_from(weights: Weights, size: int, rng: np.random.Generator) -> np.ndarray:
    relative = weights.relative
    return weights.low + rng.choice(len(relative), size=size, p=relative / relative.sum())


def split_between(
    a: Weights, b: Weights, total: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a draw of the first summand of each total, with weights `a` and `b` of the two."""
    inside = total - a.low - b.low
    return a.low + _split_each(a.relative, b.relative, inside, rng.random(total.size))


@cached()
def _split_each(a, b, total, uniform):  # type: ignore[no-untyped-def]
    drawn = np.empty(total.size, np.int64)
    for i in range(total.size):
        first = max(0, total[i] - b.size + 1)
        last = min(a.size - 1, total[i])
        mass = 0.0
        for s in range(first, last + 1):
            mass += a[s] * b[total[i] - s]
        target, mass, found = uniform[i] * mass, 0.0, first
        for s in range(first, last + 1):
            part = a[s] * b[total[i] - s]
            if part > 0.0:
                found = s
                mass += part
                if mass > target:
                    break
        drawn[i] = found
    return drawn
