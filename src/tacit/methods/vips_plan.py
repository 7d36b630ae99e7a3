"""What the steps of VIPS cost: as little noise as a budget affords."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from tacit.accounting import gaussian_mu, noise_multiplier, sensitivity_factor
from tacit.accounting.plans import least_noise
from tacit.spec.budget import Budget
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.plan import (
    Everyone,
    Geometry,
    Plan,
    Poisson,
    Steps,
    Subsampling,
    WithoutReplacement,
)
from tacit.spec.schema import Neighbours
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import PilotQuery, Setting, Variational

Accountant = Literal["pld", "rdp", "strong"]
Batches = Literal["poisson", "wor"]


@dataclass(frozen=True)
class _Part:
    """Steps with the same noise: `ratio` times that of others, or one that is `settled` already."""

    count: int
    ratio: float
    sampling: Subsampling
    geometry: Geometry
    numbers: int
    settled: float | None = None

    def steps(self, multiplier: float) -> Steps:
        scale = self.settled or self.ratio * multiplier
        noise = Gaussian(noise_multiplier=scale) if scale else Exact()
        return Steps(self.count, noise, self.sampling, self.geometry, self.numbers)


def setting_of(how: Any, units: int, neighbours: Neighbours, aware: bool) -> Setting:
    """The noise of one release for all of the budget, and how many units there are."""
    if how.noise_multiplier is not None:
        return Setting(units, float(how.noise_multiplier), aware)
    return Setting(units, _single(how, "free", neighbours), aware)


def _single(how: Any, geometry: Geometry, neighbours: Neighbours, share: float = 1.0) -> float:
    """The noise multiplier of a release that has all of the budget, or a share of it."""
    mu = gaussian_mu(share * float(how.epsilon), share * float(how.delta))
    return sensitivity_factor(geometry, neighbours) / mu


def plan_of(
    how: Any, variational: Variational, question: BoundedSum, units: int, neighbours: Neighbours
) -> Plan:
    """All steps of VIPS with these options."""
    sampling = _batches(how, units)
    schedule = variational.schedule
    full = isinstance(sampling, Everyone)
    epochs = how.epochs or (schedule.steps if full else 1)
    count = max(1, round(epochs / sampling.rate))
    # As in the paper all steps are alike, unless the noise is ours to share out.
    ours = how.noise_multiplier is None and how.accountant == "pld"
    growth = schedule.growth if ours and full else 1.0
    parts = [
        _Part(times, ratio, sampling, _geometry(question), question.numbers)
        for times, ratio in (
            [(count, 1.0)]
            if growth == 1
            else [(1, growth ** ((count - 1) / 2 - i)) for i in range(count)]
        )
    ]
    pilots = [_pilot(pilot, how, neighbours) for pilot in variational.pilots]
    if how.noise_multiplier is not None:
        return _plan((*pilots, *parts), float(how.noise_multiplier), how.delta)
    budget = Budget(how.epsilon, how.delta)
    if ours:
        return _least_noise((*pilots, *parts), budget, neighbours)
    rest = 1 - sum(pilot.share for pilot in variational.pilots)
    needed = noise_multiplier(
        epsilon=rest * float(budget.epsilon),
        steps=count,
        sampling_rate=sampling.rate,
        delta=rest * float(budget.delta),
        neighbours=neighbours,
        sampling="wor" if isinstance(sampling, WithoutReplacement) else "poisson",
        geometry=parts[-1].geometry,
        accountant=how.accountant,
    )
    return _plan((*pilots, *parts), needed, budget.delta)


def _pilot(pilot: PilotQuery, how: Any, neighbours: Neighbours) -> _Part:
    """One full-batch pilot query: at its share of the budget, or with the noise that was asked for.

    The papers' accountants are for steps that are alike: with them the shares of pilot queries and
    steps just add up.
    """
    geometry, numbers = _geometry(pilot.question), pilot.question.numbers
    part = _Part(1, 1.0, Everyone(), geometry, numbers)
    if how.noise_multiplier is not None:
        return part
    if how.accountant == "pld":
        return replace(part, settled=_single(how, geometry, neighbours) / math.sqrt(pilot.share))
    return replace(part, settled=_single(how, geometry, neighbours, pilot.share))


@lru_cache(maxsize=256)
def _least_noise(parts: tuple[_Part, ...], budget: Budget, neighbours: Neighbours) -> Plan:
    open_parts = [part for part in parts if part.settled is None]
    squares = sum(part.count * (part.sampling.rate / part.ratio) ** 2 for part in open_parts)
    mu = gaussian_mu(float(budget.epsilon), float(budget.delta))
    guess = max(0.3, sensitivity_factor("free", neighbours) * math.sqrt(squares) / mu)
    return least_noise(lambda m: _plan(parts, m, budget.delta), budget, neighbours, guess)


def _plan(parts: tuple[_Part, ...], multiplier: float, delta: Any) -> Plan:
    return Plan(*(part.steps(multiplier) for part in parts), delta=delta)


def _batches(how: Any, units: int) -> Subsampling:
    if how.batch_size is None or how.batch_size >= units:
        return Everyone()
    if how.sampling == "wor":
        return WithoutReplacement(how.batch_size, units)
    return Poisson(how.batch_size / units)


def _geometry(question: BoundedSum) -> Geometry:
    """One that all blocks are within."""
    kinds = {bound.geometry for _, bound in question.blocks}
    if len(kinds) == 1:
        return kinds.pop()
    return "free" if "free" in kinds else "nonnegative"
