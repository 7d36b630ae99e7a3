"""Logistic regressions that the wall fits itself: a draw of the posterior, or one noisy minimum.

A row is a vector x of norm at most 1 (`Design`), its target one of two levels, y = -1 or 1, and its
loss at theta is log(1 + exp(-y x'theta)). Everything here is public and symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit.spec.checks import distinct_columns
from tacit.spec.draws import MOST_DRAWS
from tacit.spec.errors import QueryError

if TYPE_CHECKING:
    from tacit.spec.release import Release
    from tacit.spec.schema import Schema

Perturbed = Literal["objective", "output"]
# What is guessed of a regression of which nothing is known: coefficients of the vectors have an sd
# of about 3, so that log odds have one of about 2, and a row curves each direction by 1 / (10 d).
_LEAST_PRECISION = 0.1
LEAST_RIDGE = 0.3  # of the noise on the slope: leaves most of epsilon for the noise


@dataclass(frozen=True)
class Logistic:
    """The chance of the second level of `target`, given `features` as one vector.

    The prior is normal around zero, with the same `precision` (1 / variance) for each coefficient
    of the vector, the constant included.
    """

    target: str
    features: tuple[str, ...]
    precision: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", distinct_columns(self.features, "feature"))
        if self.target in self.features:
            raise QueryError(f"Expected the target {self.target!r} not among the features.")
        object.__setattr__(self, "precision", _positive("precision", self.precision))

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "features": list(self.features)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Logistic:
        return cls(facts["target"], tuple(facts["features"]), facts["precision"])


@dataclass(frozen=True)
class LogisticDraw:
    """Draws of the posterior whose likelihood is tempered as privacy needs, without truncation.

    The wall runs one Langevin chain for each draw and releases where they end. With `temper_prior`
    the prior is flattened along with the likelihood.

    Examples
    --------
    >>> LogisticDraw(Logistic("smoker", ("age",), precision=0.1)).draws
    1
    """

    law: Logistic
    draws: int = 1
    temper_prior: bool = False

    def __post_init__(self) -> None:
        _check_law(self.law)
        whole = isinstance(self.draws, int) and not isinstance(self.draws, bool)
        if not whole or not 1 <= self.draws <= MOST_DRAWS:
            raise QueryError(
                f"Expected draws={self.draws!r} to be a whole number from 1 to {MOST_DRAWS}."
            )
        if not isinstance(self.temper_prior, bool):
            raise QueryError(f"Expected temper_prior={self.temper_prior!r} to be True or False.")

    def to_dict(self) -> dict[str, Any]:
        return {"type": "LogisticDraw", **vars(self), "law": self.law.to_dict()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> LogisticDraw:
        return cls(Logistic.from_dict(facts["law"]), facts["draws"], facts["temper_prior"])


@dataclass(frozen=True)
class LogisticMinimum:
    """The theta of least loss plus regularizer |theta|^2 / 2, made private by Gaussian noise.

    Parameters
    ----------
    noise
        "objective": the noise is a random slope, added before minimising. "output": it is added
        afterwards, to theta times the regularizer, which is what is released.
    regularizer
        How strongly theta is drawn to zero, whatever the number of rows. Default: by a rule from
        the number of units, the number of coefficients and the noise (`ridge_of`).
    """

    law: Logistic
    noise: Perturbed
    regularizer: float | None = None

    def __post_init__(self) -> None:
        _check_law(self.law)
        if self.noise not in ("objective", "output"):
            raise QueryError(f"Expected noise={self.noise!r} to be 'objective' or 'output'.")
        if self.regularizer is not None:
            object.__setattr__(self, "regularizer", _positive("regularizer", self.regularizer))

    def to_dict(self) -> dict[str, Any]:
        return {"type": "LogisticMinimum", **vars(self), "law": self.law.to_dict()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> LogisticMinimum:
        return cls(Logistic.from_dict(facts["law"]), facts["noise"], facts["regularizer"])


def units_of(schema: Schema, units: int | None) -> int:
    """The public number of units: how many there are, or under add_remove how many at most."""
    known = units if schema.neighbours == "replace_one" else schema.max_units
    if known is None:
        raise QueryError(
            "Expected Schema(max_units=...), a public limit, for a logistic regression under "
            "add_remove: the number of units is secret there."
        )
    return max(known, 1)


def guessed_curve(rows: float, size: int) -> float:
    """How much so many rows curve their loss in each of so many directions, as far as one knows."""
    return rows / (10 * size)


def least_ridge(rows: float, size: int) -> float:
    """The least regularizer with which so many rows can be fitted in double precision.

    With it the minimum has a norm of at most the root of 2 log(2) rows / ridge, and there rounding
    moves the slope by less than 2^-15 (tests/accounting). Infinite where there is none.

    Examples
    --------
    >>> f"{least_ridge(30_000, 100):.2g}"
    '0.0072'
    """
    farthest = 4 / size * (2.0**38 / (1.02 * rows) - 1056) - 1
    if farthest <= 1:
        return math.inf
    return max(rows * 2.0**-22, 1.4 * rows / farthest**2)


def ridge_of(
    query: LogisticMinimum, units: int, size: int, sigma: float, rows_per_unit: int = 1
) -> float:
    """The regularizer, by public facts alone: what was asked for, but no less than can be computed.

    By default it is about where noise and shrinkage cost the same, for log odds of a usual size:
    the noise has the standard deviation `sigma` on the slope of the objective, to which all units
    together add about units / (10 size) for each unit of theta. Measured on simulated data, not
    derived; privacy holds for any value.

    Examples
    --------
    >>> query = LogisticMinimum(Logistic("smoker", ("age",), precision=0.1), "output")
    >>> round(ridge_of(query, 30_000, 100, 7.5), 1)
    17.2
    """
    least = least_ridge(units * rows_per_unit, size)
    if not math.isfinite(least):
        raise QueryError(
            f"Expected fewer than {units * rows_per_unit} rows of {size} numbers each for this "
            "method; tacit.PrivateNewton takes more."
        )
    if query.regularizer is not None:
        return max(query.regularizer, least)
    precision = max(query.law.precision, _LEAST_PRECISION)
    curve = guessed_curve(units, size)
    if query.noise == "objective":
        return max(2 * precision * (1 + sigma**2 / curve), LEAST_RIDGE * sigma, least)
    shrunk = precision * sigma**2 / curve
    return max(2 * (math.sqrt(sigma * curve * math.sqrt(precision)) + shrunk), least)


def theta_of(release: Release) -> np.ndarray:
    """The coefficients (draw, name) of the vectors, from a release of a regression."""
    query = release.query
    if not isinstance(query, LogisticDraw | LogisticMinimum):
        raise QueryError(f"Expected a release of a logistic regression, got one of {query!r}.")
    block, values, noise = release.table("theta")
    if isinstance(query, LogisticDraw) or noise.family != "discrete_gaussian":
        return values
    units, each = units_of(release.schema, release.n), release.schema.max_rows_per_unit
    return values / ridge_of(query, units, block.shape[1], noise.scale, each)


def _check_law(law: Any) -> None:
    if not isinstance(law, Logistic):
        raise QueryError(f"Expected Logistic(target, features, precision), got {law!r}.")


def _positive(what: str, value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 1e-6 <= value <= 1e6:
        raise QueryError(f"Expected {what}={value!r} from 1e-6 to 1e6, on scaled vectors.")
    return float(value)
