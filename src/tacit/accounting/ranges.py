"""How far one unit can move the scores of a draw, and the temperature that this asks for.

The range is that of the exponential mechanism: the largest minus the smallest change of a score
over all outcomes. Divided by the temperature it is the epsilon of one draw.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np

from tacit.accounting.bounded_range import exponential_epsilon
from tacit.accounting.calibrate import Calibration
from tacit.accounting.draws import GRID, by_range
from tacit.spec.budget import Budget, round_up
from tacit.spec.density import DensityDraw, Points
from tacit.spec.errors import BudgetError
from tacit.spec.hidden_states import Panel, StatePaths
from tacit.spec.mechanisms import Exponential
from tacit.spec.release import Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound

ROUNDING = 1 + 1e-12  # far more than the arithmetic here can lose


def choice_range(bound: Bound, schema: Schema) -> float:
    """Of a `Choice`: a unit's scores lie between 0 and the clip, and so does what replaces them."""
    # proof: choice-range
    return bound.clip * (2 if schema.neighbours == "replace_one" else 1) * ROUNDING


def paths_range(query: StatePaths, schema: Schema) -> float:
    """Of `StatePaths`: how much better one state can explain a row than another."""
    # proof: paths-range. A row may lack an emission, so none takes anything away.
    gaps = np.zeros((query.states, query.states))
    for profile in query.profiles:
        log = np.log(profile)
        gaps += np.maximum(0.0, (log[:, None, :] - log[None, :, :]).max(axis=2))
    return _of_rows(float(gaps.max()), schema)


def level_width(levels: int, truncation: float) -> float:
    """The width of a level's log-probability if none is below `truncation` / `levels`."""
    least = truncation / levels
    return math.log((1 - (levels - 1) * least) / least) if levels > 1 else 0.0


def profiles_range(panel: Panel, truncation: float, schema: Schema) -> float:
    """Of `StateProfiles` and `StateChain`: all emissions of a row together."""
    # proof: profiles-range
    widths = [level_width(len(schema[name].labels), truncation) for name in panel.emissions]
    return _of_rows(math.fsum(widths), schema)


def _of_rows(one: float, schema: Schema) -> float:
    """From what one row can do to what one unit can: it has k rows, and others may replace them."""
    both = 2 if schema.neighbours == "replace_one" else 1
    return one * both * schema.max_rows_per_unit * ROUNDING


def temperature(span: float, epsilon: Decimal) -> float:
    """At which a draw of this range costs at most epsilon; never below 1, the model's own."""
    if not 0 <= span < math.inf:
        raise BudgetError(f"Expected a draw whose scores move by a bounded amount, not {span}.")
    return max(1.0, span / float(epsilon) * ROUNDING * ROUNDING)


def calibrate_range(mechanism: Exponential, span: float, *grids: float) -> Calibration:
    """One draw. Where temperature 1 is enough it costs what it costs, not what was offered."""
    heat = temperature(span, mechanism.epsilon)
    cost = min(round_up(max(span / heat * ROUNDING, 1e-9)), mechanism.epsilon)
    laws = tuple(Noise("draw", heat, grid) for grid in grids)
    return Calibration(laws, Budget(cost, mechanism.delta), "bounded range, pure epsilon")


def density_bound(query: DensityDraw, schema: Schema) -> Bound:
    """What a unit may add to the score of each place: the width, for each row it may have."""
    places = len(query.region.theta) if isinstance(query.region, Points) else 1
    return Bound(places, query.width * schema.max_rows_per_unit, geometry="box")


def calibrate_density(mechanism: Exponential, query: DensityDraw, schema: Schema) -> Calibration:
    """Of a `DensityDraw`. Among points it is exact; a chain's distance from its law costs delta."""
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
        calibration = replace(calibration, cost=paid)
    count = query.steps + (query.draws - 1) * max(1, query.steps // 2)
    assumed = density_assumption(Budget(calibration.cost.epsilon, left), count)
    return replace(calibration, assumptions=(assumed,))


def density_assumption(cost: Budget, steps: int) -> str:
    """What must be assumed of a chain whose steps have no guarantee of their own."""
    distance = _distance(cost)  # proof: density-converged
    near = f"came within a total variation of {distance:.3g} of the law that is paid for"
    return (
        f"the Metropolis chain {near if distance > 0 else 'had converged'} after {steps} steps; if "
        "not, nothing is promised: no epsilon holds for where it ended"
    )


def _distance(cost: Budget) -> float:
    """How far from its law a chain may be, in total variation, for the delta that is left."""
    epsilon = float(cost.epsilon)
    if epsilon > 500:
        raise BudgetError(f"Expected an epsilon of at most 500, got {epsilon:g}.")
    return float(cost.delta) / (1 + math.exp(epsilon))


def chain_assumption(cost: Budget, updates: int) -> str:
    """What must be assumed where only the last state of a chain is released.

    The delta that was paid is what the chain's distance from its target may cost.
    """
    # proof: chain-converged. (1 + e^epsilon) times the total variation is added to delta.
    epsilon, distance = float(cost.epsilon), _distance(cost)
    near = f"came within a total variation of {distance:.3g} of its target"
    worst = exponential_epsilon(epsilon, updates, 1e-6)
    return (
        f"the chain {near if distance > 0 else 'had converged'}; if not, all that holds is epsilon "
        f"{worst:.4g} at delta 1e-06 ({updates * epsilon:.6g} with no delta), as for {updates} "
        "updates that are all released"
    )
