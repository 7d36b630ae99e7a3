"""What one row adds to the expected statistics of a sigmoid belief network."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from tacit.spec.maps import NumbaMap


def hidden_and_seen(row, state, out):
    """Expected products of visible and hidden units, and of hidden ones with each other.

    The state holds the hidden units' log odds, coefficients (visible, 1 + hidden) with the constant
    first, their products' expectations (visible, 1 + hidden, 1 + hidden), and how many rounds the
    row's own hidden units are updated for. They begin from the public log odds alone. Every number
    written lies in [0, 1].
    """
    odds, mean, moments, rounds = state
    visible, size = mean.shape
    h = np.ones(size)  # the constant, and the probability of each hidden unit
    for k in range(1, size):
        h[k] = 1 / (1 + math.exp(-odds[k - 1]))
    weight = np.zeros(visible)
    for turn in range(int(rounds[0]) + 1):
        for j in range(visible):
            weight[j] = _weight(moments[j], h)
        if turn == int(rounds[0]):
            break  # weights are those of the last probabilities
        for k in range(1, size):
            away = odds[k - 1]
            for j in range(visible):
                pull = 0.5 * moments[j, k, k]
                for i in range(size):
                    if i != k:
                        pull += moments[j, k, i] * h[i]
                away += (row[j] - 0.5) * mean[j, k] - weight[j] * pull
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
                    continue  # h^2 is h: it is written beside the constant
                out[at] = 4 * weight[j] * h[k] * h[i]
                at += 1


def _weight(moments, h):
    """The expected Polya-Gamma weight, at most 1/4."""
    square = 0.0
    for k in range(h.size):
        for i in range(h.size):
            both = h[k] if k == i else h[k] * h[i]
            square += moments[k, i] * both
    odds = math.sqrt(max(square, 0.0))
    return 0.25 if odds < 1e-4 else math.tanh(odds / 2) / (2 * odds)


HIDDEN_AND_SEEN = NumbaMap(hidden_and_seen)
