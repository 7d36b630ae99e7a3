"""Logistic regressions that the wall fits itself: a draw of the posterior, or one noisy minimum.

A row is a vector x of norm at most 1 (`Design`), its target one of two levels, y = -1 or 1, and its
loss at theta is log(1 + exp(-y x'theta)). Everything here is public and symbolic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tacit.spec.checks import distinct_columns, number, one_of, set_fields, whole_number
from tacit.spec.draws import MOST_DRAWS
from tacit.spec.errors import QueryError
from tacit.spec.schema import Schema
from tacit.spec.wire import Record

Perturbed = Literal["objective", "output"]
# Assumed before any data are seen: coefficients of the vectors have an sd of about 3, so that log
# odds have one of about 2, and a row has a curvature of 1 / (10 d) in each direction.
_LEAST_PRECISION = 0.1
LEAST_RIDGE = 0.3  # of the noise on the gradient: leaves most of epsilon for the noise


@dataclass(frozen=True)
class Logistic(Record):
    """The probability of the second level of `target`, given `features` as one vector.

    The prior is normal around zero, with the same `precision` (1 / variance) for each coefficient
    of the vector, the constant included.
    """

    target: str
    features: tuple[str, ...]
    precision: float

    def __post_init__(self) -> None:
        features = distinct_columns(self.features, "feature")
        if self.target in features:
            raise QueryError(f"Expected the target {self.target!r} not among the features.")
        set_fields(self, features=features, precision=_scaled("precision", self.precision))


@dataclass(frozen=True)
class LogisticDraw(Record):
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
        whole_number(self.draws, "draws", most=MOST_DRAWS, error=QueryError)
        one_of(self.temper_prior, "temper_prior", (True, False))


@dataclass(frozen=True)
class LogisticMinimum(Record):
    """The theta of least loss plus regularizer |theta|^2 / 2, made private by Gaussian noise.

    Parameters
    ----------
    noise
        "objective": a random gradient is added before minimising. "output": it is added
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
        one_of(self.noise, "noise", ("objective", "output"))
        if self.regularizer is not None:
            set_fields(self, regularizer=_scaled("regularizer", self.regularizer))


def units_of(schema: Schema, units: int | None) -> int:
    """The public number of units: how many there are, or under add_remove how many at most."""
    known = units if schema.neighbours == "replace_one" else schema.max_units
    if known is None:
        raise QueryError(
            "Expected Schema(max_units=...), a public limit, for a logistic regression under "
            "add_remove: the number of units is secret there."
        )
    return max(known, 1)


def assumed_curvature(rows: float, size: int) -> float:
    """Return the assumed curvature, in each of `size` directions, of the loss of `rows` rows."""
    return rows / (10 * size)


def least_ridge(rows: float, size: int) -> float:
    """The least regularizer with which `rows` rows can be fitted in double precision.

    With it the minimum has a norm of at most the root of 2 log(2) rows / ridge, and there rounding
    moves the gradient by less than 2^-15 (tests/accounting). Infinite where there is none.

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
    the noise has the standard deviation `sigma` on the gradient of the objective, to which all
    units together add about units / (10 size) for each unit of theta. Measured on simulated data,
    not derived; privacy holds for any value.

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
    curvature = assumed_curvature(units, size)
    if query.noise == "objective":
        return max(2 * precision * (1 + sigma**2 / curvature), LEAST_RIDGE * sigma, least)
    shrunk = precision * sigma**2 / curvature
    return max(2 * (math.sqrt(sigma * curvature * math.sqrt(precision)) + shrunk), least)


def _check_law(law: Any) -> None:
    if not isinstance(law, Logistic):
        raise QueryError(f"Expected Logistic(target, features, precision), got {law!r}.")


def _scaled(what: str, value: Any) -> float:
    return number(value, what, 1e-6, 1e6, where=", on scaled vectors")
