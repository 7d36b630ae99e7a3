"""What samplers by noisy gradients share, after Wang et al. (2015, section 4).

All their knowledge of the data are sums of clipped gradients with noise, so a chain of T steps
costs what T such sums cost, converged or not. A sampler is a `GradientSampler` with its own
`limits` and `step`, and `begin` if it carries more along than the parameters (`sgld.py`).

With at most 30 parameters, nine pilot queries (`pilots.py`) first find the mode and coordinates in
which the posterior is equally wide in every direction; there the chain walks. The posterior is that
of a linear model of all gradients released near the mode, whose noise has a known law: it includes
privacy noise and who was sampled, however well the chain has mixed. `fit(..., noise="plugin")`
returns the draws of the chain itself, as the papers do. With more parameters, or `pilot_share=0`,
there are only these, on a public scale.

They share these options.

epsilon, delta
    What all steps cost together.
steps
    How many; the draws are those of the second half. More steps do not cost more: each is noisier.
sampling
    Who takes part in a step, of `tacit.subsampling`. Everyone, the default, has the least noise for
    the budget; `Poisson(rate)` is faster, and takes shorter steps.
pilot_share
    The share of the budget that the pilot queries have. They alone release the Hessian, on which
    the width of intervals rests; of the gradient nothing is lost, since theirs count too.
step_size
    A number, or a schedule: `Constant(eta)`, `Polynomial(a, b, gamma)`, `PhaseTransition(alpha)`.
    Default: a constant from public quantities (the number of units, the model's curvature, the
    noise), such that the noise of privacy fits into the noise that the sampler needs.
clip
    The largest norm of one unit's gradient, on the model's scale. Default: the model's.
temperature
    The draws are of the posterior to the power 1 / temperature. Default: 1, unless a chain at 1 is
    too slow to reach the posterior from its start under so much privacy noise; then as high as
    needed. The certificate says how high.
blocks
    The number of parts to pay in, each when it begins. A chain that is interrupted (Ctrl-C) has
    paid only for the blocks it began, and returns what it has if one is complete. Blocks of
    epsilon / blocks each add up in the ledger, which costs more noise than one payment.
initial
    Where to begin, from public knowledge: parameters on the scale of `model.gradients(schema)`.
n_units
    About how many units there are. Needed under add_remove where the schema has no max_units, and
    there are no pilot queries, which count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from tacit.infer.linearised import Linearised, inverse_root
from tacit.infer.newton import curvature_of
from tacit.methods.method import Spending, Task
from tacit.methods.pilots import Pilots, Warnings, begun, disagree, drawn, posterior_of
from tacit.methods.sampler_plans import block_plan, paper_multiplier, payments, steps_plan
from tacit.methods.schedules import Constant, Schedule, positive
from tacit.spec.budget import Budget, Number
from tacit.spec.certificate import Certificate
from tacit.spec.checks import number, one_of, set_fields, whole_number
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.plan import Everyone, Plan, Subsampling, check_subsampling
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.walks import Derivatives, Gradients

# How many times a chain must be able to forget its start, in the stiffest direction that the public
# curvature knows of. Where privacy noise allows less, the temperature is raised. (SGLD of 500 steps
# on 8 simulated logistic regressions, 5,000 rows, 5 coefficients: at epsilon 2, 90% intervals cover
# 72% with 25 and 98% with 100; at epsilon 0.5, 50% with 5, 100% with 25, and with 100 error and
# width are two to three times those with 25. 40 lies between and was not itself measured.)
_RELAXATIONS = 40
# The same of directions of typical curvature, where a model tells it.
_RELAXATIONS_TYPICAL = 10
# With pilot queries a chain begins at the mode, and draws are not what it is for.
_RELAXATIONS_NEAR = 5
_STRAYED = 8.0  # how far such a chain may be from the mode, in standard deviations
_BURNT = 0.2  # share of the steps whose gradients do not count
_FAR = 1e12
_EVERYONE = Everyone()


class SamplerSetting(NamedTuple):
    """Public facts of a chain, once the noise of its first answer is known.

    `rate` is the share of units in a step, `precision` the posterior's in the stiffest direction by
    public bounds, `batch` a bound on the variance that sampling a batch adds to the gradient,
    `known` the variance of the privacy noise in it, `temperature` that of the target.
    """

    gradients: Gradients
    rate: float
    precision: float
    batch: float
    known: float
    temperature: float

    def log_posterior_gradient(self, value: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The gradient for all units, from the released sum over some of them."""
        return value / self.rate + self.gradients.log_prior_gradient(theta)


class Position(NamedTuple):
    """What a sampler carries from step to step: the parameters; other records have more."""

    theta: np.ndarray


@dataclass(frozen=True)
class ChainState:
    """Where a chain is, where it has been, and what was paid for it.

    `at` is the sampler's own record; `setting` and `sizes` follow from the first answer. `pilots`
    come before the chain, `values` are the gradients that the steps released.
    """

    task: Task
    gradients: Gradients
    question: BoundedSum
    at: Any
    pilots: Pilots | None = None
    step: int = 0
    setting: SamplerSetting | None = None
    sizes: np.ndarray | None = None
    release: Release | None = None
    trace: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    paid: list[Certificate] = field(default_factory=list)


@dataclass(frozen=True)
class GradientSampler:
    """Options and loop shared by gradient samplers."""

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    steps: int = 1000
    sampling: Subsampling = _EVERYONE
    pilot_share: float = 0.75
    step_size: float | Schedule | None = None
    clip: float | None = None
    temperature: float | None = None
    blocks: int = 1
    initial: Any = None
    n_units: int | None = None
    constants: Literal["accountant", "paper"] = "accountant"

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    stops_early: ClassVar[bool] = True
    # Langevin steps times the variance of a batch over the temperature, at most.
    most_batch: ClassVar[float] = 0.2

    def __post_init__(self) -> None:
        budget = Budget(self.epsilon, self.delta)
        if budget.delta == 0:
            raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
        steps = whole_number(self.steps, "steps", 1000, most=10**7)
        blocks = whole_number(self.blocks, "blocks", 1, most=10**4)
        if steps % blocks:
            raise ModelError(f"Expected steps={steps} to be a multiple of blocks={blocks}.")
        one_of(self.constants, "constants", ("accountant", "paper"), ModelError)
        check_subsampling(self.sampling)
        if self.n_units is not None:
            whole_number(self.n_units, "n_units", 1, most=10**12)
        for what in ("clip", "temperature"):
            if getattr(self, what) is not None:
                positive(getattr(self, what), what)
        share = number(self.pilot_share, "pilot_share", 0, 0.9, error=ModelError)
        if self.constants == "paper":
            share = 0.0
        size = self.step_size
        if not (size is None or isinstance(size, Schedule)):
            if isinstance(size, bool) or not isinstance(size, (int, float)):
                raise ModelError(
                    "Expected step_size as a number or a schedule such as "
                    f"tacit.methods.Polynomial(a, b, gamma), got {size!r}."
                )
            size = Constant(float(size))
        given: dict[str, Any] = {"steps": steps, "blocks": blocks, "step_size": size}
        given["pilot_share"] = share
        given["sampling"] = _EVERYONE if self.sampling.rate == 1 else self.sampling
        set_fields(self, epsilon=budget.epsilon, delta=budget.delta, **given)

    def extended(self, question: BoundedSum) -> BoundedSum:
        """The question for the gradient, and whatever else is asked for with it."""
        return question

    def limits(self, setting: SamplerSetting) -> tuple[float, float]:
        """The longest step whose own noise covers that of privacy, and the longest accurate one."""
        raise NotImplementedError

    def begin(self, theta: np.ndarray) -> Any:
        """The sampler's record before the first step, with a field `theta`."""
        return Position(theta)

    def step(self, at: Any, release: Release, setting: SamplerSetting, eta: float, rng: Any) -> Any:
        """The record after one step of size `eta`."""
        raise NotImplementedError

    def drawn(
        self, law: Linearised, derivatives: Derivatives, task: Task
    ) -> tuple[np.ndarray, Warnings]:
        """Draws (draw, parameter) under the law of all gradients, and warnings."""
        return drawn(law, derivatives, task)

    def remarks(self, state: ChainState, setting: SamplerSetting) -> tuple[str, ...]:
        """Further lines for the certificate."""
        return ()

    def plan(self, task: Task) -> Spending:
        state = self.start(task)
        if state.pilots is None or task.sampling.noise == "plugin":
            task.refuse_draws(self, "steps=")
        if state.pilots is None:
            question = state.question
            return Spending((self._block(question, task),) * self.blocks, (question,))
        pilot, walk = state.pilots.question, self._walk(state).question
        budget = Budget(self.epsilon, self.delta)
        paid = payments(
            self.steps, self.blocks, self.sampling, state.pilots.derivatives.size, walk.numbers,
            budget, self.pilot_share, task.schema.neighbours,
        )  # fmt: skip
        return Spending(paid, (pilot, walk))

    def start(self, task: Task) -> ChainState:
        found = getattr(task.model, "derivatives", lambda schema: None)
        derivatives = found(task.schema) if self.pilot_share else None
        if derivatives is None and task.schema.neighbours == "add_remove":
            task.known_units(self)
        gradients = task.model.gradients(task.schema)
        question = gradients.question
        if self.clip is not None:
            ((name, bound),) = question.blocks
            blocks = {name: replace(bound, clip=float(self.clip))}
            question = BoundedSum(
                question.kernel, question.columns, blocks=blocks, state=question.state
            )
            gradients = replace(gradients, question=question)
        size = gradients.start.size
        initial = gradients.start if self.initial is None else np.asarray(self.initial, float)
        first = np.atleast_1d(initial)
        if first.shape != (size,) or not np.all(np.isfinite(first)):
            raise ModelError(
                f"Expected initial as an array of {size} finite numbers on the scale of "
                f"model.gradients(schema), got shape {first.shape}: write initial=np.zeros({size})."
            )
        begin = ChainState(task, gradients, self.extended(question), self.begin(first))
        if derivatives is None:
            return begin
        if self.clip is not None:
            derivatives = replace(derivatives, clip=float(self.clip))
        vector = None if self.initial is None else gradients.vector(first)
        return replace(begin, pilots=begun(derivatives, task.schema.max_rows_per_unit, vector))

    def ask(self, state: ChainState) -> BoundedSum:
        if state.pilots is not None and not state.pilots.done:
            return state.pilots.question
        return replace(state.gradients, question=state.question).ask(state.at.theta)

    def tell(self, state: ChainState, release: Release) -> ChainState:
        if state.pilots is not None and not state.pilots.done:
            if not state.paid:
                state.paid.append(release.certificate)
            state = replace(state, pilots=state.pilots.told(release), release=release)
            assert state.pilots is not None
            return self._walk(state) if state.pilots.done else state
        setting, sizes = state.setting, state.sizes
        if setting is None or sizes is None:
            setting = self._setting(state, release)
            noise_limited, stable = self.limits(setting)
            schedule: Any = self.step_size or Constant(min(noise_limited, stable))
            sizes = schedule.sizes(self.steps, noise_limited, stable)
        begins = state.step % (self.steps // self.blocks) == 0
        if begins and (state.pilots is None or self.blocks > 1):  # else paid with the pilot queries
            state.paid.append(release.certificate)
        with np.errstate(all="ignore"):
            rng = state.task.rng(state.step)
            at = self.step(state.at, release, setting, sizes[state.step], rng)
        if state.pilots is not None:
            spread = math.sqrt(at.theta.size * setting.temperature / setting.precision)
            if not np.linalg.norm(at.theta) < _STRAYED * spread:  # begins again at the mode
                at = self.begin(np.zeros_like(at.theta))
        if not np.abs(at.theta).max() < _FAR:
            spent = added(*state.paid)
            charged = f"Epsilon {spent.epsilon}, delta {spent.delta} had been charged for all steps"
            public = "Nothing was charged: the data are public"
            raise ModelError(
                f"The chain diverged at step {state.step + 1}: take a smaller step_size than "
                f"{sizes[state.step]:.3g}. {charged if spent.data == 'private' else public}."
            )
        if state.pilots is not None:
            gradient = release.value[: state.at.theta.size] / setting.rate
            state.values.append(np.concatenate([state.at.theta, gradient]))
        state.trace.append(at.theta)
        facts = {"setting": setting, "sizes": sizes, "release": release}
        return replace(state, at=at, step=state.step + 1, **facts)

    def posterior(self, state: ChainState) -> Any:
        assert state.release is not None
        last, paid = state.release.certificate, state.paid
        if len(paid) > 1:
            basis = f"{last.accountant} within each of {len(paid)} payments, and their sum"
            last = replace(added(*paid), accountant=basis, assumptions=last.assumptions)
        final = replace(state.release, certificate=last.assuming(self._notes(state)))
        if state.pilots is None or (state.trace and state.task.sampling.noise == "plugin"):
            assert state.sizes is not None
            draws = _kept(state.trace, state.sizes)[None]
            return state.gradients.posterior(final, draws).diagnosed()
        law, warnings = self._law(state)
        return posterior_of(law, state.pilots, final, state.task, warnings, self.drawn)

    def _walk(self, state: ChainState) -> ChainState:
        """The state of a chain that begins where the pilot queries ended, in their coordinates."""
        assert state.pilots is not None
        pilots = state.pilots
        frame, size = pilots.frame, pilots.derivatives.size
        if pilots.done:
            law, derivatives, basis = pilots.law, pilots.derivatives, frame.basis
            off = frame.coordinates(derivatives.prior_mean)
            precision = law.hessian + (prior := basis.T @ derivatives.prior_precision @ basis)
            mode = np.linalg.solve(precision, law.gradient + prior @ off)
            if derivatives.log_prior is not None:  # its curvature here, which may be far larger
                here = curvature_of(derivatives.log_prior_gradient, frame.origin)
                precision = precision + basis.T @ here @ basis
            # One in every direction: the posterior's precision over n.
            frame = frame.moved(mode, inverse_root(precision / pilots.n))
        clip = pilots.clip(math.sqrt(size) + 6, max(1.0, pilots.width))
        gradients = pilots.derivatives.gradients(frame, clip, curvature=1.0)
        question = self.extended(gradients.question)
        return replace(state, gradients=gradients, question=question, at=self.begin(np.zeros(size)))

    def _law(self, state: ChainState) -> tuple[Linearised, tuple[str, ...]]:
        """What all gradients near the mode say: those of the chain, and of the pilots before it."""
        assert state.pilots is not None
        if state.setting is None:  # interrupted before the first step
            return state.pilots.law, state.pilots.warnings
        setting, frame = state.setting, state.gradients.frame
        late = np.array(state.values)[math.floor(_BURNT * len(state.values)) :]
        size = late.shape[1] // 2
        place, gradient = late[:, :size].mean(axis=0), late[:, size:].mean(axis=0)
        # In the pilots' frame: there the uncertainty of the Hessian is known.
        before = state.pilots.law
        back = np.linalg.solve(frame.basis, before.frame.basis)
        # Who was sampled counts too: a record's gradient has its curvature for a variance.
        sampled = (1 - setting.rate) / setting.rate * before.hessian
        noise = (setting.known * back.T @ back + sampled) / len(late)
        walked = replace(
            before, frame=frame.moved(place, back), gradient=back.T @ gradient, noise=noise
        )
        law = Linearised.combined([before, walked], before.frame)
        warnings = state.pilots.warnings
        if disagree([before, walked], law):
            warnings += (
                "gradients along the chain differ from those of the pilot queries by more than "
                "noise explains: the posterior is not near a normal one there, or the chain "
                "strayed, so that intervals may be too narrow",
            )
        return law, warnings

    def _block(self, question: BoundedSum, task: Task) -> Plan:
        """One block of steps, with as little noise as its share of the budget affords."""
        count, sampling = self.steps // self.blocks, self.sampling
        share = Budget(self.epsilon, self.delta).split(self.blocks)
        if self.constants == "paper":
            if task.private:
                raise BudgetError(
                    'constants="paper" is for tacit.Public alone: on a wall the accountant\'s '
                    "noise gives the same guarantee and is many times smaller."
                )
            noise = paper_multiplier(float(self.epsilon or 0), self.delta, self.steps)
            return steps_plan(sampling.rate * noise, count, sampling, question.numbers, share.delta)
        return block_plan(count, sampling, question.numbers, share, task.schema.neighbours)

    def _setting(self, state: ChainState, release: Release) -> SamplerSetting:
        n = self.n_units or release.n or state.task.schema.max_units or 1
        gradients, rate = state.gradients, self.sampling.rate
        known = (release.noise[0].scale / rate) ** 2
        rows = n * release.schema.max_rows_per_unit if state.pilots is None else state.pilots.n
        likelihood = rows * gradients.curvature
        precision = likelihood + gradients.prior_precision
        # Who is sampled moves the gradient, in each direction by as much as its curvature allows.
        moved = rows * min(gradients.curvature, 4 * (gradients.typical or gradients.curvature))
        batch = moved * (1 - rate) / rate
        temperature = 1.0 if self.temperature is None else float(self.temperature)
        if self.temperature is None and self.step_size is None:
            needed = _RELAXATIONS if state.pilots is None else _RELAXATIONS_NEAR
            step = 2 * needed / (self.steps * precision)
            if gradients.typical is not None:
                slow = rows * gradients.typical + gradients.prior_precision
                step = max(step, 2 * _RELAXATIONS_TYPICAL / (self.steps * slow))
                temperature = max(1.0, step * batch / self.most_batch)
            temperature = max(temperature, step * known / 4)
        return SamplerSetting(gradients, rate, precision, batch, known, temperature)

    def _notes(self, state: ChainState) -> tuple[str, ...]:
        setting, sizes = state.setting, state.sizes
        if setting is None or sizes is None:
            return (f"interrupted after the pilot queries: {self.steps} steps were planned",)
        noise_limited, _ = self.limits(setting)
        late = sizes[state.step // 2 : state.step]
        temperature = setting.temperature * max(1.0, float(late.max()) / noise_limited)
        notes = [
            f"every one of the {state.step} steps of {type(self).__name__} is public: the "
            "guarantee holds whether or not the chain had converged"
        ]
        aware = state.pilots is not None and state.task.sampling.noise == "aware"
        if temperature > 1.001 and not aware:
            notes.append(
                f"privacy noise tempered the draws: posterior to the power 1 / {temperature:.3g}"
            )
        if state.step < self.steps:
            notes.append(f"interrupted: {self.steps} steps were planned")
        return (*notes, *self.remarks(state, setting))


def normal_noise(variance: float, size: int, rng: np.random.Generator) -> np.ndarray | float:
    """Normal noise of this variance in each coordinate; none where it is not positive."""
    return math.sqrt(variance) * rng.standard_normal(size) if variance > 0 else 0.0


def added(*paid: Certificate) -> Certificate:
    """One certificate for several charges: their epsilons and deltas add up."""
    return replace(
        paid[-1],
        epsilon=sum((c.epsilon for c in paid), Decimal(0)),
        delta=sum((c.delta for c in paid), Decimal(0)),
        events=tuple(event for c in paid for event in c.events),
        assumptions=tuple(dict.fromkeys(text for c in paid for text in c.assumptions)),
    )


def _kept(trace: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """The second half, at even intervals of the chain's own time: long steps count for more."""
    taken = len(trace)
    time = np.cumsum(sizes[:taken])
    kept = max(1, taken - taken // 2)
    burnt = time[taken - kept - 1] if kept < taken else 0.0
    ticks = burnt + (np.arange(kept) + 0.5) / kept * (time[-1] - burnt)
    return np.array(trace)[np.minimum(np.searchsorted(time, ticks), taken - 1)]
