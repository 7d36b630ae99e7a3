"""Conjugate laws of normal data given their moments M = sum of z z', z = (1, u_1, ..., u_D).

A prior is a matrix of moments too: those of pseudo-rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Factor:
    """|lead(M + shift)|^(a + b n), the leading block having the size of `shift`."""

    shift: np.ndarray
    a: float
    b: float


@dataclass(frozen=True)
class MomentsDensity:
    """The density of moments with the parameters integrated out.

    `rows` are the numbers of f(n): columns d, prior rows and degrees of freedom of a normal law
    for the first d columns, then the shape of a regression of the last column (or 0).
    """

    factors: tuple[Factor, ...]
    rows: tuple[float, float, float, float]


@dataclass(frozen=True)
class NormalPrior:
    """Normal-inverse-Wishart: `moments` of prior rows, and `degrees` of freedom."""

    moments: np.ndarray
    degrees: float

    @classmethod
    def of(cls, mean: np.ndarray, mean_rows: float, sd: np.ndarray, sd_rows: float) -> NormalPrior:
        """Return the prior with `mean_rows` pseudo-rows for means and `sd_rows` for variances."""
        first = np.concatenate([[1.0], mean])
        moments = mean_rows * np.outer(first, first)
        moments[1:, 1:] += np.diag(sd_rows * sd**2)
        return cls(moments, sd_rows + len(mean) - 1)

    @property
    def columns(self) -> int:
        return len(self.moments) - 1

    def moments_density(self) -> MomentsDensity:
        factor = Factor(self.moments, -self.degrees / 2, -0.5)
        return MomentsDensity((factor,), (self.columns, self.moments[0, 0], self.degrees, 0.0))


@dataclass(frozen=True)
class RegressionPrior:
    """Normal-inverse-gamma for a regression of the last column on the others and a constant.

    `precision` is that of the coefficients, relative to the residual variance, whose prior is as
    if `sd_rows` residuals with standard deviation `sd` had been seen. The other columns are
    normal with a prior of their own.
    """

    precision: np.ndarray
    sd: float
    sd_rows: float
    features: NormalPrior

    def moments(self) -> np.ndarray:
        """Return the prior as moments of (1, features, target)."""
        p = len(self.precision)
        matrix = np.zeros((p + 1, p + 1))
        matrix[:p, :p] = self.precision
        matrix[p, p] = self.sd_rows * self.sd**2
        return matrix

    def moments_density(self) -> MomentsDensity:
        shape, features = self.sd_rows / 2, self.features.moments_density()
        coefficients = Factor(self.precision, shape - 0.5, 0.5)
        residuals = Factor(self.moments(), -shape, -0.5)
        return MomentsDensity(
            (*features.factors, coefficients, residuals), (*features.rows[:3], shape)
        )


Prior = NormalPrior | RegressionPrior


def draw_mean_and_covariance(
    moments: np.ndarray, prior: NormalPrior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a draw of the mean and of a root of the covariance for each moment matrix."""
    total = moments + prior.moments
    rows, d = total[:, 0, 0], prior.columns
    mean = total[:, 0, 1:] / rows[:, None]
    spread = total[:, 1:, 1:] - rows[:, None, None] * mean[:, :, None] * mean[:, None, :]
    degrees = prior.degrees + moments[:, 0, 0]
    root = np.linalg.cholesky((spread + spread.swapaxes(1, 2)) / 2)
    # Bartlett: if T T' is Wishart, root inv(T)' inv(T) root' is inverse Wishart.
    bartlett = np.tril(rng.standard_normal((len(total), d, d)), -1)
    for j in range(d):
        bartlett[:, j, j] = np.sqrt(2 * rng.standard_gamma((degrees - j) / 2))
    covariance_root = root @ np.linalg.inv(bartlett).swapaxes(1, 2)
    noise = rng.standard_normal((len(total), d))
    centre = mean + np.einsum("nij,nj->ni", covariance_root, noise) / np.sqrt(rows)[:, None]
    return centre, covariance_root


def draw_regression(
    moments: np.ndarray, prior: RegressionPrior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a draw of coefficients (constant first) and residual sd for each moment matrix."""
    total = moments + prior.moments()
    p = len(prior.precision)
    precision, cross = total[:, :p, :p], total[:, :p, p]
    centre = np.linalg.solve(precision, cross[..., None])[..., 0]
    residual = np.maximum(total[:, p, p] - np.einsum("ni,ni->n", cross, centre), 1e-300)
    shape = (prior.sd_rows + moments[:, 0, 0]) / 2
    variance = residual / 2 / rng.standard_gamma(shape)
    root = np.linalg.cholesky(precision)
    noise = rng.standard_normal((len(total), p, 1))
    away = np.linalg.solve(root.swapaxes(1, 2), noise)[..., 0]
    return centre + np.sqrt(variance)[:, None] * away, np.sqrt(variance)


def draw_normal(
    moments: np.ndarray, prior: Prior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a draw of the mean and a root of the covariance of all columns."""
    if isinstance(prior, NormalPrior):
        return draw_mean_and_covariance(moments, prior, rng)
    p = len(prior.precision)
    mean, root = draw_mean_and_covariance(moments[:, :p, :p], prior.features, rng)
    return joint_normal(mean, root, *draw_regression(moments, prior, rng))


def joint_normal(
    mean: np.ndarray, root: np.ndarray, coefficients: np.ndarray, sigma: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of (features, target) and a root of their covariance."""
    chains, d = mean.shape
    target = coefficients[:, 0] + np.einsum("ni,ni->n", coefficients[:, 1:], mean)
    joint = np.zeros((chains, d + 1, d + 1))
    joint[:, :d, :d] = root
    joint[:, d, :d] = np.einsum("ni,nij->nj", coefficients[:, 1:], root)
    joint[:, d, d] = sigma
    return np.concatenate([mean, target[:, None]], axis=1), joint


def log_normal_prior(mean: np.ndarray, covariance: np.ndarray, prior: NormalPrior) -> np.ndarray:
    """Return the prior log density of a mean and a covariance, up to a constant."""
    rows, d = prior.moments[0, 0], prior.columns
    centre = prior.moments[0, 1:] / rows
    spread = prior.moments[1:, 1:] - rows * np.outer(centre, centre)
    inverse = np.linalg.inv(covariance)
    away = mean - centre
    distance = np.einsum("...i,...ij,...j->...", away, inverse, away)
    trace = np.einsum("...ij,ji->...", inverse, spread)
    _, log = np.linalg.slogdet(covariance)
    return -0.5 * ((prior.degrees + d + 2) * log + rows * distance + trace)


def log_regression_prior(
    coefficients: np.ndarray, sigma: np.ndarray, prior: RegressionPrior
) -> np.ndarray:
    """Return the prior log density of coefficients and residual sd, up to a constant."""
    p = len(prior.precision)
    square = np.einsum("...i,ij,...j->...", coefficients, prior.precision, coefficients)
    scaled = (square + prior.sd_rows * prior.sd**2) / sigma**2
    return -(prior.sd_rows + p + 1) * np.log(sigma) - 0.5 * scaled
