"""How far one unit moves a sum, in units of the largest norm of its own contribution."""

from __future__ import annotations

import math

from tacit.spec.errors import BudgetError
from tacit.spec.plan import GEOMETRIES, Geometry
from tacit.spec.schema import Neighbours


def sensitivity_factor(geometry: Geometry, neighbours: Neighbours) -> float:
    """L2 sensitivity of a sum divided by the norm bound on one unit's contribution.

    Parameters
    ----------
    geometry
        Where contributions lie: `"free"` (any direction), `"nonnegative"`, `"simplex"`, or
        `"box"` ([0, b] in each coordinate, the norm bound being that of its far corner).
    neighbours
        `"replace_one"` or `"add_remove"`.

    Examples
    --------
    >>> sensitivity_factor("free", "replace_one"), sensitivity_factor("box", "replace_one")
    (2.0, 1.0)
    """  # proof: sums-geometry
    match neighbours, geometry:
        case "add_remove", "free" | "nonnegative" | "simplex" | "box":
            return 1.0
        case "replace_one", "free":
            return 2.0
        case "replace_one", "nonnegative" | "simplex":
            return math.sqrt(2)  # |u - v|^2 = |u|^2 + |v|^2 - 2<u, v>, and <u, v> >= 0
        case "replace_one", "box":
            return 1.0  # no coordinate moves by more than b
    if geometry not in GEOMETRIES:
        raise BudgetError(f"Expected geometry={geometry!r} among {', '.join(GEOMETRIES)}.")
    raise BudgetError(
        'Expected neighbours="replace_one" (the number of units is public) or '
        f'neighbours="add_remove" (it is not), got {neighbours!r}.'
    )
