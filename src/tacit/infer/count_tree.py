"""Exact draws of the true counts in tables that divide the same rows, step by step.

All rows are divided among the levels of a column, those of each level among the levels of another
one, and so on down to cells that were seen through noise. Each division is Dirichlet-multinomial.
The likelihood of the noisy cells below a node is a function of its number of rows alone,

    U(m) = sum over (m_1, ..., m_J) adding up to m of DirMult(m_1, ..., m_J | m, a) prod_j U_j(m_j),

with U(s) = noise(y - s) for a cell, and the product of all U where several tables divide the same
rows. Bottom up this is a chain of convolutions for each division (see `latent_counts`); top down it
gives exact, independent draws. Windows that would hold more than 2^12 counts are cut into blocks,
some fifty times narrower than Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from tacit.compile_cache import cached
from tacit.infer.latent_counts import (
    ROWS,
    Rows,
    Weights,
    drawn_from,
    log_cell,
    split_between,
    tails_of,
    tilt_into_bounds,
    tilt_of,
    within_blocks,
)
from tacit.infer.noise import DEPTH, Law

_WIDEST = 2**12
_PILOT = 64  # draws that locate the windows of the tree
_ROUNDS = 60


@dataclass(eq=False)
class Cell:
    """A noisy count; `index` is its column in the draws, `power` the likelihood's exponent."""

    seen: float
    law: Law
    index: int
    power: float = 1.0
    low: float = 0.0
    high: float = 0.0


@dataclass(eq=False)
class Divided:
    """Rows divided among parts, with a Dirichlet prior on their shares."""

    prior: np.ndarray
    parts: tuple[Node, ...]
    about: float | None = None  # how many rows there are, roughly
    tails: list[Weights] = field(default_factory=list)
    cells: list[Weights] = field(default_factory=list)


@dataclass(eq=False)
class Alike:
    """Alternative divisions of the same rows, by different columns."""

    divisions: tuple[Node, ...]


Node = Cell | Divided | Alike


def sample_tree(root: Node, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return `size` independent draws of all cells (size, cells); ignores `rows.missing`."""
    cells, most = _cells(root), rows.most
    for cell in cells:
        centre, reach = float(np.clip(cell.seen, 0, most)), cell.law.reach / cell.power + 1
        cell.low = max(np.floor(centre - reach), 0.0)
        cell.high = min(np.ceil(centre + reach), most)
    for turn in range(_ROUNDS):
        width = max(cell.high - cell.low for cell in cells)
        block = 1 if width <= _WIDEST else int(np.ceil(width / _WIDEST)) | 1
        try:
            everyone = _all_rows(root, rows, block)
        except _DisagreementError:  # windows that hold everything disagree on nothing
            for cell in cells:
                width = cell.high - cell.low + 1
                cell.low, cell.high = max(cell.low - width, 0.0), min(cell.high + width, most)
            continue
        pilot, cut = _draw(root, everyone, (_PILOT, len(cells)), block, rng)
        if not _settle(cells, pilot, most) and turn > 0 and not cut:
            break
    return _draw(root, everyone, (size, len(cells)), block, rng)[0]


def _cells(node: Node) -> list[Cell]:
    match node:
        case Cell():
            return [node]
        case Divided(parts=below) | Alike(divisions=below):
            return [cell for part in below for cell in _cells(part)]


def _settle(cells: list[Cell], pilot: np.ndarray, most: float) -> bool:
    """Widen the windows with weight at an edge, which a strong prior can cause."""
    grown = False
    for cell in cells:
        width = cell.high - cell.low + 1
        drawn = pilot[:, cell.index]
        if cell.low > 0 and drawn.min() < cell.low + width / 5:
            cell.low, grown = max(cell.low - width, 0.0), True
        if cell.high < most and drawn.max() > cell.high - width / 5:
            cell.high, grown = min(cell.high + width, most), True
    return grown


class _DisagreementError(Exception):
    """Tables cannot be true together within their windows."""


def _all_rows(root: Node, rows: Rows, block: int) -> Weights:
    """The posterior of the number of rows, in blocks."""
    found, within = _likelihood(root, block), rows.in_blocks(block)
    found = _within(found, max(found.low, within.least), min(found.high, within.most))
    return found.plus(log_cell(found.support, ROWS, block))


def _likelihood(node: Node, block: int) -> Weights:
    """log U over all numbers of rows that the windows allow."""
    match node:
        case Cell():
            s = np.arange(np.floor(node.low / block), np.ceil(node.high / block) + 1)
            law = Law(node.law.family, node.law.scale / block)
            return Weights(int(s[0]), node.power * law.log(node.seen / block - s))
        case Alike():
            below = [_likelihood(division, block) for division in node.divisions]
            low = max(weights.low for weights in below)
            high = min(weights.high for weights in below)
            return Weights(low, np.sum([_within(w, low, high).log for w in below], axis=0))
        case Divided():
            return _divided(node, block)


def _divided(node: Divided, block: int) -> Weights:
    parts = [_likelihood(part, block) for part in node.parts]
    cells = [p.plus(log_cell(p.support, a, block)) for p, a in zip(parts, node.prior, strict=True)]
    low = sum(cell.low for cell in cells)
    high = sum(cell.high for cell in cells)
    # The tilt cancels; it puts the sums that matter where a Fourier convolution is accurate.
    tilt = _tilt(cells, node, low, high, block)
    node.cells = [cell.tilted(tilt).trimmed() for cell in cells]
    node.tails = tails_of(node.cells)
    total = node.tails[0].tilted(-tilt)
    # The likelihood is extrapolated, and not the weight: that of many cells falls ever faster to 0.
    return _extended(total.plus(-log_ways(total.support, node.prior, block)), low, high)


def _tilt(cells: list[Weights], node: Divided, low: int, high: int, block: int) -> float:
    if node.about is None:  # where these cells alone would have their sum
        return tilt_of(cells, float(node.prior.sum()), Rows(0, np.inf, block=block))
    edge = min(1.0, (high - low) / 2)  # at the very edge all but one sum would be lost
    about = float(np.clip(node.about / block, low + edge, high - edge))
    return tilt_into_bounds(cells, about, about)


def _within(weights: Weights, low: int, high: float) -> Weights:
    if low > high:
        raise _DisagreementError
    return Weights(low, weights.log[low - weights.low : int(high) - weights.low + 1])


def _extended(weights: Weights, low: int, high: int) -> Weights:
    """Extrapolate linearly where the convolution is below rounding error."""
    log = weights.log.copy()
    known = np.isfinite(log)
    at = np.arange(len(log))
    log = np.interp(at, at[known], log[known])
    step = max(1, min(len(log) // 8, 16))
    rise, fall = DEPTH, -DEPTH  # where all but one sum fell below rounding error
    if len(log) > step:
        rise, fall = (log[step] - log[0]) / step, (log[-1] - log[-1 - step]) / step
    before = np.arange(low - weights.low, 0)
    after = np.arange(1, high - weights.low - len(log) + 2)
    return Weights(low, np.concatenate([log[0] + rise * before, log, log[-1] + fall * after]))


def log_ways(rows: np.ndarray, prior: np.ndarray, block: int) -> np.ndarray:
    """log of what the cells' weights add up to at each total: the Dirichlet-multinomial's constant.

    In closed form, but for the first blocks: there a sum of blocks is not the block of the sum.
    """
    total, n = float(prior.sum()), block * rows
    log = gammaln(n + total) - gammaln(n + 1)
    if block == 1:
        log += gammaln(prior).sum() - gammaln(total)
    else:
        first = _first_ways(tuple(prior.tolist()), block)
        last = block * (len(first) - 1.0)
        log += first[-1] - (gammaln(last + total) - gammaln(last + 1))  # goes on where they end
        few = rows < len(first)
        log[few] = first[rows[few].astype(int)]
    return log


@lru_cache(maxsize=256)
def _first_ways(prior: tuple[float, ...], block: int) -> np.ndarray:
    size = min(16 + int(4 * len(prior) ** 1.5), 2048)
    q = np.arange(size, dtype=float)
    log = log_cell(q, prior[0], block)
    for a in prior[1:]:
        log = _log_convolved(log, log_cell(q, a, block))
    return log


@cached()
def _log_convolved(a, b):  # type: ignore[no-untyped-def]
    out = np.empty(a.size)
    for k in range(a.size):
        top = -np.inf
        for i in range(k + 1):
            top = max(top, a[i] + b[k - i])
        mass = 0.0
        for i in range(k + 1):
            mass += np.exp(a[i] + b[k - i] - top)
        out[k] = top + np.log(mass)
    return out


def _draw(
    root: Node, everyone: Weights, shape: tuple[int, int], block: int, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Return draws (draw, cell), from the root down, and whether any was cut to its window."""
    out = np.zeros(shape, dtype=np.int64)
    cut = False

    def divide(node: Node, rows: np.ndarray, prior: float) -> None:
        nonlocal cut
        match node:
            case Cell():
                out[:, node.index] = rows
                if block > 1:
                    out[:, node.index] = within_blocks(rows[:, None], [prior], block, rng)[:, 0]
            case Alike():
                for division in node.divisions:
                    divide(division, rows, prior)
            case Divided():
                node.about = float(block * rows.mean())
                left = rows
                for j, cell in enumerate(node.cells):
                    part = np.clip(left, node.tails[j].low, node.tails[j].high)
                    cut, left = cut or bool((part != left).any()), part
                    if j + 1 < len(node.cells):
                        part = split_between(cell, node.tails[j + 1], left, rng)
                        left = left - part
                    divide(node.parts[j], part, float(node.prior[j]))

    divide(root, drawn_from(everyone, shape[0], rng), 1.0)
    return out, cut
