"""The two seams of the house: what spends (a releaser) and what believes (a model)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack, runtime_checkable

import numpy as np

from tacit.spec.budget import Budget, Spent
from tacit.spec.certificate import Certificate
from tacit.spec.density import Likelihood
from tacit.spec.draws import ConjugateDraw
from tacit.spec.gradients import Gradients
from tacit.spec.hidden_states import StateChain
from tacit.spec.logistic import Logistic, LogisticDraw
from tacit.spec.mechanisms import Mechanism
from tacit.spec.newton import Newton
from tacit.spec.plan import Plan
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.sampling import NoiseHandling, Sampling, SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.variational import Setting, Variational
from tacit.spec.walks import Walk


@dataclass(frozen=True)
class Quote:
    """What a release would cost and how noisy it would be. Nothing is read or charged."""

    cost: Budget | None
    noise: tuple[Noise, ...]

    @property
    def variance(self) -> float | None:
        """Of one number, on geometric average, since blocks differ in units; None for draws."""
        parts = [law.variance for law in self.noise if law.variance is not None]
        if not parts or min(parts) == 0:
            return 0.0 if parts else None
        return math.exp(sum(map(math.log, parts)) / len(parts))


class Releaser(Protocol):
    """All that methods know of the data: `Wall` and `Public` are the two implementations."""

    @property
    def schema(self) -> Schema: ...

    @property
    def remaining(self) -> Spent | None:
        """What is left of the budget; None where there is none to spend."""
        ...

    @property
    def n_units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        ...

    def quote(self, query: Query, mechanism: Mechanism) -> Quote: ...

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Charge, then read, then answer with noise."""
        ...

    def prepay(self, plan: Plan, *, name: str | None = None) -> StepReleaser:
        """Charge for all steps of a plan at once."""
        ...


class StepReleaser(Protocol):
    """What `prepay` returns: it answers as many queries as the plan has steps."""

    @property
    def steps_left(self) -> int: ...

    @property
    def certificate(self) -> Certificate: ...

    def release(self, query: Query) -> Release: ...


@runtime_checkable
class StatisticsModel(Protocol):
    """A model whose posterior follows from one release of statistics."""

    def query(self) -> Query: ...

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Any: ...


@runtime_checkable
class DrawModel(Protocol):
    """A model whose tempered posterior the wall can draw from, and which can use such a draw."""

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw | LogisticDraw:
        """The draws to ask for; refuses what could not be used afterwards."""
        ...

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Any: ...


@dataclass(frozen=True)
class Sweep:
    """One public sweep of a Gibbs sampler: states of the cells, and the parameters they are of."""

    release: Release
    path: np.ndarray
    start: np.ndarray
    transition: np.ndarray
    profiles: tuple[np.ndarray, ...]


@runtime_checkable
class GibbsModel(Protocol):
    """A model with hidden states that the wall can draw, and their profiles in turn."""

    def state_chain(self, *, truncation: Any, sweeps: int) -> StateChain:
        """The chain, were the wall to run it itself."""
        ...

    def chain_posterior(self, sweeps: Sequence[Sweep]) -> Any:
        """What these sweeps say, each at face value."""
        ...

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Any: ...


@runtime_checkable
class WalkModel(Protocol):
    """A model in whose parameters one can walk at random, asking about each step."""

    def walk(self, schema: Schema) -> Walk: ...

    def walk_posterior(self, release: Release, at: np.ndarray) -> Any:
        """What the places (step, parameter) of a walk say, each at face value."""
        ...


@runtime_checkable
class AnnealedModel(Protocol):
    """A model of levels whose tempered posteriors the wall can draw from, one after another."""

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw: ...

    def annealed_posterior(
        self, release: Release, p: np.ndarray, log_evidence: np.ndarray | None
    ) -> Any:
        """What runs that ended at probabilities `p` (run, level) say, each at face value."""
        ...


@runtime_checkable
class GradientModel(Protocol):
    """A model whose log-likelihood has gradients that samplers can ask for."""

    def gradients(self, schema: Schema) -> Gradients: ...

    def gradient_posterior(self, release: Release, theta: np.ndarray) -> Any:
        """The posterior of draws (chain, draw, parameter) that a sampler took at face value."""
        ...


@runtime_checkable
class NewtonModel(Protocol):
    """A model whose gradient and Hessian can be asked for together."""

    def newton(self, schema: Schema) -> Newton: ...

    def newton_posterior(self, release: Release, theta: np.ndarray, noise: NoiseHandling) -> Any:
        """The posterior of draws (chain, draw, parameter); `release` is the last answer."""
        ...


@runtime_checkable
class LikelihoodModel(Protocol):
    """A model that is known by its log-likelihood, row by row."""

    def likelihood(self, schema: Schema) -> Likelihood: ...

    def likelihood_posterior(self, release: Release, theta: np.ndarray) -> Any:
        """The posterior of released draws (draw, parameter), taken at face value."""
        ...


@runtime_checkable
class HybridModel(Protocol):
    """A model with gradients that can begin a walk at a posterior of its own."""

    def gradients(self, schema: Schema) -> Gradients: ...

    def gradient_posterior(self, release: Release, theta: np.ndarray) -> Any: ...

    def gradient_start(self, posterior: Any) -> np.ndarray:
        """The mean of a posterior of this model, on the scale of its gradients."""
        ...


@runtime_checkable
class LogisticModel(Protocol):
    """A logistic regression, of which the wall can release a noisy minimum."""

    def logistic(self, schema: Schema) -> Logistic: ...

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Any: ...


@runtime_checkable
class VariationalModel(Protocol):
    """A model whose variational parameters follow from sums of expected statistics."""

    def variational(self, schema: Schema, setting: Setting) -> Variational: ...

    def variational_posterior(self, release: Release, parameters: Any, sampling: Sampling) -> Any:
        """The posterior of the last variational parameters; `release` is the last step."""
        ...
