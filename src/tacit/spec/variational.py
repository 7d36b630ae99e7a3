"""What VIPS needs of a model: its expectation step, and its maximisation step from noisy sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.plan import Subsampling
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class Sums:
    """Expected statistics, estimated for all units together, and how noisy they are.

    `values` and `sd` have an entry for each block of the question, or for what `Variational.read`
    makes of them, and `pilots` are the results of the pilot queries. A standard deviation is one
    number for all of an entry, or an array of its shape.
    """

    values: Mapping[str, np.ndarray]
    sd: Mapping[str, Any]
    pilots: tuple[Any, ...] = ()

    def average(self, other: Sums, step_size: float) -> Sums:
        """Return the mean with weights 1 - step_size and step_size; their noise is independent."""
        keep = 1 - step_size
        return Sums(
            {k: keep * v + step_size * other.values[k] for k, v in self.values.items()},
            {k: np.hypot(keep * v, step_size * other.sd[k]) for k, v in self.sd.items()},
            other.pilots,
        )


@dataclass(frozen=True)
class FitSetting:
    """What is public of a fit before its first step.

    About how many `units` there are, and the `noise` multiplier that a single release would have
    for all of the budget: 0 where there is none. `aware` is whether the model is to be noise-aware.
    """

    units: int
    noise: float
    aware: bool = True


@dataclass(frozen=True)
class VIPSSchedule:
    """How many steps are taken with which noise; options that VIPS is not given come from here.

    The noise multiplier of step t is proportional to `growth` ** -t, so that later steps are less
    noisy where it exceeds 1. Variational parameters are updated `updates` times in all where steps
    are minibatches, or after each. `steps`, `sampling`, `tau0` and `kappa` are those of VIPS.
    """

    steps: int
    growth: float = 1.0
    updates: int | None = None
    sampling: Subsampling | None = None
    tau0: float | None = None
    kappa: float | None = None


@dataclass(frozen=True)
class PilotQuery:
    """A full-batch query that is asked once, before the first step.

    It is `question` itself, or what `given` makes of it and the earlier pilot queries' results.
    `share` is its part of mu^2 (the precision), or with "rdp" and "strong" of epsilon and delta;
    steps have the rest. `result` turns its release into a result.
    """

    question: BoundedSum
    share: float
    given: Callable[[BoundedSum, tuple[Any, ...]], BoundedSum] = lambda question, pilots: question
    result: Callable[[Release], Any] = lambda release: release


@dataclass(frozen=True)
class Variational:
    """A model whose variational parameters are updated by sums of expected statistics over units.

    Attributes
    ----------
    start
        Initial sums, from public randomness.
    question
        The expectation step at some variational parameters: a sum over units.
    maximise
        The maximisation step: the variational parameters given noisy sums.
    schedule
        How many steps are taken by default, and how noisy they are beside each other.
    pilots
        Queries that depend on no variational parameters, asked before the first step.
    read
        A step's sums in terms that mean the same at every step, where the question's own depend on
        the parameters it was asked at: from these sums and parameters.
    initial
        The variational parameters before the first step, from the initial sums and the results of
        the pilot queries; None for `maximise`.
    preview
        A question of the form that steps ask, before the pilot queries have been answered; None for
        the question at the initial parameters.
    """

    start: Callable[[np.random.Generator], Sums]
    question: Callable[[Any], BoundedSum]
    maximise: Callable[[Sums], Any]
    schedule: VIPSSchedule
    pilots: tuple[PilotQuery, ...] = ()
    read: Callable[[Sums, Any], Sums] = lambda sums, parameters: sums
    initial: Callable[[Sums], Any] | None = None
    preview: BoundedSum | None = None
