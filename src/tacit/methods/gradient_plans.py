"""What a block of noisy gradients costs: the accountant's noise, or for public data the papers'."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from tacit.accounting import gaussian_mu, sensitivity_factor
from tacit.accounting.plans import least_noise
from tacit.spec.budget import Budget, Number
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Gaussian
from tacit.spec.plan import Everyone, Plan, Poisson, Steps
from tacit.spec.protocols import Releaser
from tacit.spec.schema import Neighbours
from tacit.spec.sums import BoundedSum

Constants = Literal["accountant", "paper"]


def block_plan(how: Any, question: BoundedSum, releaser: Releaser, constants: Constants) -> Plan:
    """One block of steps, with as little noise as its share of the budget affords."""
    count, rate = how.steps // how.blocks, how.sampling_rate
    share = Budget(how.epsilon, how.delta).split(how.blocks)
    if constants == "paper":
        if releaser.remaining is not None:
            raise BudgetError(
                'constants="paper" is for tacit.Public alone: on a wall the accountant\'s noise '
                "gives the same guarantee and is many times smaller."
            )
        multiplier = rate * paper_multiplier(how.epsilon, how.delta, how.steps)
        return _steps(multiplier, count, rate, question.numbers, share.delta)
    return _least_noise(count, rate, question.numbers, share, releaser.schema.neighbours)


@lru_cache(maxsize=256)
def _least_noise(
    count: int, rate: float, numbers: int, share: Budget, neighbours: Neighbours
) -> Plan:
    factor = sensitivity_factor("free", neighbours)
    mu = gaussian_mu(float(share.epsilon), float(share.delta))
    guess = max(0.3, rate * factor * math.sqrt(count) / mu)
    make = lambda m: _steps(m, count, rate, numbers, share.delta)  # noqa: E731
    return least_noise(make, share, neighbours, guess)


def _steps(multiplier: float, count: int, rate: float, numbers: int, delta: Decimal) -> Plan:
    sampling = Everyone() if rate == 1 else Poisson(rate)
    noise = Gaussian(noise_multiplier=multiplier)
    return Plan(Steps(count, noise, sampling, numbers=numbers), delta=delta)


def paper_multiplier(epsilon: Number, delta: Number, steps: int) -> float:
    """Of Wang et al. (2015, Algorithm 2), for the gradient of all data: Lipschitz constant 1."""
    logs = math.log(2.5 * steps / float(delta)) * math.log(2 / float(delta))
    return math.sqrt(128 * steps * logs) / float(epsilon)
