"""One posterior sample: a draw from the tempered posterior, whose own randomness is the privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tacit.methods.density_sample import density_query, released_places
from tacit.methods.method import Asked, Once, Spending, Task
from tacit.spec.budget import Number
from tacit.spec.density import DensityDraw
from tacit.spec.draws import MOST_DRAWS, ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.logistic import LogisticDraw
from tacit.spec.mechanisms import Exponential
from tacit.spec.protocols import DrawModel, LikelihoodModel, LogisticModel
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class OnePosteriorSample:
    """Release a draw, or a few, of the model's posterior at the temperature that privacy needs.

    Wang, Fienberg and Smola (2015) and Foulds et al. (2016), with the range of the likelihood in
    place of its bound, and the prior kept as it is.

    Parameters
    ----------
    epsilon, delta
        What all draws cost together. A delta makes several draws cheaper.
    draws
        How many draws are released.
    truncation
        Where draws may lie. For levels, the smallest probability a draw can have: smaller is more
        faithful and hotter, since one row moves the log-likelihood by log(1 / truncation). For a
        mean, the two ends of an interval (default: the column's bounds), or (-inf, inf) for none,
        given a delta and a public number of rows: each unit has one row and the column a default,
        under replace_one. For a linear regression, the radius of its scaled coefficients. A
        logistic one needs none, given a delta: its draws are where Langevin chains end, which is
        private at every step (Bok, Su and Altschuler 2024). For it too, and for a model given by
        its log-likelihood, a radius, (low, high) for every parameter, or `Points`,
        `Box` or `Ball` of `tacit.queries`. Points, and 1,001 of them for an interval of one
        parameter, are drawn from exactly; otherwise a chain runs behind the wall, and the
        guarantee assumes that it converged.
    temper_prior
        Flatten the prior too, as the papers do.
    width
        For a model given by its log-likelihood: how much better one place may explain a row than
        another. The wall cuts off what exceeds it, and the temperature rises with it. Default: the
        largest that synthetic rows within the public domain ask for.
    steps
        How many proposals such a chain makes.

    Notes
    -----
    A draw from a log-likelihood is not corrected for its temperature, and stamped "tempered": it is
    a sample of a law that is wider than the posterior, and an interval made of a few such draws is
    not calibrated.
    """

    epsilon: Decimal
    delta: Decimal
    draws: int
    truncation: Any
    temper_prior: bool
    width: float | None
    steps: int | None

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        draws: int = 1,
        truncation: Any = None,
        temper_prior: bool = False,
        width: Number | None = None,
        steps: int | None = None,
    ) -> None:
        mechanism = Exponential(epsilon, delta)
        whole = isinstance(draws, int) and not isinstance(draws, bool)
        if not whole or not 1 <= draws <= MOST_DRAWS:
            raise ModelError(f"Expected draws={draws!r} to be a whole number to {MOST_DRAWS}.")
        object.__setattr__(self, "epsilon", mechanism.epsilon)
        object.__setattr__(self, "delta", mechanism.delta)
        object.__setattr__(self, "draws", draws)
        object.__setattr__(self, "truncation", _floats(truncation))
        object.__setattr__(self, "temper_prior", temper_prior)
        object.__setattr__(self, "width", _floats(width))
        object.__setattr__(self, "steps", steps)

    def plan(self, task: Task) -> Spending:
        by_likelihood = self._by_likelihood(task.model)
        if by_likelihood or isinstance(task.model, LogisticModel):  # draws are not corrected
            task.refuse_draws("OnePosteriorSample(draws=...)")
        once = Once(Exponential(self.epsilon, self.delta))
        return Spending((once,), (self.query(task.model, task.schema),))

    def start(self, task: Task) -> Asked:
        return Asked(task, self.query(task.model, task.schema))

    def ask(self, state: Asked) -> Query:
        return state.query

    def tell(self, state: Asked, release: Release) -> Asked:
        return replace(state, release=release)

    def posterior(self, state: Asked) -> Any:
        model, release = state.task.model, state.release
        if not self._by_likelihood(model):
            return model.posterior(release, **state.task.draws)
        assert release is not None
        return model.likelihood_posterior(release, released_places(release))

    def query(self, model: Any, schema: Schema) -> ConjugateDraw | LogisticDraw | DensityDraw:
        """The draw to ask for."""
        if self._by_likelihood(model):
            if self.temper_prior:
                raise ModelError("Expected temper_prior=False: this prior is kept as it is.")
            options: dict[str, Any] = {"width": self.width, "steps": self.steps}
            options |= {"truncation": self.truncation, "draws": self.draws}
            return density_query(model.likelihood(schema), schema, **options)
        for what in ("width", "steps"):
            if getattr(self, what) is not None:
                name = type(model).__name__
                raise ModelError(f"Expected no {what}=: the law of {name} says all of it.")
        return model.draw_query(
            schema,
            truncation=self.truncation,
            draws=self.draws,
            temper_prior=self.temper_prior,
        )

    def _by_likelihood(self, model: Any) -> bool:
        """Whether the draw is from the model's log-likelihood on a region."""
        if not isinstance(model, LikelihoodModel):
            return False
        everywhere = self.truncation is None or self.truncation == (-math.inf, math.inf)
        return not (isinstance(model, DrawModel) and everywhere)


def _floats(value: Any) -> Any:
    """Decimals of a study file as floats; the model says what else is wrong."""
    if isinstance(value, (tuple, list)):
        return tuple(_floats(each) for each in value)
    return float(value) if isinstance(value, Decimal) else value
