"""The posterior of a topic model."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix, issparse
from scipy.special import ndtri

from tacit.infer.topics import bound, completion, mixtures
from tacit.posterior.base import Posterior, describe
from tacit.posterior.intervals import Interval, summary_columns, tails
from tacit.posterior.table import Table
from tacit.spec.errors import ModelError
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.texts import check_words, word_counts

if TYPE_CHECKING:
    import pandas as pd

TOPIC, WORD, TOPICS = "topic", "word", "topics"
_MOST_NUMBERS = 2**27  # of all draws at once: 1 GB
_MOST_FOR_ARVIZ = 2**25
_FIT_OPTIONS = {"tolerance": 1e-3, "most": 200}


@dataclass(frozen=True, eq=False)
class TopicDraws(Mapping[str, np.ndarray]):
    """Draws of `topics`, shape (chain, draw, topic, word), made when they are asked for.

    A word's weight in a topic is Gamma with mean `weight` and standard deviation `spread`, and
    probabilities are weights divided by their sum: a Dirichlet where the variance is the mean, as
    in a fit without noise. Each draw has a seed of its own, so that any of them can be made alone.
    """

    weight: np.ndarray
    spread: np.ndarray
    chains: int
    draws: int
    seed: int

    def __iter__(self) -> Iterator[str]:
        return iter((TOPICS,))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, name: str) -> np.ndarray:
        if name != TOPICS:
            raise KeyError(name)
        return self._all

    @cached_property
    def _all(self) -> np.ndarray:
        count = self.chains * self.draws
        if count * self.weight.size > _MOST_NUMBERS:
            raise ModelError(
                f"Expected at most {_MOST_NUMBERS // self.weight.size} draws of topics at once, "
                f"got {count}: write posterior.sample(n), or fit with fewer draws=."
            )
        return self.made(range(count)).reshape(self.chains, self.draws, *self.weight.shape)

    def made(self, numbers: Iterable[int]) -> np.ndarray:
        """Return the draws of these numbers, shape (draw, topic, word)."""
        variance = np.maximum(self.spread, 1e-6 * self.weight + 1e-300) ** 2
        shape = np.clip(self.weight**2 / variance, 1e-6, 1e12)
        found = []
        for i in numbers:
            rng = np.random.default_rng([self.seed, i])
            # In law, log G(a) = log G(a + 1) + log(U) / a, which does not underflow.
            logs = np.log(rng.standard_gamma(shape + 1)) + np.log(rng.random(shape.shape)) / shape
            logs += np.log((self.weight + 1e-300) / shape)
            found.append(np.exp(logs - logs.max(axis=1, keepdims=True)))
            found[-1] /= found[-1].sum(axis=1, keepdims=True)
        return np.stack(found)


@dataclass(frozen=True, eq=False, repr=False)
class TopicPosterior(Posterior):
    """The posterior of each topic's word probabilities: draws of `topics` (topic, word).

    It is known by the mean and standard deviation of each word's weight, privacy noise included.
    Means, intervals and summaries come from these; draws, which may not fit into memory all at
    once, are made when they are asked for.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.draws, TopicDraws):  # as it is loaded
            made = TopicDraws(
                self.constants["weight"],
                self.constants["spread"],
                *(int(x) for x in self.constants["chains_draws_seed"]),
            )
            object.__setattr__(self, "draws", made)

    @classmethod
    def from_parameters(
        cls,
        model: Any,
        release: Release,
        sampling: Sampling,
        *,
        weight: np.ndarray,
        spread: np.ndarray,
        words: tuple[str, ...],
    ) -> Self:
        """Return the posterior given variational parameters, of shape (topic, word)."""
        seed = secrets.randbits(32) if sampling.seed is None else sampling.seed % 2**63
        constants = {
            "weight": np.ascontiguousarray(weight),
            "spread": np.ascontiguousarray(spread),
            "chains_draws_seed": np.array([sampling.chains, sampling.draws, seed]),
        }
        return cls(
            draws={},
            dims=dict.fromkeys((TOPICS, "weight", "spread"), (TOPIC, WORD)),
            coords={TOPIC: tuple(range(len(weight))), WORD: words},
            model=describe(model),
            releases=(release,),
            noise=sampling.noise,
            constants=constants,
        )

    @property
    def topics(self) -> np.ndarray:
        """The expected probability of each word in each topic, shape (topic, word)."""
        return self.constants["weight"] / self.sizes[:, None]

    @property
    def sizes(self) -> np.ndarray:
        """The expected weight of each topic: its share of what documents added, up to a factor."""
        return self.constants["weight"].sum(axis=1)

    def mean(self, variable: str | None = None) -> np.ndarray:
        self._check(variable)
        return self.topics

    def sample(self, n: int, variable: str | None = None) -> np.ndarray:
        """Return `n` draws of the topics, shape (draw, topic, word), spread over all chains."""
        self._check(variable)
        count = self._made.chains * self._made.draws
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= count:
            raise ModelError(f"Expected 1 <= n={n} <= {count} draws; fit with more draws.")
        return self._made.made(np.linspace(0, count - 1, n).round().astype(int))

    def interval(
        self, level: float = 0.9, variable: str | None = None, kind: Interval = "central"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval of each word's probability in each topic, shape (topic, word)."""
        self._check(variable)
        if kind != "central":
            raise ModelError(
                'Expected kind="central": a topic model is known by mean and sd alone.'
            )
        weight, total = self.constants["weight"], self.sizes[:, None]
        wide = ndtri(tails(level)[1]) * self.constants["spread"]
        return np.maximum(weight - wide, 0.0) / total, np.minimum((weight + wide) / total, 1.0)

    def summary(
        self, level: float = 0.9, kind: Interval = "central", words: int = 10
    ) -> pd.DataFrame:
        """Return the mean, sd and interval of the most probable words of each topic."""
        return self.table(level, kind, words).frame()

    def table(self, level: float = 0.9, kind: Interval = "central", words: int = 10) -> Table:
        low, high = self.interval(level, kind=kind)
        sd = self.constants["spread"] / self.sizes[:, None]
        topics, top = self._top(words)
        at = np.repeat(topics, top.shape[1]), top.ravel()
        names = [(int(topic), self.coords[WORD][word]) for topic, word in zip(*at, strict=True)]
        columns = summary_columns(self.topics[at], sd[at], low[at], high[at], level)
        return Table(names, columns, (TOPIC, WORD), self._said())

    def _kept(self) -> Mapping[str, np.ndarray]:
        """Draws for ArviZ and for files: fewer a chain of a large model, 2^25 numbers at most."""
        made = self._made
        most = max(1, _MOST_FOR_ARVIZ // (made.chains * made.weight.size))
        return replace(made, draws=min(made.draws, most))

    def top_words(self, n: int = 10) -> pd.DataFrame:
        """Return the most probable words of each topic, one topic a row, the largest first."""
        import pandas as pd

        topics, words = self._top(n)
        found = np.array(self.coords[WORD], dtype=object)[words]
        return pd.DataFrame(found, index=pd.Index(topics, name=TOPIC))

    def _top(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The topics, the largest first, and the most probable words of each, as indices."""
        topics = np.argsort(-self.sizes, kind="stable")
        return topics, np.argsort(-self.topics, axis=1, kind="stable")[topics, :n]

    def transform(self, documents: Any) -> np.ndarray:
        """Return expected topic proportions (document, topic) of documents that you have."""
        gamma = mixtures(self._counts(documents), self.topics.T, self._alpha, **_FIT_OPTIONS)
        return gamma / gamma.sum(axis=1, keepdims=True)

    def perplexity(self, documents: Any, method: str = "completion", *, seed: int = 0) -> float:
        """Return the perplexity, per word, of documents that you already have.

        "completion": a random half of the words of each document, given the other half.
        "bound": the variational bound of Hoffman et al. (2010), on whole documents.
        """
        counts = self._counts(documents)
        if not counts.sum():
            raise ModelError("Expected documents with words of the vocabulary.")
        if method == "completion":
            rng = np.random.default_rng(seed)
            return completion(counts, self.topics.T, self._alpha, rng, **_FIT_OPTIONS)
        if method == "bound":
            return bound(counts, self.topics.T, self._alpha, **_FIT_OPTIONS)
        raise ModelError(f'Expected method={method!r} to be "completion" or "bound".')

    def __repr__(self) -> str:
        made = self._made
        return self._described(made.chains, made.draws)

    @property
    def _made(self) -> TopicDraws:
        assert isinstance(self.draws, TopicDraws)
        return self.draws

    def _check(self, variable: str | None) -> None:
        if variable not in (None, TOPICS):
            raise ModelError(f"No variable {variable!r}; there is {TOPICS!r}.")

    @property
    def _alpha(self) -> float:
        return float(self.model["alpha"])

    def _counts(self, documents: Any) -> csr_matrix:
        if hasattr(documents, "prepay"):
            raise ModelError("Expected documents that you already have, not data behind a wall.")
        words = self.coords[WORD]
        if not issparse(documents):
            return _counted(documents, words)
        if documents.ndim != 2 or documents.shape[1] != len(words):
            raise ModelError(f"Expected a sparse matrix with {len(words)} columns, or texts.")
        counts = csr_matrix(documents, dtype=float)
        if counts.nnz and not (np.all(np.isfinite(counts.data)) and counts.data.min() >= 0):
            raise ModelError("Expected counts of words that are finite and not negative.")
        return counts


def _counted(documents: Any, words: tuple[str, ...]) -> csr_matrix:
    texts = [documents] if isinstance(documents, str) else list(documents)
    if not all(text is None or isinstance(text, str) for text in texts):
        raise ModelError("Expected texts, or a sparse matrix of documents by words.")
    check_words(words)
    document, word, counts = word_counts(pa.array(texts, pa.string()), words)
    return csr_matrix((counts.astype(float), (document, word)), shape=(len(texts), len(words)))
