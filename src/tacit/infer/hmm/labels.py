"""Label matching: one numbering of the states for all draws (label switching)."""

from __future__ import annotations

import numba
import numpy as np
from scipy.optimize import linear_sum_assignment

_PROFILE = 0.1  # weight of emission profiles relative to the share of common cells


def matched(states: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the permutation of states of each draw, shape (draws, states).

    `states` is (draws, cells), `theta` (draws, states, levels). Draws are matched to the last one,
    and then to the most frequent state of each cell. State 0 is the most common.
    """
    draws, size, _ = theta.shape
    order = np.tile(np.arange(size), (draws, 1))
    if size == 1:
        return order
    reference, profile = states[-1].astype(np.int64), theta[-1]
    for _ in range(2):
        score = np.empty((draws, size, size))
        _scores(states, np.sqrt(theta), reference, np.sqrt(profile), score)
        best = score.argmax(axis=2)
        for i in range(draws):
            if len(set(best[i])) == size:  # the greedy choice is a permutation
                order[i] = best[i]
            else:
                order[i] = linear_sum_assignment(score[i], maximize=True)[1]
        votes = np.zeros((size, states.shape[1]), np.int64)
        new_label = np.argsort(order, axis=1)
        for i in range(draws):
            votes[new_label[i][states[i]], np.arange(states.shape[1])] += 1
        reference = votes.argmax(axis=0)
        profile = np.mean([theta[i, order[i]] for i in range(draws)], axis=0)
    return order[:, np.argsort(-votes.sum(axis=1), kind="stable")]


@numba.njit(cache=True, nogil=True)
def _scores(states, root, reference, profile, out):  # type: ignore[no-untyped-def]
    """Write the score of renaming state j to k in each draw: common cells and similar emissions."""
    draws, cells = states.shape
    size, levels = profile.shape
    for i in range(draws):
        for k in range(size):
            for j in range(size):
                gap = 0.0
                for level in range(levels):
                    gap += (profile[k, level] - root[i, j, level]) ** 2
                out[i, k, j] = -_PROFILE / size * gap
        for c in range(cells):
            out[i, reference[c], states[i, c]] += 1.0 / cells
