"""The papers' accountants: Renyi divergences of the dominating pairs, and strong composition.

Looser than the privacy loss distribution. Kept to compare with, and because Renyi divergences know
that the exponential mechanism is (epsilon^2 / 8)-zCDP.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from tacit.accounting.gaussian import gaussian_epsilon
from tacit.accounting.pairs import Composition, Exchange, Mixtures, Pair, Pure, Ranged
from tacit.accounting.pld import Array, log_densities

WHOLE_ORDERS = tuple(float(order) for order in range(2, 257))
ORDERS = tuple(
    sorted(
        {1 + i / 40 for i in range(1, 40)}
        | {i / 10 for i in range(20, 120)}
        | set(WHOLE_ORDERS)
        | {float(2**i) for i in range(9, 15)}
    )
)
_MOST_POINTS = 2**14


def rdp_epsilon(composition: Composition, delta: float, *, classic: bool = False) -> float:
    """Epsilon at delta by way of Renyi divergences.

    `classic` takes whole orders up to 256 and the conversion of Mironov (2017), as the papers
    did; otherwise that of Canonne, Kamath and Steinke (2020, Proposition 12) is used.
    """
    orders = WHOLE_ORDERS if classic else ORDERS
    divergence = sum(count * renyi(pair, orders) for pair, count in composition)
    return convert(np.asarray(orders), np.asarray(divergence), delta, classic=classic)


def convert(orders: Array, divergence: Array, delta: float, *, classic: bool = False) -> float:
    """The smallest epsilon that any of the orders promises."""
    if classic:
        epsilon = divergence - math.log(delta) / (orders - 1)
    else:
        spread = (math.log(delta) + np.log(orders)) / (orders - 1)
        epsilon = divergence + np.log1p(-1 / orders) - spread
    return max(0.0, float(epsilon.min()))


@lru_cache(maxsize=256)
def renyi(pair: Pair, orders: tuple[float, ...]) -> Array:
    """Bounds on the Renyi divergence of P from Q at each order.

    A mixture is no further apart than its parts (joint quasi-convexity), which bounds the orders
    whose integrals would be too long.
    """
    a = np.asarray(orders)
    match pair:
        case Mixtures(mu=mu, p=p, q=q):
            apart = a * (2 * mu if p and q else mu) ** 2 / 2
            return apart if p == 1 else np.minimum(_by_quadrature(pair, a), apart)
        case Exchange(mu=mu, rate=rate):
            return np.minimum(_without_replacement(a, mu, rate), a * mu**2 / 2)
        case Pure(epsilon=epsilon):
            return _randomised_response(a, epsilon)
        case Ranged(epsilon=epsilon):
            return np.minimum(_randomised_response(a, epsilon), a * epsilon**2 / 8)


def _by_quadrature(pair: Mixtures, orders: Array) -> Array:
    """log of the integral of P^a Q^(1-a), by the trapezoid rule.

    It converges geometrically: the integrand is analytic up to pi / mu from the real line.
    """
    mu = abs(pair.mu)
    step = min(0.25, 0.5 / mu)
    # The integrand's bulk lies within (2a - 1) mu of zero.
    reach = np.ceil(((2 * orders - 1) * mu + 12) / step)
    half = int(reach[reach <= _MOST_POINTS].max(initial=0))
    log_p, log_q = log_densities(pair, step * np.arange(-half, half + 1))
    constant = math.log(step) - math.log(2 * math.pi) / 2
    result = np.full(len(orders), np.inf)
    for i in np.flatnonzero(reach <= half):
        a, inner = orders[i], slice(half - int(reach[i]), half + int(reach[i]) + 1)
        exponents = a * log_p[inner] + (1 - a) * log_q[inner]
        top = exponents.max()
        result[i] = (top + math.log(np.exp(exponents - top).sum()) + constant) / (a - 1)
    return np.maximum(result, 0.0)


def _without_replacement(orders: Array, mu: float, rate: float) -> Array:
    """Wang, Balle and Kasiviswanathan (2019), Theorem 9, for Gaussian noise; whole orders alone."""
    result = np.full(len(orders), np.inf)
    log_rate = math.log(rate)
    for i in np.flatnonzero((orders == np.round(orders)) & (orders >= 2)):
        a = orders[i]
        second = mu**2  # the divergence of order 2
        pairs = 2 * log_rate + math.log(a * (a - 1) / 2)
        log_expm1 = second + math.log(-math.expm1(-second))
        pairs += min(math.log(4) + log_expm1, math.log(2) + second)
        j = np.arange(3.0, a + 1)
        choose = gammaln(a + 1) - gammaln(j + 1) - gammaln(a - j + 1)
        rest = j * log_rate + choose + math.log(2) + (j - 1) * j * mu**2 / 2
        result[i] = logsumexp(np.concatenate([[0.0, pairs], rest])) / (a - 1)
    return result


def _randomised_response(orders: Array, epsilon: float) -> Array:
    log_more, log_less = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    sums = np.logaddexp(
        orders * log_more + (1 - orders) * log_less, orders * log_less + (1 - orders) * log_more
    )
    # Far more than the sum's terms can lose to each other, which counts for more near order 1.
    lost = 1e-15 / np.minimum(orders - 1, 1.0)
    return np.minimum(np.maximum(sums, 0.0) / (orders - 1) + lost, epsilon)


def advanced_composition(epsilon: float, count: int, slack: float) -> float:
    """Dwork, Rothblum and Vadhan (2010): `count` epsilon-private steps, but for `slack`."""
    if epsilon > 700:
        return math.inf
    return epsilon * math.sqrt(2 * count * -math.log(slack)) + count * epsilon * math.expm1(epsilon)


@lru_cache(maxsize=1024)
def strong_epsilon(mu: float, rate: float, steps: int, delta: float) -> float:
    """Gaussian steps of sensitivity `mu` standard deviations on batches of rate `rate`.

    A step that is (e, d)-private is (log(1 + q (exp(e) - 1)), q d)-private on a random batch
    (Balle, Barthe and Gaboardi 2018). Delta is divided between the steps and the composition in the
    best way; the smaller of strong and basic composition counts.
    """
    from scipy.optimize import minimize_scalar

    def composed(log_odds: float) -> float:
        share = 1 / (1 + math.exp(-log_odds))  # of delta, for the steps
        one = _amplified(mu, rate, share * delta / (steps * rate))
        return advanced_composition(one, steps, (1 - share) * delta)

    basic = steps * _amplified(mu, rate, delta / (steps * rate))
    best = minimize_scalar(composed, bounds=(-12.0, 12.0), method="bounded")
    return min(basic, float(best.fun))


def _amplified(mu: float, rate: float, delta: float) -> float:
    if delta >= 1:
        return 0.0  # a batch without the unit, with probability enough
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 700:
        return epsilon
    return math.log1p(rate * math.expm1(epsilon))
