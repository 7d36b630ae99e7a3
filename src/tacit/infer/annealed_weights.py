"""The weights of annealed runs, and their normalising constant, given log weights with noise.

The log of a mean of noisy weights is biased upwards, by half the noise's variance and more. Here
the log weights are unknown: normal among runs, with a mean and a standard deviation that are
unknown too, and observed with noise whose law is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

_GRID = 400
_WIDEST = 50.0  # standard deviations of log weights that are told apart


@dataclass(frozen=True)
class NoisyWeights:
    """Log weights of runs as a release has them: their mean, and how each differs from it.

    Both have Gaussian noise, of standard deviations `level_noise` and `spread_noise`.
    """

    level: float
    spread: np.ndarray
    level_noise: float
    spread_noise: float


def draw_weights(
    seen: NoisyWeights, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior draws of a run, chosen by its weight, and of the log normalising constant.

    Each draw has log weights of its own, given what was released, and the constant is the mean of
    their exponentials under random weights of the runs (the Bayesian bootstrap): other runs could
    have been drawn. With a single run the constant has no error but the noise.
    """
    runs = len(seen.spread)
    deviations = seen.spread - seen.spread.mean()
    widths = _draw_widths(deviations, seen.spread_noise, count, rng)
    kept = widths**2 / (widths**2 + seen.spread_noise**2) if seen.spread_noise else widths**0
    error = widths * np.sqrt(1 - kept)
    logs = kept[:, None] * deviations + error[:, None] * rng.standard_normal((count, runs))
    chosen = softmax(logs, axis=1).cumsum(axis=1)
    run = (chosen < rng.random((count, 1))).sum(axis=1).clip(max=runs - 1)
    shares = rng.dirichlet(np.ones(runs), count)
    level = seen.level + seen.level_noise * rng.standard_normal(count)
    return run, level - logs.mean(axis=1) + logsumexp(logs, axis=1, b=shares)


def _draw_widths(
    deviations: np.ndarray, noise: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Posterior draws of the standard deviation of log weights among runs.

    Its prior is half-Cauchy with scale 1: weights that differ by a factor of e are no surprise.
    """
    freedom = len(deviations) - 1
    if freedom == 0:
        return np.zeros(count)
    largest = max(_WIDEST, 4 * float(np.std(deviations)))
    widths = np.geomspace(1e-3, largest, _GRID)
    variance = widths**2 + noise**2
    log = -0.5 * freedom * np.log(variance) - 0.5 * float(deviations @ deviations) / variance
    log += np.log(widths) - np.log1p(widths**2)  # the prior, on a grid of logarithms
    return rng.choice(widths, count, p=softmax(log))
