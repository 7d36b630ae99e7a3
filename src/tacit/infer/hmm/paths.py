"""Updates shared by all samplers of a hidden Markov model: paths, and parameters given paths.

Cells are rows: cell r * T + t is sequence r at time t. Levels of all features lie side by side in
the columns, and those of feature d are first[d] to first[d + 1].
"""

from __future__ import annotations

import numba
import numpy as np

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
fast = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)

_LEAST = -690.0  # least log probability: exp does not underflow


@_compiled
def log_dirichlet(rng, concentration, out):  # type: ignore[no-untyped-def]
    """Write the logs of a Dirichlet draw to `out`, without underflow for tiny concentrations."""
    most = -np.inf
    for j in range(concentration.size):
        a = concentration[j]
        # In law, log G(a) = log G(a + 1) + log(U) / a, which does not underflow.
        if a < 1.0:
            out[j] = np.log(rng.standard_gamma(a + 1.0)) + np.log1p(-rng.random()) / a
        else:
            out[j] = np.log(max(rng.standard_gamma(a), 1e-300))
        most = max(most, out[j])
    total = 0.0
    for j in range(concentration.size):
        total += np.exp(out[j] - most)
    for j in range(concentration.size):
        out[j] = max(out[j] - most - np.log(total), _LEAST)


@_compiled
def draw_transitions(rng, z, prior, start, transition):  # type: ignore[no-untyped-def]
    """Draw start and transition probabilities given the paths, into `start` and `transition`."""
    sequences, times = z.shape
    states = start.size
    counts = np.full((states + 1, states), prior)
    for r in range(sequences):
        counts[states, z[r, 0]] += 1.0
        for t in range(1, times):
            counts[z[r, t - 1], z[r, t]] += 1.0
    log = np.empty(states)
    for k in range(states + 1):
        log_dirichlet(rng, counts[k], log)
        for j in range(states):
            if k < states:
                transition[k, j] = np.exp(log[j])
            else:
                start[j] = np.exp(log[j])


@_compiled
def draw_emissions(rng, counts, first, z, prior, log_theta):  # type: ignore[no-untyped-def]
    """Draw log emission probabilities given paths and counts, into `log_theta`."""
    times = z.shape[1]
    states, levels = log_theta.shape
    totals = np.empty((states, levels))
    for k in range(states):
        for j in range(levels):
            totals[k, j] = prior[j]
    for c in range(counts.shape[0]):
        k = z[c // times, c % times]
        for j in range(levels):
            totals[k, j] += counts[c, j]
    for k in range(states):
        for d in range(first.size - 1):
            span = slice(first[d], first[d + 1])
            log_dirichlet(rng, totals[k, span], log_theta[k, span])


@fast
def cell_log_likelihood(counts, log_theta, out):  # type: ignore[no-untyped-def]
    """Write log p(counts of a cell | state) = counts @ log_theta' to `out`, shape (cell, state)."""
    for c in range(counts.shape[0]):
        for k in range(log_theta.shape[0]):
            total = 0.0
            for j in range(log_theta.shape[1]):
                total += counts[c, j] * log_theta[k, j]
            out[c, k] = total


@_compiled
def pick(rng, weight):  # type: ignore[no-untyped-def]
    """Return an index with probability proportional to its weight; the sum must be positive."""
    total = 0.0
    for k in range(weight.size):
        total += weight[k]
    left = rng.random() * total
    last = 0
    for k in range(weight.size):
        if weight[k] > 0.0:
            last = k
            left -= weight[k]
            if left < 0.0:
                break
    return last


@_compiled
def draw_path(rng, log_like, start, transition, z, a, b, filtered):  # type: ignore[no-untyped-def]
    """Draw states z[a:b] of one sequence given the others: forward filter, backward sample."""
    states = start.size
    weight = np.empty(states)
    for t in range(a, b):
        if t == 0:
            weight[:] = start
        elif t == a:
            weight[:] = transition[z[a - 1]]
        else:
            weight[:] = 0.0
            for k in range(states):
                before = filtered[t - 1, k]
                for j in range(states):
                    weight[j] += before * transition[k, j]
        most = -np.inf
        for k in range(states):
            most = max(most, log_like[t, k])
        total = 0.0
        for k in range(states):
            filtered[t, k] = weight[k] * np.exp(log_like[t, k] - most)
            total += filtered[t, k]
        if not total > 1e-290:  # underflow: filter in logs
            total = 0.0
            best = -np.inf
            for k in range(states):
                filtered[t, k] = log_like[t, k] + np.log(max(weight[k], 1e-300))
                best = max(best, filtered[t, k])
            for k in range(states):
                filtered[t, k] = np.exp(filtered[t, k] - best)
                total += filtered[t, k]
        for k in range(states):
            filtered[t, k] /= total
    for t in range(b - 1, a - 1, -1):
        if t + 1 < z.size:
            for k in range(states):
                weight[k] = max(filtered[t, k], 1e-290) * transition[k, z[t + 1]]
        else:
            weight[:] = filtered[t]
        z[t] = pick(rng, weight)
