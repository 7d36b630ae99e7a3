"""Gibbs scans whose latent variables own their records: what a random scan costs, corrected.

Foulds et al. (2016, section 4.1) let a scan that updates Q of N latent variables cost Q / N as
much. That holds for delta and not for epsilon: the coordinates that changed are there to be seen,
and whoever sees that his own did knows as much as after a full scan. The wall has no such scans.
"""

from __future__ import annotations

from tacit.accounting.bounded_range import optimal_delta
from tacit.accounting.gaussian import check_positive
from tacit.spec.errors import BudgetError


def random_scan_delta(epsilon: float, share: float, total: float) -> float:
    """delta at `total` of a scan that updates each latent variable with probability `share`.

    Parameters
    ----------
    epsilon
        Of one update, the range of its exponential mechanism.
    share
        Q / N: how likely it is that a given variable is updated.
    total
        The epsilon at which delta is read off. From `epsilon` on delta is 0, below it is not.

    Examples
    --------
    >>> random_scan_delta(1.946, 0.01, 1.946)
    0.0
    >>> 0.003 < random_scan_delta(1.946, 0.01, 0.039) < 0.01
    True
    """
    check_positive("epsilon", epsilon)
    if not 0 < share <= 1:
        raise BudgetError(f"Expected 0 < share={share} <= 1.")
    if total >= epsilon:
        return 0.0
    # A mixture with a law that does not depend on the record.
    return share * optimal_delta(epsilon, 1, max(total, 0.0))
