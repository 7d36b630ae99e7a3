"""Topics of documents: what one document says of them, and what they say of documents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any

import numba
import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import digamma, gammaln

from tacit.laws.mixing import cleared, divided, exp_digamma, gathered, mixed

_SOME = 4096  # documents at a time


def exp_digammas(x: np.ndarray) -> np.ndarray:
    """exp(digamma(x)) in single precision, much faster than in double."""
    out = np.zeros(x.shape, np.float32)
    exp_digamma(x.astype(np.float32).ravel(), out.ravel())
    return out


def expected(words: Any, weights: Any, state: Any, out: Any) -> None:
    """One document's expected counts of its words in each topic: a map for the wall.

    The state holds `cleared` rows, how much each word may say of the document's topics, and alpha,
    a tolerance, how many rounds at most, a length and whether to take roots. The document counts as
    one of that length; 0 leaves it as it is. With roots its words have the roots of their counts,
    and its numbers together norm 1.
    """
    rows, say, settings = state
    count, topics = out.shape
    total = weights.sum()
    if total <= 0:
        return
    scale = settings[3] / total if settings[3] > 0 else 1.0
    mine = np.zeros((count, rows.shape[1]), np.float32)
    counts = np.zeros(count, np.float32)
    gathered(rows, words, mine)
    for i in range(count):
        counts[i] = weights[i] * scale * say[words[i]]
    gamma = np.zeros(rows.shape[1], np.float32)
    theta = np.zeros_like(gamma)
    tolerance = settings[1] * topics / rows.shape[1]
    mixed(mine, counts, settings[0], tolerance, int(settings[2]), gamma, theta)
    if settings[4] > 0:
        divided(mine, theta, np.sqrt(weights), 1.0, out)
    else:
        divided(mine, theta, weights * scale, 0.0, out)


def resampled(words: Any, weights: Any, state: Any, out: Any) -> None:
    """The same for as many words as the length, drawn with replacement, as the paper does.

    By a generator whose seed is public, and begins with the document's own words.
    """
    _, _, settings = state
    cumulative = np.cumsum(weights)
    if cumulative.size == 0 or cumulative[-1] <= 0:
        return
    drawn = np.zeros(weights.size)
    now = np.uint64(int(settings[5]))
    for word in words:
        now = _next(now ^ np.uint64(word))
    for _ in range(int(settings[3])):
        now = _next(now)
        share = np.float64(now >> np.uint64(11)) / 9007199254740992.0
        drawn[
            min(np.searchsorted(cumulative, share * cumulative[-1], "right"), drawn.size - 1)
        ] += 1
    expected(words, drawn, state, out)


def _next(now: Any) -> Any:
    """A step of xorshift64*, which never comes to 0 from elsewhere."""
    now = now | np.uint64(now == 0)
    now ^= now >> np.uint64(12)
    now ^= now << np.uint64(25)
    now ^= now >> np.uint64(27)
    return now * np.uint64(2685821657736338717)


def rooted(words: Any, weights: Any, state: Any, out: Any) -> None:
    """The roots of how often words occur, a document's together of norm 1: another map."""
    total = weights.sum()
    if total <= 0:
        return
    for i in range(words.size):
        out[i, 0] = np.sqrt(weights[i] / total)


def together(words: Any, weights: Any, state: Any, out: Any) -> None:
    """Which words occur together: products of roots, above the diagonal, together of norm 1."""
    total = weights.sum()
    squares = (weights**2).sum()
    pairs = (total**2 - squares) / 2
    if pairs <= 0:
        return
    for i in range(words.size):
        for j in range(words.size):
            if words[i] < words[j]:
                out[i, words[j]] = np.sqrt(weights[i] * weights[j] / pairs)


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
    wide = rows.shape[1]
    gamma, theta = np.zeros(wide, np.float32), np.zeros(wide, np.float32)
    for i in range(gammas.shape[0]):
        here = words[offsets[i] : offsets[i + 1]]
        mine = np.zeros((here.size, wide), np.float32)
        gathered(rows, here, mine)
        counts = weights[offsets[i] : offsets[i + 1]].astype(np.float32)
        mixed(mine, counts, alpha, tolerance, most, gamma, theta)
        gammas[i] = gamma[: gammas.shape[1]]


def mixtures(
    documents: csr_matrix, rows: np.ndarray, alpha: float, *, tolerance: float, most: int
) -> np.ndarray:
    """The Dirichlet (document, topic) of each document's topics, given words by topics."""
    wide = cleared(rows)
    topics = rows.shape[1]
    gammas = np.zeros((documents.shape[0], topics), np.float32)
    share = tolerance * topics / wide.shape[1]
    arrays = documents.indices, documents.data.astype(float), wide, alpha, share, most

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
