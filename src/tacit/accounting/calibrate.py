"""From a mechanism and a sensitivity to a noise law and its cost, for counts and bounded sums.

The wall derives the sensitivity of counts from what it enforces: relation and rows per unit are
inside it. Costs are rounded up, noise scales too.

The grid g of a block of sums is a power of two. The wall rounds a unit's contribution towards zero
onto it, so that its norm in multiples of g is at most C = floor(clip / g), and these integers are
what the noise is for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tacit.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tacit.spec.budget import Budget, round_up
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.plan import GEOMETRIES, Geometry
from tacit.spec.release import Noise
from tacit.spec.schema import Neighbours
from tacit.spec.sums import Bound

# Gaussian noise sits on a grid 2^28 to 2^29 times finer than its standard deviation.
GRID_BITS = 28
_LARGEST_EPSILON = 500.0  # beyond it the far tails of the proof would matter
# The largest multiple of the grid that one unit may contribute: it fits 32 bits, and its square 64.
LARGEST_INTEGER = 2**30


@dataclass(frozen=True)
class Sensitivity:
    """How far one protected unit can move the integers of `tables` tables, taken together.

    `unit_l2_squared` is the largest norm of what one unit puts into them.
    """

    l1: int
    l2_squared: int
    unit_l2_squared: int
    coordinates: int
    tables: int = 1

    @property
    def l2(self) -> float:
        return math.sqrt(self.l2_squared)


@dataclass(frozen=True)
class Calibration:
    """The noise law of each block, what they cost together, by which theorem, assuming what.

    `dominated_by` says more than the cost, for a ledger whose filter can use it: `gaussian` (mu)
    with `grid_loss`, or `bounded_range` (epsilon of a draw) with `draws`.
    """

    noise: tuple[Noise, ...]
    cost: Budget
    accountant: str
    assumptions: tuple[str, ...] = ()
    dominated_by: Mapping[str, float] = field(default_factory=dict)

    def recorded(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a release, for the ledger: with what dominates it, where that is known."""
        more = {"dominated_by": dict(self.dominated_by)} if self.dominated_by else {}
        return {**event, **more}


def calibrate(mechanism: Laplace | Gaussian, sensitivity: Sensitivity) -> Calibration:
    """The smallest noise on counts that keeps what the mechanism promises."""
    if isinstance(mechanism, Laplace):
        noise = Noise("discrete_laplace", laplace_scale(sensitivity.l1, mechanism.epsilon), 1.0)
        return pure(mechanism, (noise,) * sensitivity.tables)
    loss = discrete_loss(sensitivity.coordinates, 2.0**GRID_BITS)
    unit = math.sqrt(sensitivity.unit_l2_squared)
    relative = sensitivity.l2 / unit
    multiplier, cost = price(mechanism, relative, loss)
    noise = gaussian_noise(multiplier * unit, 1.0)  # counts lie on the grid
    return gaussian((noise,) * sensitivity.tables, cost, relative / multiplier, loss)


def pure(mechanism: Laplace, noise: tuple[Noise, ...]) -> Calibration:
    return Calibration(noise, Budget(mechanism.epsilon), "pure epsilon (discrete Laplace)")


def gaussian(noise: tuple[Noise, ...], cost: Budget, mu: float, loss: float) -> Calibration:
    """Gaussian noise with mu = sensitivity / sigma; `loss` is the bound of `discrete_loss`."""
    facts = {"gaussian": mu * (1 + 1e-12), "grid_loss": loss}  # more than floating point can lose
    return Calibration(noise, cost, "exact Gaussian profile", dominated_by=facts)


def price(mechanism: Gaussian, sensitivity: float, loss: float) -> tuple[float, Budget]:
    """The noise multiplier that a Gaussian release uses, and its cost.

    `sensitivity` is relative to one unit's norm, and `loss` the bound of `discrete_loss`.
    """
    if mechanism.delta is None:
        raise BudgetError("Expected Gaussian to name a delta, for example delta=1e-6.")
    target = float(mechanism.delta) * math.exp(-loss) * (1 - 1e-9)
    if mechanism.noise_multiplier is not None:
        multiplier = mechanism.noise_multiplier
        spent = gaussian_epsilon(sensitivity / multiplier, target) + 2 * loss
        if spent > _LARGEST_EPSILON:
            raise BudgetError(f"Expected a larger noise_multiplier than {multiplier}.")
        return multiplier, Budget(round_up(max(spent, 1e-9)), mechanism.delta)
    assert mechanism.epsilon is not None
    if not 4 * loss <= float(mechanism.epsilon) <= _LARGEST_EPSILON:
        raise BudgetError(
            f"Expected epsilon={mechanism.epsilon} between {4 * loss:.1g} and "
            f"{_LARGEST_EPSILON:g} for Gaussian noise on so many numbers."
        )
    mu = gaussian_mu(float(mechanism.epsilon) - 2 * loss, target)
    return sensitivity / mu, Budget(mechanism.epsilon, mechanism.delta)


def gaussian_noise(sigma: float, coarsest: float = math.inf, finest: float = 0.0) -> Noise:
    """A Gaussian law with at least this sigma: a multiple of the grid, 2^28 of it if possible."""
    grid = min(max(2.0 ** (math.floor(math.log2(sigma)) - GRID_BITS), finest), coarsest)
    integer = math.ceil(sigma / grid * (1 + 1e-12))  # absorbs the rounding before
    check_scale(integer)
    return Noise("discrete_gaussian", integer * grid, grid)


def laplace_scale(l1: int, epsilon: Decimal) -> float:
    """The smallest float b with l1 / b <= epsilon, exactly."""  # proof: laplace
    exact = Fraction(l1) / Fraction(epsilon)
    scale = float(exact)
    check_scale(scale)
    while Fraction(scale) < exact:
        scale = math.nextafter(scale, math.inf)
    return scale


def discrete_loss(coordinates: int, sigma_over_grid: float) -> float:
    """How far, in log probability, discrete noise is from rounded continuous noise.

    At most 201 / s^2 for each coordinate within forty standard deviations, s = sigma / grid.
    """  # proof: gaussian-discrete
    return 201 * coordinates / sigma_over_grid**2


def check_scale(scale: float) -> None:
    # Discrete noise beyond 2^61, forty scales or more, would leave 64-bit integers.
    if scale > 2.0**55:
        raise BudgetError(f"Expected less noise than a scale of {scale:.3g}: spend more.")


def sensitivity_factor(geometry: Geometry, neighbours: Neighbours) -> float:
    """L2 sensitivity of a sum divided by the norm bound on one unit's contribution.

    Parameters
    ----------
    geometry
        Where contributions lie: `"free"` (any direction), `"nonnegative"`, `"simplex"`, `"outer"`
        (sums of outer products), or `"box"` ([0, b] in each coordinate, the norm bound being that
        of its far corner).
    neighbours
        `"replace_one"` or `"add_remove"`.

    Examples
    --------
    >>> sensitivity_factor("free", "replace_one"), sensitivity_factor("box", "replace_one")
    (2.0, 1.0)
    """  # proof: sums-geometry
    match neighbours, geometry:
        case "add_remove", "free" | "nonnegative" | "simplex" | "outer" | "box":
            return 1.0
        case "replace_one", "free":
            return 2.0
        case "replace_one", "nonnegative" | "simplex" | "outer":
            return math.sqrt(2)  # |u - v|^2 = |u|^2 + |v|^2 - 2<u, v>, and <u, v> >= 0
        case "replace_one", "box":
            return 1.0  # no coordinate moves by more than b
    if geometry not in GEOMETRIES:
        raise BudgetError(f"Expected geometry={geometry!r} among {', '.join(GEOMETRIES)}.")
    raise BudgetError(
        'Expected neighbours="replace_one" (the number of units is public) or '
        f'neighbours="add_remove" (it is not), got {neighbours!r}.'
    )


def calibrate_sum(
    mechanism: Laplace | Gaussian, bounds: Sequence[Bound], neighbours: Neighbours
) -> Calibration:
    """Noise for all blocks of one release, and the cost of all of them together."""
    if isinstance(mechanism, Laplace):
        return pure(mechanism, laplace_noise(mechanism, bounds, neighbours))
    # proof: sums-jointly. Blocks scaled by their noise: squares of their sensitivities average.
    squares = [sensitivity_factor(b.geometry, neighbours) ** 2 for b in bounds]
    together = math.sqrt(sum(squares) / len(squares)) * (1 + 1e-15)
    numbers = sum(bound.numbers for bound in bounds)
    free_of_loss, _ = price(mechanism, together, 0.0)
    loss = discrete_loss(numbers, least_sigma_over_grid(free_of_loss))
    multiplier, cost = price(mechanism, together, loss)
    noise = multiplied_noise(multiplier, bounds)
    return gaussian(noise, cost, together / multiplier, loss)


def step_noise(
    multiplier: float, bounds: Sequence[Bound], paid: Geometry, sampled: bool, by: Neighbours
) -> tuple[Noise, ...]:
    """Gaussian noise of a step paid for with a geometry, less for blocks of a narrower one."""
    shares = [1.0] * len(bounds)
    if by == "replace_one" and not sampled:  # proof: sums-narrower
        most = sensitivity_factor(paid, by)
        factors = (sensitivity_factor(bound.geometry, by) / most for bound in bounds)
        shares = [max(factor, 1 / math.sqrt(len(bounds))) for factor in factors]
    return multiplied_noise(multiplier, bounds, shares)


def multiplied_noise(
    multiplier: float, bounds: Sequence[Bound], shares: Sequence[float] | None = None
) -> tuple[Noise, ...]:
    """Gaussian noise of `multiplier` for the blocks taken as one vector of unit norm.

    A block has so large a share of it as `shares` says: all of it by default.
    """
    root = math.sqrt(len(bounds))  # k blocks of norm 1 are a vector of norm sqrt(k)
    laws = []
    for bound, share in zip(bounds, shares or [1.0] * len(bounds), strict=True):
        sigma = multiplier * bound.unit_norm * root * share
        law = gaussian_noise(sigma, finest=_finest(bound))
        if bound_units(bound, law.grid) < 1:
            raise BudgetError(
                f"Expected less noise than {multiplier:.3g} times the norm of a unit: "
                "its contribution would vanish in the grid."
            )
        laws.append(law)
    return tuple(laws)


def least_sigma_over_grid(multiplier: float) -> float:
    """A lower bound on sigma / grid, for the grid that `multiplied_noise` picks."""
    # Either sigma / grid is 2^28 or more, or the grid has just clip / grid > LARGEST_INTEGER / 2.
    return min(2.0**GRID_BITS, multiplier * LARGEST_INTEGER / 2)


def laplace_noise(
    mechanism: Laplace, bounds: Sequence[Bound], neighbours: Neighbours
) -> tuple[Noise, ...]:
    """Laplace noise with an equal share of epsilon for each block."""
    laws = []
    for bound in bounds:
        grid = _finest(bound)
        l1 = _l1_sensitivity(bound, grid, neighbours)
        exact = Fraction(l1) * len(bounds) / Fraction(mechanism.epsilon)
        check_scale(float(exact))
        scale = float(math.ceil(exact))
        while scale < exact:
            scale = math.nextafter(scale, math.inf)
        laws.append(Noise("discrete_laplace", scale * grid, grid))
    return tuple(laws)


def exact_noise(bounds: Sequence[Bound]) -> tuple[Noise, ...]:
    """No noise, on the finest grid."""
    return tuple(Noise("none", 0.0, _finest(bound)) for bound in bounds)


def _finest(bound: Bound) -> float:
    return 2.0 ** math.ceil(math.log2(bound.clip / LARGEST_INTEGER))


def grid_units(clip: float, grid: float) -> int:
    """The bound in multiples of the grid: exact, since the grid is a power of two."""
    return math.floor(clip / grid)


def bound_units(bound: Bound, grid: float) -> int:
    """The largest norm of a contribution that the wall adds, in multiples of the grid."""
    units = grid_units(bound.clip, grid)
    if bound.geometry != "outer":
        return units
    # proof: sums-outer. Room for what rounding does to products of two units' vectors.
    return units - 2 * (math.isqrt(bound.numbers - 1) + 1) - 1


def _l1_sensitivity(bound: Bound, grid: float, neighbours: Neighbours) -> int:
    """How far one unit can move a block in L1, in multiples of the grid."""  # proof: sums-l1
    clip, numbers = grid_units(bound.clip, grid), bound.numbers
    if bound.geometry == "box":
        return clip * numbers  # two points of a box are no further apart than its corners
    one = clip if bound.norm == "l1" else min(clip * (math.isqrt(numbers - 1) + 1), clip * numbers)
    return one if neighbours == "add_remove" else 2 * one
