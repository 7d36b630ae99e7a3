"""A yes-or-no column: the probability of success, with a Beta prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import expit, polygamma
from scipy.stats import beta

from tacit.infer.categorical import draw_probabilities
from tacit.models.answers import check_answers, conjugate_draw
from tacit.models.description import describe, positive
from tacit.posterior import Posterior
from tacit.spec.columns import Label
from tacit.spec.draws import ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.keys import Is, first_number, labels_of
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.walks import Walk


@dataclass(frozen=True)
class BetaBernoulli:
    """How often `column` is `success`, among the rows that have a value.

    Parameters
    ----------
    column
        A countable column of the schema.
    success
        The level, or levels, that count as success.
    prior
        The Beta prior's (a, b): as if a successes and b failures had been seen before.

    Examples
    --------
    >>> BetaBernoulli("smoker", success="yes").query()
    Counts(columns=(Is(column='smoker', levels=('yes',)),), by=())
    """

    column: str
    success: Label | Sequence[Label] = None
    prior: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if self.success is None:
            raise ModelError(
                f"Expected the level that counts as success: "
                f'BetaBernoulli({self.column!r}, success="yes").'
            )
        object.__setattr__(self, "prior", positive(self.prior, 2, "prior=(a, b)"))

    def query(self) -> Counts:
        return Counts((self._key(),))

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        key = self._key()
        return conjugate_draw(schema, key, self.prior[::-1], truncation, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of the success probability `p` given its counts with noise, or a draw."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        success = self._success(release)
        successes, failures = self.prior
        # A Beta prior of levels taken together: the same Dirichlet prior, added up.
        prior = np.where(success, successes / success.sum(), failures / (~success).sum())
        levels, rows, rng = draw_probabilities(release, self.column, prior, how)
        p = levels[:, success].sum(axis=1)
        return Posterior.of(
            describe(self),
            release,
            how,
            {"p": p, "rows": rows},
            predicted={self.column: rng.random(len(p)) < p},
        )

    def walk(self, schema: Schema) -> Walk:
        """A walk on the scale of log p / (1 - p), where one row's gradient is below 1."""
        labels_of(self._key(), schema)
        success = np.array([x in self._key().levels for x in labels_of(self.column, schema)])
        a, b = self.prior
        first = np.array([first_number(self.column, schema)])
        return Walk(
            columns=(self.column,),
            ratio=Kernel("walk.bernoulli_log_ratio"),
            state=lambda here, there: (
                success * (there - here) - np.logaddexp(0, there) + np.logaddexp(0, here),
                first,
            ),
            max_gradient=1.0,
            start=np.array([np.log(a / b)]),
            scale=float(np.sqrt(polygamma(1, a) + polygamma(1, b))),
            log_prior=lambda at: float(a * at[0] - (a + b) * np.logaddexp(0.0, at[0])),
        )

    def walk_posterior(self, release: Release, at: np.ndarray) -> Posterior:
        return Posterior.walked(describe(self), release, {"p": expit(at[:, 0])})

    def _key(self) -> Is:
        levels = self.success if isinstance(self.success, (tuple, list)) else (self.success,)
        return Is(self.column, tuple(levels))

    def _success(self, release: Release) -> np.ndarray:
        """Which cells of the release are successes: one of two, or some of all levels."""
        key = self._key()
        labels_of(key, release.schema)  # refuses unknown levels
        if not isinstance(release.query, Counts) or release.query == self.query():
            return np.array([False, True])
        success = np.array(
            [label in key.levels for label in labels_of(self.column, release.schema)]
        )
        if success.all():
            raise ModelError(f"Expected a level of {self.column!r} that is not a success.")
        return success

    def annealed_posterior(
        self, release: Release, p: np.ndarray, log_evidence: np.ndarray | None
    ) -> Posterior:
        draws = {"p": p[:, 1]}
        if log_evidence is not None:
            draws["log_evidence"] = log_evidence
        return Posterior.walked(describe(self), release, draws)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `p`."""
        return beta.logpdf(draws["p"], *self.prior)
