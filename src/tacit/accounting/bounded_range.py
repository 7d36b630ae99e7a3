"""The exponential mechanism: what many of its draws cost together.

All log-probabilities move by amounts within a range of epsilon of each other, which is more than
epsilon-privacy says (Durfee and Rogers 2019; Dong, Durfee and Rogers 2020).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from tacit.accounting.gaussian import bisect, check_delta, check_positive
from tacit.spec.errors import BudgetError

_MOST_DRAWS = 1000  # of the exact formula, whose cost is their square


def exponential_epsilon(
    epsilon: float, count: int, delta: float, *, adaptive: bool = True
) -> float:
    """Epsilon at delta of `count` draws by the exponential mechanism.

    Parameters
    ----------
    epsilon
        Of one draw: the range within which its log-probabilities move.
    count
        How many draws.
    delta
        Where the total is read off.
    adaptive
        Whether a draw may depend on earlier ones, as in a Gibbs sampler. If so, the smaller of the
        plain sum and the bound by (epsilon^2 / 8)-zCDP; if not, the exact optimum.

    Examples
    --------
    >>> round(exponential_epsilon(1.0, 400, 1e-5)), round(exponential_epsilon(0.1, 400, 1e-5), 2)
    (96, 4.73)
    """
    check_positive("epsilon", epsilon)
    check_delta(delta)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BudgetError(f"Expected count={count!r} to be a whole number > 0.")
    if adaptive:
        return min(count * epsilon, zcdp_epsilon(count * epsilon**2 / 8, delta))
    if count > _MOST_DRAWS:
        raise BudgetError(f"Expected count={count} <= {_MOST_DRAWS}, or adaptive=True.")
    return _optimum(float(epsilon), count, float(delta))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at delta of rho-zCDP: divergence a rho at each order a, the best of them."""
    from scipy.optimize import minimize_scalar

    def at(log_more: float) -> float:
        more = math.exp(log_more)  # the order is 1 + more
        order = 1 + more
        return order * rho + math.log(more / order) - (math.log(delta) + math.log(order)) / more

    best = math.log(math.sqrt(-math.log(delta) / rho))  # of the classical conversion
    found = minimize_scalar(at, bounds=(best - 5, best + 5), method="bounded")
    return max(0.0, float(found.fun))


def optimal_delta(epsilon: float, count: int, total: float) -> float:
    """The largest delta(total) that `count` draws fixed in advance can have, exactly.

    In the worst case each draw has two outcomes with losses t and t - epsilon, the same t for all,
    and t is one of `count` + 1 candidates (Dong, Durfee and Rogers 2020, Theorem 2).
    """
    t = np.clip((total + np.arange(1, count + 2) * epsilon) / (count + 1), 0.0, epsilon)[:, None]
    i = np.arange(count + 1)[None, :]  # how many outcomes have the loss t - epsilon
    with np.errstate(divide="ignore", invalid="ignore"):
        # Under Q: p of the outcome with loss t, 1 - p of the other.
        log_p = -t + np.log(-np.expm1(t - epsilon)) - math.log(-math.expm1(-epsilon))
        log_other = np.log(-np.expm1(-t)) - math.log(-math.expm1(-epsilon))
        first = np.where(i == count, 0.0, (count - i) * log_p)
        second = np.where(i == 0, 0.0, i * log_other)
        loss = count * t - i * epsilon
        # P(outcome) (1 - e^(total - loss)), where positive
        gain = np.where(loss > total, -np.expm1(np.minimum(total - loss, 0.0)), 0.0)
        choose = gammaln(count + 1) - gammaln(i + 1) - gammaln(count - i + 1)
        terms = np.exp(choose + first + second + loss) * gain
    return float(terms.sum(axis=1).max())


@lru_cache(maxsize=256)
def _optimum(epsilon: float, count: int, delta: float) -> float:
    if optimal_delta(epsilon, count, 0.0) <= delta:
        return 0.0
    return bisect(lambda total: optimal_delta(epsilon, count, total) <= delta, 0.0, count * epsilon)
