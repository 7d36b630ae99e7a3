"""How far one unit moves the scores of a draw, and the temperature that this asks for.

Two theorems serve. Bounded range, of the exponential mechanism: the largest minus the smallest
change of a score over all outcomes, divided by the temperature, is the epsilon of one draw. And a
draw from a strongly log-concave law is as private as Gaussian noise (Gopi, Lee and Liu 2022), if
one unit changes the gradient of its logarithm by a bounded amount.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

from tacit.accounting.bounded_range import exponential_epsilon, optimal_delta
from tacit.accounting.calibrate import Calibration
from tacit.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tacit.laws import bounded_normals, bounded_rates, truncated_dirichlet
from tacit.spec.budget import Budget, round_up
from tacit.spec.density import DensityDraw, Points
from tacit.spec.draws import (
    GRID,
    BallRegression,
    BoundedMeanSd,
    BoundedNormal,
    BoundedRate,
    ConjugateDraw,
    DrawLaw,
    TruncatedDirichlet,
    TruncatedTables,
    draw_grid,
    scaled_ends,
)
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential
from tacit.spec.moments import Moments, bounds_of
from tacit.spec.release import Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound

ROUNDING = 1 + 1e-12  # far more than the arithmetic here can lose


def draw_range(law: DrawLaw, schema: Schema) -> float:
    """The range of the log-likelihood's change when one unit changes; inf where it has none."""
    match law:
        case TruncatedDirichlet(prior=prior, truncation=least):
            # proof: draw-range. One row's log-probability lies between log a0 and the log of
            # what the other levels leave; a replaced row moves two of them, against each other.
            pair = 2 * (one := truncated_dirichlet.width(len(prior), least))
        case TruncatedTables(families=families, truncation=least):
            # proof: draw-tables-range. A row has a term in each family, and these add up.
            one = math.fsum(
                truncated_dirichlet.width(len(schema[family[-1]].labels), least)
                for family in families
            )
            pair = 2 * one
        case BoundedNormal(sd=sd, low=low, high=high):
            # proof: draw-normal-range
            least, most = bounds_of(schema[law.column])
            one = max(_spread(x, low, high) for x in (least, most)) / (2 * sd**2)
            pair = max((high - low) * (most - least) / sd**2, one)
        case BoundedMeanSd():
            # proof: draw-mean-sd-range
            one, pair = bounded_normals.ranges(*scaled_ends(law, schema))
        case BoundedRate(family=family):
            # proof: draw-rate-range. Over the very points that can be drawn.
            _, cap = bounds_of(schema[law.column])
            one, pair = bounded_rates.ranges(family, law.low, law.high, cap)
        case BallRegression():
            return math.inf
    by_unit = pair if schema.neighbours == "replace_one" else one
    return schema.max_rows_per_unit * by_unit * ROUNDING


def _spread(x: float, low: float, high: float) -> float:
    """The largest minus the smallest (x - theta)^2 for theta between low and high."""
    near, far = sorted((abs(x - low), abs(x - high)))
    if low <= x <= high:
        return far**2
    return (high - low) * (near + far)  # squares of large numbers would cancel


def draw_gradient(law: DrawLaw, schema: Schema) -> tuple[float, float]:
    """The most that one unit changes the log-likelihood's gradient, and the prior's curvature.

    Infinite where the posterior is not strongly log-concave whatever the data.
    """
    match law:
        case TruncatedDirichlet() | TruncatedTables() | BoundedMeanSd() | BoundedRate():
            return math.inf, 1.0
        case BoundedNormal(sd=sd, prior=(_, prior_sd), low=low, high=high):
            # proof: draw-normal-gradient
            least, most = bounds_of(schema[law.column])
            one, pair = max(most - low, high - least) / sd**2, (most - least) / sd**2
            # proof: draw-normal-free. Without a public number a value may take the place of none.
            pair = pair if _rows_are_public(law, schema) else max(pair, one)
            curvature = 1 / prior_sd**2
        case BallRegression(features=features, sd=sd, scale=scale, radius=radius):
            # proof: draw-regression-gradient
            longest = math.sqrt(1 + len(features))
            one = longest * (longest * radius + 1) / sd**2
            # Of two rows the products z z' have opposite signs, and the targets add up.
            pair, curvature = longest * (longest * radius + 2) / sd**2, 1 / scale**2
    by_unit = pair if schema.neighbours == "replace_one" else one
    return schema.max_rows_per_unit * by_unit * ROUNDING, curvature


def calibrate_draw(mechanism: Exponential, query: ConjugateDraw, schema: Schema) -> Calibration:
    """The lowest temperature, at least 1, at which the draws keep what is promised.

    By the range of the log-likelihood, or, given a delta, by its gradient where that allows less.
    Where temperature 1 is enough, the draws cost what they cost and not what was offered.
    """
    span, (gradient, curvature) = draw_range(query.law, schema), draw_gradient(query.law, schema)
    alternatives = []
    if math.isfinite(span):
        alternatives.append(by_range(mechanism, span, query.draws, draw_grid(query.law)))
    if math.isfinite(gradient) and mechanism.delta > 0:
        # proof: draw-gradient. A draw is mu-GDP, several with sqrt(draws) as much.
        mu = gradient / math.sqrt(curvature) * math.sqrt(query.draws)
        scale, cost = gaussian_temperature(mechanism, mu, query.temper_prior)
        by = "strongly log-concave posterior: Gaussian profile"
        at_scale = mu / (math.sqrt(scale) if query.temper_prior else scale) * ROUNDING
        facts = {"gaussian": at_scale, "grid_loss": 0.0}
        noise = (Noise("draw", scale, GRID),)
        alternatives.append(Calibration(noise, cost, by, dominated_by=facts))
    if not alternatives:
        raise BudgetError(_what_is_missing(query.law, schema))
    return min(alternatives, key=lambda one: (one.noise[0].scale, one.cost.epsilon))


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
    """The temperature and cost of `draws` draws of one law, by the range of its log-likelihood."""
    each = range_of_each(mechanism, draws)
    by = "bounded range, pure epsilon" if mechanism.delta == 0 else "bounded range, exact optimum"
    if span > each:
        noise = Noise("draw", span / each * ROUNDING, grid)
        facts = {"bounded_range": each, "draws": draws}
        cost = Budget(mechanism.epsilon, mechanism.delta)
        return Calibration((noise,), cost, by, dominated_by=facts)
    if mechanism.delta == 0:
        spent = draws * span * ROUNDING
    else:  # proof: draw-together
        spent = exponential_epsilon(span, draws, float(mechanism.delta), adaptive=False)
    facts = {"bounded_range": span * ROUNDING, "draws": draws}
    cost = _at_most(mechanism, spent)
    return Calibration((Noise("draw", 1.0, grid),), cost, by, dominated_by=facts)


def gaussian_temperature(
    mechanism: Exponential, mu: float, temper_prior: bool, loss: float = 0.0
) -> tuple[float, Budget]:
    """The lowest temperature, at least 1, of draws that are mu-GDP at temperature 1; their cost.

    `loss` is the bound of `discrete_loss` on noise that is added to them.
    """
    delta = float(mechanism.delta) * math.exp(-loss) * (1 - 1e-9)
    afforded = gaussian_mu(float(mechanism.epsilon) - 2 * loss, delta)
    # A tempered prior has less curvature, too: mu falls with the root of the temperature only.
    temperature = (mu / afforded) ** (2 if temper_prior else 1) * ROUNDING
    if temperature > 1:
        return temperature, Budget(mechanism.epsilon, mechanism.delta)
    return 1.0, _at_most(mechanism, gaussian_epsilon(mu, delta) + 2 * loss)


def _at_most(mechanism: Exponential, spent: float) -> Budget:
    """What a draw costs, rounded up, and no more than was offered."""
    return Budget(min(round_up(max(spent, 1e-9)), mechanism.epsilon), mechanism.delta)


def range_of_each(mechanism: Exponential, draws: int) -> float:
    """The largest range of a draw with which `draws` of them from one law can be paid."""
    total, delta = float(mechanism.epsilon), float(mechanism.delta) * (1 - 1e-9)
    plain = total / draws / ROUNDING
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
    return low / ROUNDING


def choice_range(bound: Bound, schema: Schema) -> float:
    """The range of a `Choice`: a unit's scores, and those that replace them, are in [0, clip]."""
    # proof: choice-range
    return bound.clip * (2 if schema.neighbours == "replace_one" else 1) * ROUNDING


def changed_rows(schema: Schema) -> int:
    """How many rows of a unit come and go between neighbours."""
    return schema.max_rows_per_unit * (2 if schema.neighbours == "replace_one" else 1)


def temperature(span: float, epsilon: Decimal) -> float:
    """The temperature at which a draw of this range costs at most epsilon; at least 1."""
    if not 0 <= span < math.inf:
        raise BudgetError(f"Expected a draw whose scores move by a bounded amount, not {span}.")
    return max(1.0, span / float(epsilon) * ROUNDING * ROUNDING)


def calibrate_range(mechanism: Exponential, span: float, *grids: float) -> Calibration:
    """One draw. Where temperature 1 is enough it costs what it costs, not what was offered."""
    scale = temperature(span, mechanism.epsilon)
    laws = tuple(Noise("draw", scale, grid) for grid in grids)
    cost = _at_most(mechanism, span / scale * ROUNDING)
    # A delta may be what a chain's distance from its law costs: then a filter must count it.
    facts = {} if mechanism.delta else {"bounded_range": span / scale * ROUNDING, "draws": 1}
    return Calibration(laws, cost, "bounded range, pure epsilon", dominated_by=facts)


def density_bound(query: DensityDraw, schema: Schema) -> Bound:
    """What a unit may add to the score of each point: the width, for each row it may have."""
    points = len(query.region.theta) if isinstance(query.region, Points) else 1
    return Bound(points, query.width * schema.max_rows_per_unit, geometry="box")


def calibrate_density(mechanism: Exponential, query: DensityDraw, schema: Schema) -> Calibration:
    """Calibrate a `DensityDraw`: exact among points; the distance of a chain costs delta."""
    span = choice_range(density_bound(query, schema), schema)  # proof: density-range
    if isinstance(query.region, Points):
        return by_range(mechanism, span, query.draws, 1.0)
    if query.draws == 1:
        calibration, left = calibrate_range(mechanism, span, GRID), mechanism.delta
    else:  # half of delta makes several draws cheaper
        left = mechanism.delta / 2
        given = Exponential(mechanism.epsilon, mechanism.delta - left)
        calibration = by_range(given, span, query.draws, GRID)
        paid = Budget(calibration.cost.epsilon, mechanism.delta)
        calibration = replace(calibration, cost=paid, dominated_by={})
    count = query.steps + (query.draws - 1) * max(1, query.steps // 2)
    # proof: density-converged. The steps of the chain have no guarantee of their own.
    near = _converged(Budget(calibration.cost.epsilon, left), "the law that is paid for")
    assumed = (
        f"the Metropolis chain {near} after {count} steps; if not, nothing is promised: no epsilon "
        "holds for where it ended"
    )
    return replace(calibration, assumptions=(assumed,))


def _converged(cost: Budget, target: str) -> str:
    """How near to its law a chain must be, in total variation, for the delta that is left."""
    epsilon = float(cost.epsilon)
    if epsilon > 500:
        raise BudgetError(f"Expected an epsilon of at most 500, got {epsilon:g}.")
    distance = float(cost.delta) / (1 + math.exp(epsilon))
    near = f"came within a total variation of {distance:.3g} of {target}"
    return near if distance > 0 else "had converged"


def chain_assumption(cost: Budget, updates: int) -> str:
    """What must be assumed where only the last state of a chain is released.

    The delta that was paid is what the chain's distance from its target may cost.
    """
    # proof: chain-converged. (1 + e^epsilon) times the total variation is added to delta.
    epsilon, near = float(cost.epsilon), _converged(cost, "its target")
    worst = exponential_epsilon(epsilon, updates, 1e-6)
    return (
        f"the chain {near}; if not, all that holds is epsilon {worst:.4g} at delta 1e-06 "
        f"({updates * epsilon:.6g} with no delta), as for {updates} updates that are all released"
    )
