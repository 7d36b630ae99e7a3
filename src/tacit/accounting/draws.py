"""From a draw's law to the temperature it needs, and what several draws cost together.

Two theorems serve. Bounded range: the exponential mechanism, for likelihoods that one unit can
change by a bounded amount. And a draw from a strongly log-concave law is as private as Gaussian
noise (Gopi, Lee and Liu 2022), if one unit changes the slope of its logarithm by a bounded amount.
"""

from __future__ import annotations

import math
from decimal import Decimal

from tacit.accounting.bounded_range import exponential_epsilon, optimal_delta
from tacit.accounting.calibrate import Calibration
from tacit.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tacit.spec.budget import Budget, round_up
from tacit.spec.draws import (
    BallRegression,
    BoundedNormal,
    ConjugateDraw,
    DrawLaw,
    TruncatedDirichlet,
)
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential
from tacit.spec.moments import Moments, bounds_of
from tacit.spec.release import Noise
from tacit.spec.schema import Schema

GRID = 2.0**-40
_ROUNDING = 1 + 1e-12  # far more than the arithmetic here can lose


def draw_range(law: DrawLaw, schema: Schema) -> float:
    """The range over the parameter of the log-likelihood's change when one unit changes.

    Infinite where it is not bounded, as for regressions and for means that may lie anywhere.

    Examples
    --------
    >>> from tacit.spec.columns import Categorical
    >>> law = TruncatedDirichlet("smoker", (1, 1), truncation=0.1)
    >>> columns = Categorical("smoker", ["no", "yes"])
    >>> round(draw_range(law, Schema(columns, neighbours="replace_one")), 3)
    4.394
    >>> round(draw_range(law, Schema(columns, neighbours="add_remove")), 3)
    2.197
    """
    match law:
        case TruncatedDirichlet(prior=prior, truncation=least):
            # proof: draw-range. One row's log-probability lies between log a0 and the log of
            # what the other levels leave; a replaced row moves two of them, against each other.
            one = math.log((1 - (len(prior) - 1) * least) / least)
            pair = 2 * one
        case BoundedNormal(sd=sd, low=low, high=high):
            # proof: draw-normal-range
            least, most = bounds_of(schema[law.column])
            one = max(_spread(x, low, high) for x in (least, most)) / (2 * sd**2)
            pair = max((high - low) * (most - least) / sd**2, one)
        case BallRegression():
            return math.inf
    by_unit = pair if schema.neighbours == "replace_one" else one
    return schema.max_rows_per_unit * by_unit * _ROUNDING


def _spread(x: float, low: float, high: float) -> float:
    """The largest minus the smallest (x - theta)^2 for theta between low and high."""
    near, far = sorted((abs(x - low), abs(x - high)))
    if low <= x <= high:
        return far**2
    return (high - low) * (near + far)  # squares of large numbers would cancel


def draw_slope(law: DrawLaw, schema: Schema) -> tuple[float, float]:
    """How steeply one unit can tilt the log-likelihood, and how sharply the prior curves it.

    Infinite where the posterior is not strongly log-concave whatever the data.
    """
    match law:
        case TruncatedDirichlet():
            return math.inf, 1.0
        case BoundedNormal(sd=sd, prior=(_, prior_sd), low=low, high=high):
            # proof: draw-normal-gradient
            least, most = bounds_of(schema[law.column])
            one, pair = max(most - low, high - least) / sd**2, (most - least) / sd**2
            # proof: draw-normal-free. Without a public number a value may take the place of none.
            pair = pair if _rows_are_public(law, schema) else max(pair, one)
            curve = 1 / prior_sd**2
        case BallRegression(features=features, sd=sd, scale=scale, radius=radius):
            # proof: draw-regression-gradient
            longest = math.sqrt(1 + len(features))
            one = longest * (longest * radius + 1) / sd**2
            # Of two rows the products z z' pull against each other, and the targets add up.
            pair, curve = longest * (longest * radius + 2) / sd**2, 1 / scale**2
    by_unit = pair if schema.neighbours == "replace_one" else one
    return schema.max_rows_per_unit * by_unit * _ROUNDING, curve


def calibrate_draw(mechanism: Exponential, query: ConjugateDraw, schema: Schema) -> Calibration:
    """The lowest temperature, at least 1, at which the draws keep what is promised.

    By the range of the log-likelihood, or, given a delta, by its slope where that allows less.
    Where temperature 1 is enough, the draws cost what they cost and not what was offered.
    """
    span, (slope, curve) = draw_range(query.law, schema), draw_slope(query.law, schema)
    ways = []
    if math.isfinite(span):
        ways.append(by_range(mechanism, span, query.draws, GRID))
    if math.isfinite(slope) and mechanism.delta > 0:
        ways.append(_by_slope(mechanism, slope, curve, query))
    if not ways:
        raise BudgetError(_what_is_missing(query.law, schema))
    return min(ways, key=lambda way: (way.noise[0].scale, way.cost.epsilon))


def _what_is_missing(law: DrawLaw, schema: Schema) -> str:
    """Why neither theorem gives a temperature, and what to write instead."""
    if isinstance(law, BoundedNormal) and not _rows_are_public(law, schema):
        least, most = bounds_of(schema[law.column])
        return (
            f"Expected a finite interval, such as truncation=({least:g}, {most:g}), or a delta and "
            f"a public number of rows: a default=... of column {law.column!r}, "
            'neighbours="replace_one" and max_rows_per_unit=1. A row more or less can tilt a draw '
            "that may lie anywhere without bound."
        )
    return (
        "Expected a delta, for example delta=1e-6: the likelihood of this draw is not bounded, "
        "and its guarantee is that of Gaussian noise."
    )


def _rows_are_public(law: BoundedNormal, schema: Schema) -> bool:
    return Moments((law.column,), degree=1).rows_are_public(schema)


def by_range(mechanism: Exponential, span: float, draws: int, grid: float) -> Calibration:
    """So many draws of one law, by the range of its log-likelihood."""
    each = range_of_each(mechanism, draws)
    by = "bounded range, pure epsilon" if mechanism.delta == 0 else "bounded range, exact optimum"
    if span > each:
        noise = Noise("draw", span / each * _ROUNDING, grid)
        return Calibration((noise,), Budget(mechanism.epsilon, mechanism.delta), by)
    spent = together(span, draws, mechanism.delta)
    cost = min(round_up(max(spent, 1e-9)), mechanism.epsilon)
    return Calibration((Noise("draw", 1.0, grid),), Budget(cost, mechanism.delta), by)


def _by_slope(
    mechanism: Exponential, slope: float, curve: float, query: ConjugateDraw
) -> Calibration:
    """A draw is mu-GDP with mu = slope / sqrt(curve), several with sqrt(draws) as much."""
    # proof: draw-gradient
    by = "strongly log-concave posterior: Gaussian profile"
    afforded = gaussian_mu(float(mechanism.epsilon), float(mechanism.delta) * (1 - 1e-9))
    mu = slope / math.sqrt(curve) * math.sqrt(query.draws)
    # A tempered prior curves less, too: mu falls with the root of the temperature only.
    temperature = (mu / afforded) ** (2 if query.temper_prior else 1) * _ROUNDING
    if temperature > 1:
        cost = Budget(mechanism.epsilon, mechanism.delta)
        return Calibration((Noise("draw", temperature, GRID),), cost, by)
    spent = gaussian_epsilon(mu, float(mechanism.delta) * (1 - 1e-9))
    cost = Budget(min(round_up(max(spent, 1e-9)), mechanism.epsilon), mechanism.delta)
    return Calibration((Noise("draw", 1.0, GRID),), cost, by)


def together(each: float, draws: int, delta: Decimal) -> float:
    """Epsilon of so many draws from one law, each with the same range."""
    if delta == 0:
        return draws * each * _ROUNDING
    # proof: draw-together
    return exponential_epsilon(each, draws, float(delta), adaptive=False)


def range_of_each(mechanism: Exponential, draws: int) -> float:
    """The largest range of one draw that so many draws from one law can afford."""
    total, delta = float(mechanism.epsilon), float(mechanism.delta) * (1 - 1e-9)
    plain = total / draws / _ROUNDING
    if delta == 0:
        return plain

    def affordable(each: float) -> bool:
        return optimal_delta(each, draws, total) <= delta  # proof: draw-together

    low = high = plain
    while affordable(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise BudgetError(f"Expected a smaller delta than {mechanism.delta}.")
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low / _ROUNDING
