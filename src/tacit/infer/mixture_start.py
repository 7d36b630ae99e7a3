"""Where the components of a mixture may be, from a few noisy histograms.

Histograms say roughly how rows are spread. Rows made up from them are free to look at, so that a
mixture can be fitted to these from many starts, and the best one taken to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tacit.infer.mixtures import MixturePrior, NormalMixture, believed
from tacit.kernels.mixtures import BINS
from tacit.spec.variational import Sums

_SLICED = 3  # directions in which rows are told apart, and each part has histograms of its own
_SURE = 3.0  # standard deviations of noise, beyond which something is there
_REACH = 3.0  # standard deviations of the rows
_MADE_UP, _STARTS, _ROUNDS = 4000, 12, 40


@dataclass(frozen=True)
class Frame:
    """Directions in which rows are looked at: from `centre`, and as far as `reach` in each."""

    centre: np.ndarray
    axes: np.ndarray
    reach: np.ndarray

    @classmethod
    def whole(cls, size: int) -> Self:
        """All of [-1, 1]^size, as it stands."""
        return cls(np.zeros(size), np.eye(size), np.ones(size))

    def narrowed(self, counts: np.ndarray, sd: float) -> Frame:
        """To where histograms (direction, bin) of all of [-1, 1] show rows."""
        low, high = np.full(len(counts), -1.0), np.ones(len(counts))
        for j, row in enumerate(counts):
            there = np.flatnonzero(row > _SURE * sd)
            if there.size:
                low[j], high[j] = -1 + 2 * there[0] / BINS, -1 + 2 * (there[-1] + 1) / BINS
        return Frame((low + high) / 2, self.axes, (high - low) / 2)

    def turned(self, squares: np.ndarray, sd: float) -> Frame:
        """Along the rows' principal axes, from products of (1, place within reach)."""
        rows = max(float(squares[0, 0]), sd, 1e-9)
        mean = np.clip(squares[0, 1:] / rows, -1.0, 1.0)
        spread = squares[1:, 1:] / rows - np.outer(mean, mean)
        least = max(sd / rows, 1e-6)
        # What may be noise turns nothing.
        unsure = (np.abs(spread) < _SURE * least) & ~np.eye(len(mean), dtype=bool)
        values, ways = np.linalg.eigh(np.where(unsure, 0.0, spread))
        values, ways = np.maximum(values[::-1], least), ways[:, ::-1]
        return Frame(
            self.centre + self.reach * mean,
            ways.T / self.reach,
            np.minimum(_REACH * np.sqrt(values), 2.0),
        )


def slices_of(size: int, clear: float) -> np.ndarray:
    """Into how many parts each direction is cut.

    `clear` is how many times the noise of a part's count a component has rows.
    """
    cut = min(size, _SLICED)
    slices = np.ones(size, np.int64)
    slices[:cut] = int(np.clip(clear ** (1 / cut), 1, 6))
    return slices


def made_up(
    frame: Frame, slices: np.ndarray, counts: np.ndarray, sd: float, rng: np.random.Generator
) -> np.ndarray:
    """Rows as histograms (part, direction, bin) say, independent in all directions in each part."""
    size = len(slices)
    parts = np.array(np.unravel_index(np.arange(len(counts)), slices)).T
    here = np.arange(BINS) * slices[:, None] // BINS == parts[:, :, None]
    counts, bins = np.where(here, counts, 0.0), here.sum(axis=2)
    rows = counts.sum(axis=2).mean(axis=1)
    rows[rows < _SURE * sd * np.sqrt(bins.sum(axis=1)) / size] = 0.0
    if not rows.any():
        rows[:] = 1.0
    # At least a trace everywhere in a part: it has rows somewhere.
    shares = np.maximum(counts - sd, 0.0) + 1e-9 * here
    shares /= shares.sum(axis=2, keepdims=True)
    along = []
    for part, many in enumerate(rng.multinomial(_MADE_UP, rows / rows.sum())):
        place = np.column_stack([rng.choice(BINS, many, p=share) for share in shares[part]])
        along.append((2 * (place + rng.random(place.shape)) / BINS - 1) * frame.reach)
    turned = np.linalg.solve(frame.axes, np.concatenate(along).T).T
    return np.clip(frame.centre + turned, -1.0, 1.0)


def clustered(
    rows: np.ndarray, components: int, units: float, prior: MixturePrior, rng: np.random.Generator
) -> NormalMixture:
    """A mixture of these rows, which stand for so many units: the likeliest from several starts."""
    scaled = rows / (rows.std(axis=0) + 1e-9)
    found = []
    for _ in range(_STARTS):
        near = _apart(scaled, components, rng)
        found.append(_likeliest(rows, np.eye(components)[near], units, prior))
    return max(found, key=lambda one: one[1])[0]


def _apart(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """To which of so many rows that are far from each other a row is nearest (k-means++)."""
    away = np.full((len(rows), count), np.inf)
    chance = np.ones(len(rows))
    for k in range(count):
        one = rng.choice(len(rows), p=chance / chance.sum())
        away[:, k] = ((rows - rows[one]) ** 2).sum(axis=1)
        chance = away.min(axis=1) + 1e-12  # where all rows are one, any will do
    return np.asarray(away.argmin(axis=1))


def _likeliest(
    rows: np.ndarray, share: np.ndarray, units: float, prior: MixturePrior
) -> tuple[NormalMixture, float]:
    """By expectation and maximisation from shares (row, component), and its log-likelihood."""
    weight, none = units / len(rows), {"count": 0.0, "sum": 0.0, "square": 0.0}
    for _ in range(_ROUNDS):
        mine = weight * share
        values = {"count": mine.sum(axis=0), "sum": mine.T @ rows, "square": mine.T @ rows**2}
        mixture = believed(Sums(values, none), prior)
        away = (rows[:, None] - mixture.mean) / mixture.sd
        logs = mixture.scores(point=True) - 0.5 * (away**2).sum(axis=2)
        top = logs.max(axis=1, keepdims=True)
        share = np.exp(logs - top)
        total = share.sum(axis=1, keepdims=True)
        share /= total
    return mixture, float((np.log(total) + top).sum())
