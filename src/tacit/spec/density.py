"""Draws from any posterior whose log-likelihood is bounded, on a bounded set of parameters.

A model gives the log-likelihood of one row as a kernel or a program. The wall keeps what a row, and
a unit, can say for one place of the set against another within a `width`, and draws at the
temperature for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.checks import distinct_columns, doubles
from tacit.spec.draws import MOST_DRAWS
from tacit.spec.errors import QueryError
from tacit.spec.kernels import (
    Contribution,
    Kernel,
    contribution_from_dict,
    contribution_to_dict,
)
from tacit.spec.programs import Program, leaves_of
from tacit.spec.sums import BoundedSum

MOST_POINTS = 10**4
MOST_SIZE = 1000  # the chain takes a slope along each parameter
MOST_STEPS = 10**6
Prior = float | Program | None


@dataclass(frozen=True, eq=False)
class Points:
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
        for what, array in (("theta", places), ("log_weights", weights)):
            array.setflags(write=False)
            object.__setattr__(self, what, array)

    @property
    def size(self) -> int:
        return self.theta.shape[1]

    def places(self, value: np.ndarray) -> np.ndarray:
        """Parameters from what was released: the numbers of points."""
        return self.theta[value.astype(np.int64)]

    def to_dict(self) -> dict[str, Any]:
        return {"type": "Points", "theta": self.theta, "log_weights": self.log_weights}


@dataclass(frozen=True)
class Box:
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
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

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

    def to_dict(self) -> dict[str, Any]:
        return {"type": "Box", "low": list(self.low), "high": list(self.high)}


@dataclass(frozen=True)
class Ball:
    """All parameters together of a norm of at most `radius`."""

    size: int
    radius: float

    def __post_init__(self) -> None:
        whole = isinstance(self.size, int) and not isinstance(self.size, bool)
        if not whole or not 1 <= self.size <= MOST_SIZE:
            raise QueryError(f"Expected size={self.size!r} from 1 to {MOST_SIZE} parameters.")
        if not _number(self.radius) or not 1e-6 <= self.radius <= 1e6:
            raise QueryError(f"Expected radius={self.radius!r} from 1e-6 to 1e6.")
        object.__setattr__(self, "radius", float(self.radius))

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(self.size)

    def places(self, value: np.ndarray) -> np.ndarray:
        """Parameters from what was released: shares of the radius."""
        return value * self.radius

    def to_dict(self) -> dict[str, Any]:
        return {"type": "Ball", **vars(self)}


Region = Points | Box | Ball
_REGIONS: Mapping[str, type[Region]] = {kind.__name__: kind for kind in (Points, Box, Ball)}


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
class DensityDraw:
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
        if not _number(width) or not 1e-6 <= width <= 1e6:
            raise QueryError(f"Expected width={width!r} from 1e-6 to 1e6.")
        lift = width / 2 if lift is None else lift
        if not _number(lift) or not 0 <= lift <= width:
            raise QueryError(f"Expected lift={lift!r} from 0 to width={width}.")
        if isinstance(region, Points) and prior is not None:
            raise QueryError("Expected the prior of Points as their log_weights.")
        if not (prior is None or isinstance(prior, Program)):
            if not _number(prior) or not 1e-6 <= prior <= 1e6:
                raise QueryError(f"Expected prior={prior!r} to be a scale from 1e-6 to 1e6.")
            prior = float(prior)
        if slopes is not None and not isinstance(slopes, BoundedSum):
            raise QueryError(f"Expected slopes to be a tacit.queries.BoundedSum, got {slopes!r}.")
        if slopes is not None and slopes.numbers != region.size:
            raise QueryError(f"Expected slopes of {region.size} numbers, one for each parameter.")
        if steps is None:
            steps = 100 if slopes is not None else min(2_000 + 500 * region.size, MOST_STEPS)
        for what, value, most in (("steps", steps, MOST_STEPS), ("draws", draws, MOST_DRAWS)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise QueryError(f"Expected {what}={value!r} to be a whole number to {most}.")
        names = distinct_columns(columns)
        fixed = leaves_of(constants)
        for array in fixed:
            array.setflags(write=False)
        given = (
            kernel,
            names,
            region,
            float(width),
            float(lift),
            prior,
            slopes,
            steps,
            draws,
            fixed,
        )
        for what, part in zip(self.__dataclass_fields__, given, strict=True):
            object.__setattr__(self, what, part)

    def to_dict(self) -> dict[str, Any]:
        prior = self.prior
        return {
            "type": "DensityDraw",
            **contribution_to_dict(self.kernel),
            "columns": list(self.columns),
            "region": self.region.to_dict(),
            "width": self.width,
            "lift": self.lift,
            "prior": contribution_to_dict(prior) if isinstance(prior, Program) else prior,
            "slopes": None if self.slopes is None else self.slopes.to_dict(),
            "steps": self.steps,
            "draws": self.draws,
            "constants": list(self.constants),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> DensityDraw:
        region = dict(facts["region"])
        kind = _REGIONS.get(region.pop("type"))
        if kind is None:
            raise QueryError(f"Unknown region {facts['region'].get('type')!r}.")
        prior, slopes = facts["prior"], facts["slopes"]
        rest = {name: facts[name] for name in ("width", "lift", "steps", "draws", "constants")}
        return cls(
            contribution_from_dict(facts),
            tuple(facts["columns"]),
            kind(**region),
            prior=contribution_from_dict(prior) if isinstance(prior, Mapping) else prior,  # type: ignore[arg-type]
            slopes=None if slopes is None else BoundedSum.from_dict(slopes),
            **rest,
        )


def _number(value: Any) -> bool:
    whole_or_not = isinstance(value, (int, float)) and not isinstance(value, bool)
    return whole_or_not and math.isfinite(value)
