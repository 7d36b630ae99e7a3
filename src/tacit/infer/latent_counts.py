"""The exact posterior of a Dirichlet-categorical model whose counts were seen through noise.

Given true counts s the prior predictive is Dirichlet-multinomial, and each cell's noise is
independent, so that

    p(s | y)  proportional to  W(s_1 + ... + s_K) * prod_j g_j(s_j),
    g_j(s) = Gamma(s + a_j) / s! * noise(y_j - s),     W(T) = T! / Gamma(T + sum a) * rows(T).

A product of one-cell weights under a weight on the sum is a chain of convolutions: it gives exact,
independent draws of s by sampling backwards, with no Markov chain and no large-sample approximation.
`rows(T)` is what is known of the number of rows: see `RowsKnown`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import digamma, gammaln

_DEPTH = 40.0  # weights e^-40 below the largest are left out
_FLOOR = 1e-14  # what Fourier convolution cannot tell from nothing


@dataclass(frozen=True)
class Law:
    """The noise's log density up to a constant: exact at integer counts, discrete or not."""

    family: str
    scale: float

    def log(self, error: np.ndarray) -> np.ndarray:
        if self.family == "discrete_laplace":
            return -np.abs(error) / self.scale
        return -0.5 * (error / self.scale) ** 2

    @property
    def reach(self) -> float:
        """How far noise goes before its density has fallen by e^-40."""
        return self.scale * (_DEPTH if self.family == "discrete_laplace" else np.sqrt(2 * _DEPTH))


@dataclass(frozen=True)
class RowsKnown:
    """Bounds on the number of rows, and the noisy number of those with a missing value.

    `most` is None where there is no bound. All numbers of rows, and of missing ones among them,
    are equally likely beforehand.
    """

    least: int
    most: int | None
    missing: float | None = None

    def log(self, total: np.ndarray, law: Law) -> np.ndarray:
        """log of the weight of `total` rows without a missing value."""
        if self.missing is None:
            inside = total >= self.least
            if self.most is not None:
                inside &= total <= self.most
            return np.where(inside, 0.0, -np.inf)
        low = max(0, int(np.floor(self.missing - law.reach)))
        high = max(low, int(np.ceil(max(self.missing, 0.0) + law.reach)))
        if self.least == self.most:  # rows known: the missing ones are the rest, however unlikely
            rest = self.least - total
            return np.where(rest >= 0, law.log(self.missing - rest), -np.inf)
        weights = np.exp(law.log(self.missing - np.arange(low, high + 1.0)) + self._shift(low, law))
        upto = np.concatenate([[0.0], np.cumsum(weights)])

        def below(count: np.ndarray) -> np.ndarray:
            """Weight of at most `count` missing rows."""
            return upto[np.clip(count - low + 1, 0, len(upto) - 1).astype(np.int64)]

        least = below(np.asarray(self.least - total - 1))
        most = upto[-1] if self.most is None else below(np.asarray(self.most - total))
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(most - least, 0.0))

    def _shift(self, low: int, law: Law) -> float:
        assert self.missing is not None
        return -float(law.log(np.asarray(self.missing - max(low, self.missing))))


@dataclass(frozen=True)
class Cell:
    """Weights of one count over low, low + 1, ...; tilted, largest one."""

    low: int
    weight: np.ndarray


def sample_counts(
    seen: np.ndarray,
    prior: np.ndarray,
    law: Law,
    rows: RowsKnown,
    size: int,
    rng: np.random.Generator,
    *,
    power: float = 1.0,
) -> np.ndarray:
    """`size` independent draws of the true counts, shape (size, cells).

    `power` weighs the noise's likelihood. It is one half where two cells share one measurement,
    y and n - y, since the law is symmetric.
    """
    low, high = _windows(seen, law, rows)
    while True:
        logs = [
            gammaln(s + a) - gammaln(s + 1) + power * law.log(y - s)
            for s, a, y in zip(_grids(low, high), prior, seen, strict=True)
        ]
        tilt = _tilt(logs, low, high, float(prior.sum()), rows)
        tilted = [w + tilt * s for w, s in zip(logs, _grids(low, high), strict=True)]
        if not _widen(tilted, low, high, rows):
            break
    cells = [_trim(Cell(int(lo), np.exp(w - w.max()))) for lo, w in zip(low, tilted, strict=True)]
    tails = [cells[-1]]  # tails[i]: the law of the sum of the last i + 1 cells
    for cell in reversed(cells[:-1]):
        weight = np.maximum(fftconvolve(cell.weight, tails[-1].weight), 0.0)
        tails.append(_trim(Cell(cell.low + tails[-1].low, weight / weight.max())))
    tails.reverse()

    whole = tails[0]
    total = np.arange(whole.low, whole.low + len(whole.weight))
    alpha = prior.sum()
    with np.errstate(divide="ignore"):
        log_total = (
            np.log(whole.weight)
            - tilt * total
            + gammaln(total + 1.0)
            - gammaln(total + alpha)
            + rows.log(total, law)
        )
    chance = np.exp(log_total - log_total.max())
    left = rng.choice(total, size=size, p=chance / chance.sum())
    counts = np.empty((size, len(cells)), dtype=np.int64)
    for j, cell in enumerate(cells[:-1]):
        rest = tails[j + 1]
        counts[:, j] = _split(cell.low, cell.weight, rest.low, rest.weight, left, rng.random(size))
        left = left - counts[:, j]
    counts[:, -1] = left
    return counts


def _grids(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    return [np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)]


def _windows(seen: np.ndarray, law: Law, rows: RowsKnown) -> tuple[np.ndarray, np.ndarray]:
    """Where each count may lie, to begin with."""
    most = np.inf if rows.most is None else rows.most
    centre = np.clip(seen, 0, most)
    # A known total may pull all cells together by what they miss it by.
    reach = 2 * law.reach + (abs(rows.least - centre.sum()) if rows.least == rows.most else 0.0)
    low = np.maximum(np.floor(centre - reach), 0)
    high = np.minimum(np.ceil(centre + reach), most)
    return low.astype(np.int64), high.astype(np.int64)


def _tilt(
    logs: list[np.ndarray], low: np.ndarray, high: np.ndarray, alpha: float, rows: RowsKnown
) -> float:
    """The slope that centres the sum of the cells where its posterior is.

    e^(tilt * sum) does not change the law of the cells given their sum; it only keeps the sum that
    matters in the middle, where a Fourier convolution is accurate.
    """
    grids = _grids(low, high)

    def mean(tilt: float) -> float:
        total = 0.0
        for log, grid in zip(logs, grids, strict=True):
            weight = np.exp((w := log + tilt * grid) - w.max())
            total += float(weight @ grid / weight.sum())
        return total

    def gap(tilt: float) -> float:
        total = mean(tilt)
        return tilt - float(digamma(total + 1) - digamma(total + alpha))

    # Where the weight of the total, Gamma(T + 1) / Gamma(T + alpha), meets the cells half way;
    # for alpha <= 1 it is nearly flat.
    tilt = 0.0
    if alpha > 1 and gap(0.0) > 0:
        steepest = float(digamma(1.0) - digamma(alpha)) - 1e-9
        tilt = float(brentq(gap, steepest, 0.0, xtol=1e-9))
    # Bounds on the rows come first; a known total is the tightest of them.
    middle = mean(tilt)
    least = rows.least if rows.missing is None else 0
    target = float(np.clip(middle, least, np.inf if rows.most is None else rows.most))
    if target == middle:
        return tilt
    bound = 1.0
    while mean(tilt - bound) > target or mean(tilt + bound) < target:
        bound *= 2
        if bound > 1e3:  # only a corner of the windows reaches this total
            return tilt + float(np.sign(target - middle)) * bound
    return float(brentq(lambda t: mean(t) - target, tilt - bound, tilt + bound, xtol=1e-9))


def _widen(
    tilted: list[np.ndarray], low: np.ndarray, high: np.ndarray, rows: RowsKnown
) -> bool:
    """Grow each window whose edge still matters; True if any did."""
    most = np.inf if rows.most is None else rows.most
    grown = False
    for j, log in enumerate(tilted):
        width = int(high[j] - low[j]) + 1
        top = log.max() - _DEPTH
        if low[j] > 0 and log[0] > top:
            low[j], grown = max(0, low[j] - width), True
        if high[j] < most and log[-1] > top:
            high[j], grown = int(min(most, high[j] + width)), True
    return grown


def _trim(cell: Cell) -> Cell:
    """Drop what is too small to matter, and what rounding may have left there."""
    weight = np.where(cell.weight < _FLOOR * cell.weight.max(), 0.0, cell.weight)
    kept = np.flatnonzero(weight)
    return Cell(cell.low + int(kept[0]), weight[kept[0] : kept[-1] + 1])


@numba.njit(cache=True)
def _split(cell_low, cell, rest_low, rest, left, uniform):  # type: ignore[no-untyped-def]
    """One cell's count for each draw, given what is left for it and the cells after it."""
    drawn = np.empty(left.size, np.int64)
    for i in range(left.size):
        first = max(0, left[i] - cell_low - rest_low - rest.size + 1)
        last = min(cell.size - 1, left[i] - cell_low - rest_low)
        offset = left[i] - cell_low - rest_low
        mass = 0.0
        for s in range(first, last + 1):
            mass += cell[s] * rest[offset - s]
        target, mass, found = uniform[i] * mass, 0.0, first
        for s in range(first, last + 1):
            part = cell[s] * rest[offset - s]
            if part > 0.0:
                found = s
                mass += part
                if mass > target:
                    break
        drawn[i] = cell_low + found
    return drawn
