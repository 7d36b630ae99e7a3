"""Paths of a hidden Markov chain, given how well each state explains each moment: exact draws.

Forwards the probabilities of the present state are filtered, backwards states are sampled (Carter
and Kohn 1994; Scott 2002).
"""

from __future__ import annotations

import math

import numpy as np

from tacit.compile_cache import cached


@cached(nogil=True, error_model="numpy")
def sample(log_likelihood, start, transition, uniform):  # type: ignore[no-untyped-def]
    """States (sequences, times) from contiguous log-likelihoods (sequences, times, states).

    `uniform` has a number strictly between 0 and 1 for each state that is drawn.
    """
    sequences, times, states = log_likelihood.shape
    path = np.zeros((sequences, times), np.int64)
    filtered = np.empty((times, states))
    weight = np.empty(states)
    for r in range(sequences):
        for t in range(times):
            top = -np.inf
            for k in range(states):
                prior = 0.0
                if t == 0:
                    prior = start[k]
                else:
                    for j in range(states):
                        prior += filtered[t - 1, j] * transition[j, k]
                weight[k] = math.log(prior) + log_likelihood[r, t, k]
                top = max(top, weight[k])
            total = 0.0
            for k in range(states):
                filtered[t, k] = math.exp(weight[k] - top)
                total += filtered[t, k]
            for k in range(states):
                filtered[t, k] /= total
        for t in range(times - 1, -1, -1):
            total = 0.0
            for k in range(states):
                after = 1.0 if t == times - 1 else transition[k, path[r, t + 1]]
                weight[k] = filtered[t, k] * after
                total += weight[k]
            target, mass, found = uniform[r, t] * total, 0.0, 0
            for k in range(states):
                if weight[k] > 0.0:
                    found = k
                    mass += weight[k]
                    if mass > target:
                        break
            path[r, t] = found
    return path
