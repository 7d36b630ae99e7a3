"""What the pilot queries and the steps of a gradient sampler cost: plans for a budget."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

from tacit.accounting import gaussian_mu, sensitivity_factor
from tacit.accounting.plans import least_noise
from tacit.methods.pilots import pilot_steps
from tacit.spec.budget import Budget, Number
from tacit.spec.mechanisms import Gaussian
from tacit.spec.plan import Plan, Steps, Subsampling
from tacit.spec.schema import Neighbours


def paper_multiplier(epsilon: float, delta: Number, steps: int) -> float:
    """The noise of Wang et al. (2015, Algorithm 2) for the gradient of all data, Lipschitz 1."""
    logs = math.log(2.5 * steps / float(delta)) * math.log(2 / float(delta))
    return math.sqrt(128 * steps * logs) / epsilon


@lru_cache(maxsize=256)
def payments(
    steps: int,
    blocks: int,
    sampling: Subsampling,
    size: int,
    numbers: int,
    budget: Budget,
    share: float,
    neighbours: Neighbours,
) -> tuple[Plan, ...]:
    """Pilot queries and steps, with as little noise as the budget affords.

    They are one payment; of several blocks, the pilot queries are a payment before them.
    """
    mu = gaussian_mu(float(budget.epsilon), float(budget.delta))
    guess = max(0.3, sensitivity_factor("free", neighbours) / mu)

    def walk(m: float) -> Steps:
        multiplier = m * max(sampling.rate, 1e-3) * math.sqrt(steps / (1 - share))
        return Steps(steps, Gaussian(noise_multiplier=multiplier), sampling, numbers=numbers)

    if blocks == 1:
        make = lambda m: Plan(*pilot_steps(size, share, 1 / m), walk(m), delta=budget.delta)  # noqa: E731
        return (least_noise(make, budget, neighbours, guess),)
    part = Budget(budget.epsilon * Decimal(str(share)), budget.delta * Decimal(str(share)))
    first = least_noise(
        lambda m: Plan(*pilot_steps(size, 1.0, 1 / m), delta=part.delta), part, neighbours, guess
    )
    rest = Budget(budget.epsilon - part.epsilon, budget.delta - part.delta).split(blocks)
    each = block_plan(steps // blocks, sampling, numbers, rest, neighbours)
    return (first, *(each,) * blocks)


@lru_cache(maxsize=256)
def block_plan(
    count: int, sampling: Subsampling, numbers: int, share: Budget, neighbours: Neighbours
) -> Plan:
    """One block of steps, with as little noise as its share of the budget affords."""
    mu = gaussian_mu(float(share.epsilon), float(share.delta))
    factor = sensitivity_factor("free", neighbours)
    guess = max(0.3, sampling.rate * factor * math.sqrt(count) / mu)
    make = lambda m: steps_plan(m, count, sampling, numbers, share.delta)  # noqa: E731
    return least_noise(make, share, neighbours, guess)


def steps_plan(
    noise: float, count: int, sampling: Subsampling, numbers: int, delta: Decimal
) -> Plan:
    """A plan of `count` steps of one noise multiplier."""
    steps = Steps(count, Gaussian(noise_multiplier=noise), sampling, numbers=numbers)
    return Plan(steps, delta=delta)
