"""Draws whose own randomness is the privacy: one sample of a tempered posterior, or a few.

The law is one of a closed set. Its parameters are public; what the data add to them is divided by
a temperature, which the wall derives from the mechanism and from what it enforces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tacit.laws.bounded_normals import MEANS
from tacit.laws.bounded_rates import PIECES, RateFamily
from tacit.spec.checks import (
    distinct_columns,
    is_number,
    number,
    one_of,
    set_fields,
    whole_number,
)
from tacit.spec.errors import QueryError
from tacit.spec.keys import Is, Key
from tacit.spec.moments import scale_of
from tacit.spec.schema import Schema
from tacit.spec.wire import Record

GRID = 2.0**-40  # of released draws
LEAST_TRUNCATION = 1e-4
MOST_LEVELS = 1000
MOST_DRAWS = 1000  # of the exact composition, whose cost is their square


@dataclass(frozen=True)
class TruncatedDirichlet(Record):
    """Probabilities of a key's levels, each at least `truncation`; a truncated Beta for two.

    Parameters
    ----------
    key
        A column, or `Is(column, levels)` for whether it is one of some levels.
    prior
        The Dirichlet prior's concentration, one number for each level in order.
    truncation
        The smallest probability the draw can have: 1e-4 <= truncation < 1 / levels. It bounds
        what one row can do to the log-likelihood, so it is needed and has no default.
    """

    key: Key
    prior: tuple[float, ...]
    truncation: float

    def __post_init__(self) -> None:
        if not isinstance(self.key, (str, Is)):
            raise QueryError(
                f"Expected a column or tacit.queries.Is(...) to draw, got {self.key!r}."
            )
        prior = self.prior if isinstance(self.prior, (tuple, list)) else ()
        if not 2 <= len(prior) <= MOST_LEVELS or not all(
            is_number(a) and 1e-6 <= a <= 1e9 for a in prior
        ):
            raise QueryError(
                f"Expected prior={self.prior!r} to be 2 to {MOST_LEVELS} numbers from 1e-6 to 1e9."
            )
        truncation = checked_truncation(self.truncation, len(prior))
        set_fields(self, prior=tuple(map(float, prior)), truncation=truncation)


@dataclass(frozen=True)
class TruncatedTables(Record):
    """Probabilities of a network's columns given their parents, each at least `truncation`.

    Parameters
    ----------
    families
        For each column of the network its parents, and then the column itself. A row counts for a
        family if it has a value in all of its columns.
    prior
        The concentration of the Dirichlet prior of a column given any levels of its parents.
    truncation
        The smallest probability the draw can have: 1e-4 <= truncation < 1 / levels, for the column
        with most levels.
    """

    families: tuple[tuple[str, ...], ...]
    prior: float
    truncation: float

    def __post_init__(self) -> None:
        given = self.families if isinstance(self.families, (tuple, list)) else ()
        if not given:
            raise QueryError('Expected families of columns, such as (("ward", "smoker"),).')
        families = tuple(distinct_columns(family) for family in given)
        if len({family[-1] for family in families}) < len(families):
            raise QueryError("Expected each column to have one family.")
        set_fields(
            self,
            families=families,
            prior=number(self.prior, "prior", 1e-6, 1e9),
            truncation=checked_truncation(self.truncation, 2),
        )


@dataclass(frozen=True)
class BoundedNormal(Record):
    """The mean of a column whose standard deviation is known, between `low` and `high`.

    `prior` is the (mean, sd) of a normal law, which is kept within the same bounds. These may be
    -inf and inf: nothing is cut off, and privacy needs a delta and a public number of rows.
    """

    column: str
    sd: float
    prior: tuple[float, float]
    low: float
    high: float

    def __post_init__(self) -> None:
        if not isinstance(self.prior, (tuple, list)) or len(self.prior) != 2:
            raise QueryError(f"Expected prior=(mean, sd), got {self.prior!r}.")
        ends = (self.low, self.high)
        numbers = (self.sd, *self.prior, *(() if ends == (-math.inf, math.inf) else ends))
        if not all(is_number(x) and abs(x) <= 1e100 for x in numbers):
            raise QueryError(
                "Expected finite numbers for sd, prior, low and high; or low=-inf and high=inf, "
                "both of them."
            )
        if not (min(self.sd, self.prior[1]) >= 1e-100 and self.low < self.high):
            raise QueryError(
                f"Expected sd and the prior's sd >= 1e-100 and low={self.low} < high={self.high}."
            )
        floats = {what: float(getattr(self, what)) for what in ("sd", "low", "high")}
        set_fields(self, prior=tuple(map(float, self.prior)), **floats)

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low)

    def measure(self, prior_temperature: float) -> tuple[float, float]:
        """Where a released draw is measured from, and in which unit: mean = origin + unit * value.

        The interval; without one the prior's mean and standard deviation, tempered if it is: no
        law that is drawn from is wider.
        """
        if self.bounded:
            return self.low, self.high - self.low
        return self.prior[0], self.prior[1] * math.sqrt(prior_temperature)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        ends = {"low": -math.inf, "high": math.inf}  # written as None
        return super().from_dict({**facts, **{k: v for k, v in ends.items() if facts[k] is None}})


@dataclass(frozen=True)
class BoundedMeanSd(Record):
    """The mean and the standard deviation of a column, each between two ends.

    Draws are of a public list of points: 4,097 means with equal distances, 513 standard deviations
    with equal ratios.

    Parameters
    ----------
    column
        A column with bounds.
    prior
        (mean, rows, sd, rows) of a normal-inverse-gamma law: as if the mean had been seen in the
        first number of rows, and the standard deviation in the second.
    mean, sd
        The (smallest, largest) mean, within the column's bounds, and standard deviation.
    """

    column: str
    prior: tuple[float, float, float, float]
    mean: tuple[float, float]
    sd: tuple[float, float]

    def __post_init__(self) -> None:
        for what, length in (("prior", 4), ("mean", 2), ("sd", 2)):
            given = getattr(self, what)
            if not isinstance(given, (tuple, list)) or len(given) != length:
                raise QueryError(f"Expected {length} numbers for {what}, got {given!r}.")
            if not all(is_number(x) and abs(x) <= 1e100 for x in given):
                raise QueryError(f"Expected finite numbers for {what}, got {given!r}.")
            set_fields(self, **{what: tuple(map(float, given))})
        _, mean_rows, _, sd_rows = self.prior
        if not all(1e-6 <= rows <= 1e6 for rows in (mean_rows, sd_rows)):
            raise QueryError(f"Expected rows of 1e-6 to 1e6 in prior={self.prior}.")
        if not (self.mean[0] < self.mean[1] and 0 < self.sd[0] < self.sd[1]):
            raise QueryError(f"Expected rising ends, mean={self.mean} and sd={self.sd} above 0.")


@dataclass(frozen=True)
class BoundedRate(Record):
    """The rate of a column's counts or waits, which start at 0, between `low` and `high`.

    `family` is "poisson" or "exponential", of which values up to the column's cap are seen, and
    `prior` the (shape, rate) of a Gamma law. Draws are rates of a public list, 65,537 of them with
    equal ratios.
    """

    column: str
    family: RateFamily
    prior: tuple[float, float]
    low: float
    high: float

    def __post_init__(self) -> None:
        one_of(self.family, "family", ("poisson", "exponential"))
        given = self.prior if isinstance(self.prior, (tuple, list)) else ()
        if len(given) != 2 or not all(is_number(x) and 1e-6 <= x <= 1e6 for x in given):
            raise QueryError(f"Expected prior=(shape, rate) from 1e-6 to 1e6, got {self.prior!r}.")
        ends = {what: number(getattr(self, what), what, 1e-12, 1e12) for what in ("low", "high")}
        if not 1 + 1e-6 <= ends["high"] / ends["low"] <= 1e12:
            raise QueryError(f"Expected low={self.low} < high={self.high}, two rates.")
        set_fields(self, prior=tuple(map(float, given)), **ends)


@dataclass(frozen=True)
class BallRegression(Record):
    """Coefficients of a regression whose residual standard deviation is known, within a ball.

    Features and target are scaled by their bounds to [-1, 1]; the constant comes first. The prior
    is normal with standard deviation `scale` for each coefficient; `sd` is that of a residual.
    """

    target: str
    features: tuple[str, ...]
    sd: float
    scale: float
    radius: float

    def __post_init__(self) -> None:
        features = distinct_columns(self.features, "feature") if self.features else ()
        numbers = {
            what: number(getattr(self, what), what, 1e-6, 1e6, where=", on scaled columns")
            for what in ("sd", "scale", "radius")
        }
        set_fields(self, features=features, **numbers)
        if self.scale > 1e4 * self.sd:
            raise QueryError(f"Expected scale={self.scale} of at most 10,000 sd={self.sd}.")


DrawLaw = (
    TruncatedDirichlet
    | TruncatedTables
    | BoundedNormal
    | BoundedMeanSd
    | BoundedRate
    | BallRegression
)


@dataclass(frozen=True)
class ConjugateDraw(Record):
    """Independent draws of one tempered posterior.

    Parameters
    ----------
    law
        What is drawn.
    draws
        How many, all from the same law. They cost together what the mechanism says.
    temper_prior
        Whether the prior is flattened along with the likelihood, as in the papers. Privacy does
        not need it.

    Examples
    --------
    >>> ConjugateDraw(TruncatedDirichlet("ward", (1, 1, 1), truncation=0.05)).draws
    1
    """

    law: DrawLaw
    draws: int = 1
    temper_prior: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.law, DrawLaw):
            raise QueryError(
                f"Expected a law such as TruncatedDirichlet(...) to draw, got {self.law!r}."
            )
        whole_number(self.draws, "draws", most=MOST_DRAWS, error=QueryError)
        one_of(self.temper_prior, "temper_prior", (True, False))


def scaled_ends(
    law: BoundedMeanSd, schema: Schema
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of the mean and of the standard deviation, on the column's scale of -1 to 1."""
    middle, half = scale_of(schema[law.column])
    low, high = ((end - middle) / half for end in law.mean)
    least, most = (end / half for end in law.sd)
    return (low, high), (least, most)


def draw_grid(law: DrawLaw) -> float:
    """The grid of what is released."""
    match law:
        case BoundedRate():
            return 1 / PIECES
        case BoundedMeanSd():
            return 1 / MEANS
        case _:
            return GRID


def checked_truncation(truncation: Any, levels: int) -> float:
    """The smallest probability of a draw, as a float; there is no default."""
    if not is_number(truncation):
        raise QueryError(
            f"Expected truncation, the smallest probability of a draw, for example "
            f"truncation=0.05; got {truncation!r}."
        )
    # A millionth of room, so that points of the grid lie inside.
    if not LEAST_TRUNCATION <= truncation <= (1 - 1e-6) / levels:
        raise QueryError(
            f"Expected {LEAST_TRUNCATION:g} <= truncation={truncation} < 1/{levels}, "
            f"since {levels} probabilities sum to one."
        )
    return float(truncation)


def checked_share(truncation: Any) -> float:
    """The smallest probability as a share of 1 / levels, as a float; there is no default."""
    if not is_number(truncation) or not 1e-4 <= truncation <= 0.999:
        raise QueryError(
            "Expected truncation, the smallest probability of a level as a share of the same for "
            f"all, from 1e-4 to 0.999, for example truncation=0.1; got {truncation!r}."
        )
    return float(truncation)
