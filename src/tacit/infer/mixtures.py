"""A mixture of normals: variational parameters from sums that may be noisy, and draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from tacit.spec.variational import Sums

_CENTRE_ROWS, _SHAPE = 0.01, 1.0  # prior: pseudo-rows of the means, shape of the precisions
_FLOOR = 0.5  # least variance, as a share of the variance's noise
_ALIVE = 2.0  # standard deviations of its count: a smaller component counts as empty


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
