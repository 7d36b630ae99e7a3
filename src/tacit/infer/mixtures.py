"""A mixture of normals: beliefs from sums that may be noisy, and draws of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from tacit.spec.variational import Sums

_CENTRE_ROWS, _SHAPE = 0.01, 1.0  # what the prior counts for: of the means, of the precisions
_FLOOR = 0.5  # of the noise of a variance: the least that it can be
_ALIVE = 2.0  # a component is told from none by so many standard deviations of its count


@dataclass(frozen=True)
class MixturePrior:
    """Dirichlet `weight` of each component, and about how wide one is: numbers are in [-1, 1]."""

    weight: float
    width: float


@dataclass(frozen=True)
class NormalMixture:
    """A Dirichlet, and for each component and number a Normal-Gamma; leading axes are draws.

    Precisions are Gamma(shape, rate), and means normal with `rows` times the precision.
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
        """The same beliefs for each of `count` draws."""
        return NormalMixture(
            *(np.repeat(part[None], count, axis=0) for part in vars(self).values())
        )

    def scores(self, point: bool) -> np.ndarray:
        """The log weight of each component at its mean, expected or at the beliefs' point."""
        if point:
            return np.log(self.weights) - np.log(self.sd).sum(axis=-1)
        logs = digamma(self.concentration) - digamma(self.concentration.sum())
        precision = digamma(self.shape)[..., None] - np.log(self.rate)
        size = self.mean.shape[-1]
        return logs + 0.5 * precision.sum(axis=-1) - 0.5 * size / self.rows

    def drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, means and standard deviations: one draw from each of the beliefs."""
        weights = rng.standard_gamma(self.concentration) + 1e-300
        sd = np.sqrt(
            self.rate / rng.standard_gamma(np.broadcast_to(self.shape[..., None], self.rate.shape))
        )
        mean = self.mean + sd / np.sqrt(self.rows)[..., None] * rng.standard_normal(sd.shape)
        return weights / weights.sum(axis=-1, keepdims=True), mean, sd


def believed(sums: Sums, prior: MixturePrior) -> NormalMixture:
    """Conjugate beliefs, from sums cleared of what noise alone would make of them.

    A component has at least as many rows as its noise; its variance is at least what the noise of
    the squares makes. One that cannot be told from none is as wide as the prior, at least: so it
    finds rows again where there are some.
    """
    count, total, square = (sums.values[name] for name in ("count", "sum", "square"))
    n = np.maximum(count, np.maximum(sums.sd["count"], 1e-9))
    centre = np.clip(total / n[..., None], -1.0, 1.0)
    variance = square / n[..., None] - centre**2
    least = _FLOOR * np.asarray(sums.sd["square"]) / n[..., None]
    lost = (count < _ALIVE * np.asarray(sums.sd["count"]))[..., None]
    least = np.where(lost, np.maximum(least, prior.width**2), least)
    variance = np.clip(variance, np.minimum(least, 1.0), 1.0)
    rows = _CENTRE_ROWS + n
    pulled = _CENTRE_ROWS * n / rows
    rate = _SHAPE * prior.width**2 + 0.5 * (n[..., None] * variance + pulled[..., None] * centre**2)
    mean = (n / rows)[..., None] * centre
    return NormalMixture(prior.weight + n, mean, rows, _SHAPE + n / 2, rate)


def with_noise(
    sums: Sums, mean: np.ndarray, common: float, count: int, rng: np.random.Generator
) -> Sums:
    """Sums as they might be without the noise that they have: `count` of each.

    Noise is known about the components' means, where their windows were. That of squares and of
    rows has this much in `common`, their correlation.
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


def one_for_all(components: int, size: int, prior: MixturePrior) -> NormalMixture:
    """Before anything is known: every component is as wide as all numbers can be."""
    one, each = np.ones(components), np.zeros((components, size))
    return NormalMixture(prior.weight * one, each, _CENTRE_ROWS * one, _SHAPE * one, each + _SHAPE)
