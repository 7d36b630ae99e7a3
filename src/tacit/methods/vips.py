"""Variational Bayes in private settings: noisy expected statistics, step by step."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, get_args

import numpy as np

from tacit.methods.common import whole_number
from tacit.methods.progress import counted
from tacit.methods.vips_plan import Accountant, Batches, plan_of, setting_of
from tacit.spec.budget import Budget, Number, delta_of
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.protocols import Releaser, VariationalModel
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.variational import Course, Sums


@dataclass(frozen=True)
class VIPS:
    """Variational Bayes by noisy expected statistics (Park et al. 2020, Algorithm 2).

    Each step asks for the sum of expected statistics over the units that take part, with Gaussian
    noise, and moves the model's beliefs towards what it says. Sums are averaged before they are
    cleared of noise.

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

    def run(
        self,
        model: VariationalModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **options: Any,
    ) -> Any:
        how = Sampling.of(options)  # type: ignore[arg-type]
        units = self._units(releaser)
        schema = releaser.schema
        setting = setting_of(self, units, schema.neighbours, how.noise == "aware")
        variational = model.variational(schema, setting)
        mine = self._with(variational.course, units)
        # Public randomness, and the same again where a name is replayed.
        sums = variational.start(np.random.default_rng(how.seed or 0))
        question = variational.question(variational.beliefs(sums))
        trial: Any = Exact() if self.noise_multiplier == 0 else Gaussian(1, "1e-6")
        for asked in (question, *(look.question for look in variational.looks)):
            releaser.quote(asked, trial)  # refused before it is paid for
        plan = plan_of(mine, variational, question, units, schema.neighbours)
        lease = releaser.prepay(plan, name=name)
        before: tuple[Any, ...] = ()
        for look in variational.looks:
            before += (look.seen(lease.release(look.after(look.question, before))),)
        beliefs = variational.beliefs(replace(sums, before=before))
        rate = plan.steps[-1].sampling.rate
        steps = lease.steps_left
        often = variational.course.revisions if rate < 1 else None
        revisions = min(often or steps, steps)
        for i in counted(steps, "Steps", progress):
            release = lease.release(variational.question(beliefs))
            seen = variational.read(_seen(release, rate, before), beliefs)
            sums = sums.towards(seen, _move(mine, i + 1))
            if (i + 1) * revisions // steps > i * revisions // steps:
                beliefs = variational.beliefs(sums)
        return model.variational_posterior(release, beliefs, how)

    def _with(self, course: Course, units: int) -> VIPS:
        """The model's own batches and moves, unless batches of some units were asked for."""
        if self.batch_size is not None and self.batch_size < units:
            return self
        names = "epochs", "tau0", "kappa"
        mine = {"batch_size": None} | {name: getattr(self, name) for name in names}
        return replace(self, **{k: getattr(course, k) if v is None else v for k, v in mine.items()})

    def _units(self, releaser: Releaser) -> int:
        """About how many units there are, from what is public."""
        if releaser.units == 0 and self.sampling == "wor":
            raise ModelError("Expected units to take a batch of: there are none.")
        known = releaser.units or self.n or releaser.schema.max_units
        if not known:
            raise ModelError(
                "Expected about how many units there are, which is secret under add_remove: write "
                "VIPS(..., n=10_000) or Schema(..., max_units=10_000)."
            )
        return known


def _move(how: VIPS, step: int) -> float:
    """How far beliefs move towards what a step saw."""
    batches = how.batch_size is not None
    tau0 = (1.0 if batches else 0.0) if how.tau0 is None else float(how.tau0)
    kappa = (0.7 if batches else 0.0) if how.kappa is None else float(how.kappa)
    return (tau0 + step) ** -kappa


def _seen(release: Release, rate: float, before: tuple[Any, ...]) -> Sums:
    """A step's sums, scaled up to all units."""
    tables = [release.table(block.name) for block in release.blocks]
    return Sums(
        {table.block.name: table.value / rate for table in tables},
        {table.block.name: table.noise.scale / rate for table in tables},
        before,
    )


def _number(what: str, value: Any, *, zero: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ModelError(f"Expected a number for {what}, got {value!r}.")
    if not 0 <= value < 1e9 or (value == 0 and not zero):
        raise ModelError(f"Expected {what}={value} {'>=' if zero else '>'} 0.")
