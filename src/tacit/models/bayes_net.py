"""Fully observed discrete networks, with Dirichlet priors: any directed graph, or naive Bayes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from scipy.special import gammaln

from tacit.infer.from_draw import check_usable
from tacit.infer.from_network_draw import draw_tables_from_draw, members
from tacit.infer.networks import draw_tables
from tacit.models.checks import concentration, names_of
from tacit.posterior import NetworkPosterior, describe
from tacit.posterior.network import family_name
from tacit.spec.checks import set_fields
from tacit.spec.draws import ConjugateDraw, TruncatedTables
from tacit.spec.errors import ModelError
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema


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
        set_fields(self, graph=_sorted(self.graph))
        concentration(self, "prior")

    def query(self) -> Counts:
        """One table for each family that no other table has as a margin."""
        families = self.families
        needed = [
            family if len(family) > 1 else family[0]
            for i, family in enumerate(families)
            if not any(set(family) < set(other) for other in families)
            and not any(set(family) == set(other) for other in families[:i])
        ]
        return Counts(tuple(needed))

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of all tables at once, no probability below `truncation`."""
        check_usable(schema)
        if truncation is None:
            raise ModelError(
                "Expected OnePosteriorSample(..., truncation=0.05), or another smallest "
                "probability that a draw can have: it bounds what one row can do and has no "
                "default."
            )
        law = TruncatedTables(self.families, self.prior, truncation)
        members(self.families, schema)  # refuses what could not be fitted
        return ConjugateDraw(law, draws, temper_prior)

    @property
    def families(self) -> tuple[tuple[str, ...], ...]:
        """Each column after its parents."""
        return tuple((*parents, name) for name, parents in self.graph.items())

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> NetworkPosterior:
        """The posterior of every table `p(column|parents)` given noisy counts of each family.

        Of draws that were released the law is known: they say what the counts may be.
        """
        how = Sampling.of(sampling)
        names = {name: family_name(name, parents) for name, parents in self.graph.items()}
        labels = {
            names[name]: {each: release.schema[each].labels for each in (*parents, name)}
            for name, parents in self.graph.items()
        }
        if isinstance(release.query, ConjugateDraw):
            law = release.query.law
            if not isinstance(law, TruncatedTables) or law.families != self.families:
                raise ModelError(f"This release answers {release.query}, not {self.query()}.")
            size = how.chains * how.draws
            if how.noise == "plugin":  # repeats the released draws
                found = {
                    name: np.resize(value, (size, *value.shape[1:]))
                    for name, block in zip(names.values(), release.blocks, strict=True)
                    for value in (release.table(block.name).value,)
                }
                return NetworkPosterior.of(self, release, how, found, labels=labels)
            tables, rows, rng = draw_tables_from_draw(
                release, self.families, self.prior, size, how.seed
            )
        else:
            tables, rows, rng = draw_tables(release, self.graph, self.prior, how)
        drawn: dict[str, np.ndarray] = {}
        for name, parents in self.graph.items():
            given = (np.arange(len(rows)), *(drawn[parent] for parent in parents))
            passed = np.cumsum(tables[name][given], axis=1) < rng.random((len(rows), 1))
            drawn[name] = np.minimum(passed.sum(axis=1), tables[name].shape[-1] - 1)
        draws = {names[name]: tables[name] for name in self.graph} | {"rows": rows}
        return NetworkPosterior.of(self, release, how, draws, labels=labels, predicted=drawn)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of the tables."""
        total: Any = 0.0
        for name, parents in self.graph.items():
            p = np.maximum(draws[family_name(name, parents)], 1e-300)
            levels = p.shape[-1]
            constant = gammaln(self.prior * levels) - levels * gammaln(self.prior)
            each = constant + (self.prior - 1) * np.log(p).sum(axis=-1)
            total = total + each.reshape(len(p), -1).sum(axis=1)
        return np.asarray(total)


@dataclass(frozen=True)
class NaiveBayes:
    """The class in column `target`, and each feature given the class.

    Parameters
    ----------
    target, features
        Countable columns of the schema.
    prior
        The concentration of the Dirichlet prior of the classes, and of each feature in each class.

    One table (target, feature) is released for each feature. The posterior is exact: all tables
    count the same rows, and inference uses that.

    Examples
    --------
    >>> NaiveBayes("harm", ["ward", "shift"]).query().columns
    (('harm', 'ward'), ('harm', 'shift'))
    """

    target: str
    features: Sequence[str]
    prior: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, features=names_of(self.features, "feature", but=self.target))
        concentration(self, "prior")
        _ = self.net  # the graph is checked there

    @property
    def net(self) -> BayesNet:
        """The network from the target to each feature."""
        star = dict.fromkeys(self.features, (self.target,))
        return BayesNet({self.target: (), **star}, self.prior)

    def query(self) -> Counts:
        return self.net.query()

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of all tables at once, no probability below `truncation`."""
        options = {"truncation": truncation, "draws": draws, "temper_prior": temper_prior}
        return self.net.draw_query(schema, **options)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> NetworkPosterior:
        """The posterior of `p(target)` and of `p(feature|target)` for each feature."""
        return replace(self.net.posterior(release, **sampling), model=describe(self))

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of the tables."""
        return self.net.log_prior(draws, release)


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
