"""A fully observed discrete Markov random field, from noisy tables of its cliques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Unpack

import numpy as np

from tacit.infer.random_field import check_states, draw_field
from tacit.models.checks import keep_numbers
from tacit.models.field_gibbs import THETA, FieldBlocks, tables_of
from tacit.posterior import FieldPosterior
from tacit.posterior.network import margin_name, potential_name
from tacit.spec.checks import set_fields
from tacit.spec.errors import ModelError
from tacit.spec.gibbs import Values
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class MarkovRandomField:
    """Columns with p(x) proportional to exp of the sum of a log potential for each clique.

    Parameters
    ----------
    cliques
        Tuples of columns that interact directly: `[("ward", "shift"), ("shift", "harm")]`. A clique
        inside another one adds nothing and is left out.
    prior_scale
        The standard deviation of the normal prior of every log potential. It also settles what the
        data cannot: a constant moved from one potential to another.

    One table is released for each clique. All combinations of levels of all columns are listed, so
    their number is limited to 20,000. A missing value is one more level inside; what is reported
    is about rows without missing values.

    Examples
    --------
    >>> MarkovRandomField([("a", "b"), ("b", "c"), ("b",)]).query().columns
    (('a', 'b'), ('b', 'c'))
    """

    cliques: tuple[tuple[str, ...], ...]
    prior_scale: float = 2.0

    def __post_init__(self) -> None:
        set_fields(self, cliques=_largest(self.cliques))
        keep_numbers(self, "prior_scale")
        if not 1e-3 <= self.prior_scale <= 1e3:
            raise ModelError(f"Expected 0.001 <= prior_scale={self.prior_scale} <= 1000.")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(self.cliques)))

    def query(self) -> Counts:
        return Counts(self.cliques)

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse more combinations of levels than can be listed, before anything is paid."""
        columns = [schema[name] for name in self.columns]
        check_states(len(each.labels) + (each.default is None) for each in columns)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> FieldPosterior:
        """The posterior of the cliques' probabilities and of their log potentials."""
        how, draws, labels = Sampling.of(sampling), {}, {}
        margins, potentials, rows, predicted = draw_field(
            release, self.columns, self.cliques, self.prior_scale, how
        )
        for name, tables in ((margin_name, margins), (potential_name, potentials)):
            for clique, drawn in zip(self.cliques, tables, strict=True):
                draws[name(clique)] = drawn
                labels[name(clique)] = {column: release.schema[column].labels for column in clique}
        draws["rows"] = rows
        return FieldPosterior.of(self, release, how, draws, labels=labels, predicted=predicted)

    def gibbs(self, schema: Schema, *, truncation: Any) -> FieldBlocks:
        """Return the blocks of a Gibbs sampler through the wall: each log potential."""
        levels = {name: len(schema[name].labels) for name in self.columns}
        return FieldBlocks.of(levels, self.cliques, self.prior_scale, truncation, schema)

    def gibbs_posterior(self, release: Release, kept: Sequence[Values]) -> FieldPosterior:
        """Return the plug-in posterior of what a Gibbs sampler drew, with its diagnosis.

        It is of rows that have a value in every column: the others say nothing.
        """
        labels: dict[str, Any] = {}
        for name in (margin_name, potential_name):
            for clique in self.cliques:
                labels[name(clique)] = {column: release.schema[column].labels for column in clique}
        levels = {name: len(release.schema[name].labels) for name in self.columns}
        theta = np.array([values[THETA] for values in kept])
        margins, potentials = tables_of(levels, self.cliques, theta)
        draws = dict(zip(labels, [*margins, *potentials], strict=True))
        return FieldPosterior.from_draws(self, release, draws, labels).diagnosed()

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of the log potentials."""
        parts = [draws[potential_name(clique)] for clique in self.cliques]
        each = [-0.5 * (theta.reshape(len(theta), -1) ** 2).sum(axis=1) for theta in parts]
        return np.asarray(sum(each) / self.prior_scale**2)


def _largest(cliques: Any) -> tuple[tuple[str, ...], ...]:
    """Cliques that are inside no other one."""
    if isinstance(cliques, str) or not isinstance(cliques, Sequence) or not cliques:
        raise ModelError('Expected cliques such as [("a", "b"), ("b", "c")].')
    given = [(clique,) if isinstance(clique, str) else clique for clique in cliques]
    for clique in given:
        named = isinstance(clique, (tuple, list)) and all(
            isinstance(name, str) and name for name in clique
        )
        if not named or not clique or len(set(clique)) < len(clique):
            raise ModelError(f"Expected a clique to be columns, each once, got {clique!r}.")
    kept: list[tuple[str, ...]] = []
    for i, clique in enumerate(map(tuple, given)):
        inside = [set(clique) < set(other) for other in given]
        again = [set(clique) == set(other) for other in given[:i]]
        if not any(inside) and not any(again):
            kept.append(clique)
    names = [name(c) for name in (margin_name, potential_name) for c in kept]
    if len({*names, *chain.from_iterable(kept)}) < len(names) + len(set().union(*kept)):
        raise ModelError("Expected column names that give each table a name of its own.")
    return tuple(kept)
