"""A fully observed discrete network: each column given its parents, with Dirichlet priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from tacit.models.description import describe, positive
from tacit.models.networks import family_name, log_tables_prior, posterior_of, tables_for
from tacit.posterior import NetworkPosterior
from tacit.spec.errors import ModelError
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import SamplingOptions


@dataclass(frozen=True)
class BayesNet:
    """Columns that depend on one another along a public graph without cycles.

    Parameters
    ----------
    graph
        From each column to its parents: `{"ward": [], "smoker": ["ward"]}`. A column that is only
        named as a parent has none of its own.
    prior
        The concentration of the Dirichlet prior of every row of every table.

    Every family (a column and its parents) is counted in one released table, unless another table
    has it as a margin. Rows with a missing value in a family do not count for it.

    Examples
    --------
    >>> net = BayesNet({"smoker": ["ward"], "harm": ["ward", "smoker"], "ward": []})
    >>> net.query().columns
    (('ward', 'smoker', 'harm'),)
    """

    graph: Mapping[str, Sequence[str]]
    prior: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", _sorted(self.graph))
        object.__setattr__(self, "prior", positive((self.prior,), 1, "prior")[0])

    def query(self) -> Counts:
        return Counts(tables_for(self.graph))

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> NetworkPosterior:
        """The posterior of every table `p(column|parents)` given noisy counts of each family."""
        return posterior_of(describe(self), release, self.graph, self.prior, sampling)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of the tables."""
        return log_tables_prior(draws, self.graph, self.prior)


def _sorted(graph: Any) -> dict[str, tuple[str, ...]]:
    """The graph with parents before children, as far as possible in the order given."""
    if not isinstance(graph, Mapping) or not graph:
        raise ModelError('Expected a graph such as {"smoker": ["ward"], "ward": []}.')
    parents: dict[str, tuple[str, ...]] = {}
    for child, given in graph.items():
        above = (given,) if isinstance(given, str) else given
        if not isinstance(above, (list, tuple)) or not all(
            isinstance(name, str) and name for name in (child, *above)
        ):
            raise ModelError(f"Expected column {child!r} to have a list of parents, got {given!r}.")
        if len(set(above)) < len(above) or child in above:
            raise ModelError(f"Expected other columns as parents of {child!r}, each once.")
        parents[child] = tuple(above)
    for above in list(parents.values()):
        parents.update({name: () for name in above if name not in parents})
    done: dict[str, tuple[str, ...]] = {}
    while len(done) < len(parents):
        ready = [n for n, above in parents.items() if n not in done and set(above) <= set(done)]
        if not ready:
            left = ", ".join(name for name in parents if name not in done)
            raise ModelError(f"Expected a graph without cycles; there is one among {left}.")
        done.update({name: parents[name] for name in ready})
    names = {family_name(name, above) for name, above in done.items()}
    if len(names | set(done)) < 2 * len(done):
        raise ModelError("Expected column names that give each table a name of its own.")
    return done
