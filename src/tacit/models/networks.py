"""What networks have in common: which tables they need, and their posterior from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaln

from tacit.infer.networks import Graph, draw_tables
from tacit.posterior import NetworkPosterior
from tacit.posterior.network import family_name
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions

__all__ = ["family_name", "log_tables_prior", "posterior_of", "tables_for"]


def tables_for(graph: Graph) -> tuple[str | tuple[str, ...], ...]:
    """One table for each family that no other table has as a margin."""
    families = [(*parents, name) for name, parents in graph.items()]
    needed: list[Any] = []
    for i, family in enumerate(families):
        others = families[:i] + families[i + 1 :]
        inside = any(
            set(family) < set(other) or (set(family) == set(other) and other in families[:i])
            for other in others
        )
        if not inside:
            needed.append(family if len(family) > 1 else family[0])
    return tuple(needed)


def posterior_of(
    model: Mapping[str, Any],
    release: Release,
    graph: Graph,
    prior: float,
    sampling: SamplingOptions,
) -> NetworkPosterior:
    """Draws of all tables, and of one more row for each of them."""
    how = Sampling.of(sampling)
    labels = {name: release.schema[name].labels for name in graph}
    tables, rows, rng = draw_tables(release, graph, prior, how)
    drawn: dict[str, np.ndarray] = {}
    for name, parents in graph.items():
        each = (np.arange(len(rows)), *(drawn[parent] for parent in parents))
        passed = np.cumsum(tables[name][each], axis=1) < rng.random((len(rows), 1))
        drawn[name] = np.minimum(passed.sum(axis=1), len(labels[name]) - 1)
    names = {name: family_name(name, parents) for name, parents in graph.items()}
    return NetworkPosterior.of(
        model,
        release,
        how,
        {**{names[name]: tables[name] for name in graph}, "rows": rows},
        dims={names[name]: (*parents, name) for name, parents in graph.items()},
        coords=labels,
        predicted=drawn,
    )


def log_tables_prior(draws: Mapping[str, np.ndarray], graph: Graph, prior: float) -> np.ndarray:
    """The log density of independent Dirichlet priors."""
    total: Any = 0.0
    for name, parents in graph.items():
        p = np.maximum(draws[family_name(name, parents)], 1e-300)
        levels = p.shape[-1]
        constant = gammaln(prior * levels) - levels * gammaln(prior)
        each = constant + (prior - 1) * np.log(p).sum(axis=-1)
        total = total + each.reshape(len(p), -1).sum(axis=1)
    return np.asarray(total)
