"""The posterior of a topic model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import csr_matrix, issparse
from scipy.stats import norm

from tacit.infer.topics import bound, completion, mixtures
from tacit.posterior.base import Posterior
from tacit.spec.columns import Tokens
from tacit.spec.errors import ModelError
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.texts import check_words, word_counts

TOPIC, WORD = "topic", "word"
_FIT_OPTIONS = {"tolerance": 1e-3, "most": 200}


class TopicPosterior(Posterior):
    """The posterior of each topic's word probabilities, by mean and standard deviation.

    `draws` holds `weight`, proportional to the expected probabilities, and `spread`, its standard
    deviation with privacy noise included: draws of all words and topics would not fit in memory.
    `sample` returns draws.
    """

    @classmethod
    def from_parameters(
        cls, model: Mapping[str, Any], release: Release, parameters: Any, sampling: Sampling
    ) -> Self:
        """Return the posterior given variational parameters `weight` and `spread` (word, topic)."""
        words = _tokens(release).vocabulary
        arrays = {"weight": parameters.weight, "spread": parameters.spread}
        return cls(
            draws={k: np.ascontiguousarray(v.T)[None, None] for k, v in arrays.items()},
            dims=dict.fromkeys(arrays, (TOPIC, WORD)),
            coords={TOPIC: tuple(range(parameters.weight.shape[1])), WORD: words},
            model=model,
            releases=(release,),
            noise=sampling.noise,
        )

    @property
    def topics(self) -> np.ndarray:
        """The expected probability of each word in each topic, shape (topic, word)."""
        weight = self.draws["weight"][0, 0]
        return weight / weight.sum(axis=1, keepdims=True)

    def mean(self, variable: str | None = None) -> Any:
        return self.topics if variable is None else super().mean(variable)

    def sample(self, n: int, variable: str | None = None, *, seed: int = 0) -> np.ndarray:
        """Return `n` draws of the topics, shape (draw, topic, word)."""
        if variable is not None:
            return super().sample(n, variable)
        rng = np.random.default_rng(seed)
        weight, spread = (self.draws[name][0, 0] for name in ("weight", "spread"))
        drawn = np.abs(weight + spread * rng.standard_normal((n, *weight.shape)))
        return drawn / drawn.sum(axis=2, keepdims=True)

    def interval(self, level: float = 0.9, variable: str | None = None) -> tuple[Any, Any]:
        """Return the interval of each word's probability in each topic, shape (topic, word)."""
        if variable is not None:
            return super().interval(level, variable)
        if not 0 < level < 1:
            raise ModelError(f"Expected 0 < level={level} < 1.")
        weight, spread = (self.draws[name][0, 0] for name in ("weight", "spread"))
        total = weight.sum(axis=1, keepdims=True)
        wide = norm.ppf((1 + level) / 2) * spread
        return np.maximum(weight - wide, 0.0) / total, np.minimum((weight + wide) / total, 1.0)

    def summary(self, level: float = 0.9, words: int = 10) -> pd.DataFrame:
        """Return the mean, sd and interval of the most probable words of each topic."""
        low, high = self.interval(level)
        sd = self.draws["spread"][0, 0] / self.draws["weight"][0, 0].sum(axis=1, keepdims=True)
        top = self.top_words(words)
        index = {word: i for i, word in enumerate(self.coords[WORD])}
        names = [(topic, word) for topic in top.index for word in top.loc[topic]]
        rows = [topic for topic, _ in names], [index[word] for _, word in names]
        columns = {
            "mean": self.topics[rows],
            "sd": sd[rows],
            f"{50 - 50 * level:g}%": low[rows],
            f"{50 + 50 * level:g}%": high[rows],
        }
        return pd.DataFrame(columns, index=pd.MultiIndex.from_tuples(names, names=[TOPIC, WORD]))

    def top_words(self, n: int = 10) -> pd.DataFrame:
        """Return the most probable words of each topic, one topic a row, the largest first."""
        words = np.array(self.coords[WORD], dtype=object)
        order = np.argsort(-self.topics, axis=1, kind="stable")[:, :n]
        size = self.draws["weight"][0, 0].sum(axis=1)
        index = np.argsort(-size, kind="stable")
        return pd.DataFrame(words[order[index]], index=pd.Index(index, name=TOPIC))

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


def _tokens(release: Release) -> Tokens:
    (column,) = (c for c in release.schema.columns if isinstance(c, Tokens))
    return column


def _counted(documents: Any, words: tuple[str, ...]) -> csr_matrix:
    texts = [documents] if isinstance(documents, str) else list(documents)
    if not all(text is None or isinstance(text, str) for text in texts):
        raise ModelError("Expected texts, or a sparse matrix of documents by words.")
    check_words(words)
    document, word, counts = word_counts(pa.array(texts, pa.string()), words)
    return csr_matrix((counts.astype(float), (document, word)), shape=(len(texts), len(words)))
