"""What samplers by noisy gradients share, after Wang et al. (2015, section 4).

All their knowledge of the data are sums of clipped gradients with noise, so a walk of T steps costs
what T such sums cost, whatever it does with them and whether or not it has converged.

They share these options.

epsilon, delta
    What all steps cost together.
steps
    How many; the draws are those of the second half. More steps do not cost more: each is noisier.
sampling_rate
    The share of units that take part in a step. 1, the default, has the least noise for the
    budget; less is faster, and takes shorter steps.
step_size
    A number, or a schedule: `Constant(eta)`, `Polynomial(a, b, gamma)`, `PhaseTransition(alpha)`.
    Default: a constant from public quantities (the number of units, the model's curvature, the
    noise), such that the noise of privacy fits into the noise that the sampler needs.
clip
    The largest norm of one unit's gradient, on the model's scale. Default: the model's.
temperature
    The draws are of the posterior to the power 1 / temperature. Default: 1, unless a walk at 1 is
    too slow to reach the posterior from its start under so much privacy noise; then as high as
    needed. The certificate says how high.
blocks
    Pay in so many parts, each when it begins. A walk that is interrupted (Ctrl-C) has paid only for
    the blocks it began, and returns what it has if one is complete. Blocks of epsilon / blocks each
    add up in the ledger, which costs more noise than one payment.
initial
    Where to begin on the model's scale, from public knowledge.
n
    About how many units there are. Needed under add_remove where the schema has no max_units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np

from tacit.accounting import gaussian_mu, sensitivity_factor
from tacit.accounting.plans import least_noise
from tacit.methods.method import Spending, Task
from tacit.methods.schedules import Constant, Schedule, schedule_of
from tacit.spec.budget import Budget, Number
from tacit.spec.certificate import Certificate
from tacit.spec.checks import whole_number
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.gradients import Gradients
from tacit.spec.mechanisms import Gaussian
from tacit.spec.plan import Everyone, Plan, Poisson, Steps
from tacit.spec.programs import Program
from tacit.spec.release import Release
from tacit.spec.schema import Neighbours
from tacit.spec.sums import BoundedSum

Constants = Literal["accountant", "paper"]
# How many times a walk must be able to forget its start, in the stiffest direction that the public
# curvature knows of. Where privacy noise allows less, the temperature is raised. (SGLD of 500 steps
# on 8 simulated logistic regressions, 5,000 rows, 5 coefficients: at epsilon 2, 90% intervals cover
# 72% with 25 and 98% with 100; at epsilon 0.5, 50% with 5, 100% with 25, and with 100 error and
# width are two to three times those with 25. 40 lies between and was not itself measured.)
_RELAXATIONS = 40
_FAR = 1e12


class Setting(NamedTuple):
    """Public facts of a walk, once the noise of its first answer is known.

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


class Walker(Protocol):
    """One sampler: what it asks for, how long its steps may be, and how it takes them."""

    def question(self, question: BoundedSum) -> BoundedSum:
        """The gradient, and whatever else is asked for with it."""
        ...

    def limits(self, setting: Setting) -> tuple[float, float]:
        """The longest step whose own noise covers that of privacy, and the longest accurate one."""
        ...

    def begin(self, theta: np.ndarray) -> Any: ...

    def step(self, at: Any, release: Release, setting: Setting, eta: float, rng: Any) -> Any: ...

    def place(self, at: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class WalkState:
    """Where a walk is, where it has been, and what was paid for it.

    `at` is the sampler's own record; it, `setting` and `sizes` follow from the first answer.
    """

    task: Task
    gradients: Gradients
    question: BoundedSum
    here: np.ndarray
    step: int = 0
    setting: Setting | None = None
    sizes: np.ndarray | None = None
    at: Any = None
    release: Release | None = None
    trace: list[np.ndarray] = field(default_factory=list)
    paid: list[Certificate] = field(default_factory=list)


@dataclass(frozen=True)
class GradientSampler:
    """The options that all of them have, and the walk that they share."""

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    steps: int | None = None
    sampling_rate: float = 1.0
    step_size: float | Schedule | None = None
    clip: float | None = None
    temperature: float | None = None
    blocks: int = 1
    initial: Any = None
    n: int | None = None
    constants: Constants = "accountant"

    stops_early: ClassVar[bool] = True

    def __post_init__(self) -> None:
        budget = Budget(self.epsilon, self.delta)
        if budget.delta == 0:
            raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
        steps = whole_number(self.steps, "steps", 1000, most=10**7)
        blocks = whole_number(self.blocks, "blocks", 1, most=10**4)
        if steps % blocks:
            raise ModelError(f"Expected steps={steps} to be a multiple of blocks={blocks}.")
        if self.constants not in get_args(Constants):
            raise ModelError(f"Expected constants={self.constants!r} among {get_args(Constants)}.")
        settled: dict[str, Any] = {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "steps": steps,
            "blocks": blocks,
            "sampling_rate": Poisson(self.sampling_rate).rate,
            "step_size": schedule_of(self.step_size),
            "n": None if self.n is None else whole_number(self.n, "n", 1, most=10**12),
        }
        for what in ("clip", "temperature"):
            value = getattr(self, what)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
                raise ModelError(f"Expected a number for {what}, got {value!r}.")
            if not 0 < value < 1e100:
                raise ModelError(f"Expected {what}={value} > 0.")
            settled[what] = float(value)
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def walker(self) -> Walker:
        raise NotImplementedError

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(f"{type(self).__name__}(steps=...)")
        state = self.start(task)
        return Spending((self._block(state.question, task),) * self.blocks, (state.question,))

    def start(self, task: Task) -> WalkState:
        if task.schema.neighbours == "add_remove":
            task.known_units(self)
        gradients = _clipped(task.model.gradients(task.schema), self.clip)
        question = self.walker.question(gradients.question)
        return WalkState(task, gradients, question, _first(self.initial, gradients))

    def ask(self, state: WalkState) -> BoundedSum:
        return at_parameters(state.question, state.here)

    def tell(self, state: WalkState, release: Release) -> WalkState:
        setting, sizes, at = state.setting, state.sizes, state.at
        if setting is None or sizes is None:
            setting = self._setting(state, release)
            sizes, at = self._sizes(setting), self.walker.begin(state.here)
        if state.step % (self._steps // self.blocks) == 0:
            state.paid.append(release.certificate)
        with np.errstate(all="ignore"):
            rng = state.task.rng(state.step)
            at = self.walker.step(at, release, setting, sizes[state.step], rng)
        here = self.walker.place(at)
        if not np.abs(here).max() < _FAR:
            raise ModelError(
                f"The walk ran away at step {state.step + 1}: take a smaller step_size than "
                f"{sizes[state.step]:.3g}. {_charged(state.paid)}"
            )
        state.trace.append(here)
        return replace(
            state, here=here, step=state.step + 1, setting=setting, sizes=sizes, at=at,
            release=release,
        )  # fmt: skip

    def posterior(self, state: WalkState) -> Any:
        assert state.setting is not None
        assert state.sizes is not None
        assert state.release is not None
        notes = self._notes(state, state.setting, state.sizes)
        certificate = together(state.paid, state.release.certificate).assuming(notes)
        final = replace(state.release, certificate=certificate)
        return state.task.model.gradient_posterior(final, _kept(state.trace, state.sizes)[None])

    def remarks(self, state: WalkState, setting: Setting) -> tuple[str, ...]:
        """What else a sampler has to say on the certificate."""
        return ()

    @property
    def _steps(self) -> int:
        return self.steps or 0

    def _block(self, question: BoundedSum, task: Task) -> Plan:
        """One block of steps, with as little noise as its share of the budget affords."""
        count, rate = self._steps // self.blocks, self.sampling_rate
        share = Budget(self.epsilon, self.delta).split(self.blocks)
        if self.constants == "paper":
            if task.private:
                raise BudgetError(
                    'constants="paper" is for tacit.Public alone: on a wall the accountant\'s '
                    "noise gives the same guarantee and is many times smaller."
                )
            multiplier = rate * paper_multiplier(float(self.epsilon or 0), self.delta, self._steps)
            return _steps_of(multiplier, count, rate, question.numbers, share.delta)
        return _least_noise(count, rate, question.numbers, share, task.schema.neighbours)

    def _setting(self, state: WalkState, release: Release) -> Setting:
        n = self.n or release.n or state.task.schema.max_units or 1
        gradients, rate = state.gradients, self.sampling_rate
        known = (release.noise[0].scale / rate) ** 2
        likelihood = n * release.schema.max_rows_per_unit * gradients.curvature
        precision = likelihood + gradients.prior_precision
        temperature = self.temperature
        if temperature is None:
            temperature = 1.0
            if self.step_size is None:
                needed = _RELAXATIONS * known / (2 * self._steps * precision)
                temperature = max(1.0, needed)
        batch = likelihood * (1 - rate) / rate
        return Setting(gradients, rate, precision, batch, known, temperature)

    def _sizes(self, setting: Setting) -> np.ndarray:
        quiet, stable = self.walker.limits(setting)
        schedule = self.step_size or Constant(min(quiet, stable))
        assert isinstance(schedule, Schedule)
        return schedule.sizes(self._steps, quiet, stable)

    def _notes(self, state: WalkState, setting: Setting, sizes: np.ndarray) -> tuple[str, ...]:
        quiet, _ = self.walker.limits(setting)
        late = sizes[state.step // 2 : state.step]
        temperature = setting.temperature * max(1.0, float(late.max()) / quiet)
        notes = [
            f"every one of the {state.step} steps of {type(self).__name__} is public: the "
            "guarantee holds whether or not the chain had converged"
        ]
        if temperature > 1.001:
            notes.append(
                f"privacy noise tempered the draws: posterior to the power 1 / {temperature:.3g}"
            )
        if state.step < self._steps:
            notes.append(f"interrupted: {self._steps} steps were planned")
        return (*notes, *self.remarks(state, setting))


def at_parameters(question: BoundedSum, theta: np.ndarray) -> BoundedSum:
    """The question at other parameters: the first array of its state, while the others stay.

    Kernels take doubles, and programs the precision that they were traced in.
    """
    kernel = question.kernel
    precision = kernel.state[0][0] if isinstance(kernel, Program) else np.float64
    return question.at((theta.astype(precision), *question.state[1:]))


def normal_noise(variance: float, size: int, rng: np.random.Generator) -> np.ndarray | float:
    """Normal noise of this variance in each coordinate; none where it is not positive."""
    return math.sqrt(variance) * rng.standard_normal(size) if variance > 0 else 0.0


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


def paper_multiplier(epsilon: float, delta: Number, steps: int) -> float:
    """The noise of Wang et al. (2015, Algorithm 2) for the gradient of all data, Lipschitz 1."""
    logs = math.log(2.5 * steps / float(delta)) * math.log(2 / float(delta))
    return math.sqrt(128 * steps * logs) / epsilon


@lru_cache(maxsize=256)
def _least_noise(
    count: int, rate: float, numbers: int, share: Budget, neighbours: Neighbours
) -> Plan:
    factor = sensitivity_factor("free", neighbours)
    mu = gaussian_mu(float(share.epsilon), float(share.delta))
    guess = max(0.3, rate * factor * math.sqrt(count) / mu)
    make = lambda m: _steps_of(m, count, rate, numbers, share.delta)  # noqa: E731
    return least_noise(make, share, neighbours, guess)


def _steps_of(multiplier: float, count: int, rate: float, numbers: int, delta: Decimal) -> Plan:
    sampling = Everyone() if rate == 1 else Poisson(rate)
    noise = Gaussian(noise_multiplier=multiplier)
    return Plan(Steps(count, noise, sampling, numbers=numbers), delta=delta)


def _kept(trace: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """The second half, at even intervals of the walk's own time: long steps count for more."""
    taken = len(trace)
    time = np.cumsum(sizes[:taken])
    kept = max(1, taken - taken // 2)
    burnt = time[taken - kept - 1] if kept < taken else 0.0
    ticks = burnt + (np.arange(kept) + 0.5) / kept * (time[-1] - burnt)
    return np.array(trace)[np.minimum(np.searchsorted(time, ticks), taken - 1)]


def _charged(paid: Sequence[Certificate]) -> str:
    if paid[0].data != "private":
        return "Nothing was charged: the data are public."
    epsilon, delta = sum(c.epsilon for c in paid), sum(c.delta for c in paid)
    return f"Epsilon {epsilon}, delta {delta} had been charged for all steps of the block."


def _first(start: Any, gradients: Gradients) -> np.ndarray:
    here = gradients.start if start is None else np.atleast_1d(np.asarray(start, float))
    if here.shape != gradients.start.shape or not np.all(np.isfinite(here)):
        size = gradients.start.size
        raise ModelError(
            f"Expected initial as an array of {size} finite numbers on the scale of "
            f"model.gradients(schema), got shape {here.shape}: write initial=np.zeros({size})."
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
