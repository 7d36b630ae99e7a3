"""Topics of documents: proportions of topics in documents, and perplexities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any

import numba
import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import digamma, gammaln

from tacit.kernels.mixing import fit_proportions, flush_denormals, gather_columns, padded

_SOME = 4096  # documents at a time


@numba.njit(nogil=True, cache=True)
def _mixtures(
    offsets: Any,
    words: Any,
    weights: Any,
    rows: Any,
    alpha: Any,
    tolerance: Any,
    most: Any,
    gammas: Any,
) -> None:
    theta = np.zeros(rows.shape[1], np.float32)
    for i in range(gammas.shape[0]):
        here = words[offsets[i] : offsets[i + 1]]
        columns = np.zeros((rows.shape[1], padded(here.size)), np.float32)
        gather_columns(rows, here, columns)
        counts = np.zeros(columns.shape[1], np.float32)
        counts[: here.size] = weights[offsets[i] : offsets[i + 1]]
        fit_proportions(columns, counts, alpha, tolerance, most, gammas[i], theta)


def mixtures(
    documents: csr_matrix, rows: np.ndarray, alpha: float, *, tolerance: float, most: int
) -> np.ndarray:
    """The Dirichlet (document, topic) of each document's topics, given words by topics."""
    # The compiled loop reads rows of words without index checks.
    if documents.shape[1] != len(rows):
        raise ValueError(f"Expected documents of {len(rows)} words, got {documents.shape[1]}.")
    documents.check_format()
    gammas = np.zeros((documents.shape[0], rows.shape[1]), np.float32)
    table, weights = flush_denormals(rows), documents.data.astype(float)
    arrays = documents.indices, weights, table, alpha, tolerance, most

    def some(first: int) -> None:
        stop = first + _SOME
        _mixtures(documents.indptr[first : stop + 1], *arrays, gammas[first:stop])

    with ThreadPoolExecutor(cpu_count()) as pool:
        list(pool.map(some, range(0, documents.shape[0], _SOME)))
    return gammas


def halves(documents: csr_matrix, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    """Each document's words dealt out at random, half to learn its topics from, half to score."""
    counts = np.rint(documents.data).astype(np.int64)
    row = np.repeat(np.repeat(np.arange(documents.shape[0]), np.diff(documents.indptr)), counts)
    word = np.repeat(documents.indices, counts)
    order = np.lexsort((rng.random(row.size), row))
    row, word = row[order], word[order]
    place = np.arange(row.size) - np.searchsorted(row, row, side="left")
    parts = []
    for here in (place % 2 == 0, place % 2 == 1):
        ones = np.ones(int(here.sum()))
        parts.append(csr_matrix((ones, (row[here], word[here])), shape=documents.shape))
    return parts[0], parts[1]


def log_probability(documents: csr_matrix, theta: np.ndarray, topics: np.ndarray) -> np.ndarray:
    """Of each document's words, given its shares (document, topic) and words by topics."""
    result = np.zeros(documents.shape[0])
    for first in range(0, documents.shape[0], _SOME):
        some = documents[first : first + _SOME].tocoo()
        p = np.einsum("ik,ik->i", theta[first + some.row], topics[some.col])
        np.add.at(result, first + some.row, some.data * np.log(np.maximum(p, 1e-300)))
    return result


def completion(
    documents: csr_matrix, topics: np.ndarray, alpha: float, rng: np.random.Generator, **how: Any
) -> float:
    """The perplexity of half the words of each document, its topics learnt from the other half."""
    known, scored = halves(documents, rng)
    gamma = mixtures(known, topics, alpha, **how)
    theta = gamma / gamma.sum(axis=1, keepdims=True)
    return float(np.exp(-log_probability(scored, theta, topics).sum() / scored.sum()))


def bound(documents: csr_matrix, topics: np.ndarray, alpha: float, **how: Any) -> float:
    """The perplexity that a variational bound gives (Hoffman et al. 2010, equation 16)."""
    if np.all(topics == topics[:, :1]):  # one topic in all but name, and its bound is tight
        topics, alpha = topics[:, :1], alpha * topics.shape[1]
    gamma = mixtures(documents, topics, alpha, **how).astype(float)
    total = gamma.sum(axis=1, keepdims=True)
    log_theta = digamma(gamma) - digamma(total)
    count = gamma.shape[1]
    prior = gammaln(count * alpha) - count * gammaln(alpha) + (alpha - 1) * log_theta.sum(axis=1)
    own = gammaln(total[:, 0]) - gammaln(gamma).sum(axis=1) + ((gamma - 1) * log_theta).sum(axis=1)
    words = log_probability(documents, np.exp(log_theta), topics)
    return float(np.exp(-(words + prior - own).sum() / documents.sum()))
