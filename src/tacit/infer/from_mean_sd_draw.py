"""The posterior of a normal mean and standard deviation given private draws of both.

The law of a draw given the moments (n, sum, squares) of the rows is normal in the mean for each
standard deviation, so that its normaliser is a sum over standard deviations alone. Each of many
short chains has moments as its state: parameters are drawn given these, changed, and other moments
are simulated from them and accepted or not. The points of a draw's mean are taken as a line, which
they are unless n / temperature exceeds some 10^5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tacit.infer.conjugate import NormalPrior, draw_mean_and_covariance, log_normal_prior
from tacit.infer.from_draw import chain_draws
from tacit.infer.latent_sum import RowsSeen
from tacit.laws import bounded_normals
from tacit.laws.truncated_normal import log_mass
from tacit.spec.draws import BoundedMeanSd, ConjugateDraw, scaled_ends
from tacit.spec.moments import scale_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

_MOST_CHAINS, _BURN = 200, 150
_FEWEST_SDS = 2**6  # steps of the sum over standard deviations


@dataclass(frozen=True)
class DrawnMeanSd:
    """Draws of mean and standard deviation on the scale of -1 to 1, and their law given moments."""

    means: np.ndarray
    sds: np.ndarray
    ends: tuple[tuple[float, float], tuple[float, float]]
    prior: tuple[float, float, float, float]  # (mean, rows, sd, rows), scaled
    temperature: float
    prior_temperature: float

    @classmethod
    def of(cls, release: Release) -> DrawnMeanSd:
        query, temperature = release.query, release.noise[0].scale
        assert isinstance(query, ConjugateDraw)
        law = query.law
        assert isinstance(law, BoundedMeanSd)
        middle, half = scale_of(release.schema[law.column])
        (low, high), (least, most) = ends = scaled_ends(law, release.schema)
        mean, mean_rows, sd, sd_rows = law.prior
        return cls(
            low + (high - low) * release.table("mean").value,
            least * (most / least) ** release.table("sd").value,
            ends,
            ((mean - middle) / half, mean_rows, sd / half, sd_rows),
            temperature,
            temperature if query.temper_prior else 1.0,
        )

    def log(self, moments: np.ndarray) -> np.ndarray:
        """Return log p(draws | moments) for moments (state, 3) of (1, u, u^2), up to a constant."""
        scaled = moments / self.temperature
        at, precision = np.log(self.sds), 1 / self.sds**2
        each = np.stack([-at - self.means**2 * precision / 2, self.means * precision,
                         -precision / 2])  # fmt: skip
        return scaled @ each.sum(axis=1) - len(self.means) * self._log_normaliser(scaled)

    def _log_normaliser(self, scaled: np.ndarray) -> np.ndarray:
        mean, mean_rows, sd, sd_rows = self.prior
        mean_rows, sd_rows = mean_rows / self.prior_temperature, sd_rows / self.prior_temperature
        n, total, squares = scaled.T[..., None]
        # As fine as the narrowest law needs.
        (_, (least, most)), finest = self.ends, bounded_normals.SDS
        steps = _FEWEST_SDS
        while steps < finest and np.log(most / least) / steps > 0.4 / np.sqrt(n.max() + 1):
            steps *= 2
        log_sd = np.linspace(np.log(least), np.log(most), steps + 1)
        rows = n + mean_rows
        centre = (total + mean_rows * mean) / rows
        rest = squares + mean_rows * mean**2 + sd_rows * sd**2 - rows * centre**2
        # A density of the logarithm of sd, and the width of the mean's law.
        log = (2 - 2 / self.prior_temperature - n - sd_rows) * log_sd
        log = log - 0.5 * np.maximum(rest, 0.0) * np.exp(-2 * log_sd) - 0.5 * np.log(rows)
        log = log + log_mass(centre, np.exp(log_sd) / np.sqrt(rows), *self.ends[0])
        log[:, [0, -1]] -= np.log(2)
        return logsumexp(log, axis=1) - np.log(steps)


def moments_from_draw(
    release: Release, prior: NormalPrior, sampling: Sampling, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the moments' matrix, shape (draw, 2, 2), given a released mean and sd."""
    seen = DrawnMeanSd.of(release)
    size = sampling.chains * sampling.draws
    chains = min(_MOST_CHAINS, size)
    rows = RowsSeen.behind_draw(release, (release.query.law.column,))  # type: ignore[union-attr]
    first = rng.integers(len(seen.means), size=chains)
    state = simulated(rows.drawn(chains, rng), seen.means[first], seen.sds[first], rng)

    def step(moments: np.ndarray) -> np.ndarray:
        """Return the moments of every chain after one move."""
        centre, root = draw_mean_and_covariance(moments, prior, rng)
        mean, sd = centre[:, 0], root[:, 0, 0]
        n = moments[:, 0, 0]
        # Steps in standard deviations of a draw, some small and some large.
        width = np.sqrt((1 + seen.temperature) / (n + seen.temperature))
        scale = width * rng.choice([0.0, 0.3, 1.0, 3.0], size=chains)
        other_mean = mean + scale * sd * rng.standard_normal(chains)
        by = width * rng.choice([0.0, 0.2, 0.7, 2.0], size=chains) * rng.standard_normal(chains)
        # The mean's step is in units of sd, which it leaves alone: one of the two at a time.
        which = rng.random(chains) < 0.5
        other_mean, by = np.where(which, other_mean, mean), np.where(which, 0.0, by)
        other_sd = sd * np.exp(by)
        others = np.where(rng.random(chains) < 0.5, n, rows.drawn(chains, rng))
        log = _log_prior(other_mean, other_sd, prior) - _log_prior(mean, sd, prior)
        proposed = simulated(others, other_mean, other_sd, rng)
        log += seen.log(_vector(proposed)) - seen.log(_vector(moments))
        accepted = np.log(1 - rng.random(chains)) <= log
        return np.where(accepted[:, None, None], proposed, moments)

    return chain_draws(step, state, _BURN, size)


def simulated(
    n: np.ndarray, mean: np.ndarray, sd: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the moments of n rows for each mean and standard deviation, shape (state, 2, 2)."""
    centre = mean + sd * rng.standard_normal(len(n)) / np.sqrt(np.maximum(n, 1))
    spread = sd**2 * 2 * rng.standard_gamma(np.maximum(n - 1, 0) / 2)
    moments = np.empty((len(n), 2, 2))
    moments[:, 0, 0] = n
    moments[:, 0, 1] = moments[:, 1, 0] = n * centre
    moments[:, 1, 1] = n * centre**2 + spread
    return moments


def _vector(moments: np.ndarray) -> np.ndarray:
    return np.stack([moments[:, 0, 0], moments[:, 0, 1], moments[:, 1, 1]], axis=1)


def _log_prior(mean: np.ndarray, sd: np.ndarray, prior: NormalPrior) -> np.ndarray:
    """Return the log density of mean and log sd."""
    log = log_normal_prior(mean[:, None], sd[:, None, None] ** 2, prior)
    return np.asarray(log + 2 * np.log(sd))
