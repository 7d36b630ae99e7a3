"""Draws from any posterior whose log-likelihood is bounded, on a bounded set of parameters.

A model gives the log-likelihood of one row as a kernel or a program. The wall clips the
range of a row's, and of a unit's, log-likelihood over the set to a `width`, and draws at the
temperature that this needs.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.spec.checks import distinct_columns, doubles, number, set_fields, whole_number
from tacit.spec.draws import MOST_DRAWS
from tacit.spec.errors import QueryError
from tacit.spec.kernels import Contribution, Kernel
from tacit.spec.programs import Program, leaves_of
from tacit.spec.sums import BoundedSum
from tacit.spec.wire import Record

if TYPE_CHECKING:
    from tacit.spec.release import Release

MOST_POINTS = 10**4
MOST_SIZE = 1000  # the chain needs a derivative for each parameter
MOST_STEPS = 10**6
Prior = float | Program | None


@dataclass(frozen=True, eq=False)
class Points(Record):
    """Finitely many points (point, parameter) and their log prior weights: exact draws."""

    theta: np.ndarray
    log_weights: np.ndarray

    def __init__(self, theta: Any, log_weights: Any = None) -> None:
        points = doubles(theta)
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2 or not 1 <= len(points) <= MOST_POINTS or not points.shape[1]:
            raise QueryError(f"Expected 1 to {MOST_POINTS} points, a row of parameters each.")
        weights = np.zeros(len(points)) if log_weights is None else doubles(log_weights)
        if weights.shape != (len(points),):
            raise QueryError(f"Expected {len(points)} log_weights, one for each point.")
        # Not (x > y): NaN is refused too.
        if not (np.isfinite(points).all() and np.all(np.abs(weights) <= 1e6)):
            raise QueryError("Expected finite points, and log_weights within 1e6.")
        set_fields(self, theta=points, log_weights=weights)

    @property
    def size(self) -> int:
        return self.theta.shape[1]

    def parameters(self, value: np.ndarray) -> np.ndarray:
        """Return the parameters of released points, given by their numbers."""
        return self.theta[value.astype(np.int64)]


@dataclass(frozen=True)
class Box(Record):
    """Every parameter between its bounds `low` and `high`."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        low, high = (tuple(np.atleast_1d(doubles(x)).tolist()) for x in vars(self).values())
        wide = all(1e-6 <= b - a <= 1e6 and abs(a) <= 1e6 for a, b in zip(low, high))
        if len(low) != len(high) or not 1 <= len(low) <= MOST_SIZE or not wide:
            raise QueryError(
                f"Expected low < high within 1e6, the same number of each; got {low}, {high}."
            )
        set_fields(self, low=low, high=high)

    @property
    def size(self) -> int:
        return len(self.low)

    @property
    def centre(self) -> np.ndarray:
        return (np.array(self.low) + np.array(self.high)) / 2

    def parameters(self, value: np.ndarray) -> np.ndarray:
        """Return parameters from released fractions of the distance from low to high."""
        low, high = np.array(self.low), np.array(self.high)
        return low + value * (high - low)


@dataclass(frozen=True)
class Ball(Record):
    """The parameter vectors whose norm is at most `radius`."""

    size: int
    radius: float

    def __post_init__(self) -> None:
        whole_number(self.size, "size", most=MOST_SIZE, error=QueryError)
        set_fields(self, radius=number(self.radius, "radius", 1e-6, 1e6))

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(self.size)

    def parameters(self, value: np.ndarray) -> np.ndarray:
        """Return parameters from released multiples of the radius."""
        return value * self.radius


Region = Points | Box | Ball


@dataclass(frozen=True, eq=False)
class Likelihood:
    """What a draw needs of a model: a row's log-likelihood, and its prior.

    Attributes
    ----------
    kernel
        From a row and the parameters to one number, the log-likelihood, up to a constant of the
        row. The parameters are the first array of its state, `constants` the others.
    columns
        The columns of a row.
    size
        How many parameters there are.
    prior
        The standard deviation of a normal prior around zero for each parameter, a `Program` from
        the parameters (as a row, without a state) to the log prior, or None for a uniform one.
    gradient
        The sum over rows of the log-likelihood's gradient; it makes chains fast, and does not
        change what they are to draw from.
    """

    kernel: Contribution
    columns: tuple[str, ...]
    size: int
    prior: Prior = None
    gradient: BoundedSum | None = None
    constants: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, eq=False)
class DensityDraw(Record):
    """Draws from the posterior exp(log-likelihood / temperature) * prior on a bounded region.

    Among `Points` the draw is exact. In a `Box` or a `Ball` a Metropolis chain runs behind the
    wall and only where it ends is released: the guarantee is that of the law it is to reach. It
    assumes that the chain came close to it, and the certificate says so.

    Parameters
    ----------
    kernel, columns, constants
        A row's log-likelihood at the parameters, as in `Likelihood`.
    region
        Where parameters may lie.
    width
        The largest difference of a row's log-likelihoods at two points. What exceeds it is clipped
        by the wall: per row, and per unit to `width` times the rows that it may have.
    lift
        In a `Box` or a `Ball` a row is compared with the centre: the log-likelihood there minus
        the least that counts, from 0 to `width`. Default: half of the width. Among `Points` it is
        compared with the row's own best point, and `lift` is not used.
    prior
        In a `Box` or a `Ball`, as in `Likelihood`; points have weights.
    gradient
        As in `Likelihood`. With it the chain follows the gradient (Hamiltonian Monte Carlo);
        without, it is a random walk, for few parameters.
    steps
        How many proposals the chain makes; the first half of them tunes it. Default: 100 with
        a gradient, else 2,000 and 500 more for each parameter.
    draws
        How many points are released; half as many steps lie between them as before the first.
    """

    kernel: Contribution
    columns: tuple[str, ...]
    region: Region
    _: KW_ONLY
    width: float
    lift: float = None  # type: ignore[assignment]
    prior: Prior = None
    gradient: BoundedSum | None = None
    steps: int = None  # type: ignore[assignment]
    draws: int = 1
    constants: tuple[np.ndarray, ...] = ()

    def __post_init__(self) -> None:
        region, gradient = self.region, self.gradient
        if not isinstance(self.kernel, Kernel | Program):
            raise QueryError(
                f"Expected a tacit.queries.Kernel or a tacit.queries.Program, got {self.kernel!r}."
            )
        if not isinstance(region, Region):
            raise QueryError(f"Expected region to be Points, Box or Ball, got {region!r}.")
        width = number(self.width, "width", 1e-6, 1e6)
        lift = width / 2 if self.lift is None else self.lift
        lift = number(lift, "lift", 0, width, where=", the width")
        if isinstance(region, Points) and self.prior is not None:
            raise QueryError("Expected the prior of Points as their log_weights.")
        if not (self.prior is None or isinstance(self.prior, Program)):
            set_fields(self, prior=number(self.prior, "prior", 1e-6, 1e6, where=", a scale"))
        if gradient is not None and not isinstance(gradient, BoundedSum):
            raise QueryError(f"Expected gradient as a tacit.queries.BoundedSum, got {gradient!r}.")
        if gradient is not None and gradient.numbers != region.size:
            raise QueryError(f"Expected a gradient of {region.size} numbers, one per parameter.")
        usual = 100 if gradient is not None else min(2_000 + 500 * region.size, MOST_STEPS)
        steps = whole_number(self.steps, "steps", usual, most=MOST_STEPS, error=QueryError)
        whole_number(self.draws, "draws", most=MOST_DRAWS, error=QueryError)
        columns, constants = distinct_columns(self.columns), leaves_of(self.constants)
        set_fields(self, columns=columns, constants=constants)
        set_fields(self, width=width, lift=lift, steps=steps)

    def parameters(self, release: Release) -> np.ndarray:
        """Return the parameters (draw, parameter) that a release of this query holds."""
        return self.region.parameters(release.table(release.blocks[0].name).value)
