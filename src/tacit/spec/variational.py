"""What VIPS needs of a model: its expectation step, and how beliefs follow from sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class Sums:
    """Expected statistics, estimated for all units together, and how noisy they are.

    `values` and `sd` have an entry for each block of the question, or for what `Variational.read`
    makes of them, and `before` is what looks saw before the first step. A standard deviation is one
    number for all of an entry, or an array of its shape.
    """

    values: Mapping[str, np.ndarray]
    sd: Mapping[str, Any]
    before: tuple[Any, ...] = ()

    def towards(self, other: Sums, rate: float) -> Sums:
        """A weighted mean of both: `rate` of the other. Noise of both is independent."""
        return Sums(
            {k: (1 - rate) * v + rate * other.values[k] for k, v in self.values.items()},
            {k: np.hypot((1 - rate) * v, rate * other.sd[k]) for k, v in self.sd.items()},
            other.before,
        )


@dataclass(frozen=True)
class Setting:
    """What is public of a fit before its first step.

    About how many `units` there are, and the `noise` multiplier that a single release would have
    for all of the budget: 0 where there is none. `aware` is whether the model is to take it into
    account.
    """

    units: int
    noise: float
    aware: bool = True


@dataclass(frozen=True)
class Course:
    """How many steps are taken with which noise; what is not given to VIPS is taken from here.

    `steps` full steps by everyone. The noise multiplier of step t is proportional to
    `growth` ** -t, so that later steps are quieter where it exceeds 1. Beliefs follow batches
    `revisions` times in all, or every one. `batch_size`, `epochs`, `tau0` and `kappa` are as those
    of VIPS.
    """

    steps: int
    growth: float = 1.0
    revisions: int | None = None
    batch_size: int | None = None
    epochs: float | None = None
    tau0: float | None = None
    kappa: float | None = None


@dataclass(frozen=True)
class Look:
    """A question that is asked once, before the first step.

    It is `question` itself, or what `after` makes of it and what looks before it saw. It has
    `share` of the budget, and steps what looks leave. A look sees what `seen` makes of its release.
    """

    question: BoundedSum
    share: float
    after: Callable[[BoundedSum, tuple[Any, ...]], BoundedSum] = lambda question, before: question
    seen: Callable[[Release], Any] = lambda release: release


@dataclass(frozen=True)
class Variational:
    """A model whose beliefs are updated by sums of expected statistics over units.

    Attributes
    ----------
    start
        Sums to begin with, from public randomness.
    question
        The expectation step at some beliefs: a sum over units.
    beliefs
        The maximisation step: what is believed given sums. It may clear them of noise.
    looks
        Questions that depend on no beliefs, asked before the first step.
    course
        How many steps are taken by default, and how noisy they are beside each other.
    read
        What a step saw, in terms that mean the same at every step, where the question's own depend
        on the beliefs it was asked at: from its sums and these beliefs.
    """

    start: Callable[[np.random.Generator], Sums]
    question: Callable[[Any], BoundedSum]
    beliefs: Callable[[Sums], Any]
    course: Course
    looks: tuple[Look, ...] = ()
    read: Callable[[Sums, Any], Sums] = lambda sums, beliefs: sums
