"""The loop that all samplers by gradients share: pay, ask for a noisy gradient, step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol

import numpy as np

from tacit.methods.common import refuse_sampling, whole_number
from tacit.methods.gradient_plans import Constants, block_plan
from tacit.methods.progress import counted
from tacit.methods.schedules import Constant, Schedule, schedule_of
from tacit.spec.budget import Budget
from tacit.spec.certificate import Certificate
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.gradients import Gradients
from tacit.spec.mechanisms import Gaussian
from tacit.spec.plan import Poisson
from tacit.spec.programs import Program
from tacit.spec.protocols import GradientModel, Releaser
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum

# How many times a walk must be able to forget its start, in the stiffest direction that the public
# curvature knows of. Where privacy noise allows less, the walk is run hotter. (SGLD of 500 steps on
# 8 simulated logistic regressions, 5,000 rows, 5 coefficients: at epsilon 2, 90% intervals cover
# 72% with 25 and 98% with 100; at epsilon 0.5, 50% with 5, 100% with 25, and with 100 error and
# width are two to three times those with 25. 40 lies between and was not itself measured.)
_RELAXATIONS = 40
_FAR = 1e12


@dataclass(frozen=True)
class Setting:
    """What is public of a walk before its first step."""

    gradients: Gradients
    rate: float
    precision: float
    batch: float
    known: float
    heat: float
    steps: int


class Walker(Protocol):
    """A sampler: what it asks for, how long its steps may be, and how it takes them.

    `quiet` is the longest step at which privacy noise is no more than the noise of the step itself,
    `stable` the longest at which the walk is accurate without any.
    """

    def question(self, question: BoundedSum) -> BoundedSum: ...

    def limits(self, setting: Setting) -> tuple[float, float]: ...

    def begin(self, setting: Setting, theta: np.ndarray, rng: np.random.Generator) -> Any: ...

    def step(self, state: Any, release: Release, setting: Setting, eta: float, rng: Any) -> Any: ...

    def place(self, state: Any) -> np.ndarray: ...


def check_options(how: Any) -> None:
    """Refuse what makes no sense, and put what remains in one form."""
    budget = Budget(how.epsilon, how.delta)
    if budget.delta == 0:
        raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
    steps = whole_number(how.steps, "steps", 1000, most=10**7)
    blocks = whole_number(how.blocks, "blocks", 1, most=10**4)
    if steps % blocks:
        raise ModelError(f"Expected steps={steps} to be a multiple of blocks={blocks}.")
    settled: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "steps": steps,
        "blocks": blocks,
        "sampling_rate": Poisson(how.sampling_rate).rate,
        "step_size": schedule_of(how.step_size),
        "n": None if how.n is None else whole_number(how.n, "n", 1, most=10**12),
    }
    for what, least in (("clip", 0.0), ("temperature", 0.0)):
        value = getattr(how, what)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise ModelError(f"Expected a number for {what}, got {value!r}.")
        if not least < value < 1e100:
            raise ModelError(f"Expected {what}={value} > {least:g}.")
        settled[what] = float(value)
    for name, value in settled.items():
        object.__setattr__(how, name, value)


def walk(
    how: Any,
    walker: Walker,
    model: GradientModel,
    releaser: Releaser,
    *,
    name: str | None,
    progress: bool | None = None,
    constants: Constants = "accountant",
    remark: Callable[[Setting, Schema], str] | None = None,
    **sampling: Any,
) -> Any:
    """Take all steps, and return the model's posterior of the second half of them."""
    kind = type(how).__name__
    refuse_sampling(sampling, f"{kind}(steps=...)")
    if name is not None:
        raise ModelError(
            f"{kind} takes no name=: its steps cannot be replayed. Leave it out, and keep what you "
            "get with posterior.save(path)."
        )
    schema = releaser.schema
    gradients = _clipped(model.gradients(schema), how.clip)
    question = walker.question(gradients.question)
    n = how.n or (schema.max_units if schema.neighbours == "add_remove" else None)
    if n is None and schema.neighbours == "add_remove":
        raise ModelError(
            "Expected about how many units there are, which is secret under add_remove: write "
            f"{kind}(..., n=10_000) or Schema(..., max_units=10_000)."
        )
    here = _start(how.start, gradients)
    releaser.quote(question, Gaussian(1, "1e-6"))  # refused before it is paid for
    plan = block_plan(how, question, releaser, constants)
    rng = np.random.default_rng(sampling.get("seed"))
    walked = _Walked(how.steps, here.size)
    lease, setting, state = None, None, None
    try:
        with np.errstate(all="ignore"):
            for i in counted(how.steps, "Steps", progress):
                if lease is None or lease.steps_left == 0:
                    lease = releaser.prepay(plan)  # one block
                    walked.paid.append(lease.certificate)
                release = lease.release(at_parameters(question, here))
                if setting is None:
                    setting = _setting(how, gradients, release, n or release.n or 1)
                    sizes = _sizes(how, walker, setting)
                    state = walker.begin(setting, here, rng)
                state = walker.step(state, release, setting, sizes[i], rng)
                here = walker.place(state)
                if not np.abs(here).max() < _FAR:
                    raise ModelError(
                        f"The walk ran away at step {i + 1}: take a smaller step_size than "
                        f"{sizes[i]:.3g}. {_paid(walked.paid)}"
                    )
                walked.add(here, release)
    except KeyboardInterrupt:
        if walked.taken < how.steps // how.blocks:
            raise
    assert setting is not None
    heat = _heat_of(setting, walker, sizes[: walked.taken])
    notes = _notes(kind, heat, walked, how)
    if remark is not None:
        notes += (remark(setting, schema),)
    certificate = together(walked.paid, walked.last.certificate).assuming(notes)
    final = replace(walked.last, certificate=certificate)
    return model.gradient_posterior(final, walked.kept(sizes)[None])


def at_parameters(question: BoundedSum, theta: np.ndarray) -> BoundedSum:
    """The question at other parameters: the first array of its state, while the others stay.

    Kernels take doubles, and programs the precision that they were traced in.
    """
    kernel = question.kernel
    precision = kernel.state[0][0] if isinstance(kernel, Program) else np.float64
    return question.at((theta.astype(precision), *question.state[1:]))


class _Walked:
    """Where the walk has been, and what was paid for it."""

    def __init__(self, steps: int, size: int) -> None:
        self.places = np.empty((steps, size))
        self.taken = 0
        self.paid: list[Certificate] = []
        self.last: Any = None

    def add(self, place: np.ndarray, release: Release) -> None:
        self.places[self.taken] = place
        self.taken += 1
        self.last = release

    def kept(self, sizes: np.ndarray) -> np.ndarray:
        """The second half, at even intervals of the walk's own time: long steps count for more."""
        time = np.cumsum(sizes[: self.taken])
        kept = max(1, self.taken - self.taken // 2)
        burnt = time[self.taken - kept - 1] if kept < self.taken else 0.0
        ticks = burnt + (np.arange(kept) + 0.5) / kept * (time[-1] - burnt)
        return self.places[np.minimum(np.searchsorted(time, ticks), self.taken - 1)]


def together(paid: Sequence[Certificate], last: Certificate) -> Certificate:
    """Blocks of steps, each charged for itself: their epsilons and deltas add up."""
    if len(paid) == 1:
        return last
    return replace(
        last,
        epsilon=sum((c.epsilon for c in paid), Decimal(0)),
        delta=sum((c.delta for c in paid), Decimal(0)),
        accountant=f"{last.accountant} within each of {len(paid)} blocks, their sum over blocks",
        events=tuple(event for c in paid for event in c.events),
    )


def _notes(kind: str, heat: float, walked: _Walked, how: Any) -> tuple[str, ...]:
    notes = [
        f"every one of the {walked.taken} steps of {kind} is public: the guarantee holds whether "
        "or not the chain had converged"
    ]
    if heat > 1.001:
        notes.append(
            f"privacy noise made the draws hotter than the posterior: its power 1 / {heat:.3g}"
        )
    if walked.taken < how.steps:
        notes.append(f"interrupted: {how.steps} steps were planned")
    return tuple(notes)


def _paid(paid: Sequence[Certificate]) -> str:
    if paid[0].data != "private":
        return "Nothing was charged: the data are public."
    epsilon, delta = sum(c.epsilon for c in paid), sum(c.delta for c in paid)
    return f"Epsilon {epsilon}, delta {delta} had been charged for all steps of the block."


def _start(start: Any, gradients: Gradients) -> np.ndarray:
    here = gradients.start if start is None else np.atleast_1d(np.asarray(start, float))
    if here.shape != gradients.start.shape or not np.all(np.isfinite(here)):
        size = gradients.start.size
        raise ModelError(
            f"Expected start as an array of {size} finite numbers on the scale of "
            f"model.gradients(schema), got shape {here.shape}: write start=np.zeros({size})."
        )
    return here


def _clipped(gradients: Gradients, clip: float | None) -> Gradients:
    if clip is None:
        return gradients
    old = gradients.question
    ((name, bound),) = old.blocks
    blocks = {name: replace(bound, clip=clip)}
    return replace(
        gradients, question=BoundedSum(old.kernel, old.columns, blocks=blocks, state=old.state)
    )


def _setting(how: Any, gradients: Gradients, release: Release, n: int) -> Setting:
    rate = how.sampling_rate
    known = (release.noise[0].scale / rate) ** 2
    likelihood = n * release.schema.max_rows_per_unit * gradients.curvature
    precision = likelihood + gradients.prior_precision
    heat = how.temperature
    if heat is None:
        heat = 1.0
        if how.step_size is None:
            heat = max(1.0, _RELAXATIONS * known / (2 * how.steps * precision))
    batch = likelihood * (1 - rate) / rate
    return Setting(gradients, rate, precision, batch, known, heat, how.steps)


def _sizes(how: Any, walker: Walker, setting: Setting) -> np.ndarray:
    quiet, stable = walker.limits(setting)
    schedule: Schedule = how.step_size or Constant(min(quiet, stable))
    return schedule.sizes(how.steps, quiet, stable)


def _heat_of(setting: Setting, walker: Walker, sizes: np.ndarray) -> float:
    """The temperature that noise made of the second half, at the most."""
    quiet, _ = walker.limits(setting)
    return setting.heat * max(1.0, float(sizes[len(sizes) // 2 :].max()) / quiet)
