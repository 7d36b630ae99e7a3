"""Rows behind the wall: bounded for each unit, and as numbers in memory for the maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from tacit.spec.schema import Schema
from tacit.wall.data._columns import content, owner, value
from tacit.wall.data._source import Source


def bounded_rows(table: ir.Table, source: Source, schema: Schema) -> ir.Table:
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


def count_units(source: Source, schema: Schema) -> int:
    """How many units there are."""
    with source.read() as table:
        return int(bounded_rows(table, source, schema)["first"].sum().to_pyarrow().as_py() or 0)


@dataclass(frozen=True)
class Rows:
    """The columns of a query, a unit's rows side by side. Neither can be written to.

    Unit i has the rows from `starts[i]` to `starts[i + 1]`; a row is `complete` if no value of it
    is missing.
    """

    values: np.ndarray = field(repr=False)
    complete: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)

    other: dict[Any, np.ndarray] = field(default_factory=dict, repr=False, init=False)

    @property
    def units(self) -> int:
        return len(self.starts) - 1

    def cast(self, dtype: Any) -> np.ndarray:
        """The values in another precision, converted once."""
        if dtype not in self.other:
            self.other[dtype] = self.values.astype(dtype)
        return self.other[dtype]


def load_rows(source: Source, schema: Schema, columns: tuple[str, ...]) -> Rows:
    """Read the columns once, as doubles, in an order that depends on no one's values."""
    parts: list[np.ndarray] = []
    with np.errstate(all="ignore"), source.read() as table:
        rows = bounded_rows(table, source, schema)
        cells = {
            f"v{i}": value(schema[name], rows[source.name_of(name)]).fill_null(float("nan"))
            for i, name in enumerate(columns)
        }
        # The order is the last thing asked for, or an engine need not keep it.
        order = [] if schema.unit is None else ["person", "place"]
        rows = rows.select(*order, first=rows["first"], **cells)
        for batch in (rows.order_by(order) if order else rows).to_pyarrow_batches():
            numbers = [c.to_numpy(zero_copy_only=False) for c in batch.columns[len(order) :]]
            parts.append(np.column_stack(numbers).astype(np.float64))
    together = np.concatenate([np.zeros((0, len(columns) + 1)), *parts])
    del parts
    starts = np.append(np.flatnonzero(together[:, 0] == 1), len(together))
    values = np.ascontiguousarray(together[:, 1:])
    complete = np.isfinite(values).all(axis=1)
    for array in (values, complete, starts):
        array.setflags(write=False)
    return Rows(values, complete, starts)
