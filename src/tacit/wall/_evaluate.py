"""A query to an exact integer statistic, and the sensitivity that the wall itself enforces.

`resolve` knows only what is public; `evaluate` reads. The statistic is a sum of integers over rows,
so it is the same whatever the engine, the order of rows or the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from tacit.accounting import Sensitivity
from tacit.spec.errors import QueryError
from tacit.spec.queries import Counts, Key, labels_of, name_of
from tacit.spec.release import Axis, Block
from tacit.spec.schema import Schema
from tacit.wall._columns import content, key_code, owner
from tacit.wall._source import Source

_MAX_CELLS = 10**7


@dataclass(frozen=True)
class Resolved:
    """A query with its public levels: what will be measured and how far one unit can move it."""

    query: Counts
    blocks: tuple[Block, ...]
    sensitivity: Sensitivity


@dataclass(frozen=True)
class Statistic:
    """The exact answer. It never leaves the wall without noise."""

    values: np.ndarray
    units: int


def resolve(query: Counts, schema: Schema) -> Resolved:
    """Look up the levels and derive the sensitivity. Opens no data."""
    if not isinstance(query, Counts):
        raise QueryError(f"Expected a query such as tacit.Counts(...), got {query!r}.")
    by = tuple(_axis(key, schema) for key in query.by)
    blocks = tuple(_block(by, _axis(key, schema), schema) for key in query.columns)
    cells = sum(block.size for block in blocks)
    if cells > _MAX_CELLS:
        raise QueryError(f"Expected at most {_MAX_CELLS} cells, this query has {cells}.")
    return Resolved(query, blocks, _sensitivity(blocks, schema))


def _axis(key: Key, schema: Schema) -> Axis:
    labels = labels_of(key, schema)
    total = schema[name_of(key)].default is not None
    return Axis(name_of(key), labels if total else (*labels, None))


def _block(by: tuple[Axis, ...], axis: Axis, schema: Schema) -> Block:
    # Two cells that sum to the public n are one number: half the sensitivity of both.
    if (
        not by
        and len(axis.labels) == 2
        and None not in axis.labels
        and schema.neighbours == "replace_one"
        and schema.max_rows_per_unit == 1
    ):
        return Block(axis.name, (Axis(axis.name, axis.labels[1:]),), omitted=axis.labels[:1])
    return Block(axis.name, (*by, axis))


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
    return Sensitivity(l1, l2_squared, unit_l2_squared, sum(block.size for block in blocks))


def evaluate(resolved: Resolved, schema: Schema, source: Source) -> Statistic:
    """Count. One aggregate query, in the engine that holds the data."""
    query = resolved.query
    keys: list[Key] = [*query.by, *query.columns]
    sizes = [len(labels_of(key, schema)) + 1 for key in keys]  # the last cell is missing
    tables = [
        np.zeros([*sizes[: len(query.by)], sizes[len(query.by) + i]], dtype=np.int64)
        for i in range(len(query.columns))
    ]
    units = 0
    # A signalling NaN among the cells would otherwise be announced by a warning.
    with np.errstate(all="ignore"), source.read() as table:
        rows = _bounded_rows(table, source, schema)
        codes = {
            f"k{i}": key_code(key, schema, rows[source.name_of(name_of(key))]).fill_null(
                sizes[i] - 1
            )
            for i, key in enumerate(keys)
        }
        counted = (
            rows.select(first=rows["first"], **codes)
            .group_by(list(codes))
            .agg(rows=lambda t: t.count(), units=lambda t: t["first"].sum().cast("int64"))
        )
        for batch in counted.to_pyarrow_batches():
            index = [_integers(batch.column(f"k{i}")) for i in range(len(keys))]
            count = _integers(batch.column("rows"))
            units += int(_integers(batch.column("units")).sum())
            for i, counts in enumerate(tables):
                where = (*index[: len(query.by)], index[len(query.by) + i])
                np.add.at(counts, where, count)
    measured = [
        _measured(counts, block) for counts, block in zip(tables, resolved.blocks, strict=True)
    ]
    return Statistic(np.concatenate(measured), units)


def _integers(column: pa.Array) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False).astype(np.int64)


def _bounded_rows(table: ir.Table, source: Source, schema: Schema) -> ir.Table:
    """At most k rows of each unit, and a mark on one of them. Rows without a unit are nobody's.

    Which rows are kept depends on that unit's own rows alone: they are put in the order of a hash
    of the unit, what the schema sees of the row, and how often that was seen before. The rule is
    public, favours no value, and is the same on every engine and in every order of rows.
    """  # proof: rows-per-unit
    if schema.unit is None:
        return table.mutate(first=ibis.literal(1, "int64"))
    cells = {name: table[source.name_of(name)] for name in source.wanted}
    rows = table.mutate(owner=owner(cells[schema.unit]), seen=content(schema, cells))
    rows = rows.filter(rows["owner"].notnull())
    # By its hash, which no collation of the engine confuses with another's, nor anyone on purpose.
    rows = rows.mutate(person=rows["owner"].hexdigest("sha256"))
    twin = ibis.row_number().over(group_by=[rows["person"], rows["seen"]])
    rows = rows.mutate(twin=twin.cast("string"))
    ticket = (rows["person"] + "|" + rows["seen"] + "|" + rows["twin"]).hexdigest("sha256")
    rows = rows.mutate(ticket=ticket)
    place = ibis.row_number().over(group_by=rows["person"], order_by=rows["ticket"])
    rows = rows.mutate(place=place)
    kept = rows.filter(rows["place"] < schema.max_rows_per_unit)
    return kept.mutate(first=(kept["place"] == 0).cast("int64"))


def _measured(counts: np.ndarray, block: Block) -> np.ndarray:
    """The cells that a block measures, in its order."""
    if block.omitted:
        return counts[1:2]
    return counts[tuple(slice(0, size) for size in block.shape)].ravel()
