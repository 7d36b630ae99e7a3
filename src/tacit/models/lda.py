"""Latent Dirichlet allocation: documents as mixtures of topics, topics as words' probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tacit.models.description import describe, number
from tacit.models.lda_fit import Topics, aware_topics, documents_of, plain_topics
from tacit.posterior.topics import TopicPosterior
from tacit.spec.errors import ModelError
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.variational import Setting, Variational

Weighting = Literal["root", "length", "resampled"]


@dataclass(frozen=True)
class LDA:
    """Topics that documents are made of.

    Parameters
    ----------
    topics
        How many.
    alpha, eta
        Dirichlet concentrations of a document's topics and of a topic's words. Default: 1 / topics.
    weighting
        What a document adds to the statistics. "root": the roots of its counts, scaled to norm 1,
        so that each has as much to say as privacy allows. "length": its counts as if it had
        `length` words, cut down to a norm of `clip` times the length. "resampled": the same with
        `length` words drawn from it with replacement, as in the paper, which adds nothing but
        variance.
    """

    topics: int
    alpha: float | None = None
    eta: float | None = None
    weighting: Weighting = "root"
    length: float = 500
    clip: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.topics, bool) or not isinstance(self.topics, int) or self.topics < 1:
            raise ModelError(f"Expected topics={self.topics!r} to be a whole number from 1.")
        for what in ("alpha", "eta"):
            given = getattr(self, what)
            value = 1 / self.topics if given is None else number(given, what, above=0)
            object.__setattr__(self, what, value)
        for what in ("length", "clip"):
            object.__setattr__(self, what, number(getattr(self, what), what, above=0))
        if self.weighting not in get_args(Weighting):
            known = ", ".join(get_args(Weighting))
            raise ModelError(f"Expected weighting={self.weighting!r} among {known}.")

    def variational(self, schema: Schema, setting: Setting) -> Variational:
        if setting.noise and setting.aware and self.weighting == "root":
            return aware_topics(self, documents_of(schema), setting)
        return plain_topics(self, documents_of(schema), schema, setting)

    def variational_posterior(
        self, release: Release, parameters: Topics, sampling: Sampling
    ) -> TopicPosterior:
        return TopicPosterior.from_parameters(describe(self), release, parameters, sampling)
