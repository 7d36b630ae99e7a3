"""One numbering of the states for all draws: states have no names of their own."""

from __future__ import annotations

import numba
import numpy as np
from scipy.optimize import linear_sum_assignment

_PROFILE = 0.1  # what profiles weigh beside the share of cells in common


def matched(states: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """For each draw, which of its states is called 0, 1, ...: shape (draws, states).

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
            if len(set(best[i])) == size:  # nothing to argue about
                order[i] = best[i]
            else:
                order[i] = linear_sum_assignment(score[i], maximize=True)[1]
        votes = np.zeros((size, states.shape[1]), np.int64)
        new_name = np.argsort(order, axis=1)
        for i in range(draws):
            votes[new_name[i][states[i]], np.arange(states.shape[1])] += 1
        reference = votes.argmax(axis=0)
        profile = np.mean([theta[i, order[i]] for i in range(draws)], axis=0)
    return order[:, np.argsort(-votes.sum(axis=1), kind="stable")]


@numba.njit(cache=True, nogil=True)
def _scores(states, root, reference, profile, out):  # type: ignore[no-untyped-def]
    """How well state j of each draw would do as state k: cells and profile in common."""
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
