"""Questions people ask: what does this much noise cost, and how much noise do I need?"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from tacit.accounting.calibrate import sensitivity_factor
from tacit.accounting.gaussian import check_delta, gaussian_mu
from tacit.accounting.pairs import GaussianStep, SamplingName, compositions, moved_by
from tacit.accounting.plans import parts_bounds
from tacit.accounting.rdp import rdp_epsilon, strong_epsilon
from tacit.spec.checks import number, one_of, whole_number
from tacit.spec.errors import BudgetError
from tacit.spec.plan import Geometry
from tacit.spec.schema import Neighbours

Accountant = Literal["pld", "rdp", "rdp-classic", "strong"]
_LEAST, _MOST = 1e-3, 1e9  # noise multipliers


def epsilon(
    *,
    noise_multiplier: float,
    steps: int = 1,
    sampling_rate: float = 1.0,
    delta: float,
    neighbours: Neighbours | None = None,
    sampling: SamplingName = "poisson",
    geometry: Geometry = "free",
    accountant: Accountant = "pld",
) -> float:
    """Epsilon at `delta` of `steps` releases of a sum with Gaussian noise.

    Noise is continuous here. The wall adds what noise on a grid costs, which is next to nothing.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise / largest norm of one unit's contribution, whatever the
        neighbours are.
    steps
        How many releases.
    sampling_rate
        Probability with which a unit takes part in a step.
    delta
        Where epsilon is read off.
    neighbours
        `"replace_one"` (the number of units is public) or `"add_remove"` (it is not).
    sampling
        `"poisson"` (each unit independently) or `"wor"` (batches of fixed size).
    geometry
        Where contributions lie: `"free"`, `"nonnegative"`, `"simplex"`, `"outer"` or `"box"`.
    accountant
        `"pld"`, the tightest; for comparison `"rdp"`, `"rdp-classic"` and `"strong"`.

    Examples
    --------
    >>> round(epsilon(noise_multiplier=1.0, delta=1e-6, neighbours="add_remove"), 3)
    4.887
    >>> round(epsilon(noise_multiplier=1.0, delta=1e-6, neighbours="replace_one"), 3)
    10.997
    """
    run = _Run.checked(steps, sampling_rate, delta, neighbours, sampling, geometry, accountant)
    multiplier = number(noise_multiplier, "noise_multiplier", _LEAST, _MOST, error=BudgetError)
    return _epsilon(multiplier, run)


def noise_multiplier(
    *,
    epsilon: float,
    steps: int = 1,
    sampling_rate: float = 1.0,
    delta: float,
    neighbours: Neighbours | None = None,
    sampling: SamplingName = "poisson",
    geometry: Geometry = "free",
    accountant: Accountant = "pld",
) -> float:
    """The smallest noise multiplier, to 1 in 10,000, that costs at most `epsilon` at `delta`.

    The other parameters are those of `tacit.accounting.epsilon`. Noise on a grid costs next to
    nothing more; a plan that must not exceed `epsilon` at all needs a target slightly below.

    Examples
    --------
    >>> needed = noise_multiplier(
    ...     epsilon=1.0, steps=1000, sampling_rate=0.01, delta=1e-5, neighbours="add_remove"
    ... )
    >>> round(needed, 2)
    1.41
    """
    run = _Run.checked(steps, sampling_rate, delta, neighbours, sampling, geometry, accountant)
    return _noise_multiplier(number(epsilon, "epsilon", 1e-9, 1e6, error=BudgetError), run)


class _Run(NamedTuple):
    """What `epsilon` and `noise_multiplier` are both asked about."""

    steps: int
    rate: float
    delta: float
    neighbours: Neighbours
    sampling: SamplingName
    geometry: Geometry
    accountant: Accountant

    @classmethod
    def checked(cls, steps: Any, rate: Any, delta: Any, neighbours: Any, *rest: Any) -> _Run:
        whole_number(steps, "steps", most=10**8, error=BudgetError)
        rate = number(rate, "sampling_rate", 1e-9, 1, error=BudgetError)
        delta = number(delta, "delta", 1e-100, 1, error=BudgetError)
        check_delta(delta)  # 1 is none
        run = cls(steps, rate, delta, neighbours, *rest)
        one_of(run.sampling, "sampling", get_args(SamplingName), BudgetError)
        one_of(run.accountant, "accountant", get_args(Accountant), BudgetError)
        sensitivity_factor(run.geometry, neighbours)  # refuses None
        return run


@lru_cache(maxsize=4096)
def _epsilon(multiplier: float, run: _Run) -> float:
    parts = ((GaussianStep(multiplier, run.sampling, run.rate, run.geometry), run.steps),)
    match run.accountant:
        case "pld" | "rdp":
            return min(parts_bounds(parts, run.neighbours, run.delta, run.accountant))[0]
        case "rdp-classic":
            found = compositions(parts, run.neighbours)
            return min(max(rdp_epsilon(c, run.delta, classic=True) for c in each) for each in found)
        case "strong":
            moved = moved_by(parts[0][0], run.neighbours)
            return strong_epsilon(moved, run.rate, run.steps, run.delta)


@lru_cache(maxsize=1024)
def _noise_multiplier(target: float, run: _Run) -> float:
    # Nearly Gaussian, if the noise is large; elsewhere a start like any other.
    guess = 2 * run.rate * math.sqrt(run.steps) / gaussian_mu(target, run.delta)
    return _smallest(lambda z: _epsilon(z, run), target, min(max(guess, 0.3), _MOST))


def _smallest(cost: Callable[[float], float], target: float, guess: float) -> float:
    """The least multiplier in reach whose cost is at most `target`, to 1e-4.

    False position in logarithms, where costs are nearly straight lines; an end that stays
    counts for half (Illinois), so that both ends close in.
    """

    def gap(z: float) -> float:
        return math.log(min(max(cost(z) / target, 1e-3), 1e30))

    low = high = guess
    low_gap = high_gap = gap(guess)
    while high_gap > 0:
        low, low_gap = high, high_gap
        if high >= _MOST:
            raise BudgetError(
                f"Expected a larger epsilon than {target}: for this accountant no noise is enough."
            )
        high = min(high * max(2.0, min(math.exp(high_gap), 100.0)), _MOST)
        high_gap = gap(high)
    while low_gap <= 0:
        high, high_gap = low, low_gap
        if low <= _LEAST:
            return _LEAST
        low = max(low / 2, _LEAST)
        low_gap = gap(low)
    held = high_gap
    while high > low * (1 + 1e-4):
        ratio = low_gap / (low_gap - held) if low_gap > held else 0.5
        # Never nearer to an end than half the tolerance: one more step closes the bracket.
        log_width = math.log(high / low)
        margin = min(4e-5 / log_width, 0.5)
        middle = low * math.exp(log_width * min(max(ratio, margin), 1 - margin))
        if (middle_gap := gap(middle)) > 0:
            low, low_gap, held = middle, middle_gap, held / 2
        else:
            high, held, low_gap = middle, middle_gap, low_gap / 2
    return high
