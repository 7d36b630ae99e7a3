"""The posterior of regression coefficients given private draws of them.

The law of a draw given the rows' moments M is known up to its normaliser: normal within a ball.
The state of each of many short chains is a matrix of moments. New coefficients are proposed, and
moments simulated from them; the exchange move of Murray, Ghahramani and MacKay (2006) cancels the
normaliser by an auxiliary draw at the proposed moments. In between, the parameters are drawn given
the moments. These are more informative than the release, so that Gibbs steps alone mix slowly:
every parameter also has proposals with larger steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.infer.conjugate import (
    RegressionPrior,
    draw_mean_and_covariance,
    draw_regression,
    joint_normal,
    log_normal_prior,
    log_regression_prior,
)
from tacit.infer.from_draw import chain_draws
from tacit.infer.latent_sum import RowsSeen
from tacit.laws import ball_normal
from tacit.spec.draws import BallRegression, ConjugateDraw
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

_MOST_CHAINS, _BURN = 500, 400
_FEW = 60  # rows that are simulated one by one


@dataclass(frozen=True)
class DrawnCoefficients:
    """Draws (draw, coefficient) of the scaled coefficients, and their law given moments."""

    draws: np.ndarray
    law: BallRegression
    variance: float  # of a residual, times the temperature
    prior: float  # precision of the prior that was drawn with

    def law_at(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return precision times mean, and precision, of the normal law for each moment matrix."""
        p = len(self.law.features) + 1
        precision = moments[:, :p, :p] / self.variance + self.prior * np.eye(p)
        return moments[:, :p, p] / self.variance, precision

    def log(self, x: np.ndarray, precision_mean: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the unnormalised log density summed over points (matrix, draw, coefficient)."""
        quadratic = np.einsum("nki,nij,nkj->n", x, precision, x)
        return np.einsum("nki,ni->n", x, precision_mean) - 0.5 * quadratic

    def auxiliary(
        self, precision_mean: np.ndarray, precision: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return auxiliary draws (matrix, draw, coefficient), as many a matrix as were released."""
        times = len(self.draws)
        mean = np.linalg.solve(precision, precision_mean[..., None])[..., 0]
        drawn = ball_normal.sample(
            np.repeat(mean, times, axis=0),
            np.repeat(precision, times, axis=0),
            self.law.radius,
            lambda n: 1 - rng.random(n),
        )
        return drawn.reshape(len(precision_mean), times, -1)


def released_coefficients(release: Release) -> DrawnCoefficients:
    query, temperature = release.query, release.noise[0].scale
    assert isinstance(query, ConjugateDraw)
    law = query.law
    assert isinstance(law, BallRegression)
    kept = temperature if query.temper_prior else 1.0
    draws = law.radius * release.table("coef").value
    return DrawnCoefficients(draws, law, temperature * law.sd**2, 1 / (law.scale**2 * kept))


def matrices_from_draw(
    release: Release, prior: RegressionPrior, sampling: Sampling, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the moment matrix given released coefficients."""
    seen = released_coefficients(release)
    size = sampling.chains * sampling.draws
    chains = min(_MOST_CHAINS, size)
    rows = RowsSeen.behind_draw(release, (*seen.law.features, seen.law.target))
    n = rows.drawn(chains, rng)
    d = len(seen.law.features)
    centre, root = draw_mean_and_covariance(np.zeros((chains, d + 1, d + 1)), prior.features, rng)
    coefficients = seen.draws[rng.integers(len(seen.draws), size=chains)]
    state = simulated(n, centre, root, coefficients, np.full(chains, prior.sd), rng)
    _, precision = seen.law_at(state)
    shape = np.linalg.cholesky(np.linalg.inv(precision.mean(axis=0)))  # of all proposals

    def exchange(moments: np.ndarray) -> np.ndarray:
        """Return the moments of every chain after one exchange move."""
        centre, root = draw_mean_and_covariance(moments[:, :-1, :-1], prior.features, rng)
        coefficients, sigma = draw_regression(moments, prior, rng)
        here = seen.law_at(moments)
        scale = rng.choice([0.0, 0.3, 1.0, 2.0], size=(chains, 1)) / np.sqrt(d + 1)
        proposed = coefficients + scale * (rng.standard_normal(coefficients.shape) @ shape.T)
        log = -log_regression_prior(coefficients, sigma, prior)
        by = rng.choice([0.0, 0.0, 0.1, 0.7], size=chains) * rng.standard_normal(chains)
        sigma = sigma * np.exp(by)
        log += log_regression_prior(proposed, sigma, prior) + by
        centre, root, log_features = _other_features(centre, root, prior, rng)
        log += log_features
        n = np.where(rng.random(chains) < 0.5, moments[:, 0, 0], rows.drawn(chains, rng))
        others = simulated(n, centre, root, proposed, sigma, rng)
        there = seen.law_at(others)
        auxiliary = seen.auxiliary(*there, rng)
        observed = np.broadcast_to(seen.draws, auxiliary.shape)
        log += seen.log(observed, *there) - seen.log(observed, *here)
        log += seen.log(auxiliary, *here)
        log -= seen.log(auxiliary, *there)
        accepted = np.log(1 - rng.random(chains)) <= log
        return np.where(accepted[:, None, None], others, moments)

    return chain_draws(exchange, state, _BURN, size)


def _other_features(
    centre: np.ndarray, root: np.ndarray, prior: RegressionPrior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return feature means and covariance roots after a shift or a scaling, and log ratios."""
    chains, d = centre.shape
    scale = rng.choice([0.0, 0.0, 0.3, 1.5], size=(chains, 1)) / np.sqrt(d)
    by = scale * rng.standard_normal((chains, d))
    move = rng.random((chains, 1)) < 0.5
    covariance = root @ root.swapaxes(1, 2)
    sd = np.sqrt(np.einsum("nii->ni", covariance))
    moved = centre + np.where(move, by * sd, 0.0)
    stretch = np.where(move, 0.0, by)
    stretched = np.exp(stretch)[:, :, None] * root
    log = log_normal_prior(moved, stretched @ stretched.swapaxes(1, 2), prior.features)
    log -= log_normal_prior(centre, covariance, prior.features)
    return moved, stretched, log + (d + 1) * stretch.sum(axis=1)


def simulated(
    n: np.ndarray,
    centre: np.ndarray,
    root: np.ndarray,
    coefficients: np.ndarray,
    sigma: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return moments of n simulated rows of (1, features, target) for each set of parameters."""
    chains, d = centre.shape
    white = _white_moments(n, d + 1, rng)  # of n rows of (1, d + 1 standard normal numbers)
    # A row is a linear map of (1, z): (features, target) = mean + root z.
    linear = np.zeros((chains, d + 2, d + 2))
    linear[:, 0, 0] = 1
    linear[:, 1:, 0], linear[:, 1:, 1:] = joint_normal(centre, root, coefficients, sigma)
    return linear @ white @ linear.swapaxes(1, 2)


def _white_moments(n: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """Return moments of n rows of (1, z), z standard normal (Bartlett; row by row if few)."""
    chains = len(n)
    moments = np.zeros((chains, width + 1, width + 1))
    few = n <= max(_FEW, width + 1)
    if few.any():
        most = int(n[few].max())
        z = np.ones((int(few.sum()), most, width + 1))
        z[:, :, 1:] = rng.standard_normal((len(z), most, width))
        z *= (np.arange(most) < n[few, None])[:, :, None]
        moments[few] = z.swapaxes(1, 2) @ z
    many = ~few
    if many.any():
        rows = n[many]
        lower = np.tril(rng.standard_normal((len(rows), width, width)), -1)
        for j in range(width):
            lower[:, j, j] = np.sqrt(2 * rng.standard_gamma((rows - 1 - j) / 2))
        sums = np.sqrt(rows)[:, None] * rng.standard_normal((len(rows), width))
        block = lower @ lower.swapaxes(1, 2)
        block += sums[:, :, None] * sums[:, None, :] / rows[:, None, None]
        moments[many, 0, 0] = rows
        moments[many, 0, 1:] = moments[many, 1:, 0] = sums
        moments[many, 1:, 1:] = block
    return moments
