"""The Gibbs sampler given counts, and the updates that samplers given noisy counts share.

Counts are exact, or noisy ones projected to be non-negative (plug-in). Paths are drawn in blocks by
default; the single-site sampler of Foulds et al. (2016), Eq. 48, corrected, integrates the
transition probabilities out.

Cells are rows: cell r * T + t is sequence r at time t. Levels of all features lie side by side in
the columns, and those of feature d are first[d] to first[d + 1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.compile_cache import cached

compiled = cached(nogil=True, error_model="numpy")
fast = cached(nogil=True, error_model="numpy", fastmath=True)

SHAPE = 0.5  # of the rates' prior
ZERO = np.int64(0)  # a literal 0 is a type of its own, for which Numba compiles all calls again
_LEAST = -690.0  # least log probability: exp does not underflow


class Data(NamedTuple):
    """Released counts (cell, level), the mask of cells, the noise by level, and the priors.

    `spread` is the variance of the noise; `emission` (level) and `transition` are Dirichlet
    concentrations, and rates have a Gamma(SHAPE, rate) prior.
    """

    y: np.ndarray
    used: np.ndarray
    scale: np.ndarray
    heavy: np.ndarray
    spread: np.ndarray
    first: np.ndarray
    emission: np.ndarray
    transition: float
    rate: float


class HiddenDraws(NamedTuple):
    """Draws of states (draw, sequence, time), emissions (draw, state, level) and transitions.

    States are numbered alike in all draws; the most common one is 0.
    """

    states: np.ndarray
    theta: np.ndarray
    transition: np.ndarray
    start: np.ndarray


class Chain(NamedTuple):
    """Paths (sequence, time), what they are drawn from, and space for the forward filter.

    The last row of `transition` has the probabilities of the first state.
    """

    z: np.ndarray
    log_like: np.ndarray
    transition: np.ndarray
    filtered: np.ndarray


@compiled
def new_chain(z, out):  # type: ignore[no-untyped-def]
    """Return the initial state of a chain that will fill `out`."""
    size = out.start.shape[1]
    space = np.empty((size + 1, size)), np.empty((z.shape[1], size))
    return Chain(z, np.zeros((z.size, size)), *space)


@compiled
def keep(out, i, chain, theta):  # type: ignore[no-untyped-def]
    """Write draw i of all outputs, from i = 0 on: warm-up has negative numbers."""
    if i >= 0:
        out.states[i] = chain.z
        out.theta[i] = theta
        out.transition[i] = chain.transition[:-1]
        out.start[i] = chain.transition[-1]


@compiled
def run_given_counts(rng, data, z, single_site, warmup, out):  # type: ignore[no-untyped-def]
    """Run the sampler from paths `z`; each sweep after warm-up fills one entry of `out`."""
    chain, log_theta = new_chain(z, out), np.empty(out.theta.shape[1:])
    draw_emissions(rng, data.y, data, z, log_theta)
    for sweep in range(warmup + len(out.states)):
        log_likelihood(data.y, log_theta, chain.log_like)
        if single_site:
            _single_site_sweep(rng, chain, data.transition)
            draw_transitions(rng, chain, data.transition)
        else:
            draw_transitions(rng, chain, data.transition)
            draw_paths(rng, chain)
        draw_emissions(rng, data.y, data, z, log_theta)
        keep(out, sweep - warmup, chain, np.exp(log_theta))


@compiled
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


@compiled
def _moves(z, states, prior):  # type: ignore[no-untyped-def]
    """Return the prior plus the number of moves from state to state; the last row is the start."""
    counts = np.full((states + 1, states), prior)
    for path in z:
        before = states
        for k in path:
            counts[before, k] += 1.0
            before = k
    return counts


@compiled
def draw_transitions(rng, chain, prior):  # type: ignore[no-untyped-def]
    """Draw start and transition probabilities given the paths, into the chain."""
    states = chain.transition.shape[1]
    counts, log = _moves(chain.z, states, prior), np.empty(states)
    for k in range(states + 1):
        log_dirichlet(rng, counts[k], log)
        chain.transition[k] = np.exp(log)


@compiled
def draw_emissions(rng, counts, data, z, log_theta):  # type: ignore[no-untyped-def]
    """Draw log emission probabilities given paths and counts, into `log_theta`."""
    times, first = z.shape[1], data.first
    states, levels = log_theta.shape
    totals = np.empty((states, levels))
    totals[:] = data.emission
    for c in range(counts.shape[0]):
        k = z[c // times, c % times]
        for j in range(levels):
            totals[k, j] += counts[c, j]
    for k in range(states):
        for d in range(first.size - 1):
            span = slice(first[d], first[d + 1])
            log_dirichlet(rng, totals[k, span], log_theta[k, span])


@fast
def log_likelihood(counts, log_theta, out):  # type: ignore[no-untyped-def]
    """Write log p(counts of a cell | state) = counts @ log_theta' to `out`, shape (cell, state)."""
    for c in range(counts.shape[0]):
        for k in range(log_theta.shape[0]):
            total = 0.0
            for j in range(log_theta.shape[1]):
                total += counts[c, j] * log_theta[k, j]
            out[c, k] = total


@compiled
def _pick(rng, weight):  # type: ignore[no-untyped-def]
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


@compiled
def draw_paths(rng, chain):  # type: ignore[no-untyped-def]
    """Draw the states of all sequences."""
    for r in range(chain.z.shape[0]):
        draw_path(rng, chain, r, ZERO, chain.z.shape[1])


@compiled
def draw_path(rng, chain, r, a, b):  # type: ignore[no-untyped-def]
    """Draw states a to b of one sequence given the others: forward filter, backward sample."""
    _, _, transition, filtered = chain
    z, states = chain.z[r], transition.shape[1]
    log_like = chain.log_like[r * z.size : (r + 1) * z.size]
    weight = np.empty(states)
    for t in range(a, b):
        if t == a:
            weight[:] = transition[z[a - 1] if a > 0 else states]
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
        z[t] = _pick(rng, weight)


@compiled
def _single_site_sweep(rng, chain, prior):  # type: ignore[no-untyped-def]
    """Draw each state given all others, the transition probabilities integrated out."""
    z, log_like = chain.z, chain.log_like
    size, (sequences, times) = chain.transition.shape[1], z.shape
    counts, log = _moves(z, size, 0.0), np.empty(size)
    for r in range(sequences):
        for t in range(times):
            before = size if t == 0 else z[r, t - 1]
            last = t == times - 1
            counts[before, z[r, t]] -= 1.0
            if not last:
                counts[z[r, t], z[r, t + 1]] -= 1.0
            most = -np.inf
            for k in range(size):
                total = counts[before].sum() + size * prior
                probability = (counts[before, k] + prior) / total
                if not last:
                    after = z[r, t + 1]
                    # The transition into k counts before the one out of k.
                    again = 1.0 if before == k and after == k else 0.0
                    total = counts[k].sum() + (before == k) + size * prior
                    probability *= (counts[k, after] + again + prior) / total
                log[k] = np.log(probability) + log_like[r * times + t, k]
                most = max(most, log[k])
            for k in range(size):
                log[k] = np.exp(log[k] - most)
            z[r, t] = _pick(rng, log)
            counts[before, z[r, t]] += 1.0
            if not last:
                counts[z[r, t], z[r, t + 1]] += 1.0
