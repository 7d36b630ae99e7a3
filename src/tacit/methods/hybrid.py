"""Algorithm 3 of Wang et al. (2015): one posterior sample as the start of a walk by gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.methods.gradients import GradientSampler
from tacit.methods.one_sample import OnePosteriorSample
from tacit.spec.errors import ModelError
from tacit.spec.protocols import HybridModel, Releaser


@dataclass(frozen=True)
class Hybrid:
    """One posterior sample, then a sampler by gradients that begins there.

    Each has its own budget, and they add up. Algorithm 3 gives epsilon / 2 to each:
    `Hybrid(OnePosteriorSample(0.5, truncation=3), SGNHT(0.5, 1e-6))`.
    """

    start: OnePosteriorSample
    then: GradientSampler

    def __post_init__(self) -> None:
        if not isinstance(self.start, OnePosteriorSample) or not isinstance(
            self.then, GradientSampler
        ):
            raise ModelError(
                "Expected Hybrid(tacit.OnePosteriorSample(...), tacit.SGNHT(...)), "
                f"got {self.start!r} and {self.then!r}."
            )
        if self.then.start is not None:
            raise ModelError("Expected no start= in the sampler of a Hybrid: the sample is it.")

    @property
    def epsilon(self) -> Decimal:
        return self.start.epsilon + Decimal(self.then.epsilon)  # type: ignore[arg-type]

    @property
    def delta(self) -> Decimal:
        return self.start.delta + Decimal(self.then.delta)

    def run(
        self,
        model: HybridModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Any,
    ) -> Any:
        if name is not None:
            raise ModelError(
                "Hybrid takes no name=: its steps cannot be replayed. Leave it out, and keep what "
                "you get with posterior.save(path)."
            )
        first = self.start.run(model, releaser, name=None, **{**sampling, "noise": "plugin"})
        then = replace(self.then, start=beginning(model, first))
        walked = then.run(model, releaser, name=None, progress=progress, **sampling)
        return _paid_for_both(walked, first)


def beginning(model: HybridModel, sample: Any) -> np.ndarray:
    """Where the walk begins: the sample on the scale of the model's gradients."""
    return np.asarray(model.gradient_start(sample), float)


def _paid_for_both(walked: Any, first: Any) -> Any:
    (release,) = walked.releases
    before, after = first.certificate, release.certificate
    both = replace(
        after,
        epsilon=before.epsilon + after.epsilon,
        delta=before.delta + after.delta,
        accountant=f"{before.accountant} for the start, and {after.accountant}",
        events=before.events + after.events,
        assumptions=tuple(dict.fromkeys(before.assumptions + after.assumptions)),
    )
    return replace(walked, releases=(replace(release, certificate=both),))
