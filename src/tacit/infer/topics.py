"""Topic models: initial topics, and given topics the proportions and perplexities of documents.

Initial topics are from word co-occurrence, by symmetric non-negative matrix factorisation.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.special import digamma, gammaln

from tacit.compile_cache import cached
from tacit.kernels.mixing import fit_proportions, flush_denormals, gather_columns, padded

_CHUNK = 4096  # documents at a time
_CENTRE = 0.7  # share of the co-occurrence expected under independence that is subtracted
_MARGIN = 1.02  # times the noise edge: the largest eigenvalue of noise varies a little
_RESTARTS = 3
_TRIAL_SWEEPS, _SWEEPS = 5, 20  # from each initial value, and from the best


def factors(pairs: np.ndarray, topics: int, rng: np.random.Generator) -> np.ndarray:
    """Return a non-negative matrix F (word, topic) with F F' about `pairs` off the diagonal.

    `pairs` is symmetric, its diagonal unknown. Most of the co-occurrence expected under
    independence is subtracted first, since otherwise every topic is the word frequencies. The
    result has the least squared error of a few random initial values.
    """
    centred = _centred(pairs, _CENTRE).astype(np.float32)
    size = 2 * np.sqrt(max(float(np.abs(centred).mean()), 1e-6) / topics)
    starts = (rng.random((_RESTARTS, len(pairs), topics)) * size).astype(np.float32)
    with ThreadPoolExecutor() as pool:
        tried = list(pool.map(lambda start: _descended(centred, start, _TRIAL_SWEEPS), starts))
    best = min(tried, key=lambda found: _misfit(centred, found))
    return _descended(centred, best, _SWEEPS).astype(float)


def exceeds_noise_edge(pairs: np.ndarray, count: int, sd: float) -> bool:
    """Return whether `count` eigenvalues of the centred matrix exceed those of noise alone.

    Symmetric noise of standard deviation `sd` has eigenvalues up to 2 sd sqrt(size) (Wigner's
    semicircle law). A topic below this edge cannot be found.
    """
    size = len(pairs)
    count = min(count, size)
    largest = (size - count, size - 1)
    values = eigh(_centred(pairs, 1.0), eigvals_only=True, subset_by_index=largest)
    return bool(values[0] > _MARGIN * 2 * sd * np.sqrt(size))


def _centred(pairs: np.ndarray, share: float) -> np.ndarray:
    """Return pairs - share * (co-occurrence expected under independence), with diagonal 0."""
    frequency = np.maximum(pairs.sum(axis=0), 0.0)
    total = max(float(frequency.sum()), 1e-9)
    rest = pairs - share * np.outer(frequency, frequency) / total
    np.fill_diagonal(rest, 0.0)
    return rest


def _misfit(pairs: np.ndarray, found: np.ndarray) -> float:
    rest = found @ found.T - pairs
    np.fill_diagonal(rest, 0.0)
    return float((rest**2).sum())


@cached(nogil=True, error_model="numpy", fastmath=True)
def _descended(pairs: Any, found: Any, sweeps: Any) -> Any:
    """Return `found` after sweeps of coordinate descent, word by word, in place."""
    words, topics = found.shape
    for _ in range(sweeps):
        inner = found.T @ found
        for i in range(words):
            mine = found[i].copy()
            now = mine.copy()
            # Negative gradient of the squared error, updated with each coordinate.
            descent = pairs[i] @ found - inner @ mine + (mine @ mine) * mine
            for _ in range(3):
                for k in range(topics):
                    own = inner[k, k] - mine[k] * mine[k]
                    if own <= 1e-12:
                        continue
                    step = max(descent[k] / own, -now[k])
                    if step != 0:
                        now[k] += step
                        for m in range(topics):
                            descent[m] -= step * (inner[k, m] - mine[k] * mine[m])
            for k in range(topics):
                for m in range(topics):
                    inner[k, m] += now[k] * now[m] - mine[k] * mine[m]
            found[i] = now
    return found


@cached(nogil=True)
def _mixtures(offsets, words, weights, rows, alpha, tolerance, most, gammas):  # type: ignore[no-untyped-def]
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
    """Return the variational Dirichlet parameters (document, topic) of topic proportions.

    `rows` (word, topic) holds the probabilities of words in topics.
    """
    # The compiled loop reads rows of words without index checks.
    if documents.shape[1] != len(rows):
        raise ValueError(f"Expected documents of {len(rows)} words, got {documents.shape[1]}.")
    documents.check_format()
    gammas = np.zeros((documents.shape[0], rows.shape[1]), np.float32)
    table, weights = flush_denormals(rows), documents.data.astype(float)
    arrays = documents.indices, weights, table, alpha, tolerance, most

    def fit_chunk(first: int) -> None:
        stop = first + _CHUNK
        _mixtures(documents.indptr[first : stop + 1], *arrays, gammas[first:stop])

    with ThreadPoolExecutor(cpu_count()) as pool:
        list(pool.map(fit_chunk, range(0, documents.shape[0], _CHUNK)))
    return gammas


def halves(documents: csr_matrix, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    """Return two random halves of each document's words: one to fit, one to score."""
    counts = np.rint(documents.data).astype(np.int64)
    row = np.repeat(np.repeat(np.arange(documents.shape[0]), np.diff(documents.indptr)), counts)
    word = np.repeat(documents.indices, counts)
    order = np.lexsort((rng.random(row.size), row))
    row, word = row[order], word[order]
    position = np.arange(row.size) - np.searchsorted(row, row, side="left")
    parts = []
    for here in (position % 2 == 0, position % 2 == 1):
        ones = np.ones(int(here.sum()))
        parts.append(csr_matrix((ones, (row[here], word[here])), shape=documents.shape))
    return parts[0], parts[1]


def log_probability(documents: csr_matrix, theta: np.ndarray, topics: np.ndarray) -> np.ndarray:
    """Return the log probability of each document's words.

    `theta` (document, topic) holds topic proportions, `topics` (word, topic) word probabilities.
    """
    result = np.zeros(documents.shape[0])
    for first in range(0, documents.shape[0], _CHUNK):
        chunk = documents[first : first + _CHUNK].tocoo()
        p = np.einsum("ik,ik->i", theta[first + chunk.row], topics[chunk.col])
        np.add.at(result, first + chunk.row, chunk.data * np.log(np.maximum(p, 1e-300)))
    return result


def completion(
    documents: csr_matrix, topics: np.ndarray, alpha: float, rng: np.random.Generator, **kwargs: Any
) -> float:
    """Return the perplexity of half of each document's words, given the other half."""
    known, scored = halves(documents, rng)
    gamma = mixtures(known, topics, alpha, **kwargs)
    theta = gamma / gamma.sum(axis=1, keepdims=True)
    return float(np.exp(-log_probability(scored, theta, topics).sum() / scored.sum()))


def bound(documents: csr_matrix, topics: np.ndarray, alpha: float, **kwargs: Any) -> float:
    """Return the perplexity of the variational bound (Hoffman et al. 2010, equation 16)."""
    if np.all(topics == topics[:, :1]):  # equal topics are one topic, whose bound is tight
        topics, alpha = topics[:, :1], alpha * topics.shape[1]
    gamma = mixtures(documents, topics, alpha, **kwargs).astype(float)
    total = gamma.sum(axis=1, keepdims=True)
    log_theta = digamma(gamma) - digamma(total)
    count = gamma.shape[1]
    prior = gammaln(count * alpha) - count * gammaln(alpha) + (alpha - 1) * log_theta.sum(axis=1)
    own = gammaln(total[:, 0]) - gammaln(gamma).sum(axis=1) + ((gamma - 1) * log_theta).sum(axis=1)
    words = log_probability(documents, np.exp(log_theta), topics)
    return float(np.exp(-(words + prior - own).sum() / documents.sum()))
