"""Latent Dirichlet allocation: documents as mixtures of topics, topics as words' probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from tacit.infer.topics import expected, padded
from tacit.models.description import describe, number
from tacit.posterior.topics import TopicPosterior
from tacit.spec.columns import Tokens
from tacit.spec.errors import ModelError
from tacit.spec.maps import SparseMap
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Course, Setting, Sums, Variational

_TOLERANCE, _ROUNDS = 1e-3, 100


@dataclass(frozen=True)
class LDA:
    """Topics that documents are made of.

    Parameters
    ----------
    topics
        How many.
    alpha, eta
        Dirichlet concentrations of a document's topics and of a topic's words. Default: 1 / topics.
    length
        How many words each document counts as, whatever its length: what is protected is the
        document, and a long one has no more to say than a short one.
    clip
        The largest norm of one document's share of the statistics, as a fraction of the length.
    """

    topics: int
    alpha: float | None = None
    eta: float | None = None
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

    def variational(self, schema: Schema, setting: Setting) -> Variational:
        column = _documents(schema)
        shape = len(column.vocabulary), self.topics
        spread = SparseMap(expected, width=self.topics)
        # Without noise a document is as long as it is, and nothing needs a bound.
        length = self.length if setting.noise else 0.0
        clip = (
            self.clip * self.length
            if setting.noise
            else column.max_length * float(schema.max_rows_per_unit)
        )

        def start(rng: np.random.Generator) -> Sums:
            return Sums({"sum": rng.gamma(100, 0.01, size=shape)}, {"sum": 0.0})

        def question(concentration: np.ndarray) -> BoundedSum:
            rows = np.exp(digamma(concentration) - digamma(concentration.sum(axis=0)))
            settings = np.array([self.alpha, length, _TOLERANCE, _ROUNDS])
            return BoundedSum(
                spread,
                column.name,
                size=shape,
                clip=clip,
                geometry="nonnegative",
                state=(padded(rows), settings),
            )

        def beliefs(sums: Sums) -> np.ndarray:
            return self.eta + np.maximum(sums.values["sum"] - sums.sd["sum"], 0.0)

        course = Course(4)
        if not setting.noise:  # small batches are fast, and take nothing away
            course = Course(4, batch_size=1000, tau0=64, kappa=0.5)
        return Variational(start, question, beliefs, course)

    def variational_posterior(
        self, release: Release, beliefs: np.ndarray, sampling: Sampling
    ) -> TopicPosterior:
        return TopicPosterior.believed(describe(self), release, beliefs, sampling)


def _documents(schema: Schema) -> Tokens:
    columns = [column for column in schema.columns if isinstance(column, Tokens)]
    if len(columns) != 1:
        raise ModelError(
            "Expected one column of documents: Schema(tacit.Tokens(name, vocabulary, 500), ...)."
        )
    return columns[0]
