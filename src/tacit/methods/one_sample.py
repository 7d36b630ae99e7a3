"""One posterior sample: a draw from the tempered posterior, whose own randomness is the privacy."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from tacit.methods.density_sample import density_query
from tacit.methods.method import Once, OneQuestion, Spending, Task
from tacit.spec.budget import Number
from tacit.spec.checks import set_fields, whole_number
from tacit.spec.density import DensityDraw
from tacit.spec.draws import MOST_DRAWS, ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.logistic import LogisticDraw
from tacit.spec.mechanisms import Exponential


@dataclass(frozen=True)
class OnePosteriorSample(OneQuestion):
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
        faithful and needs a higher temperature, since one row moves the log-likelihood by log(1 /
        truncation). For a mean, the two ends of an interval (default: the column's bounds), or
        (-inf, inf) for none, given a delta and a public number of rows: each unit has one row and
        the column a default, under replace_one. For a mean and a standard deviation, (smallest sd,
        largest sd), or both intervals, ((low, high), (smallest sd, largest sd)). For a rate, the
        smallest and the largest (default: from the column's cap). For a linear regression, the
        radius of its scaled coefficients. A logistic one needs none, given a delta: its draws are
        where Langevin chains end, which is private at every step (Bok, Su and Altschuler 2024). For
        it too, and for a model given by its log-likelihood, a radius, (low, high) for every
        parameter, or `Points`, `Box` or `Ball` of `tacit.queries`. Points, and 1,001 of them for an
        interval of one parameter, are drawn from exactly; otherwise a chain runs behind the wall,
        and the guarantee assumes that it converged.
    temper_prior
        Flatten the prior too, as the papers do.
    width
        For a model given by its log-likelihood: how much better one point may explain a row than
        another. The wall cuts off what exceeds it, and the temperature rises with it. Default: the
        largest that synthetic rows within the public domain ask for.
    steps
        How many proposals such a chain makes.

    Notes
    -----
    A draw from a log-likelihood is not corrected for its temperature, and stamped "tempered": it is
    a sample of a law that is wider than the posterior, and an interval made of a few such draws is
    not calibrated. Other posteriors know the law of the draws.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    draws: int = 1
    truncation: Any = None
    temper_prior: bool = False
    width: float | None = None
    steps: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("draw_query or likelihood",)

    def __post_init__(self) -> None:
        draws = whole_number(self.draws, "draws", 1, most=MOST_DRAWS)
        set_fields(self, epsilon=self.mechanism.epsilon, delta=self.mechanism.delta, draws=draws)

    @property
    def mechanism(self) -> Exponential:
        return Exponential(self.epsilon, self.delta)

    def plan(self, task: Task) -> Spending:
        query = self.query(task)
        if not isinstance(query, ConjugateDraw):
            task.refuse_draws(self, "draws=")
        return Spending((Once(self.mechanism),), (query,))

    def query(self, task: Task) -> ConjugateDraw | LogisticDraw | DensityDraw:
        """The draw to ask for."""
        model, schema = task.model, task.schema
        if self._by_likelihood(model):
            if self.temper_prior:
                raise ModelError("Expected temper_prior=False: this prior is kept as it is.")
            return density_query(
                model.likelihood(schema),
                schema,
                truncation=self.truncation,
                width=self.width,
                steps=self.steps,
                draws=self.draws,
            )
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
        everywhere = self.truncation is None or self.truncation == (-math.inf, math.inf)
        direct = hasattr(model, "draw_query") and everywhere
        return hasattr(model, "likelihood") and not direct
