"""A success probability seen through noise: the paper's estimators and Tacit's, over many repeats.

"The paper" is Foulds, Geumlek, Welling and Chaudhuri, "On the theory and practice of
privacy-preserving Bayesian data analysis", UAI 2016. Neighbours replace one record and n is public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, logsumexp, psi

_DEPTH = 40.0  # weights e^-40 below the largest are left out
_PANELS = 50
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)  # in each panel
_FINEST = 10_000  # counts given a posterior draw are enumerated up to here, then in strides


def quadrature(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of an integral over [low, high]."""
    half = (high - low) / _PANELS / 2
    start = low + 2 * half * np.arange(_PANELS)
    return np.add.outer(start, half * (_NODES + 1)).ravel(), np.tile(half * _WEIGHTS, _PANELS)


def discrete_laplace(rng: np.random.Generator, scale: float, size: int) -> np.ndarray:
    """Whole numbers k with probability proportional to e^(-|k| / scale)."""
    stop = -np.expm1(-1 / scale)
    return rng.geometric(stop, size) - rng.geometric(stop, size)


def projected_counts(
    rng: np.random.Generator, successes: np.ndarray, n: int, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's release: both counts with sensitivity 2, put back at zero where negative."""
    noise = rng.laplace(scale=2 / epsilon, size=(2, len(successes)))
    return np.maximum(successes + noise[0], 0), np.maximum(n - successes + noise[1], 0)


def temperature(epsilon: float, truncation: float) -> float:
    """At which one draw from the posterior truncated to [a0, 1 - a0] costs epsilon."""
    return max(1.0, 2 * np.log((1 - truncation) / truncation) / epsilon)


def log_partition(alpha: np.ndarray, beta: np.ndarray, truncation: float) -> np.ndarray:
    """log of the integral of p^(alpha - 1) (1 - p)^(beta - 1) over [a0, 1 - a0]."""
    alpha, beta = np.atleast_1d(alpha), np.atleast_1d(beta)
    p, weight = quadrature(truncation, 1 - truncation)
    total = np.empty(len(alpha))
    for part in np.array_split(np.arange(len(alpha)), len(alpha) // 1000 + 1):
        log = np.multiply.outer(alpha[part] - 1, np.log(p))
        log += np.multiply.outer(beta[part] - 1, np.log1p(-p))
        total[part] = logsumexp(log, axis=1, b=weight)
    return total


def tempered_draw(
    rng: np.random.Generator, successes: np.ndarray, n: int, temperature: float, truncation: float
) -> np.ndarray:
    """One posterior sample each, uniform prior: tempered, truncated, by its inverse CDF."""
    alpha, beta = successes / temperature + 1, (n - successes) / temperature + 1
    low, high = betainc(alpha, beta, truncation), betaincc(alpha, beta, 1 - truncation)
    uniform = low + rng.random(len(alpha)) * (1 - high - low)
    drawn = np.where(
        uniform < 0.5, betaincinv(alpha, beta, uniform), betainccinv(alpha, beta, 1 - uniform)
    )
    return np.clip(drawn, truncation, 1 - truncation)


@dataclass(frozen=True)
class LatentCounts:
    """The law of the true count given each noisy one: p(s | y) ~ BetaBinomial(s) e^(-|y - s| / b).

    Windows are cut around y, so the prior should be weak beside the noise.
    """

    n: int
    prior: tuple[float, float]
    support: np.ndarray  # (count,)
    weight: np.ndarray  # (different y, count), rows sum to one
    row: np.ndarray  # of each repeat

    @classmethod
    def given(
        cls, seen: np.ndarray, n: int, scale: float, prior: tuple[float, float] = (1.0, 1.0)
    ) -> LatentCounts:
        different, row = np.unique(seen, return_inverse=True)
        reach = int(np.ceil(_DEPTH * scale))
        low = max(int(np.clip(different[0], 0, n)) - reach, 0)
        high = min(int(np.clip(different[-1], 0, n)) + reach, n)
        s = np.arange(low, high + 1, dtype=float)
        log = _log_beta_binomial(s, n, prior) - np.abs(different[:, None] - s) / scale
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        return cls(n, prior, s, weight / weight.sum(axis=1, keepdims=True), row)

    @property
    def posterior_mean(self) -> np.ndarray:
        """Of the probability, for each repeat."""
        a, b = self.prior
        return ((self.weight @ self.support + a) / (self.n + a + b))[self.row]

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """One draw of the probability for each repeat."""
        rows, width = self.weight.shape
        steps = (np.cumsum(self.weight, axis=1) + np.arange(rows)[:, None]).ravel()
        place = np.searchsorted(steps, self.row + rng.random(len(self.row))) - self.row * width
        s = self.support[np.clip(place, 0, width - 1)]
        return rng.beta(s + self.prior[0], self.n - s + self.prior[1])

    def log_density_given_count(self, p: np.ndarray) -> np.ndarray:
        """log Beta(p; s + a, n - s + b), shape (count, p)."""
        return log_beta(p, self.support + self.prior[0], self.n - self.support + self.prior[1])

    def density(self, p: np.ndarray) -> np.ndarray:
        """The posterior's density, shape (different y, p)."""
        return self.weight @ np.exp(self.log_density_given_count(p))


def mean_given_draw(
    draw: np.ndarray, n: int, temperature: float, truncation: float, *, finest: int = _FINEST
) -> np.ndarray:
    """E[p | the one released posterior sample], uniform prior: s is enumerated.

    Beyond `finest` counts are taken in strides, far narrower than what the draw says about s.
    """
    s = np.linspace(0, n, min(n, finest) + 1)
    weigh = np.ones(len(s))
    if n > finest:
        weigh[[0, -1]] = 0.5  # trapezium rule
    base = np.log(weigh) - log_partition(s / temperature + 1, (n - s) / temperature + 1, truncation)
    mean = np.empty(len(draw))
    for part in np.array_split(np.arange(len(draw)), len(draw) // 500 + 1):
        log = np.multiply.outer(np.log(draw[part]), s / temperature) + base
        log += np.multiply.outer(np.log1p(-draw[part]), (n - s) / temperature)
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        mean[part] = (weight @ s) / weight.sum(axis=1)
    return (mean + 1) / (n + 2)


def log_beta(p: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Log densities of Beta laws, shape (law, p)."""
    alpha, beta = np.atleast_1d(alpha)[:, None], np.atleast_1d(beta)[:, None]
    return (alpha - 1) * np.log(p) + (beta - 1) * np.log1p(-p) - betaln(alpha, beta)


def kl_beta(
    alpha: np.ndarray, beta: np.ndarray, other_alpha: np.ndarray, other_beta: np.ndarray
) -> np.ndarray:
    """KL(Beta(alpha, beta) || the other)."""
    up, down = alpha - other_alpha, beta - other_beta
    return (
        betaln(other_alpha, other_beta)
        - betaln(alpha, beta)
        + up * psi(alpha)
        + down * psi(beta)
        - (up + down) * psi(alpha + beta)
    )


def _log_beta_binomial(s: np.ndarray, n: int, prior: tuple[float, float]) -> np.ndarray:
    """Up to a constant."""
    a, b = prior
    return betaln(s + a, n - s + b) - betaln(s + 1, n - s + 1)
