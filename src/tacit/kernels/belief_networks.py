"""Sigmoid belief networks: what one row adds to the expected statistics."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import Given, RowKernel
from tacit.kernels.logistic import expected_polya_gamma

MOST_ROUNDS = 1000


@compiled
def expected_statistics(row, state, out):
    """Add expected products of visible and hidden units, and of hidden units with each other.

    The row's own hidden units h have independent variational probabilities, updated in `rounds`
    rounds from the public log odds. One row contributes numbers between 0 and 1 (a box): first h
    with h[0] = 1 for the constant, then row[j] h[k] for each visible j, then for each j the weights
    4 w[j] h[k] h[i] of the upper triangle k <= i, without the diagonal of hidden units, since h^2
    is h; w is the expected Polya-Gamma weight, at most 1/4.
    State: log_odds f8[hidden]; mean f8[visible, units] with units = 1 + hidden, the coefficients
    with the constant first; moments f8[visible, units, units], expectations of their products;
    rounds i8[1]. Sizes are checked against each other, and no index depends on the row's numbers.
    """
    log_odds, mean, moments, rounds = state
    visible, size = mean.shape
    h = np.ones(size)  # the constant, and the probability of each hidden unit
    for k in range(1, size):
        h[k] = 1 / (1 + math.exp(-log_odds[k - 1]))
    weight = np.zeros(visible)
    for turn in range(rounds[0] + 1):
        for j in range(visible):
            weight[j] = _weight(moments[j], h)
        if turn == rounds[0]:
            break  # weights are those of the last probabilities
        for k in range(1, size):
            away = log_odds[k - 1]
            for j in range(visible):
                gradient = 0.5 * moments[j, k, k]
                for i in range(size):
                    if i != k:
                        gradient += moments[j, k, i] * h[i]
                away += (row[j] - 0.5) * mean[j, k] - weight[j] * gradient
            h[k] = 1 / (1 + math.exp(-away))
    at = 0
    for k in range(size):
        out[at] = h[k]
        at += 1
    for j in range(visible):
        for k in range(size):
            out[at] = row[j] * h[k]
            at += 1
    for j in range(visible):
        for k in range(size):
            for i in range(k, size):
                if k > 0 and i == k:
                    continue
                out[at] = 4 * weight[j] * h[k] * h[i]
                at += 1


@compiled
def _weight(moments, h):
    """The expected Polya-Gamma weight of one visible unit, at most 1/4."""
    square = 0.0
    for k in range(h.size):
        for i in range(h.size):
            both = h[k] if k == i else h[k] * h[i]
            square += moments[k, i] * both
    return expected_polya_gamma(square)


def _rules(given: Given) -> int:
    visible, hidden, size = (given.sizes[axis] for axis in ("visible", "hidden", "units"))
    given.expect_columns(visible)
    for j in range(visible):
        low, high = given.range_of(j)
        given.expect(low >= 0 and high <= 1, f"column {j} to have two levels")
    given.expect(size == hidden + 1, f"mean and moments of {hidden + 1} units")
    rounds = int(given.arrays["rounds"][0])
    given.expect(0 <= rounds <= MOST_ROUNDS, f"rounds={rounds} from 0 to {MOST_ROUNDS}")
    return size + visible * size + visible * (size * (size + 1) // 2 - hidden)


KERNELS = (
    RowKernel(
        "belief_network.expected_statistics",
        expected_statistics,
        "log_odds f8[hidden]; mean f8[visible, units]; moments f8[visible, units, units]; "
        "rounds i8[1]",
        _rules,
    ),
)
