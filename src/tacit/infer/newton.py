"""From noisy gradients and Hessians to a posterior: a noise-aware Newton method.

Near a point `at`, the gradient s(theta) of the log-likelihood is about s(at) - H (theta - at), and
at the true parameters it is a normal draw of variance H. So a gradient released there with noise of
variance w has the law N(H (truth - at), H + w). The estimate that solves

    s(theta) = ridge * theta

has the error (H + ridge)^-1 (noise + ridge * truth), whatever the ridge, and the draws here have
the law of this error. With the best ridge in each direction it is the posterior's; one ridge for
all directions needs no more than the gradients, which follow the true Hessian where the noisy one
is not known. The draws take the shrunk eigenvalues of the Hessian as exact and the gradient as
linear; docs/logistic-regression.md measures where the intervals then cover and where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.spec.sampling import Sampling

_RIDGES = np.geomspace(1e-4, 1e5, 120)
_PRIOR_WEIGHT = 2.0  # of the prior in the estimated variance, in coefficients
_EDGE = 0.35  # damping of a step, as a share of the largest eigenvalue of the noise alone
_SIGNAL, _LEAST = 1.5, 0.4  # intermediate steps: curvature / noise that needs less damping, to 0.4
_LONGEST = 8.0  # norm of one step: no row's log odds change by more


@dataclass(frozen=True)
class NoisyGradient:
    """A gradient of the log-likelihood that was released at `at`, and the variance of its noise.

    The covariance of the noise is variance * I + along along'.
    """

    at: np.ndarray
    value: np.ndarray
    variance: float
    along: np.ndarray | None = None

    def noise(self, axes: np.ndarray) -> tuple[float, np.ndarray]:
        """Return `variance`, and `along` in the coordinates of these axes (zeros if None)."""
        along = np.zeros(len(axes)) if self.along is None else axes.T @ self.along
        return self.variance, along

    @classmethod
    def mean(cls, gradients: Sequence[NoisyGradient], shared: float) -> NoisyGradient:
        """Return the mean of gradients at nearby points, weighted by precision.

        All of them contain one noise of variance `shared`; the rest is independent. Their `along`
        is ignored.
        """
        weights = np.array([1 / (each.variance - shared + 1e-300) for each in gradients])
        variance = shared + 1 / float(weights.sum())
        weights /= weights.sum()
        at = np.tensordot(weights, np.array([each.at for each in gradients]), axes=1)
        value = np.tensordot(weights, np.array([each.value for each in gradients]), axes=1)
        return cls(at, value, variance)


@dataclass(frozen=True)
class Curvature:
    """A negative Hessian of the log-likelihood, released with symmetric normal noise.

    The noise has standard deviation `sd` on the diagonal and sd / sqrt(2) off it. It spreads the
    eigenvalues; `shrunk` undoes this.
    """

    matrix: np.ndarray
    sd: float

    @classmethod
    def mean(cls, curvatures: Sequence[Curvature]) -> Curvature:
        """Return the mean of several released matrices, weighted by precision."""
        weights = np.array([each.sd**-2.0 for each in curvatures])
        matrices = np.array([each.matrix for each in curvatures])
        matrix = np.tensordot(weights / weights.sum(), matrices, axes=1)
        return cls(matrix, float(weights.sum() ** -0.5))

    @cached_property
    def eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues and eigenvectors of the noisy matrix."""
        return np.linalg.eigh(self.matrix)

    @cached_property
    def shrunk(self) -> np.ndarray:
        """The estimated curvature v' H v along each noisy eigenvector v (Bun et al. 2016)."""
        values, _ = self.eigen
        gap = values[:, None] - values[None, :]
        repulsion = self.sd**2 * (gap / (gap**2 + self.sd**2)).sum(axis=1)
        return np.maximum(values - repulsion, 0.1 * self.sd)

    def step(
        self, gradient: NoisyGradient, ridge: float, *, intermediate: bool = False
    ) -> np.ndarray:
        """Return the end of a damped Newton step.

        Damping, less in intermediate steps whose noise averages out, keeps s = ridge theta fixed.
        """
        values, vectors = self.eigen
        damping = _EDGE * np.sqrt(2 * len(values)) * self.sd
        if intermediate:
            damping *= np.clip(_SIGNAL * self.sd / self.shrunk.mean(), _LEAST, 1.0)
        away = vectors.T @ (gradient.value - ridge * gradient.at)
        away /= np.maximum(values, 0.0) + damping + ridge
        return gradient.at + vectors @ away


def best_ridge(curvature: Curvature, variance: float | np.ndarray, spread: float) -> float:
    """Return the ridge with the least expected error of predictions.

    Coefficients are N(0, spread^2). `variance` of the gradient's noise is one number, or one for
    each eigenvector of the curvature.
    """
    h, noise = curvature.shrunk[:, None], np.reshape(variance, (-1, 1))
    risk = (h * (h + noise + (_RIDGES * spread) ** 2) / (h + _RIDGES) ** 2).sum(axis=0)
    return float(_RIDGES[risk.argmin()])


def estimate_spread(
    theta: np.ndarray,
    curvature: Curvature,
    variance: float | np.ndarray,
    ridge: float,
    prior: float,
) -> tuple[float, float]:
    """Return the coefficients' estimated standard deviation, and its degrees of freedom.

    `theta` is the ridge estimate; `variance` of the gradient's noise is one number, or one for each
    eigenvector of the curvature.
    """
    h = curvature.shrunk
    kept = float(((h / (h + ridge)) ** 2).sum())
    noise = float(((h + variance) / (h + ridge) ** 2).sum())
    signal = max(float(theta @ theta) - noise, 0.0)
    weight = _PRIOR_WEIGHT + kept
    return float(np.sqrt((_PRIOR_WEIGHT * prior**2 + signal) / weight)), weight


def next_iterate(
    gradient: NoisyGradient, curvature: Curvature, ridge: float, *, intermediate: bool = True
) -> np.ndarray:
    """Return the end of a damped Newton step of norm 8 at most."""
    away = curvature.step(gradient, ridge, intermediate=intermediate) - gradient.at
    length = float(np.linalg.norm(away))
    return gradient.at + away * min(1.0, _LONGEST / max(length, 1e-300))


def draw(
    gradient: NoisyGradient,
    curvature: Curvature,
    ridge: float,
    prior: float,
    sampling: Sampling,
) -> np.ndarray:
    """Return draws (chain, draw, parameter) of the posterior given the last gradient.

    For plug-in draws the gradient's noise counts as zero.
    """
    rng, count = np.random.default_rng(sampling.seed), sampling.chains * sampling.draws
    centre = curvature.step(gradient, ridge)
    _, axes = curvature.eigen
    aware = sampling.noise == "aware"
    variance, along = gradient.noise(axes) if aware else (0.0, np.zeros(len(centre)))
    spread, weight = estimate_spread(centre, curvature, variance + along**2, ridge, prior)
    spreads = spread * np.sqrt(weight / rng.chisquare(weight, count))
    h = curvature.shrunk
    sd = np.sqrt(h + variance + (ridge * spreads[:, None]) ** 2)
    errors = sd * rng.standard_normal(sd.shape) + rng.standard_normal((count, 1)) * along
    theta = centre + errors / (h + ridge) @ axes.T
    return theta.reshape(sampling.chains, sampling.draws, -1)


def eigen_floored(
    matrix: np.ndarray, sd: float, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of a posterior precision, and the data's share of each.

    `matrix` is the data's information with noise of this sd in each entry, `prior` the prior's
    precision. Eigenvalues of `matrix` are floored at the noise edge sd * sqrt(2 size): the true
    ones may be as large, and steps scaled by underestimates are too long.
    """
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, sd * (2 * len(values)) ** 0.5)
    total, both = np.linalg.eigh(vectors * values @ vectors.T + prior)
    share = np.einsum("ji,ji->i", both, vectors * values @ (vectors.T @ both))
    return total, both, share


def curvature_of(gradient: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Return the negative Hessian of a log density, by differences of its gradient.

    Negative eigenvalues are set to 0.
    """
    step = 0.01
    differences = np.array(
        [gradient(at - step * one) - gradient(at + step * one) for one in np.eye(at.size)]
    )
    values, vectors = np.linalg.eigh((differences + differences.T) / (4 * step))
    return vectors * np.maximum(values, 0.0) @ vectors.T
