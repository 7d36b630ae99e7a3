"""Plug-in sampler: counts are exact, or noisy ones projected to be non-negative.

Paths are drawn in blocks by default. The single-site sampler of Foulds et al. (2016), Eq. 48,
corrected, integrates the transition probabilities out.
"""

from __future__ import annotations

import numba
import numpy as np

from tacit.infer.hmm.paths import (
    cell_log_likelihood,
    draw_emissions,
    draw_path,
    draw_transitions,
    pick,
)

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


@_compiled
def run_plugin(  # type: ignore[no-untyped-def]
    rng,
    counts,
    first,
    z,
    prior,
    transition_prior,
    single_site,
    warmup,
    states,
    theta,
    moves,
    starts,
):
    """Run the sampler from paths `z`; each sweep after warm-up fills one entry of the outputs."""
    sequences, times = z.shape
    size = moves.shape[1]
    log_theta = np.empty((size, counts.shape[1]))
    log_like = np.empty((counts.shape[0], size))
    transition, start = np.empty((size, size)), np.empty(size)
    filtered = np.empty((times, size))
    draw_emissions(rng, counts, first, z, prior, log_theta)
    for sweep in range(warmup + states.shape[0]):
        cell_log_likelihood(counts, log_theta, log_like)
        if single_site:
            single_site_sweep(rng, log_like, transition_prior, z, size)
            draw_transitions(rng, z, transition_prior, start, transition)
        else:
            draw_transitions(rng, z, transition_prior, start, transition)
            for r in range(sequences):
                like = log_like[r * times : (r + 1) * times]
                draw_path(rng, like, start, transition, z[r], 0, times, filtered)
        draw_emissions(rng, counts, first, z, prior, log_theta)
        if sweep >= warmup:
            i = sweep - warmup
            states[i] = z
            theta[i] = np.exp(log_theta)
            moves[i] = transition
            starts[i] = start


@_compiled
def single_site_sweep(rng, log_like, prior, z, size):  # type: ignore[no-untyped-def]
    """Draw each state of `z` given all others, the transition probabilities integrated out."""
    sequences, times = z.shape
    counts = np.zeros((size + 1, size))  # the last row is the start
    for r in range(sequences):
        before = size
        for t in range(times):
            counts[before, z[r, t]] += 1.0
            before = z[r, t]
    totals = counts.sum(axis=1)
    log = np.empty(size)
    for r in range(sequences):
        for t in range(times):
            before = size if t == 0 else z[r, t - 1]
            last = t == times - 1
            counts[before, z[r, t]] -= 1.0
            totals[before] -= 1.0
            if not last:
                counts[z[r, t], z[r, t + 1]] -= 1.0
                totals[z[r, t]] -= 1.0
            most = -np.inf
            for k in range(size):
                probability = (counts[before, k] + prior) / (totals[before] + size * prior)
                if not last:
                    after = z[r, t + 1]
                    # The transition into k counts before the one out of k.
                    again = 1.0 if before == k and after == k else 0.0
                    more = 1.0 if before == k else 0.0
                    probability *= (counts[k, after] + again + prior) / (
                        totals[k] + more + size * prior
                    )
                log[k] = np.log(probability) + log_like[r * times + t, k]
                most = max(most, log[k])
            for k in range(size):
                log[k] = np.exp(log[k] - most)
            z[r, t] = pick(rng, log)
            counts[before, z[r, t]] += 1.0
            totals[before] += 1.0
            if not last:
                counts[z[r, t], z[r, t + 1]] += 1.0
                totals[z[r, t]] += 1.0
