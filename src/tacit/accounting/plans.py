"""What the steps of a plan cost together, discrete noise included, and what a budget affords."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from tacit.accounting.calibrate import discrete_loss, least_sigma_over_grid, sensitivity_factor
from tacit.accounting.pairs import (
    GaussianStep,
    Part,
    Pure,
    Ranged,
    SamplingName,
    compositions,
    is_shift,
)
from tacit.accounting.pld import pld_epsilon
from tacit.accounting.rdp import rdp_epsilon
from tacit.spec.budget import Budget, round_up
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential, Gaussian, Laplace
from tacit.spec.plan import Plan, Steps, WithoutReplacement
from tacit.spec.schema import Neighbours

PlanAccountant = Literal["pld", "rdp"]
_LARGEST_EPSILON = 500.0  # beyond it the far tails of the discrete noise would matter
_LARGEST_LOSS = 0.05


def plan_epsilon(
    plan: Plan, neighbours: Neighbours, accountant: PlanAccountant = "pld"
) -> tuple[float, str]:
    """Epsilon of all steps of a plan together at `plan.delta`, and by which theorem.

    Parameters
    ----------
    plan
        The steps and a delta.
    neighbours
        `"replace_one"` or `"add_remove"`.
    accountant
        `"pld"` (privacy loss distributions, exact where all is plain Gaussian noise) or `"rdp"`.

    Examples
    --------
    >>> from tacit.spec.plan import Poisson, Steps
    >>> plan = Plan(Steps(1000, Gaussian(noise_multiplier=1.0), Poisson(0.01)), delta=1e-5)
    >>> epsilon, by = plan_epsilon(plan, "add_remove")
    >>> round(epsilon, 3), by
    (1.829, 'privacy loss distribution')
    """
    sensitivity_factor("free", neighbours)  # refuses an unknown relation
    if accountant not in ("pld", "rdp"):
        raise BudgetError(f'Expected accountant={accountant!r} to be "pld" or "rdp".')
    parts, losses = parts_of(plan)
    bounds = []
    if not losses:  # exact, whatever decimal context the process has set, and rounded up
        pure = sum(steps.count * Fraction(_epsilon(steps)) for steps in plan.steps)
        total = float(pure)
        total = total if Fraction(total) >= pure else math.nextafter(total, math.inf)
        bounds.append((total, "pure epsilon"))
    if plan.delta > 0:
        loss = math.fsum(losses)
        if loss > _LARGEST_LOSS:
            raise BudgetError(
                f"Expected a smaller count * numbers: noise on a grid would cost {loss:.2g} more. "
                "Take fewer steps, or fewer numbers in each."
            )
        delta = float(plan.delta) * math.exp(-loss) * (1 - 1e-9)  # proof: gaussian-discrete
        found = parts_bounds(parts, neighbours, delta, accountant)
        bounds += [(epsilon + 2 * loss, by) for epsilon, by in found]
    epsilon, by = min(bounds)
    if losses and not epsilon <= _LARGEST_EPSILON:
        raise BudgetError(
            f"Expected an epsilon of at most {_LARGEST_EPSILON:g}, got {epsilon:.4g}: take more "
            "noise or fewer steps."
        )
    return epsilon, by


def parts_of(plan: Plan) -> tuple[tuple[Part, ...], list[float]]:
    """The steps as accountants know them, and what the grid of their Gaussian noise loses."""
    parts: list[Part] = []
    losses = []
    for steps in plan.steps:
        match steps.mechanism:
            case Laplace() | Exponential():
                # Losses of a discrete Laplace vector lie within +-epsilon, and no more is used.
                pair = Pure if isinstance(steps.mechanism, Laplace) else Ranged
                parts.append((pair(float(_epsilon(steps))), steps.count))
            case Gaussian(noise_multiplier=float(multiplier)):
                name: SamplingName = "poisson"
                if isinstance(steps.sampling, WithoutReplacement):
                    name = "wor"
                step = GaussianStep(multiplier, name, steps.sampling.rate, steps.geometry)
                parts.append((step, steps.count))
                each_loss = discrete_loss(steps.numbers, least_sigma_over_grid(multiplier))
                losses.append(steps.count * each_loss)
            case other:
                raise BudgetError(f"Expected a mechanism that a plan knows, got {other!r}.")
    return tuple(parts), losses


def _epsilon(steps: Steps) -> Decimal:
    assert isinstance(steps.mechanism, Laplace | Exponential)
    return steps.mechanism.epsilon


def parts_bounds(
    parts: tuple[Part, ...], neighbours: Neighbours, delta: float, accountant: PlanAccountant
) -> list[tuple[float, str]]:
    """Alternative bounds on epsilon at `delta`, continuous noise; all hold."""
    options = compositions(parts, neighbours)
    ranged = any(isinstance(step, Ranged) for step, _ in parts)
    found = []
    if accountant == "pld":
        for directions in options:
            plain = all(is_shift(pair) for c in directions for pair, _ in c)
            by = "exact Gaussian profile" if plain else "privacy loss distribution"
            found.append((max(pld_epsilon(c, delta) for c in directions), by))
    if accountant == "rdp" or ranged:
        by = "bounded range (zCDP)" if ranged else "Renyi divergence"
        found += [(max(rdp_epsilon(c, delta) for c in directions), by) for directions in options]
    return found


def largest_plan(make: Callable[[float], Plan], budget: Budget, neighbours: Neighbours) -> Plan:
    """The plan `make(x)`, x an inverse noise, with the largest affordable x; cost must grow."""

    def affordable(x: float) -> bool:
        try:
            return _cost(make(x), neighbours) <= budget.epsilon
        except BudgetError:
            return False

    low, high = 1e-6, 1e-5
    if not affordable(low):
        raise BudgetError(f"Expected a larger budget than {budget} for so many steps.")
    while affordable(high):
        low, high = high, 4 * high
        if high > 1e6:
            raise BudgetError(f"Expected a smaller budget than {budget} for so few steps.")
    for _ in range(40):  # `least_noise` takes fewer costs; this asks only that they grow
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
        if high - low < 1e-7 * high:
            break
    return make(low)


def least_noise(
    make: Callable[[float], Plan], budget: Budget, neighbours: Neighbours, guess: float = 1.0
) -> Plan:
    """The plan `make(m)` with the smallest noise multiplier m, to one in a thousand of its cost.

    Cost must fall with m. On a log scale it is nearly a straight line, so that few costs have to be
    computed: those of many sampled steps take a while.
    """
    target = math.log(float(budget.epsilon)) - 5e-4
    low, high = (-math.inf, math.inf), (math.inf, -math.inf)  # log m, log cost
    here = math.log(guess)
    for turn in range(100):
        cost = _cost(make(math.exp(here)), neighbours)
        if cost <= budget.epsilon:
            high = here, math.log(float(cost))
            if high[1] >= target - 5e-4 or high[0] - low[0] < 1e-9:
                break
        else:
            low = here, math.log(float(cost))
        if math.isinf(low[0]) or math.isinf(high[0]):
            known = high if math.isinf(low[0]) else low
            move = known[1] - target if math.isfinite(known[1]) else 2.0
            here = known[0] + math.copysign(min(max(abs(1.1 * move), 0.01), 3.0), move)
            if not -7 < here < 20:
                raise BudgetError(f"Expected another budget than {budget} for so many steps.")
        elif math.isinf(low[1]) or turn % 3 == 2:
            here = (low[0] + high[0]) / 2
        else:
            share = (low[1] - target) / (low[1] - high[1])
            here = low[0] + share * (high[0] - low[0])
    return make(math.exp(high[0]))


def _cost(plan: Plan, neighbours: Neighbours) -> Decimal:
    """Charged epsilon, or infinity where the plan is refused."""
    try:
        spent, _ = plan_epsilon(plan, neighbours)
    except BudgetError:
        return Decimal("Infinity")
    return round_up(max(spent, 1e-9))
