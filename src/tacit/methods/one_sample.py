"""One posterior sample: a draw from the tempered posterior, whose own randomness is the privacy."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Unpack

from tacit.methods.common import ask_once
from tacit.spec.budget import Number
from tacit.spec.draws import MOST_DRAWS, ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.logistic import LogisticDraw
from tacit.spec.mechanisms import Exponential
from tacit.spec.protocols import DrawModel, Releaser
from tacit.spec.sampling import SamplingOptions
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
        private at every step (Bok, Su and Altschuler 2024).
    temper_prior
        Flatten the prior too, as the papers do.
    """

    epsilon: Decimal
    delta: Decimal
    draws: int
    truncation: Any
    temper_prior: bool

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        draws: int = 1,
        truncation: Any = None,
        temper_prior: bool = False,
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

    def question(
        self, model: DrawModel, schema: Schema
    ) -> tuple[ConjugateDraw | LogisticDraw, Exponential]:
        """What is asked of the wall, and how it is paid for."""
        query = model.draw_query(
            schema,
            truncation=self.truncation,
            draws=self.draws,
            temper_prior=self.temper_prior,
        )
        return query, Exponential(self.epsilon, self.delta)

    def run(
        self,
        model: DrawModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Any:
        return ask_once(self, model, releaser, name, sampling)


def _floats(value: Any) -> Any:
    """Decimals of a study file as floats; the model says what else is wrong."""
    if isinstance(value, (tuple, list)):
        return tuple(_floats(each) for each in value)
    return float(value) if isinstance(value, Decimal) else value
