"""Strong composition, the accountant of the older papers: a baseline to compare with."""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.accounting.gaussian import gaussian_epsilon


def advanced_composition(epsilon: float, count: int, slack: float) -> float:
    """Dwork, Rothblum and Vadhan (2010): `count` epsilon-private steps, up to probability `slack`.

    Examples
    --------
    >>> round(advanced_composition(1.0, 400, 1e-5))
    783
    """
    if epsilon > 700:
        return math.inf
    return epsilon * math.sqrt(2 * count * -math.log(slack)) + count * epsilon * math.expm1(epsilon)


@lru_cache(maxsize=1024)
def strong_epsilon(mu: float, rate: float, steps: int, delta: float) -> float:
    """Gaussian steps of sensitivity `mu` standard deviations on batches of rate `rate`.

    A step that is (e, d)-private is (log(1 + q (exp(e) - 1)), q d)-private on a random batch
    (Balle, Barthe and Gaboardi 2018). Delta is divided between the steps and the composition in the
    best way; the smaller of strong and basic composition counts.

    Examples
    --------
    >>> round(strong_epsilon(0.25, 0.01, 1000, 1e-5), 2)
    3.45
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
