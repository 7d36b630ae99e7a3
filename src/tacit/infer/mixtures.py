"""A mixture of normals: initial components, variational parameters from noisy sums, and draws.

Initial components are from a few noisy histograms. Synthetic rows are drawn from these and cost no
budget, so that a mixture is fitted to them from many initial values; the likeliest one is the warm
start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import digamma

from tacit.kernels.mixtures import BINS
from tacit.spec.variational import Sums

_CENTRE_ROWS, _SHAPE = 0.01, 1.0  # prior: pseudo-rows of the means, shape of the precisions
_FLOOR = 0.5  # least variance, as a share of the variance's noise
_ALIVE = 2.0  # standard deviations of its count: a smaller component counts as empty
_SLICED = 3  # directions that are cut into parts, each with its own histograms
_THRESHOLD = 3.0  # standard deviations of noise: smaller values count as noise
_REACH = 3.0  # standard deviations of the rows
_SYNTHETIC_ROWS, _STARTS, _ROUNDS = 4000, 12, 40


@dataclass(frozen=True)
class MixturePrior:
    """Dirichlet `weight` of a component, and its typical standard deviation, on [-1, 1]."""

    weight: float
    width: float


@dataclass(frozen=True)
class NormalMixture:
    """Variational parameters: a Dirichlet, and a Normal-Gamma for each component and feature.

    Precisions are Gamma(shape, rate); means are normal with `rows` times the precision. Leading
    axes are draws.
    """

    concentration: np.ndarray
    mean: np.ndarray
    rows: np.ndarray
    shape: np.ndarray
    rate: np.ndarray

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(self.rate / self.shape[..., None])

    @property
    def weights(self) -> np.ndarray:
        return self.concentration / self.concentration.sum(axis=-1, keepdims=True)

    def repeated(self, count: int) -> NormalMixture:
        """Return these parameters repeated along a new leading axis of `count` draws."""
        return NormalMixture(
            *(np.repeat(part[None], count, axis=0) for part in vars(self).values())
        )

    def scores(self, point: bool) -> np.ndarray:
        """Return the log density of each component at its mean: expected, or plug-in if `point`."""
        if point:
            return np.log(self.weights) - np.log(self.sd).sum(axis=-1)
        logs = digamma(self.concentration) - digamma(self.concentration.sum())
        precision = digamma(self.shape)[..., None] - np.log(self.rate)
        size = self.mean.shape[-1]
        return logs + 0.5 * precision.sum(axis=-1) - 0.5 * size / self.rows

    def drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return one draw of weights, means and standard deviations for each leading index."""
        weights = rng.standard_gamma(self.concentration) + 1e-300
        sd = np.sqrt(
            self.rate / rng.standard_gamma(np.broadcast_to(self.shape[..., None], self.rate.shape))
        )
        mean = self.mean + sd / np.sqrt(self.rows)[..., None] * rng.standard_normal(sd.shape)
        return weights / weights.sum(axis=-1, keepdims=True), mean, sd


def mixture_posterior(sums: Sums, prior: MixturePrior) -> NormalMixture:
    """Return the conjugate posterior given sums thresholded by their noise.

    A component's count is at least the noise of a count, its variance at least half the noise of a
    variance. A component indistinguishable from noise is at least as wide as the prior, so that it
    can attract rows again.
    """
    count, total, square = (sums.values[name] for name in ("count", "sum", "square"))
    n = np.maximum(count, np.maximum(sums.sd["count"], 1e-9))
    centre = np.clip(total / n[..., None], -1.0, 1.0)
    variance = square / n[..., None] - centre**2
    least = _FLOOR * np.asarray(sums.sd["square"]) / n[..., None]
    empty = (count < _ALIVE * np.asarray(sums.sd["count"]))[..., None]
    least = np.where(empty, np.maximum(least, prior.width**2), least)
    variance = np.clip(variance, np.minimum(least, 1.0), 1.0)
    rows = _CENTRE_ROWS + n
    shrinkage = _CENTRE_ROWS * n / rows
    rate = _SHAPE * prior.width**2 + 0.5 * (
        n[..., None] * variance + shrinkage[..., None] * centre**2
    )
    mean = (n / rows)[..., None] * centre
    return NormalMixture(prior.weight + n, mean, rows, _SHAPE + n / 2, rate)


def with_noise(
    sums: Sums, mean: np.ndarray, common: float, count: int, rng: np.random.Generator
) -> Sums:
    """Return `count` draws of the true sums given the released ones.

    The noise is that of windowed sums centred at `mean`, the components' means. `common` is the
    correlation of the noise of a count with that of squares.
    """
    rows, off, own = (
        rng.standard_normal((count, *sums.values[name].shape))
        for name in ("count", "sum", "square")
    )
    square = np.asarray(sums.sd["square"]) * (
        common * rows[..., None] + np.sqrt(1 - common**2) * own
    )
    rows, off = np.asarray(sums.sd["count"]) * rows, np.asarray(sums.sd["sum"]) * off
    values = {
        "count": sums.values["count"] + rows,
        "sum": sums.values["sum"] + rows[..., None] * mean + off,
        "square": sums.values["square"] + rows[..., None] * mean**2 + 2 * mean * off + square,
    }
    return Sums(values, sums.sd)


def prior_mixture(components: int, size: int, prior: MixturePrior) -> NormalMixture:
    """Return the initial mixture: equal components as wide as [-1, 1]."""
    one, each = np.ones(components), np.zeros((components, size))
    return NormalMixture(prior.weight * one, each, _CENTRE_ROWS * one, _SHAPE * one, each + _SHAPE)


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


def slices_of(size: int, signal_to_noise: float) -> np.ndarray:
    """Return the number of parts that each direction is cut into.

    `signal_to_noise` is rows of a component / noise of a part's count.
    """
    cut = min(size, _SLICED)
    slices = np.ones(size, np.int64)
    slices[:cut] = int(np.clip(signal_to_noise ** (1 / cut), 1, 6))
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
    from scipy.spatial.distance import cdist

    scaled, equal = rows / (rows.std(axis=0) + 1e-9), np.ones(len(rows))
    found = []
    for _ in range(_STARTS):
        near = cdist(scaled, seeds(scaled, equal, components, rng), "sqeuclidean").argmin(axis=1)
        found.append(_em(rows, np.eye(components)[near], units, prior))
    return max(found, key=lambda one: one[1])[0]


def seeds(rows: np.ndarray, weight: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` of the weighted rows, chosen by k-means++."""
    from scipy.spatial.distance import cdist

    chosen: list[int] = []
    near = np.ones(len(rows))
    while len(chosen) < count:
        probability = weight * near
        chosen.append(rng.choice(len(rows), p=probability / probability.sum()))
        # Positive even if all rows are equal.
        near = cdist(rows, rows[chosen], "sqeuclidean").min(axis=1) + 1e-12
    return rows[chosen]


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
