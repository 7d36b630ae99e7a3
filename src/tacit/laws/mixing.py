"""How much of each topic a document has: the inner loop of variational topic models.

A map may call `gathered`, `mixed` and `divided`. Maps are compiled by the wall with every index
checked, which keeps a compiler from using vector instructions; these functions are known to the
wall and taken as they are. They check all sizes first. Sums are added in an order that follows from
their number alone, so that the same document has the same numbers wherever it stands.
"""

from __future__ import annotations

import numba
import numpy as np

_compiled = numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
_inlined = numba.njit(inline="always", nogil=True, error_model="numpy")

LANES = 16  # numbers that a vector instruction takes at once: a multiple of it is fastest
_F = np.float32
_LEAST = _F(-80.0)  # exp(-80) is about the least that single precision holds
_TINY = _F(1e-30)
_JUMP, _FAR = 3, _F(8)  # every how many rounds gamma jumps, and how many rounds ahead at most
_NONE, _LITTLE = _F(1e-20), _F(1e-15)  # count as 0: their product is far from what is slow


@_inlined
def exp_below(x):
    """exp(x) for x <= 0 in single precision to four digits, without a branch or a call."""
    small = max(x, _LEAST) / _F(256)
    power = _F(1) + small * (_F(1) + small * (_F(1 / 2) + small * (_F(1 / 6) + small / _F(24))))
    for _ in range(8):  # exp(x / 256) to the power 256
        power *= power
    return power


@_inlined
def _exp_digamma(x):
    """exp(digamma(x)) for x > 0 in single precision, without a branch or a call."""
    # digamma(x) = digamma(x + 6) - 1/x - ... - 1/(x + 5), the fractions added up in pairs.
    pair = x * (x + _F(5))
    gap = _F(1) / pair + _F(1) / (pair + _F(4)) + _F(1) / (pair + _F(6))
    # exp(digamma(z + 1/2)) = z + 1 / (24 z) - ... far from 0.
    far = x + _F(5.5)
    return (far + _F(1) / (_F(24) * far)) * exp_below(-(_F(2) * x + _F(5)) * gap)


@_compiled
def exp_digamma(x, out):
    """exp(digamma(x)), to four digits where it exceeds 1e-30."""
    if x.size != out.size:
        raise ValueError("sizes differ")
    for k in range(x.size):
        out[k] = _exp_digamma(x[k])


@_compiled
def gathered(table, words, rows):
    """Copy the rows of some words from a table of all."""
    if not (words.size == rows.shape[0] and table.shape[1] == rows.shape[1]):
        raise ValueError("sizes differ")
    for i in range(words.size):
        word = words[i]  # once: it may lie in what is written
        if not 0 <= word < table.shape[0]:
            raise ValueError("no such word")
        for k in range(rows.shape[1]):
            rows[i, k] = table[word, k]


@_compiled
def mixed(rows, counts, alpha, tolerance, most, gamma, weights):
    """Find a document's topics: coordinate ascent from a flat start, as in Hoffman et al. (2010).

    `rows` has a row for each word with a number for each topic, in single precision, and `counts`
    how often each occurs. Afterwards `gamma` holds the Dirichlet of the document's topics and
    `weights` exp(E[log theta]) up to a factor: word i is of topic k in proportion to
    rows[i, k] * weights[k]. Ends when the mean change of gamma is below the tolerance, or after
    `most` rounds. Returns the number of rounds.

    Rounds that go on the same way, each a bit shorter than the one before, are foreseen: from the
    sixth on, every third time gamma jumps to about where they lead (Aitken), which saves two in
    five of them. It may end in another of several maxima, no worse on average.

    A row's scale is of no matter. Numbers that are nearly 0 but not 0 make it slow: `cleared` rows
    have none.
    """
    words, topics = rows.shape
    if not (words == counts.size and topics == gamma.size == weights.size):
        raise ValueError("sizes differ")
    for k in range(topics):
        gamma[k] = _F(1)
    sums, shares = np.zeros(topics, np.float32), np.zeros(words, np.float32)
    last = np.zeros(topics, np.float32)
    rounds = 0
    while True:
        for k in range(topics):
            weight = _exp_digamma(gamma[k])
            weights[k] = weight if weight > _NONE else _F(0)
            sums[k] = _F(0)
        if rounds >= most:
            return rounds
        for i in range(words):
            total = _TINY
            for k in range(topics):
                total += rows[i, k] * weights[k]
            share = counts[i] / total
            shares[i] = share  # never read; without it the compiler's code takes twice as long
            for k in range(topics):
                sums[k] += share * rows[i, k]
        rounds += 1
        change, along, before = _F(0), _F(0), _F(0)
        for k in range(topics):
            new = _F(alpha) + weights[k] * sums[k]
            move = new - gamma[k]
            change += abs(move)
            along += move * last[k]
            before += last[k] * last[k]
            gamma[k], last[k] = new, move
        if change < tolerance * topics:
            most = rounds  # once more, for the weights that belong to this
        elif (
            rounds > _JUMP and rounds % _JUMP == 0 and _F(0.2) * before < along < _F(0.98) * before
        ):
            far = min(along / (before - along), _FAR)
            for k in range(topics):
                there, least = gamma[k] + far * last[k], _F(alpha)
                gamma[k] = there if there > least else least + _F(0.1) * (gamma[k] - least)
                last[k] = _F(0)


def cleared(rows):
    """Words by topics for `mixed`: each word's largest number 1, and 0 what is nearly 0 beside it.

    Products of small numbers are not small enough for a processor to be fast with them: more than
    twenty times slower.
    """
    wide = np.zeros((rows.shape[0], -(-rows.shape[1] // LANES) * LANES), np.float32)
    scaled = rows / np.maximum(rows.max(axis=1, keepdims=True), 1e-300)
    wide[:, : rows.shape[1]] = np.where(scaled > _LITTLE, scaled, 0)
    return wide


@_compiled
def divided(rows, theta, amounts, norm, out):
    """Divide the amount of each word among topics, in proportion to rows times theta.

    `out` may have fewer topics than the rows: the first ones. With a norm above 0 all numbers
    together are scaled to have it.
    """
    words, topics = out.shape
    if not (words == rows.shape[0] == amounts.size and topics <= rows.shape[1] == theta.size):
        raise ValueError("sizes differ")
    factors = np.zeros(words)
    squares = 0.0
    for i in range(words):
        total, square = _TINY, _F(0)
        for k in range(topics):
            share = rows[i, k] * theta[k]
            total += share
            square += share * share
        factors[i] = amounts[i] / np.float64(total)
        squares += factors[i] * factors[i] * np.float64(square)
    scale = norm / np.sqrt(squares) if norm > 0 and squares > 0 else 1.0
    for i in range(words):
        factor = scale * factors[i]
        for k in range(topics):
            out[i, k] = factor * np.float64(rows[i, k] * theta[k])
