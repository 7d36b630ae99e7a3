"""What one release or lease is dominated by: its Renyi divergence at an order, and its mu.

For ledgers with a filter (`filters.py`); the proofs are in PROOFS-FILTERS.md.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import log_expit, ndtri_exp

from tacit.accounting.gaussian import bisect, gaussian_delta
from tacit.accounting.pairs import (
    Composition,
    GaussianStep,
    Pair,
    Part,
    Pure,
    Ranged,
    compositions,
    is_shift,
    moved_by,
)
from tacit.accounting.pld import pld_epsilon, privacy_profile
from tacit.accounting.rdp import renyi
from tacit.spec.errors import BudgetError
from tacit.spec.schema import Neighbours

_LARGEST_EPSILON = 500.0
_ROUNDING = 1e-9  # relative; far more than the arithmetic here can lose
_TANGENT = 1e-4  # an epsilon up to which the tangent is right to 2e-10, and doubles from there on
_EACH = 1e-12  # absolute, for each step; more than a divergence by quadrature can lose
_POINTS = 1024  # at which the profile of a lease is compared with that of Gaussian noise
_TAILS = (1.0, 0.75, 0.5, 0.25, 0.05)  # powers of the leak: deltas at which profiles are exact


def pure_mu(epsilon: float) -> float:
    """mu of epsilon-private releases: randomised response is the hardest of them to bound."""
    # proof: filter-pure. The tangent at 0 is a bound, and not too small where doubles cancel.
    if epsilon < _TANGENT:
        return math.sqrt(math.pi / 2) * epsilon
    return -2 * float(ndtri_exp(log_expit(-epsilon)))


def ranged_mu(epsilon: float) -> float:
    """mu of a draw of bounded range epsilon: that of releases that are epsilon/2-private."""
    return pure_mu(epsilon / 2)  # proof: filter-range


def divergence(pair: Pair, order: float) -> float:
    """The divergence at an order; that at the next whole one, where it is known, bounds it."""
    return float(renyi(pair, (order, float(math.ceil(order)))).min())


@lru_cache(maxsize=256)
def divergence_of_parts(
    parts: tuple[Part, ...], neighbours: Neighbours, order: float, *losses: float
) -> float:
    """The divergence of all steps of a lease, in the worse direction."""
    sampled = any(isinstance(step, GaussianStep) and step.rate < 1 for step, _ in parts)
    # proof: filter-grid. Of steps that everyone takes part in, a grid loses nothing.
    more = math.fsum(losses) * (2 * order - 1) / (order - 1) if sampled else 0.0

    def total(composition: Composition) -> float:
        return math.fsum(n * (divergence(pair, order) + _EACH) for pair, n in composition)

    return more + min(max(map(total, sides)) for sides in compositions(parts, neighbours))


@lru_cache(maxsize=256)
def mu_squared_of_parts(
    parts: tuple[Part, ...], neighbours: Neighbours, leak: float
) -> tuple[float, bool]:
    """The sum of mu^2 of the steps of a lease, and whether that leaves out the delta `leak`."""
    closed, gaussian = 0.0, []
    for step, count in parts:
        match step:
            case Pure(epsilon=epsilon):
                closed += count * pure_mu(epsilon) ** 2
            case Ranged(epsilon=epsilon):
                closed += count * ranged_mu(epsilon) ** 2
            case GaussianStep():
                gaussian.append((step, count))
    # Not sampling at all leaks no less.
    whole = math.fsum(n * moved_by(step, neighbours) ** 2 for step, n in gaussian)
    found = [(closed + whole, False)]
    for sides in compositions(tuple(gaussian), neighbours):
        shifts = max(math.fsum(n * p.mu**2 for p, n in side if is_shift(p)) for side in sides)
        rest = tuple(tuple(item for item in side if not is_shift(item[0])) for side in sides)
        mu = dominating_mu(rest, leak) if any(rest) else 0.0
        found.append((closed + shifts + mu**2, any(map(bool, rest))))
    return min(found)


@lru_cache(maxsize=256)
def dominating_mu(sides: tuple[Composition, ...], leak: float) -> float:
    """The least mu for which Gaussian noise, with a leak, is no harder to tell than the steps.

    `sides` are the compositions in both directions. Their profile is at most leak + (1 - leak)
    times that of a Gaussian at every epsilon >= 0: between two points of a grid both fall, so the
    one is taken at the lower and the other at the upper point.
    """  # proof: filter-profile
    mu = 0.0
    for side in filter(None, sides):
        end = pld_epsilon(side, leak)
        if end > _LARGEST_EPSILON:
            raise BudgetError(f"Expected more noise or fewer steps: epsilon {end:.3g}.")
        # Each is a bound at every epsilon, and a good one near its own delta.
        curves = [privacy_profile(side, leak**part) for part in _TAILS]
        points = np.linspace(0.0, end, _POINTS)
        for low, high in pairwise(points):
            so_far = gaussian_delta(mu, high) * (1 - _ROUNDING) if mu else 0.0
            found = []
            for curve in curves:
                found.append((curve(low) - leak) / (1 - leak))
                if found[-1] <= so_far:
                    curves.sort(key=lambda other: other is not curve)  # the best at the next point
                    break
            else:
                mu = _mu_that_reaches(min(found) * (1 + 2 * _ROUNDING), high)
    return mu * (1 + _ROUNDING)


def _mu_that_reaches(delta: float, epsilon: float) -> float:
    """The least mu of Gaussian noise with at least this delta."""
    return bisect(lambda mu: gaussian_delta(mu, epsilon) >= delta, 1e-9, 1.0, 1e-10)
