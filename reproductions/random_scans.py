"""Gibbs scans of a random subset of units: what they cost, corrected.

Foulds et al. (2016, section 4.1) let a scan that updates Q of N latent variables cost Q / N as
much. Where these are public, that holds for delta and not for epsilon: the coordinates that changed
are there to be seen, and whoever sees that his own did knows as much as after a full scan
(`random_scan_delta`). Where they are private and a subset alone is counted, subsampling does
amplify (`subset_epsilon`); but to weigh as much, units must count 1 / share times, which takes that
back (all of it under add_remove, or with a share of at most a half). The wall has no such scans:
`PrivateGibbs(scan="random")` draws blocks at random.
"""

from __future__ import annotations

import math

from tacit.accounting.bounded_range import optimal_delta
from tacit.accounting.gaussian import check_positive
from tacit.spec.errors import BudgetError
from tacit.spec.schema import Neighbours


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


def subset_epsilon(epsilon: float, share: float, neighbours: Neighbours) -> float:
    """Epsilon of an update that counts each unit with probability `share`, and no others.

    Let A, B and B' be the laws without a unit, with it, and with another in its place. Under
    add_remove (1-q) A + q B is compared with A, and B <= e^epsilon A. Under replace_one it is
    compared with (1-q) A + q B'; a unit more or less costs half of what another one does, so that
    B <= e^(epsilon / 2) A and A <= e^(epsilon / 2) B': with B = e^(epsilon / 2) A and so on the
    ratio is largest.

    Parameters
    ----------
    epsilon
        Of an update that counts all units.
    share
        How likely it is that a given unit is counted.
    neighbours
        `"replace_one"` or `"add_remove"`.

    Examples
    --------
    >>> round(subset_epsilon(1.0, 0.1, "add_remove"), 3)
    0.159
    >>> subset_epsilon(1.0 / 0.1, 0.1, "add_remove") > 1  # each unit counts ten times
    True
    """
    check_positive("epsilon", epsilon)
    if not 0 < share <= 1:
        raise BudgetError(f"Expected 0 < share={share} <= 1.")
    if neighbours == "add_remove":
        return math.log1p(share * math.expm1(epsilon))
    if neighbours != "replace_one":
        raise BudgetError(f'Expected neighbours={neighbours!r} "replace_one" or "add_remove".')
    more, less = (math.log1p(share * math.expm1(half)) for half in (epsilon / 2, -epsilon / 2))
    return more - less
