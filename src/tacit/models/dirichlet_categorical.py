"""A column with several levels: their probabilities, with a Dirichlet prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import gammaln

from tacit.infer.categorical import draw_probabilities
from tacit.models.answers import check_answers, conjugate_draw
from tacit.models.description import describe, positive
from tacit.posterior import Posterior
from tacit.spec.columns import Label
from tacit.spec.draws import ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.keys import labels_of
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class DirichletCategorical:
    """How often `column` takes each of its levels, among the rows that have a value.

    Parameters
    ----------
    column
        A countable column of the schema.
    prior
        The Dirichlet prior's concentration: one number for all levels, one for each in order, or
        a mapping from level to number.
    """

    column: str
    prior: float | Sequence[float] | Mapping[Label, float] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.prior, Mapping):
            positive(tuple(self.prior.values()), len(self.prior), "prior")
        elif isinstance(self.prior, Sequence):
            object.__setattr__(self, "prior", positive(self.prior, len(self.prior), "prior"))
        else:
            object.__setattr__(self, "prior", positive((self.prior,), 1, "prior")[0])

    def query(self) -> Counts:
        return Counts((self.column,))

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        prior = self._concentration(labels_of(self.column, schema))
        return conjugate_draw(schema, self.column, prior, truncation, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of the probabilities `p` given its counts with noise, or draws."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        levels = labels_of(self.column, release.schema)
        prior = self._concentration(levels)
        p, rows, rng = draw_probabilities(release, self.column, prior, how)
        chosen = (np.cumsum(p, axis=1) < rng.random((len(p), 1))).sum(axis=1)
        return Posterior.of(
            describe(self),
            release,
            how,
            {"p": p, "rows": rows},
            dims={"p": (self.column,)},
            coords={self.column: levels},
            predicted={self.column: np.minimum(chosen, len(levels) - 1)},
        )

    def annealed_posterior(
        self, release: Release, p: np.ndarray, log_evidence: np.ndarray | None
    ) -> Posterior:
        draws = {"p": p}
        if log_evidence is not None:
            draws["log_evidence"] = log_evidence
        levels = labels_of(self.column, release.schema)
        return Posterior.walked(
            describe(self),
            release,
            draws,
            dims={"p": (self.column,)},
            coords={self.column: levels},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `p`."""
        prior = self._concentration(labels_of(self.column, release.schema))
        inside = np.maximum(draws["p"], 1e-300)
        constant = gammaln(prior.sum()) - gammaln(prior).sum()
        return constant + (np.log(inside) * (prior - 1)).sum(axis=-1)

    def _concentration(self, levels: tuple[Label, ...]) -> np.ndarray:
        match self.prior:
            case Mapping() as prior:
                if set(prior) != set(levels):
                    raise ModelError(f"Expected prior to name each level of {self.column!r} once.")
                return np.array([prior[level] for level in levels], dtype=float)
            case tuple() as prior:
                if len(prior) != len(levels):
                    raise ModelError(f"Expected {len(levels)} numbers in prior, got {len(prior)}.")
                return np.array(prior)
            case prior:
                return np.full(len(levels), prior)
