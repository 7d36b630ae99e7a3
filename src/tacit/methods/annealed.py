"""Annealed importance sampling through the wall: draws at falling temperatures, then weights."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from scipy.special import logsumexp

from tacit.accounting.draws import draw_range
from tacit.accounting.plans import largest_plan
from tacit.laws import truncated_dirichlet
from tacit.methods.method import Spending, Task
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.choice import Choice
from tacit.spec.draws import ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.keys import Is, first_number, labels_of, name_of
from tacit.spec.mechanisms import Exponential, Laplace
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum

Weights = Literal["choice", "laplace"]


@dataclass(frozen=True)
class AnnealedImportance:
    """Anneal from prior to posterior, weight runs by importance, and choose among them.

    Foulds et al. (2016, supplement C.2). Each run draws once at each of some temperatures; the
    likelihood's inverse temperature rises from 0 to epsilon_n / range, the prior stays. With r runs
    the draws alone would cost r times the paper's sum (Eq. 45 is for one run); here they are
    composed by bounded range.

    Parameters
    ----------
    epsilon, delta
        What draws and weights cost together.
    truncation
        The smallest probability of a level, as in `OnePosteriorSample`.
    runs, temperatures
        How many runs, and how many temperatures each passes.
    weights
        "choice": runs are chosen in proportion to their weights by the exponential mechanism,
        `runs` times. "laplace": their logarithms are released with Laplace noise, which gives the
        normalising constant too (`log_evidence` among the draws). The paper's noise on
        normalised weights has a sensitivity of 2 where all weights sum to 1.
    weights_share
        How much of each draw's epsilon a weight may cost.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    truncation: float | None = None
    runs: int = 10
    temperatures: int = 5
    weights: Weights = "choice"
    weights_share: float = 1.0

    needs: ClassVar[tuple[str, ...]] = ("annealed_posterior",)

    def __post_init__(self) -> None:
        mechanism = Exponential(self.epsilon, self.delta)
        one_of(self.weights, "weights", get_args(Weights), ModelError)
        if not 0 < float(self.weights_share) <= 1000:
            raise ModelError(f"Expected weights_share={self.weights_share} > 0.")
        counts = {
            "runs": whole_number(self.runs, "runs", 10, most=1000),
            "temperatures": whole_number(self.temperatures, "temperatures", 5, most=1000),
        }
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta, **counts)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self, "runs=")
        return Spending((self._plan(task.schema),), (ConjugateDraw(self._law(task)),))

    def start(self, task: Task) -> AnnealedState:
        law = self._law(task)
        # Before the first temperature stands the prior, which is public.
        prior = np.tile(law.prior, (self.runs, 1))
        points = truncated_dirichlet.sample(prior, law.truncation, task.rng(0).random)
        return AnnealedState(task, law, (points,))

    def ask(self, state: AnnealedState) -> Query:
        if len(state.points) <= self.temperatures:
            return ConjugateDraw(state.law)
        gains, schema = self._gains(state), state.task.schema
        if self.weights == "choice":
            return Choice(linear_scores(state.law, schema, gains - gains.min(axis=0)))
        return linear_scores(state.law, schema, -gains)

    def tell(self, state: AnnealedState, release: Release) -> AnnealedState:
        if len(state.points) > self.temperatures:
            return replace(state, weighing=(*state.weighing, release))
        drawn = (*state.drawn, release.value)
        if len(drawn) < self.runs:
            return replace(state, drawn=drawn)
        return replace(state, points=(*state.points, np.stack(drawn)), drawn=())

    def posterior(self, state: AnnealedState) -> Any:
        model, release = state.task.model, state.weighing[-1]
        if self.weights == "choice":
            kept = np.array([int(chosen.value[0]) for chosen in state.weighing])
            return model.annealed_posterior(release, state.points[-1][kept], None)
        log = -release.value
        rng = state.task.rng(1)
        kept = rng.choice(self.runs, size=self.runs, p=np.exp(log - logsumexp(log)))
        evidence = np.full(self.runs, logsumexp(log) - np.log(self.runs))
        return model.annealed_posterior(release, state.points[-1][kept], evidence)

    def _law(self, task: Task) -> TruncatedDirichlet:
        law = task.model.draw_query(
            task.schema, truncation=self.truncation, draws=1, temper_prior=False
        ).law
        if not isinstance(law, TruncatedDirichlet):
            raise ModelError("AnnealedImportance needs a model of levels, such as BetaBernoulli.")
        return law

    def _gains(self, state: AnnealedState) -> np.ndarray:
        """The log weight of run i is the sum over rows of gains[i, level of the row]."""
        inverse = self.inverse_temperatures(state.law, state.task.schema)
        return np.einsum("j,jik->ik", np.diff(inverse), np.log(np.stack(state.points[:-1])))

    def inverse_temperatures(self, law: TruncatedDirichlet, schema: Schema) -> np.ndarray:
        """The likelihood's inverse temperature at each draw."""
        draws: list[Any] = [steps.mechanism for steps in self._plan(schema).steps[:-1]]
        each = np.array([float(m.epsilon) for m in draws]) / draw_range(law, schema)
        return np.concatenate([[0.0], np.minimum(1.0, each)])

    def _plan(self, schema: Schema) -> Plan:
        """Draws at lower temperatures cost more, and the weights as much as the dearest draw."""
        rising = np.arange(1, self.temperatures + 1) / self.temperatures

        def make(x: float) -> Plan:
            draws = [Steps(self.runs, Exponential(round(float(x * r), 12))) for r in rising]
            price = round(x * self.weights_share, 12)
            if self.weights == "choice":
                weighing = Steps(self.runs, Exponential(price))
            else:
                weighing = Steps(1, Laplace(price), geometry="box", numbers=self.runs)
            return Plan(*draws, weighing, delta=self.delta)

        return largest_plan(make, Budget(self.epsilon, self.delta), schema.neighbours)


@dataclass(frozen=True)
class AnnealedState:
    """Points (run, level) after each temperature, draws at the present one, and weights."""

    task: Task
    law: TruncatedDirichlet
    points: tuple[np.ndarray, ...]
    drawn: tuple[np.ndarray, ...] = ()
    weighing: tuple[Release, ...] = ()


def linear_scores(law: TruncatedDirichlet, schema: Schema, scores: np.ndarray) -> BoundedSum:
    """Sums over rows of a number for each run and level, all from 0 up."""
    labels = labels_of(name_of(law.key), schema)
    groups = [label in law.key.levels for label in labels] if isinstance(law.key, Is) else None
    table = scores if groups is None else scores[:, np.array(groups, int)]
    clip = max(float(table.max()), 1e-9) * schema.max_rows_per_unit
    return BoundedSum(
        Kernel("table.scores"),
        name_of(law.key),
        size=len(table),
        clip=clip,
        geometry="box",
        state=(np.ascontiguousarray(table), np.array([first_number(name_of(law.key), schema)])),
    )
