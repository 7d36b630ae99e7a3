"""Counts: whole numbers of rows, and how far one unit can move them.

`resolve_counts` knows only what is public; `evaluate` reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.accounting import Calibration, Sensitivity, calibrate
from tacit.compile_cache import cached
from tacit.sources.rows import tabulated
from tacit.sources.source import Snapshot
from tacit.spec.errors import QueryError
from tacit.spec.keys import Is, Key, labels_of, name_of
from tacit.spec.queries import Counts
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy, noised, to_integers
from tacit.wall.statistics.statistic import Statistic, check_additive

_MAX_CELLS = 10**7
_MAX_KEYS = 60  # NumPy has no more than 64 axes


@dataclass(frozen=True)
class CountsAnswer:
    """A query with its public levels: what will be measured and how far one unit can move it."""

    query: Counts
    schema: Schema
    blocks: tuple[Block, ...]
    sensitivity: Sensitivity

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def calibrate(self, mechanism: Any) -> Calibration:
        check_additive(mechanism)
        return calibrate(mechanism, self.sensitivity)

    def exact(self) -> tuple[Noise, ...]:
        return (Noise("none", 0.0, 1.0),) * len(self.blocks)

    def bound(self, noise: Noise) -> dict[str, Any]:
        """The sensitivity that the noise is for, as the ledger records it."""
        size = self.sensitivity.l1 if noise.norm == "L1" else self.sensitivity.l2
        return {"sensitivity": size, "norm": noise.norm}

    def evaluate(self, snapshot: Snapshot, noise: tuple[Noise, ...]) -> Statistic:
        values, units = count_cells(self.query, self.schema, self.blocks, snapshot)
        return Statistic(to_integers(values, noise[0]), units)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        return noised(statistic, noise, self.blocks, entropy)


def resolve_counts(query: Counts, schema: Schema) -> CountsAnswer:
    """Look up the levels and derive the sensitivity. Opens no data."""
    by = tuple(_axis(key, schema) for key in query.by)
    blocks = tuple(
        _block(name, by, tuple(_axis(key, schema) for key in keys), schema)
        for name, keys in zip(query.names, query.tables, strict=True)
    )
    cells = sum(block.size for block in blocks)
    if cells > _MAX_CELLS:
        raise QueryError(f"Expected at most {_MAX_CELLS} cells, this query has {cells}.")
    if max(len(block.axes) for block in blocks) > _MAX_KEYS:
        raise QueryError(f"Expected at most {_MAX_KEYS} columns in a table of counts.")
    return CountsAnswer(query, schema, blocks, _sensitivity(blocks, schema))


def _axis(key: Key, schema: Schema) -> Axis:
    labels = labels_of(key, schema)
    total = schema[name_of(key)].default is not None
    return Axis(name_of(key), labels if total else (*labels, None))


def _block(name: str, by: tuple[Axis, ...], axes: tuple[Axis, ...], schema: Schema) -> Block:
    # Two cells that sum to the public n are one number: half the sensitivity of both.
    labels = axes[0].labels
    if (
        not by
        and len(axes) == 1
        and len(labels) == 2
        and None not in labels
        and schema.neighbours == "replace_one"
        and schema.max_rows_per_unit == 1
    ):
        return Block(name, (Axis(axes[0].name, labels[1:]),), omitted=tuple(labels[:1]))
    return Block(name, (*by, *axes))


def _sensitivity(blocks: tuple[Block, ...], schema: Schema) -> Sensitivity:
    """How far one unit's rows, at most k of them, can move the counts."""
    k = schema.max_rows_per_unit
    # proof: counts-add-remove. Every row adds one to a single cell of each table.
    l1, l2_squared = k * len(blocks), k**2 * len(blocks)
    unit_l2_squared = l2_squared
    if schema.neighbours == "replace_one":
        # proof: counts-replace-one. Old and new rows move a table by two non-negative vectors
        # of L1 norm at most k; an omitted cell leaves a single number that moves by one.
        full = sum(not block.omitted for block in blocks)
        reduced = len(blocks) - full
        l1, l2_squared = 2 * k * full + reduced, 2 * k**2 * full + reduced
    cells = sum(block.size for block in blocks)
    return Sensitivity(l1, l2_squared, unit_l2_squared, cells, len(blocks))


def count_cells(
    query: Counts, schema: Schema, blocks: tuple[Block, ...], snapshot: Snapshot
) -> tuple[np.ndarray, int]:
    """All cells that the blocks measure, and the number of units, in one read."""
    tables = [(*query.by, *table) for table in query.tables]
    shapes = [[len(_axis(key, schema).labels) for key in keys] for keys in tables]
    counts, units = [np.zeros(shape, np.int64) for shape in shapes], 0
    for cells in tabulated(snapshot, schema, [[name_of(key) for key in keys] for keys in tables]):
        units += cells.units
        table, keys = counts[cells.table], tables[cells.table]
        codes = [_coded(key, schema, found) for key, found in zip(keys, cells.columns, strict=True)]
        _tally(np.stack(codes), np.array(table.shape), cells.rows, table.reshape(-1))
    measured = [_measured(table, block) for table, block in zip(counts, blocks, strict=True)]
    return np.concatenate(measured), units


def _coded(key: Key, schema: Schema, codes: np.ndarray) -> np.ndarray:
    """The index of each row on the key's axis, or -1 for a missing value."""
    if not isinstance(key, Is):
        return codes
    return np.array([label in key.levels for label in schema[key.column].labels] + [-1])[codes]


@cached(nogil=True)
def _tally(codes, shape, rows, table):
    """Add `rows` to the cells that the columns of codes name; the last index is that of -1."""
    for i in range(codes.shape[1]):
        at = 0
        for j in range(len(codes)):
            code = codes[j, i]
            at = at * shape[j] + (code if code >= 0 else shape[j] - 1)
        table[at] += rows[i]


def _measured(counts: np.ndarray, block: Block) -> np.ndarray:
    """The cells that a block measures, in its order."""
    return counts[1:2] if block.omitted else counts[tuple(map(slice, block.shape))].ravel()
