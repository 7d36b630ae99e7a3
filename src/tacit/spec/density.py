"""Draws from any posterior whose log-likelihood is bounded, on a bounded set of parameters.

A model gives the log-likelihood of one row as a kernel or a program. The wall keeps what a row, and
a unit, can say for one place of the set against another within a `width`, and draws at the
temperature for it.
"""

from __future__ import annotations

from dataclasses import dataclass
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
MOST_SIZE = 1000  # the chain takes a slope along each parameter
MOST_STEPS = 10**6
Prior = float | Program | None


@dataclass(frozen=True, eq=False)
class Points(Record):
    """Finitely many places (point, parameter), and how much each is believed in: exact draws."""

    theta: np.ndarray
    log_weights: np.ndarray

    def __init__(self, theta: Any, log_weights: Any = None) -> None:
        places = doubles(theta)
        places = places[:, None] if places.ndim == 1 else places
        if places.ndim != 2 or not 1 <= len(places) <= MOST_POINTS or not places.shape[1]:
            raise QueryError(f"Expected 1 to {MOST_POINTS} points, a row of parameters each.")
        weights = np.zeros(len(places)) if log_weights is None else doubles(log_weights)
        if weights.shape != (len(places),):
            raise QueryError(f"Expected {len(places)} log_weights, one for each point.")
        # Not (x > y): NaN is refused too.
        if not (np.isfinite(places).all() and np.all(np.abs(weights) <= 1e6)):
            raise QueryError("Expected finite points, and log_weights within 1e6.")
        set_fields(self, theta=places, log_weights=weights)

    @property
    def size(self) -> int:
        return self.theta.shape[1]

    def places(self, value: np.ndarray) -> np.ndarray:
        """Parameters from what was released: the numbers of points."""
        return self.theta[value.astype(np.int64)]


@dataclass(frozen=True)
class Box(Record):
    """Every parameter between two ends."""

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

    def places(self, value: np.ndarray) -> np.ndarray:
        """Parameters from what was released: shares of the way from low to high."""
        low, high = np.array(self.low), np.array(self.high)
        return low + value * (high - low)


@dataclass(frozen=True)
class Ball(Record):
    """All parameters together of a norm of at most `radius`."""

    size: int
    radius: float

    def __post_init__(self) -> None:
        whole_number(self.size, "size", most=MOST_SIZE, error=QueryError)
        set_fields(self, radius=number(self.radius, "radius", 1e-6, 1e6))

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(self.size)

    def places(self, value: np.ndarray) -> np.ndarray:
        """Parameters from what was released: shares of the radius."""
        return value * self.radius


Region = Points | Box | Ball


@dataclass(frozen=True, eq=False)
class Likelihood:
    """What a draw needs to know of a model: a row's log-likelihood, and what is believed before.

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
    slopes
        The sum over rows of the log-likelihood's gradient; it makes chains quick, and has no
        bearing on what they are to draw from.
    """

    kernel: Contribution
    columns: tuple[str, ...]
    size: int
    prior: Prior = None
    slopes: BoundedSum | None = None
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
        How much better, at most, one place may explain a row than another, in log-likelihood. What
        exceeds it is cut off by the wall: per row, and per unit by as many times as it may have
        rows.
    lift
        In a `Box` or a `Ball` a row is compared with the centre: the log-likelihood there minus
        the least that counts, from 0 to `width`. Default: half of the width. Among `Points` it is
        compared with the row's own best one and nothing need be said.
    prior
        In a `Box` or a `Ball`, as in `Likelihood`; points have weights.
    slopes
        As in `Likelihood`. With it the chain follows the gradient (Hamiltonian Monte Carlo);
        without it is a random walk, for few parameters.
    steps
        How many proposals the chain makes; the first half of them tunes it. Default: 100 with
        slopes, else 2,000 and 500 more for each parameter.
    draws
        How many places are released; half as many steps lie between them as before the first.
    """

    kernel: Contribution
    columns: tuple[str, ...]
    region: Region
    width: float
    lift: float
    prior: Prior
    slopes: BoundedSum | None
    steps: int
    draws: int
    constants: tuple[np.ndarray, ...]

    def __init__(
        self,
        kernel: Contribution,
        columns: str | tuple[str, ...],
        region: Region,
        *,
        width: float,
        lift: float | None = None,
        prior: Prior = None,
        slopes: BoundedSum | None = None,
        steps: int | None = None,
        draws: int = 1,
        constants: Any = (),
    ) -> None:
        if not isinstance(kernel, Kernel | Program):
            raise QueryError(
                f"Expected a tacit.queries.Kernel or a tacit.queries.Program, got {kernel!r}."
            )
        if not isinstance(region, Region):
            raise QueryError(f"Expected region to be Points, Box or Ball, got {region!r}.")
        width = number(width, "width", 1e-6, 1e6)
        lift = width / 2 if lift is None else number(lift, "lift", 0, width, where=", the width")
        if isinstance(region, Points) and prior is not None:
            raise QueryError("Expected the prior of Points as their log_weights.")
        if not (prior is None or isinstance(prior, Program)):
            prior = number(prior, "prior", 1e-6, 1e6, where=", a scale")
        if slopes is not None and not isinstance(slopes, BoundedSum):
            raise QueryError(f"Expected slopes to be a tacit.queries.BoundedSum, got {slopes!r}.")
        if slopes is not None and slopes.numbers != region.size:
            raise QueryError(f"Expected slopes of {region.size} numbers, one for each parameter.")
        if steps is None:
            steps = 100 if slopes is not None else min(2_000 + 500 * region.size, MOST_STEPS)
        set_fields(
            self,
            kernel=kernel,
            columns=distinct_columns(columns),
            region=region,
            width=width,
            lift=lift,
            prior=prior,
            slopes=slopes,
            steps=whole_number(steps, "steps", most=MOST_STEPS, error=QueryError),
            draws=whole_number(draws, "draws", most=MOST_DRAWS, error=QueryError),
            constants=leaves_of(constants),
        )

    def places(self, release: Release) -> np.ndarray:
        """The parameters (draw, parameter) that a release of this query holds."""
        return self.region.places(release.table(release.blocks[0].name).value)
