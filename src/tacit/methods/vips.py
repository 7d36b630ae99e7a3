"""Variational Bayes in private settings: noisy expected statistics, step by step."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np

from tacit.methods.method import Spending, Task
from tacit.methods.vips_plan import Accountant, Batches, plan_of, setting_of
from tacit.spec.budget import Budget, Number, delta_of
from tacit.spec.checks import whole_number
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.plan import Plan
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Sums, Variational, VIPSSchedule


@dataclass(frozen=True)
class VIPS:
    """Variational Bayes by noisy expected statistics (Park et al. 2020, Algorithm 2).

    Each step asks for the sum of expected statistics over the units that take part, with Gaussian
    noise, and updates the model's variational parameters. Sums are averaged before they are
    denoised.

    Parameters
    ----------
    epsilon, delta
        What all steps cost together.
    batch_size
        About how many units take part in a step. Default: everyone, which has the least noise for
        the budget; less is faster. Error bars know the privacy noise, and not by what chance a
        batch differs from everyone: with batches they are too narrow.
    epochs
        How often each unit takes part on average. Default: 1 with a batch size, and otherwise as
        many steps as suit the model.
    tau0, kappa
        Step t moves by the share (tau0 + t) ** -kappa towards what it saw, t = 1, 2, ... Default:
        tau0 = 0 and what suits the model without a batch size (kappa = 0: each step starts afresh
        from all data; more averages steps), and tau0 = 1, kappa = 0.7 with one.
    sampling
        "poisson", each unit by itself, or "wor", a fixed number, as in the paper.
    accountant
        By which theorem noise is chosen: "pld", or "rdp" (the moments accountant) and "strong",
        which are the paper's and need more noise. A ledger is charged what "pld" says of it.
    noise_multiplier
        Instead of epsilon: the standard deviation of the noise over the bound of a unit's share.
        0 is for public data alone.
    n
        About how many units there are, where that is secret. Needed under add_remove if the schema
        has no max_units.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    batch_size: int | None = None
    epochs: float | None = None
    tau0: float | None = None
    kappa: float | None = None
    sampling: Batches = "poisson"
    accountant: Accountant = "pld"
    noise_multiplier: float | None = None
    n: int | None = None

    needs_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.noise_multiplier is None:
            budget = Budget(self.epsilon, 0 if self.delta is None else self.delta)
            if budget.delta == 0:
                raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
            object.__setattr__(self, "epsilon", budget.epsilon)
            object.__setattr__(self, "delta", budget.delta)
        else:
            _number("noise_multiplier", self.noise_multiplier, zero=True)
            if self.epsilon is not None:
                raise BudgetError("Expected epsilon or noise_multiplier, not both.")
            object.__setattr__(
                self, "delta", delta_of("1e-6" if self.delta is None else self.delta)
            )
        for what, least in (("batch_size", 1), ("n", 1)):
            if getattr(self, what) is not None:
                whole_number(getattr(self, what), what, least, most=10**12)
        for what, zero in (("epochs", False), ("tau0", True), ("kappa", True)):
            if getattr(self, what) is not None:
                _number(what, getattr(self, what), zero=zero)
        for what, known in (("sampling", Batches), ("accountant", Accountant)):
            if getattr(self, what) not in get_args(known):
                raise ModelError(
                    f"Expected {what}={getattr(self, what)!r} among {', '.join(get_args(known))}."
                )

    @classmethod
    def exact(cls) -> VIPS:
        """Without noise, for public data: what `tacit.Exact()` means."""
        return cls(noise_multiplier=0)

    def plan(self, task: Task) -> Spending:
        fit = self._fit(task)
        question = fit.preview(task)
        mine = self._with(fit.variational.schedule, fit.units)
        plan = plan_of(mine, fit.variational, question, fit.units, task.schema.neighbours)
        return Spending((plan,), (question, *(p.question for p in fit.variational.pilots)))

    def start(self, task: Task) -> PilotState | StepState:
        fit = self._fit(task)
        (plan,) = self.plan(task).payments
        assert isinstance(plan, Plan)
        steps = plan.count - len(fit.variational.pilots)
        return PilotState(task, fit, plan.steps[-1].sampling.rate, steps).ready()

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
            case StepState(fit=fit):
                return self._stepped(state, fit, release)

    def posterior(self, state: PilotState | StepState) -> Any:
        assert isinstance(state, StepState)
        model, how = state.task.model, state.task.sampling
        return model.variational_posterior(state.release, state.parameters, how)

    def _stepped(self, state: StepState, fit: _Fit, release: Release) -> StepState:
        pilot, variational, step = state.pilot, fit.variational, state.step + 1
        seen = variational.read(_sums(release, pilot.rate, pilot.results), state.parameters)
        mine = self._with(variational.schedule, fit.units)
        sums = state.sums.towards(seen, _step_size(mine, step))
        often = variational.schedule.updates if pilot.rate < 1 else None
        updates, parameters = min(often or pilot.steps, pilot.steps), state.parameters
        if step * updates // pilot.steps > (step - 1) * updates // pilot.steps:
            parameters = variational.maximise(sums)
        return replace(state, sums=sums, parameters=parameters, step=step, release=release)

    def _fit(self, task: Task) -> _Fit:
        units = self._units(task)
        setting = setting_of(self, units, task.schema.neighbours, task.sampling.noise == "aware")
        return _Fit(task.model.variational(task.schema, setting), units)

    def _with(self, schedule: VIPSSchedule, units: int) -> VIPS:
        """The model's own batches and step sizes, unless minibatches were asked for."""
        if self.batch_size is not None and self.batch_size < units:
            return self
        names = "epochs", "tau0", "kappa"
        mine = {"batch_size": None} | {name: getattr(self, name) for name in names}
        return replace(
            self, **{k: getattr(schedule, k) if v is None else v for k, v in mine.items()}
        )

    def _units(self, task: Task) -> int:
        if task.units == 0 and self.sampling == "wor":
            raise ModelError("Expected units to take a batch of: there are none.")
        return task.known_units(self)


@dataclass(frozen=True)
class _Fit:
    """A model with its schedule, for about so many units."""

    variational: Variational
    units: int

    def preview(self, task: Task) -> BoundedSum:
        """A question of the form that steps ask."""
        if self.variational.preview is not None:
            return self.variational.preview
        return self.variational.question(self.parameters(task, ())[1])

    def parameters(self, task: Task, results: tuple[Any, ...]) -> tuple[Sums, Any]:
        """The initial sums and variational parameters, given what the pilot queries said."""
        # Public randomness, and the same again where a name is replayed.
        sums = self.variational.start(np.random.default_rng(task.options.get("seed") or 0))
        sums = replace(sums, pilots=results)
        return sums, (self.variational.initial or self.variational.maximise)(sums)


@dataclass(frozen=True)
class PilotState:
    """Before the first step: the results of the pilot queries so far."""

    task: Task
    fit: _Fit
    rate: float
    steps: int
    results: tuple[Any, ...] = ()

    def ready(self) -> PilotState | StepState:
        """The state of the first step, if all pilot queries have been answered."""
        if len(self.results) < len(self.fit.variational.pilots):
            return self
        sums, parameters = self.fit.parameters(self.task, self.results)
        return StepState(self.task, self.fit, self, sums, parameters)


@dataclass(frozen=True)
class StepState:
    """After some steps: the averaged sums, and the variational parameters that follow from them."""

    task: Task
    fit: _Fit
    pilot: PilotState
    sums: Sums
    parameters: Any
    step: int = 0
    release: Release | None = None


def _step_size(how: VIPS, step: int) -> float:
    """How far the averaged sums move towards those of a step."""
    batches = how.batch_size is not None
    tau0 = (1.0 if batches else 0.0) if how.tau0 is None else float(how.tau0)
    kappa = (0.7 if batches else 0.0) if how.kappa is None else float(how.kappa)
    return (tau0 + step) ** -kappa


def _sums(release: Release, rate: float, pilots: tuple[Any, ...]) -> Sums:
    """A step's sums, scaled up to all units."""
    tables = [release.table(block.name) for block in release.blocks]
    return Sums(
        {table.block.name: table.value / rate for table in tables},
        {table.block.name: table.noise.scale / rate for table in tables},
        pilots,
    )


def _number(what: str, value: Any, *, zero: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ModelError(f"Expected a number for {what}, got {value!r}.")
    if not 0 <= value < 1e9 or (value == 0 and not zero):
        raise ModelError(f"Expected {what}={value} {'>=' if zero else '>'} 0.")
