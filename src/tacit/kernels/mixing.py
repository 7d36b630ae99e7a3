"""Topic proportions of one document: the inner loop of variational topic models.

In single precision and without index checks: sizes are checked before, by the kernels' rules.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from tacit.kernels.compiling import inlined, reassociated

LANES = 16  # numbers that a vector instruction takes at once
_F = np.float32
_LEAST = _F(-80.0)  # exp(-80) is about the least that single precision holds
_TINY = _F(1e-30)
_EVERY, _MOST_AHEAD = 3, _F(8)  # extrapolate gamma every third round, by at most 8 rounds
# Flushed to 0: products of smaller numbers are float32 denormals, about 20 times slower.
_NO_WEIGHT, _NO_PROBABILITY = _F(1e-20), _F(1e-15)


@inlined
def exp_below(x):
    """exp(x) for x <= 0 in single precision to four digits, without a branch or a call."""
    small = max(x, _LEAST) / _F(256)
    power = _F(1) + small * (_F(1) + small * (_F(1 / 2) + small * (_F(1 / 6) + small / _F(24))))
    for _ in range(8):  # exp(x / 256) to the power 256
        power *= power
    return power


@inlined
def _exp_digamma(x):
    """exp(digamma(x)) for x > 0 in single precision, without a branch or a call."""
    # digamma(x) = digamma(x + 6) - 1/x - ... - 1/(x + 5), the fractions added up in pairs.
    pair = x * (x + _F(5))
    gap = _F(1) / pair + _F(1) / (pair + _F(4)) + _F(1) / (pair + _F(6))
    # exp(digamma(z + 1/2)) = z + 1 / (24 z) - ... far from 0.
    far = x + _F(5.5)
    return (far + _F(1) / (_F(24) * far)) * exp_below(-(_F(2) * x + _F(5)) * gap)


@reassociated
def _write_exp_digamma(x, out):
    for k in range(x.size):
        out[k] = _exp_digamma(x[k])


def exp_digamma(x: np.ndarray) -> np.ndarray:
    """exp(digamma(x)) in single precision, to four digits where it exceeds 1e-30."""
    out = np.zeros(x.shape, np.float32)
    _write_exp_digamma(np.ascontiguousarray(x, np.float32).ravel(), out.ravel())
    return out


def flush_denormals(probabilities: np.ndarray) -> np.ndarray:
    """Words by topics in single precision, as `gather_columns` takes them.

    Each word's largest number becomes 1, and numbers below 1e-15 of it become 0.
    """
    out = np.zeros(probabilities.shape, np.float32)
    _write_flushed(np.ascontiguousarray(probabilities, float), out)
    return out


@reassociated
def _write_flushed(probabilities, out):
    for i in range(probabilities.shape[0]):
        largest = 1e-300
        for k in range(probabilities.shape[1]):
            largest = max(largest, probabilities[i, k])
        for k in range(probabilities.shape[1]):
            scaled = _F(probabilities[i, k] / largest)
            out[i, k] = scaled if scaled > _NO_PROBABILITY else _F(0)


@reassociated
def gather_columns(table, words, columns):
    """Copy a document's words from the table of all words: a row for each topic.

    Words side by side, so that a round adds up whole vectors of them; the last columns stay zero.
    """
    for i in range(words.size):
        word = words[i]
        for k in range(columns.shape[0]):
            columns[k, i] = table[word, k]


@inlined
def padded(words):
    """The number of columns for `words` words, in whole vectors."""
    return (words + LANES - 1) // LANES * LANES


@reassociated
def fit_proportions(columns, counts, alpha, tolerance, most, gamma, weights):
    """Fit a document's topic proportions by coordinate ascent (Hoffman et al. 2010), from gamma 1.

    `columns` has a row for each topic with a number for each word, in single precision, and
    `counts` how often each word occurs; both are padded with zeros. Afterwards `gamma` holds the
    Dirichlet of the document's topics and `weights` exp(E[log theta]) up to a factor: word i is of
    topic k in proportion to columns[k, i] * weights[k]. Ends when the mean change of gamma is below
    the tolerance, or after `most` rounds. Returns the number of rounds.

    From the sixth round on, gamma is extrapolated every third round while steps shrink in one
    direction (Aitken), which saves two rounds in five. It may end in another of several maxima, no
    worse on average. The scale of a word's numbers does not matter.
    """
    topics, words = columns.shape
    fours = topics - topics % 4
    for k in range(topics):
        gamma[k] = _F(1)
    shares = np.zeros(words, np.float32)
    sums, last = np.zeros(topics, np.float32), np.zeros(topics, np.float32)
    rounds = 0
    while True:
        for k in range(topics):
            weight = _exp_digamma(gamma[k])
            weights[k] = weight if weight > _NO_WEIGHT else _F(0)
        if rounds >= most:
            return rounds
        for i in range(words):
            shares[i] = _TINY
        for k in range(0, fours, 4):  # four topics at a time: one load and store of the shares
            a, b, c, d = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for i in range(words):
                shares[i] += (a * columns[k, i] + b * columns[k + 1, i]) + (
                    c * columns[k + 2, i] + d * columns[k + 3, i]
                )
        for k in range(fours, topics):
            a = weights[k]
            for i in range(words):
                shares[i] += a * columns[k, i]
        for i in range(words):
            shares[i] = counts[i] / shares[i]
        for k in range(0, fours, 4):
            a, b, c, d = _F(0), _F(0), _F(0), _F(0)
            for i in range(words):
                share = shares[i]
                a += share * columns[k, i]
                b += share * columns[k + 1, i]
                c += share * columns[k + 2, i]
                d += share * columns[k + 3, i]
            sums[k], sums[k + 1], sums[k + 2], sums[k + 3] = a, b, c, d
        for k in range(fours, topics):
            a = _F(0)
            for i in range(words):
                a += shares[i] * columns[k, i]
            sums[k] = a
        rounds += 1
        change, along, before = _F(0), _F(0), _F(0)
        for k in range(topics):
            new = _F(alpha) + weights[k] * sums[k]
            step = new - gamma[k]
            change += abs(step)
            along += step * last[k]
            before += last[k] * last[k]
            gamma[k], last[k] = new, step
        if change < tolerance * topics:
            most = rounds  # once more, for the weights that belong to this gamma
        elif (
            rounds > _EVERY
            and rounds % _EVERY == 0
            and _F(0.2) * before < along < _F(0.98) * before
        ):
            far = min(along / (before - along), _MOST_AHEAD)
            for k in range(topics):
                there, least = gamma[k] + far * last[k], _F(alpha)
                gamma[k] = there if there > least else least + _F(0.1) * (gamma[k] - least)
                last[k] = _F(0)


@reassociated
def divide_counts(table, words, columns, weights, amounts, norm, out):
    """Divide the amount of each word among topics, in proportion to the table times the weights.

    `columns` are the words as `gather_columns` has them. With a norm above 0 all numbers together
    are scaled to have it.
    """
    topics = columns.shape[0]
    totals, squares = np.zeros(columns.shape[1], _F), np.zeros(columns.shape[1], _F)
    for i in range(totals.size):
        totals[i] = _TINY
    for k in range(topics):
        weight = weights[k]
        for i in range(totals.size):
            share = weight * columns[k, i]
            totals[i] += share
            squares[i] += share * share
    whole = 0.0
    for i in range(words.size):
        factor = amounts[i] / np.float64(totals[i])
        whole += factor * factor * np.float64(squares[i])
    scale = norm / np.sqrt(whole) if norm > 0 and whole > 0 else 1.0
    for i in range(words.size):
        factor, word = scale * (amounts[i] / np.float64(totals[i])), words[i]
        for k in range(topics):
            out[i, k] = factor * np.float64(table[word, k] * weights[k])
