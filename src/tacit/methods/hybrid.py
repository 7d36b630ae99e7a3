"""Algorithm 3 of Wang et al. (2015): one posterior sample as the start of a gradient sampler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from tacit.methods.gradient_sampler import ChainState, GradientSampler, added
from tacit.methods.method import Asked, Spending, Task
from tacit.methods.one_sample import OnePosteriorSample
from tacit.spec.errors import ModelError
from tacit.spec.queries import Query
from tacit.spec.release import Release


@dataclass(frozen=True)
class HybridState:
    """The sample, until it is there; then the chain that begins at it."""

    task: Task
    first: Asked
    chain: ChainState | None = None


@dataclass(frozen=True)
class Hybrid:
    """One posterior sample, then a sampler by gradients that begins there.

    Each has its own budget, and they add up. Algorithm 3 gives epsilon / 2 to each:
    `Hybrid(OnePosteriorSample(0.5, truncation=3), SGNHT(0.5, 1e-6))`.
    """

    first: OnePosteriorSample
    then: GradientSampler

    needs: ClassVar[tuple[str, ...]] = ("gradients", *OnePosteriorSample.needs)

    def __post_init__(self) -> None:
        first = isinstance(self.first, OnePosteriorSample)
        if not (first and isinstance(self.then, GradientSampler)):
            raise ModelError(
                "Expected Hybrid(tacit.OnePosteriorSample(...), tacit.methods.SGNHT(...)), "
                f"got {self.first!r} and {self.then!r}."
            )
        if self.then.initial is not None:
            raise ModelError("Expected no initial= in the sampler of a Hybrid: the sample is it.")

    @property
    def epsilon(self) -> Decimal:
        return self.first.epsilon + Decimal(self.then.epsilon)  # type: ignore[arg-type]

    @property
    def delta(self) -> Decimal:
        return self.first.delta + Decimal(self.then.delta)

    def plan(self, task: Task) -> Spending:
        first, then = self.first.plan(_plugin(task)), self.then.plan(task)
        return Spending(first.payments + then.payments, first.questions + then.questions)

    def start(self, task: Task) -> HybridState:
        return HybridState(task, self.first.start(_plugin(task)))

    def ask(self, state: HybridState) -> Query:
        return self.first.ask(state.first) if state.chain is None else self.then.ask(state.chain)

    def tell(self, state: HybridState, release: Release) -> HybridState:
        if state.chain is not None:
            return replace(state, chain=self.then.tell(state.chain, release))
        first = self.first.tell(state.first, release)
        task = state.task
        gradients = task.model.gradients(task.schema)
        initial = np.asarray(gradients.parameters(self.first.posterior(first)), float)
        return HybridState(task, first, replace(self.then, initial=initial).start(task))

    def posterior(self, state: HybridState) -> Any:
        assert state.chain is not None
        assert state.first.release is not None
        sampled = self.then.posterior(state.chain)
        (release,) = sampled.releases
        before, after = state.first.release.certificate, release.certificate
        accountant = f"{before.accountant} for the start, and {after.accountant}"
        both = replace(added(before, after), accountant=accountant)
        return replace(sampled, releases=(replace(release, certificate=both),))


def _plugin(task: Task) -> Task:
    """The sample is one point to begin at, not corrected for its temperature."""
    return replace(task, options={**task.options, "noise": "plugin"})
