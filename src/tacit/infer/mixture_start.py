"""Initial components of a mixture, from a few noisy histograms.

Synthetic rows are drawn from the released histograms. They cost no budget, so that a mixture is
fitted to them from many initial values, and the likeliest one is the warm start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tacit.infer.mixtures import MixturePrior, NormalMixture, mixture_posterior
from tacit.kernels.mixtures import BINS
from tacit.spec.variational import Sums

_SLICED = 3  # directions that are cut into parts, each with its own histograms
_THRESHOLD = 3.0  # standard deviations of noise: smaller values count as noise
_REACH = 3.0  # standard deviations of the rows
_SYNTHETIC_ROWS, _STARTS, _ROUNDS = 4000, 12, 40


@dataclass(frozen=True)
class Frame:
    """Coordinates axes @ (row - centre) for histograms, from -reach to reach in each direction."""

    centre: np.ndarray
    axes: np.ndarray
    reach: np.ndarray

    @classmethod
    def whole(cls, size: int) -> Self:
        """Return the identity frame of [-1, 1]^size."""
        return cls(np.zeros(size), np.eye(size), np.ones(size))

    def narrowed(self, counts: np.ndarray, sd: float) -> Frame:
        """Return the frame of the bins whose counts (direction, bin) exceed the noise threshold."""
        low, high = np.full(len(counts), -1.0), np.ones(len(counts))
        for j, row in enumerate(counts):
            occupied = np.flatnonzero(row > _THRESHOLD * sd)
            if occupied.size:
                low[j], high[j] = -1 + 2 * occupied[0] / BINS, -1 + 2 * (occupied[-1] + 1) / BINS
        return Frame((low + high) / 2, self.axes, (high - low) / 2)

    def turned(self, squares: np.ndarray, sd: float) -> Frame:
        """Return the frame of the rows' principal axes.

        `squares` is the noisy sum of products of (1, scaled coordinates).
        """
        rows = max(float(squares[0, 0]), sd, 1e-9)
        mean = np.clip(squares[0, 1:] / rows, -1.0, 1.0)
        spread = squares[1:, 1:] / rows - np.outer(mean, mean)
        least = max(sd / rows, 1e-6)
        # Covariances below the noise threshold must not rotate the axes.
        noisy = (np.abs(spread) < _THRESHOLD * least) & ~np.eye(len(mean), dtype=bool)
        values, vectors = np.linalg.eigh(np.where(noisy, 0.0, spread))
        values, vectors = np.maximum(values[::-1], least), vectors[:, ::-1]
        return Frame(
            self.centre + self.reach * mean,
            vectors.T / self.reach,
            np.minimum(_REACH * np.sqrt(values), 2.0),
        )


def slices_of(size: int, clear: float) -> np.ndarray:
    """Return the number of parts that each direction is cut into.

    `clear` is the signal-to-noise ratio: rows of a component / noise of a part's count.
    """
    cut = min(size, _SLICED)
    slices = np.ones(size, np.int64)
    slices[:cut] = int(np.clip(clear ** (1 / cut), 1, 6))
    return slices


def synthetic_rows(
    frame: Frame, slices: np.ndarray, counts: np.ndarray, sd: float, rng: np.random.Generator
) -> np.ndarray:
    """Return rows drawn from histograms (part, direction, bin), directions being independent."""
    size = len(slices)
    parts = np.array(np.unravel_index(np.arange(len(counts)), slices)).T
    here = np.arange(BINS) * slices[:, None] // BINS == parts[:, :, None]
    counts, bins = np.where(here, counts, 0.0), here.sum(axis=2)
    rows = counts.sum(axis=2).mean(axis=1)
    rows[rows < _THRESHOLD * sd * np.sqrt(bins.sum(axis=1)) / size] = 0.0
    if not rows.any():
        rows[:] = 1.0
    # Positive everywhere in a part, so that the shares of an empty one are defined.
    shares = np.maximum(counts - sd, 0.0) + 1e-9 * here
    shares /= shares.sum(axis=2, keepdims=True)
    along = []
    for part, number in enumerate(rng.multinomial(_SYNTHETIC_ROWS, rows / rows.sum())):
        bin_of = np.column_stack([rng.choice(BINS, number, p=share) for share in shares[part]])
        along.append((2 * (bin_of + rng.random(bin_of.shape)) / BINS - 1) * frame.reach)
    offset = np.linalg.solve(frame.axes, np.concatenate(along).T).T
    return np.clip(frame.centre + offset, -1.0, 1.0)


def clustered(
    rows: np.ndarray, components: int, units: float, prior: MixturePrior, rng: np.random.Generator
) -> NormalMixture:
    """Return the likeliest mixture from several starts, rows being weighted to sum to `units`."""
    scaled = rows / (rows.std(axis=0) + 1e-9)
    found = []
    for _ in range(_STARTS):
        near = _nearest_seed(scaled, components, rng)
        found.append(_em(rows, np.eye(components)[near], units, prior))
    return max(found, key=lambda one: one[1])[0]


def _nearest_seed(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the index of each row's nearest seed, of `count` seeds chosen by k-means++."""
    away = np.full((len(rows), count), np.inf)
    weight = np.ones(len(rows))
    for k in range(count):
        one = rng.choice(len(rows), p=weight / weight.sum())
        away[:, k] = ((rows - rows[one]) ** 2).sum(axis=1)
        weight = away.min(axis=1) + 1e-12  # positive even if all rows are equal
    return np.asarray(away.argmin(axis=1))


def _em(
    rows: np.ndarray, share: np.ndarray, units: float, prior: MixturePrior
) -> tuple[NormalMixture, float]:
    """Return a mixture by EM from responsibilities (row, component), and its log-likelihood."""
    weight, none = units / len(rows), {"count": 0.0, "sum": 0.0, "square": 0.0}
    for _ in range(_ROUNDS):
        mine = weight * share
        values = {"count": mine.sum(axis=0), "sum": mine.T @ rows, "square": mine.T @ rows**2}
        mixture = mixture_posterior(Sums(values, none), prior)
        away = (rows[:, None] - mixture.mean) / mixture.sd
        logs = mixture.scores(point=True) - 0.5 * (away**2).sum(axis=2)
        top = logs.max(axis=1, keepdims=True)
        share = np.exp(logs - top)
        total = share.sum(axis=1, keepdims=True)
        share /= total
    return mixture, float((np.log(total) + top).sum())
