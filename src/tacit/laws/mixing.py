"""How much of each topic a document has: the inner loop of variational topic models.

A map may call `mixed` and `divided`. Maps are compiled by the wall with every index checked, which
keeps a compiler from using vector instructions; these functions are known to the wall and taken as
they are. They check all sizes first. Sums are added in an order that follows from their number
alone, so that the same document has the same numbers wherever it stands.
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


@_inlined
def _exp_digamma(x):
    """exp(digamma(x)) for x > 0 in single precision, without a branch or a call."""
    # digamma(x) = digamma(x + 6) - 1/x - ... - 1/(x + 5), the fractions added up in pairs.
    pair = x * (x + _F(5))
    gap = _F(1) / pair + _F(1) / (pair + _F(4)) + _F(1) / (pair + _F(6))
    gap = max(-(_F(2) * x + _F(5)) * gap, _LEAST)
    # exp(gap) as exp(gap / 256) to the power 256.
    small = gap / _F(256)
    power = _F(1) + small * (_F(1) + small * (_F(1 / 2) + small * (_F(1 / 6) + small / _F(24))))
    for _ in range(8):
        power *= power
    # exp(digamma(z + 1/2)) = z + 1 / (24 z) - ... far from 0.
    far = x + _F(5.5)
    return (far + _F(1) / (_F(24) * far)) * power


@_compiled
def exp_digamma(x, out):
    """exp(digamma(x)), to four digits where it exceeds 1e-30."""
    if x.size != out.size:
        raise ValueError("sizes differ")
    for k in range(x.size):
        out[k] = _exp_digamma(x[k])


@_compiled
def mixed(rows, counts, alpha, tolerance, most, gamma, weights, shares):
    """Find a document's topics: coordinate ascent from a flat start, as in Hoffman et al. (2010).

    `rows` has a row for each word with a number for each topic, in single precision, and `counts`
    how often each occurs. Afterwards `gamma` holds the Dirichlet of the document's topics,
    `weights` exp(E[log theta]) up to a factor, and `shares` the counts divided by the sum of rows
    times weights: word i has shares[i] * rows[i, k] * weights[k] of topic k. Ends when the mean
    change of gamma is below the tolerance, or after `most` rounds. Returns the number of rounds.
    """
    words, topics = rows.shape
    if not (words == counts.size == shares.size and topics == gamma.size == weights.size):
        raise ValueError("sizes differ")
    for k in range(topics):
        gamma[k] = _F(1)
    sums = np.zeros(topics, np.float32)
    rounds = 0
    while True:
        for k in range(topics):
            weights[k] = _exp_digamma(gamma[k])
            sums[k] = _F(0)
        for i in range(words):
            total = _TINY
            for k in range(topics):
                total += rows[i, k] * weights[k]
            share = counts[i] / total
            shares[i] = share
            for k in range(topics):
                sums[k] += share * rows[i, k]
        if rounds >= most:
            return rounds
        rounds += 1
        change = _F(0)
        for k in range(topics):
            new = _F(alpha) + weights[k] * sums[k]
            change += abs(new - gamma[k])
            gamma[k] = new
        if change < tolerance * topics:
            most = rounds  # once more, for the weights that belong to this


@_compiled
def divided(rows, theta, amounts, out):
    """Divide the amount of each word among topics, in proportion to rows times theta.

    `out` may have fewer topics than the rows: the first ones. Returns the sum of its squares.
    """
    words, topics = out.shape
    if not (words == rows.shape[0] == amounts.size and topics <= rows.shape[1] == theta.size):
        raise ValueError("sizes differ")
    squares = 0.0
    for i in range(words):
        total = _TINY
        for k in range(topics):
            total += rows[i, k] * theta[k]
        factor = np.float64(amounts[i]) / np.float64(total)
        for k in range(topics):
            share = factor * np.float64(rows[i, k] * theta[k])
            out[i, k] = share
            squares += share * share
    return squares
