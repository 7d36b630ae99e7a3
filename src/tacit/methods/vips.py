"""Variational Bayes in private settings: noisy expected statistics, step by step.

All steps are paid for at once, with as little noise as the budget affords.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tacit.accounting import gaussian_mu, noise_multiplier, sensitivity_factor
from tacit.accounting.plans import least_noise
from tacit.methods.method import Spending, Task
from tacit.spec.budget import Budget, Number, delta_of
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.plan import (
    Everyone,
    Geometry,
    Plan,
    Steps,
    Subsampling,
    WithoutReplacement,
    check_subsampling,
)
from tacit.spec.release import Release
from tacit.spec.schema import Neighbours
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, PilotQuery, Sums, Variational, VIPSSchedule

Accountant = Literal["pld", "rdp", "strong"]


@dataclass(frozen=True)
class VIPS:
    """Variational Bayes by noisy expected statistics (Park et al. 2020, Algorithm 2).

    Each step asks for the sum of expected statistics over the units that take part, with Gaussian
    noise, and updates the model's variational parameters. Sums are averaged before they are
    denoised, or clamped to zero with noise="plugin"; `clamp_steps` is the paper's order.

    Parameters
    ----------
    epsilon, delta
        What all steps cost together.
    steps
        How many. Default: with batches as many as let each unit take part once on average, and
        otherwise as many as suit the model.
    sampling
        Who takes part in a step, of `tacit.subsampling`: `Poisson(rate)`, each unit by itself, or
        `WithoutReplacement(size, population)`, as in the paper. Default: everyone, which has the
        least noise for the budget; less is faster. Error bars include privacy noise, and not
        subsampling variance: with batches they are too narrow.
    tau0, kappa
        Step t moves by the share (tau0 + t) ** -kappa towards what it saw, t = 1, 2, ... Default:
        tau0 = 0 and what suits the model without batches (kappa = 0: each step starts afresh from
        all data; more averages steps), and tau0 = 1, kappa = 0.7 with them.
    accountant
        By which theorem noise is chosen: "pld", or "rdp" (the moments accountant) and "strong",
        which are the paper's and need more noise. A ledger is charged what "pld" says of it.
    noise_multiplier
        Instead of epsilon: the standard deviation of the noise over the bound of a unit's share.
        0 is for public data alone.
    clamp_steps
        Set negative numbers to zero in every step, before the average, as the paper does: only
        where sums cannot be negative, and with noise="plugin". Positive noise is then left in small
        numbers, which flattens topics. It is for comparison.
    n_units
        About how many units there are, where that is secret. Needed under add_remove if the schema
        has no max_units.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    steps: int | None = None
    sampling: Subsampling | None = None
    tau0: float | None = None
    kappa: float | None = None
    accountant: Accountant = "pld"
    noise_multiplier: float | None = None
    clamp_steps: bool = False
    n_units: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("variational",)
    needs_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.noise_multiplier is None:
            budget = Budget(self.epsilon, 0 if self.delta is None else self.delta)
            if budget.delta == 0:
                raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
            set_fields(self, epsilon=budget.epsilon, delta=budget.delta)
        else:
            if self.epsilon is not None:
                raise BudgetError("Expected epsilon or noise_multiplier, not both.")
            set_fields(self, delta=delta_of("1e-6" if self.delta is None else self.delta))
        for what, most in (("steps", 10**7), ("n_units", 10**12)):
            if getattr(self, what) is not None:
                whole_number(getattr(self, what), what, 1, most=most)
        for what in ("tau0", "kappa", "noise_multiplier"):
            value = getattr(self, what)
            real = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (real and 0 <= value < 1e9):
                raise ModelError(f"Expected {what}={value!r} to be a number >= 0.")
        if self.sampling is not None:
            check_subsampling(self.sampling)
            set_fields(self, sampling=Everyone() if self.sampling.rate == 1 else self.sampling)
        one_of(self.accountant, "accountant", get_args(Accountant), ModelError)
        one_of(self.clamp_steps, "clamp_steps", (True, False), ModelError)

    def plan(self, task: Task) -> Spending:
        fit = self._fit(task)
        question = fit.preview(task)
        if self.clamp_steps:
            _check_clamped(question, task)
        pilots = tuple(pilot.question for pilot in fit.variational.pilots)
        plan = plan_of(fit.options, fit.variational, question, task.schema.neighbours)
        return Spending((plan,), (question, *pilots))

    def start(self, task: Task) -> PilotState | StepState:
        (plan,) = self.plan(task).payments  # for its number of steps alone
        assert isinstance(plan, Plan)
        fit = self._fit(task)
        return PilotState(task, fit, plan.count - len(fit.variational.pilots)).ready()

    def ask(self, state: PilotState | StepState) -> BoundedSum:
        match state:
            case PilotState(fit=fit, results=results):
                pilot = fit.variational.pilots[len(results)]
                return pilot.given(pilot.question, results)
            case StepState(fit=fit, parameters=parameters):
                return fit.variational.question(parameters)

    def tell(self, state: PilotState | StepState, release: Release) -> PilotState | StepState:
        match state:
            case PilotState(fit=fit, results=results):
                pilot = fit.variational.pilots[len(results)]
                return replace(state, results=(*results, pilot.result(release))).ready()
            case StepState():
                return state.after(release)

    def posterior(self, state: PilotState | StepState) -> Any:
        assert isinstance(state, StepState)
        model, sampling = state.task.model, state.task.sampling
        return model.variational_posterior(state.release, state.parameters, state.sums, sampling)

    def save(self, state: PilotState | StepState) -> dict[str, Any] | None:
        """The state as facts that stand for all answers but those of the pilot queries."""
        if isinstance(state, PilotState):
            return None
        # Parameters follow from the sums that they were last updated by.
        sums = {"sums": state.sums, "updated": state.updated}
        facts = {k: s and {"values": {**s.values}, "sd": {**s.sd}} for k, s in sums.items()}
        return {"since": len(state.sums.pilots), "step": state.step, **facts}

    def resume(self, state: StepState, facts: Mapping[str, Any]) -> StepState:
        """The state that `save` wrote down; `state` is one before it."""
        found = {
            k: facts[k] and Sums(facts[k]["values"], facts[k]["sd"], state.sums.pilots)
            for k in ("sums", "updated")
        }
        parameters = state.parameters
        if found["updated"] is not None:
            parameters = state.fit.variational.maximise(found["updated"])
        return replace(state, **found, parameters=parameters, step=facts["step"])

    def _fit(self, task: Task) -> _Fit:
        if task.n_units == 0 and isinstance(self.sampling, WithoutReplacement):
            raise ModelError("Expected units to take a batch of: there are none.")
        noise, units = self.noise_multiplier, task.known_units(self)
        if noise is None:  # an upper bound: the geometry is not known yet
            noise = _single(self, "free", task.schema.neighbours)
        setting = FitSetting(units, float(noise), task.sampling.noise == "aware")
        variational = task.model.variational(task.schema, setting)
        return _Fit(variational, self._with(variational.schedule))

    def _with(self, schedule: VIPSSchedule) -> VIPS:
        """The model's own batches and step sizes where none are given, unless batches are."""
        if self.sampling is not None and self.sampling.rate < 1:
            return self
        mine = {k: getattr(self, k) for k in ("sampling", "tau0", "kappa")}
        mine = {k: getattr(schedule, k) if v is None else v for k, v in mine.items()}
        return replace(self, **mine, steps=self.steps or schedule.steps)


@dataclass(frozen=True)
class _Fit:
    """A model, and the options with its own where none were given."""

    variational: Variational
    options: VIPS

    @property
    def sampling(self) -> Subsampling:
        return self.options.sampling or Everyone()

    def preview(self, task: Task) -> BoundedSum:
        """A question of the form that steps ask."""
        if self.variational.preview is not None:
            return self.variational.preview
        return self.variational.question(self.parameters(task, ())[1])

    def parameters(self, task: Task, results: tuple[Any, ...]) -> tuple[Sums, Any]:
        """The initial sums and variational parameters, given the results of the pilot queries."""
        # Not task.rng: without a seed= `plan` and every fit have the same initial values.
        sums = self.variational.start(np.random.default_rng(task.options.get("seed") or 0))
        sums = replace(sums, pilots=results)
        return sums, (self.variational.initial or self.variational.maximise)(sums)

    def step_size(self, step: int) -> float:
        """How far the averaged sums move towards those of a step."""
        batches, given = self.sampling.rate < 1, self.options
        tau0 = (1.0 if batches else 0.0) if given.tau0 is None else float(given.tau0)
        kappa = (0.7 if batches else 0.0) if given.kappa is None else float(given.kappa)
        return (tau0 + step) ** -kappa


@dataclass(frozen=True)
class PilotState:
    """Before the first step: the results of the pilot queries so far."""

    task: Task
    fit: _Fit
    steps: int
    results: tuple[Any, ...] = ()

    def ready(self) -> PilotState | StepState:
        """The state of the first step, if all pilot queries have been answered."""
        if len(self.results) < len(self.fit.variational.pilots):
            return self
        sums, parameters = self.fit.parameters(self.task, self.results)
        return StepState(self.task, self.fit, self.steps, sums, parameters)


@dataclass(frozen=True)
class StepState:
    """After some steps: the averaged sums, and the variational parameters that follow from them.

    `updated` are the sums by which parameters were last updated; None before that.
    """

    task: Task
    fit: _Fit
    steps: int
    sums: Sums
    parameters: Any
    step: int = 0
    updated: Sums | None = None
    release: Release | None = None

    def after(self, release: Release) -> StepState:
        """The state after one more step."""
        variational, step = self.fit.variational, self.step + 1
        rate = self.fit.sampling.rate
        tables = [release.table(block.name) for block in release.blocks]
        least = 0.0 if self.fit.options.clamp_steps else -np.inf
        scaled = Sums(  # up to all units
            {table.block.name: np.maximum(table.value, least) / rate for table in tables},
            {table.block.name: table.noise.scale / rate for table in tables},
            self.sums.pilots,
        )
        seen = variational.read(scaled, self.parameters)
        sums = self.sums.average(seen, self.fit.step_size(step))
        often = variational.schedule.updates if rate < 1 else None
        updates = min(often or self.steps, self.steps)
        after = replace(self, sums=sums, step=step, release=release)
        if step * updates // self.steps == (step - 1) * updates // self.steps:
            return after
        return replace(after, parameters=variational.maximise(sums), updated=sums)


@dataclass(frozen=True)
class _Part:
    """Steps with the same noise: `relative_noise` times a multiplier, or `fixed_multiplier`."""

    count: int
    relative_noise: float
    sampling: Subsampling
    geometry: Geometry
    numbers: int
    fixed_multiplier: float | None = None

    def steps(self, multiplier: float) -> Steps:
        scale = self.fixed_multiplier or self.relative_noise * multiplier
        noise = Gaussian(noise_multiplier=scale) if scale else Exact()
        return Steps(self.count, noise, self.sampling, self.geometry, self.numbers)


def plan_of(
    options: VIPS, variational: Variational, question: BoundedSum, neighbours: Neighbours
) -> Plan:
    """All steps of VIPS with these options."""
    sampling = options.sampling or Everyone()
    schedule, full = variational.schedule, isinstance(sampling, Everyone)
    count = options.steps or (schedule.steps if full else max(1, round(1 / sampling.rate)))
    # As in the paper all steps are alike, unless the noise may be allocated freely.
    free_allocation = options.noise_multiplier is None and options.accountant == "pld"
    growth = schedule.growth if free_allocation and full else 1.0
    relative = [(count, 1.0)]
    if growth != 1:
        relative = [(1, growth ** ((count - 1) / 2 - i)) for i in range(count)]
    geometry = _geometry(question)
    pilots = [_pilot(pilot, options, neighbours) for pilot in variational.pilots]
    parts = [_Part(times, r, sampling, geometry, question.numbers) for times, r in relative]
    every = (*pilots, *parts)
    if options.noise_multiplier is not None:
        return _plan(every, float(options.noise_multiplier), options.delta)
    budget = Budget(options.epsilon, options.delta or 0)
    if free_allocation:
        return _least_noise(every, budget, neighbours)
    rest = 1 - sum(pilot.share for pilot in variational.pilots)
    needed = noise_multiplier(
        epsilon=rest * float(budget.epsilon),
        steps=count,
        sampling_rate=sampling.rate,
        delta=rest * float(budget.delta),
        neighbours=neighbours,
        sampling="wor" if isinstance(sampling, WithoutReplacement) else "poisson",
        geometry=geometry,
        accountant=options.accountant,
    )
    return _plan(every, needed, budget.delta)


def _pilot(pilot: PilotQuery, options: VIPS, neighbours: Neighbours) -> _Part:
    """One full-batch pilot query: at its share of the budget, or with the noise that was asked for.

    The papers' accountants are for steps that are alike: with them the shares of pilot queries and
    steps just add up.
    """
    geometry, fixed_multiplier = _geometry(pilot.question), None
    if options.noise_multiplier is None and options.accountant == "pld":
        fixed_multiplier = _single(options, geometry, neighbours) / math.sqrt(pilot.share)
    elif options.noise_multiplier is None:
        fixed_multiplier = _single(options, geometry, neighbours, pilot.share)
    return _Part(1, 1.0, Everyone(), geometry, pilot.question.numbers, fixed_multiplier)


def _single(options: VIPS, geometry: Geometry, neighbours: Neighbours, share: float = 1.0) -> float:
    """The noise multiplier of a release that has all of the budget, or a share of it."""
    mu = gaussian_mu(share * float(options.epsilon or 0), share * float(options.delta or 0))
    return sensitivity_factor(geometry, neighbours) / mu


@lru_cache(maxsize=256)
def _least_noise(parts: tuple[_Part, ...], budget: Budget, neighbours: Neighbours) -> Plan:
    open_parts = [part for part in parts if part.fixed_multiplier is None]
    squares = sum(p.count * (p.sampling.rate / p.relative_noise) ** 2 for p in open_parts)
    mu = gaussian_mu(float(budget.epsilon), float(budget.delta))
    guess = max(0.3, sensitivity_factor("free", neighbours) * math.sqrt(squares) / mu)
    return least_noise(lambda m: _plan(parts, m, budget.delta), budget, neighbours, guess)


def _plan(parts: tuple[_Part, ...], multiplier: float, delta: Any) -> Plan:
    return Plan(*(part.steps(multiplier) for part in parts), delta=delta)


def _check_clamped(question: BoundedSum, task: Task) -> None:
    """Refuse to clamp sums that may be negative, or whose noise the model accounts for."""
    if any(bound.geometry in ("free", "outer") for bound in question.bounds):
        name = type(task.model).__name__
        raise ModelError(f"Expected clamp_steps=False: sums of {name} may be negative.")
    if task.sampling.noise == "aware":
        raise ModelError(
            'Expected noise="plugin" beside clamp_steps=True: noise-aware inference needs sums '
            "as they were released."
        )


def _geometry(question: BoundedSum) -> Geometry:
    """Return the smallest geometry containing all blocks."""
    geometries = {bound.geometry for _, bound in question.blocks}
    if len(geometries) == 1:
        return geometries.pop()
    return "free" if "free" in geometries else "nonnegative"
