"""Untruncated posterior draws by Renyi divergence (Geumlek, Song and Chaudhuri 2017).

A comparison, not a mechanism: no draw of the wall is charged by it, and `tacit` does not import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from scipy.special import gammaln

from tacit.accounting.calibrate import sensitivity_factor
from tacit.accounting.gaussian import check_delta, check_positive
from tacit.accounting.pld import Array
from tacit.accounting.rdp import ORDERS, convert
from tacit.spec.schema import Neighbours


def dirichlet_draw_epsilon(
    prior: Sequence[float], delta: float, neighbours: Neighbours, scale: float = 1.0
) -> float:
    """Epsilon at delta of one draw from Dirichlet(prior + scale * counts), not truncated.

    Parameters
    ----------
    prior
        The concentration, one number for each level.
    delta
        Where epsilon is read off.
    neighbours
        `"replace_one"` or `"add_remove"`, of one row.
    scale
        By how much the counts are multiplied: 1 / temperature.

    Examples
    --------
    >>> round(dirichlet_draw_epsilon((10, 10), 1e-5, "replace_one", scale=0.1), 2)
    0.17
    """
    check_delta(delta)
    check_positive("scale", scale)
    sensitivity_factor("free", neighbours)  # refuses an unknown relation
    for number in prior:
        check_positive("prior", number)
    # Between 1 and where the divergence becomes infinite there is always an order.
    near = 1 + min(prior) / scale * np.linspace(0.001, 0.999, 400)
    orders = np.unique(np.concatenate([np.asarray(ORDERS), near]))
    return convert(orders, dirichlet_divergence(prior, neighbours, scale, orders), delta)


def dirichlet_divergence(
    prior: Sequence[float], neighbours: Neighbours, scale: float, orders: Array
) -> Array:
    """The largest Renyi divergence between neighbours, at each order.

    For an exponential family D_a = [A(a p + (1-a) q) - a A(p)] / (a-1) + A(q). A level that gains
    r adds `_gained`, one that loses r adds `_lost`, and the log-gamma of the total takes off as
    much as a level of that size. Both fall with the level's count, digamma being concave, and
    vanish as it grows: the worst counts are zero in the levels that move and without bound in
    another one.
    """
    with np.errstate(invalid="ignore"):
        gained = [_gained(a, scale, orders) for a in prior]
        lost = [_lost(a, scale, orders) for a in prior]
    if neighbours == "add_remove":
        return np.max([*gained, *lost], axis=0)
    pairs = permutations(range(len(prior)), 2)
    return np.max([gained[i] + lost[j] for i, j in pairs], axis=0)


def _gained(p: float, r: float, a: Array) -> Array:
    return (gammaln(p + a * r) - a * gammaln(p + r)) / (a - 1) + gammaln(p)


def _lost(p: float, r: float, a: Array) -> Array:
    inside = p + (1 - a) * r
    finite = (gammaln(np.abs(inside)) - a * gammaln(p)) / (a - 1) + gammaln(p + r)
    return np.where(inside > 0, finite, np.inf)
