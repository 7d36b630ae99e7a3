"""Posterior draws of the conditional tables of a network given released counts.

Tables are put into one tree (`count_tree`): all divide the same rows, first by the column that most
of them have. Where a node's parents are the columns that come before it in the tree, as they are in
naive Bayes, the tree is the model and its draws are exact. Elsewhere a table has weak priors of its
own on its parents' levels: its posterior is that of this table by itself, and what other tables
say about the same columns is used only as far as the tree shares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tacit.infer.categorical import dirichlet, project
from tacit.infer.count_tree import Alike, Cell, Divided, Node, sample_tree
from tacit.infer.latent_counts import MISSING, PRESENT, Rows
from tacit.infer.noise import Law
from tacit.spec.columns import Label
from tacit.spec.errors import ModelError
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

Graph = Mapping[str, Sequence[str]]  # from each column to its parents, parents first


@dataclass(frozen=True, eq=False)
class Seen:
    """A released table: its columns, their labels (None for missing values) and noisy counts.

    `whole` says whether every row has a cell in it.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    value: np.ndarray
    law: Law
    power: float
    whole: bool

    def levels(self, column: str) -> int:
        """Levels excluding missing."""
        labels = self.labels[self.columns.index(column)]
        return len(labels) - (None in labels)


def seen_tables(release: Release) -> list[Seen]:
    """Return the tables of a release of counts, with omitted cells filled in."""
    if not isinstance(release.query, Counts):
        raise ModelError(f"This release answers {release.query}, not counts of columns.")
    found = []
    for block, keys in zip(release.blocks, release.query.tables, strict=True):
        if not all(isinstance(key, str) for key in keys):
            continue  # levels that were merged
        _, value, noise = release.table(block.name)
        labels = tuple(tuple(axis.labels) for axis in block.axes)
        if block.omitted:  # one number for two cells that sum to n
            assert release.n is not None
            value = np.array([release.n - value[0], value[0]])
            labels = ((*block.omitted, *labels[0]),)
        columns = tuple(axis.name for axis in block.axes)
        total = [release.schema[name].default is not None for name in columns]
        whole = all(t or None in at for t, at in zip(total, labels, strict=True))
        power = 0.5 if block.omitted else 1.0
        found.append(Seen(columns, labels, value, Law.of(noise), power, whole))
    return found


def draw_tables(
    release: Release, graph: Graph, prior: float, sampling: Sampling
) -> tuple[dict[str, np.ndarray], np.ndarray, np.random.Generator]:
    """Draws of p(column | parents), shape (draw, parents..., column), and of the number of rows."""
    rng = np.random.default_rng(sampling.seed)
    tables = seen_tables(release)
    chosen = {name: _smallest(tables, (*parents, name)) for name, parents in graph.items()}
    used = [table for table in tables if table in chosen.values()]
    size = sampling.draws * sampling.chains
    if all(table.law.none for table in used):
        counts = [table.value[None] for table in used]
    elif sampling.noise == "plugin":
        counts = [
            project(table.value, release.n if table.power < 1 else None)[None] for table in used
        ]
    else:
        counts = _aware(used, _order(used, graph), prior, release, size, rng)
    drawn = {}
    for name, parents in graph.items():
        table = chosen[name]
        found = _margin(counts[used.index(table)], table, (*parents, name))
        shape = (size, *found.shape[1:])
        at = np.broadcast_to(found, shape).reshape(-1, shape[-1])
        drawn[name] = dirichlet(prior + at, rng).reshape(shape)
    first = counts[0].reshape(len(counts[0]), -1).sum(axis=1)
    return drawn, np.resize(first.astype(float), size), rng


def _smallest(tables: Sequence[Seen], family: Sequence[str]) -> Seen:
    """The table that a family's counts are read from: fewer cells to add up, less noise."""
    fit = [table for table in tables if set(family) <= set(table.columns)]
    if not fit:
        raise ModelError(f"This release has no table that counts {', '.join(family)} together.")
    return min(fit, key=lambda table: table.value.size)


def _margin(counts: np.ndarray, table: Seen, family: Sequence[str]) -> np.ndarray:
    """Counts (draw, parents..., column) of rows that have a value in all of them."""
    others = tuple(i + 1 for i, c in enumerate(table.columns) if c not in family)
    found = counts.sum(axis=others)
    kept = [c for c in table.columns if c in family]
    found = np.moveaxis(found, [1 + kept.index(c) for c in family], range(1, len(kept) + 1))
    return found[(slice(None), *(slice(table.levels(c)) for c in family))]


def _order(tables: Sequence[Seen], graph: Graph) -> list[str]:
    """Parents before children, and of those that may come next the one that most tables have."""
    every = {**graph, **{c: () for table in tables for c in table.columns if c not in graph}}
    order: list[str] = []
    while len(order) < len(every):
        ready = [c for c in every if c not in order and set(every[c]) <= set(order)]
        order.append(max(ready, key=lambda c: sum(c in table.columns for table in tables)))
    return order


def _aware(
    tables: Sequence[Seen],
    order: Sequence[str],
    prior: float,
    release: Release,
    size: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Return draws of the true counts of each table, shape (draw, *table)."""
    counts: dict[int, np.ndarray] = {}
    rows = Rows.behind(release)
    whole = [table for table in tables if table.whole]
    # A table that left out its missing cells does not divide all rows: it stands alone.
    for group in [whole, *([table] for table in tables if not table.whole)]:
        if not group:
            continue
        starts = np.cumsum([0, *(table.value.size for table in group)])
        root = _tree([(table, (), int(at)) for table, at in zip(group, starts)], order, prior)
        flat = sample_tree(root, rows, size, rng)
        for table, at in zip(group, starts):
            part = flat[:, at : at + table.value.size].reshape(size, *table.value.shape)
            counts[id(table)] = part.astype(float)
    return [counts[id(table)] for table in tables]


Branch = tuple[Seen, tuple[tuple[str, int], ...], int]  # a table, where in it, its first index


def _tree(branches: Sequence[Branch], order: Sequence[str], prior: float) -> Node:
    """The rows at one node of the tree, with a division by each of the next columns."""
    divisions: list[Node] = []
    nexts: list[tuple[str, Branch]] = []
    for branch in branches:
        table, at, first = branch
        left = [c for c in order if c in table.columns and c not in dict(at)]
        if left:
            nexts.append((left[0], branch))
        else:
            cell = tuple(dict(at)[c] for c in table.columns)
            index = first + int(np.ravel_multi_index(cell, table.value.shape))
            divisions.append(Cell(float(table.value[cell]), table.law, index, table.power))
    nexts.sort(key=lambda pair: order.index(pair[0]))
    for column, group in groupby(nexts, key=lambda pair: pair[0]):
        divisions.append(_divided(column, [branch for _, branch in group], order, prior))
    return divisions[0] if len(divisions) == 1 else Alike(tuple(divisions))


def _divided(column: str, branches: Sequence[Branch], order: Sequence[str], prior: float) -> Node:
    """Rows divided by a column: into those with a value or without, and then among its levels."""

    def part(level: int) -> Node:
        return _tree([(t, (*at, (column, level)), i) for t, at, i in branches], order, prior)

    table = branches[0][0]
    levels, labels = table.levels(column), table.labels[table.columns.index(column)]
    present = Divided(np.full(levels, prior), tuple(map(part, range(levels))))
    if None not in labels:
        return present
    return Divided(np.array([PRESENT, MISSING]), (present, part(labels.index(None))))
