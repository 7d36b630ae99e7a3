"""Samplers by noisy gradients: SGLD, SGHMC, SGNHT and SGFS, after Wang et al. (2015, section 4).

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
    too slow to reach the posterior from its start under so much privacy noise; then as hot as it
    needs to be. The certificate says how hot.
blocks
    Pay in so many parts, each when it begins. A walk that is interrupted (Ctrl-C) has paid only for
    the blocks it began, and returns what it has if one is complete. Blocks of epsilon / blocks each
    add up in the ledger, which costs more noise than one payment.
start
    Where to begin on the model's scale, from public knowledge.
n
    About how many units there are. Needed under add_remove where the schema has no max_units.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, get_args

from tacit.accounting import gaussian_epsilon, sensitivity_factor
from tacit.methods.gradient_loop import Setting, check_options, walk
from tacit.methods.gradient_plans import Constants
from tacit.methods.schedules import Schedule
from tacit.methods.walkers import LangevinWalker, MovingWalker, ScoringWalker
from tacit.spec.budget import Number
from tacit.spec.errors import ModelError
from tacit.spec.protocols import GradientModel, Releaser
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class GradientSampler:
    """The options that all of them have."""

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    steps: int | None = None
    sampling_rate: float = 1.0
    step_size: float | Schedule | None = None
    clip: float | None = None
    temperature: float | None = None
    blocks: int = 1
    start: Any = None
    n: int | None = None

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SGLD(GradientSampler):
    """Langevin steps: half a step size times the gradient, and noise of that variance.

    The options are those of all samplers by gradients (see `tacit.methods.gradients`), and
    `constants="paper"` for the noise of Wang et al. (2015, Algorithm 2), on `tacit.Public` alone.
    """

    constants: Constants = "accountant"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_constants(self.constants)

    def run(self, model: GradientModel, releaser: Releaser, **options: Any) -> Any:
        return walk(
            self,
            LangevinWalker(),
            model,
            releaser,
            constants=self.constants,
            remark=self._if_converged,
            **options,
        )

    def _if_converged(self, setting: Setting, schema: Schema) -> str:
        """What the last draw alone would cost if it were one of the posterior."""
        ((_, bound),) = setting.gradients.question.blocks
        slope = sensitivity_factor("free", schema.neighbours) * bound.clip
        mu = slope / (setting.heat * setting.gradients.prior_precision) ** 0.5
        epsilon = gaussian_epsilon(mu, float(self.delta))
        return (
            f"for comparison, not claimed: had the chain converged, and were the last draw alone "
            f"published and the log-likelihood concave, that draw would cost epsilon {epsilon:.3g} "
            f"at delta {self.delta}"
        )


@dataclass(frozen=True)
class SGHMC(GradientSampler):
    """Steps with a velocity and a fixed friction, between 0 and 1 a step (Chen et al. 2014).

    The options are those of all samplers by gradients (see `tacit.methods.gradients`).
    """

    friction: float = 0.1
    constants: Constants = "accountant"

    _thermostat: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_friction(self.friction)
        _check_constants(self.constants)

    def run(self, model: GradientModel, releaser: Releaser, **options: Any) -> Any:
        walker = MovingWalker(float(self.friction), thermostat=self._thermostat)
        return walk(self, walker, model, releaser, constants=self.constants, **options)


@dataclass(frozen=True)
class SGNHT(SGHMC):
    """Steps with a velocity whose friction adapts to noise of unknown size (Ding et al. 2014).

    The options are those of all samplers by gradients (see `tacit.methods.gradients`); `friction`
    is what it would be without such noise.
    """

    _thermostat: ClassVar[bool] = True


@dataclass(frozen=True)
class SGFS(GradientSampler):
    """Fisher scoring: steps as long as the posterior is wide in each direction (Ahn et al. 2012).

    The gradient and its uncentred second moment go out together, each with noise for half of a
    step's share, and the running average of the latter stands for the posterior's precision. A
    step size is a pure number here, by default 1; a smaller one forgets more slowly. The options
    are those of all samplers by gradients (see `tacit.methods.gradients`).
    """

    def run(self, model: GradientModel, releaser: Releaser, **options: Any) -> Any:
        return walk(self, ScoringWalker(), model, releaser, **options)


def _check_friction(friction: Any) -> None:
    real = isinstance(friction, (int, float)) and not isinstance(friction, bool)
    if not real or not 0 < friction < 1:
        raise ModelError(f"Expected 0 < friction={friction!r} < 1, the share lost in a step.")


def _check_constants(constants: Any) -> None:
    if constants not in get_args(Constants):
        raise ModelError(f"Expected constants={constants!r} among {get_args(Constants)}.")
