"""Maps in Ibis: row-wise expressions, clipped, rounded and summed by the engine with the data.

Each row is bounded, at most k rows of a unit are kept, so a unit contributes at most k bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from tacit.accounting.sums import exact_noise
from tacit.spec.errors import QueryError
from tacit.spec.maps import SqlMap
from tacit.spec.release import Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound, BoundedSum
from tacit.wall.data._columns import real, value
from tacit.wall.data._rows import bounded_rows
from tacit.wall.data._source import Source, scanned
from tacit.wall.sums._clip import limits_of

# The most steps of a row: sums of 2^14 squares stay within 64 bits on every engine.
SQL_STEPS = 2**24
_MOST_NUMBERS = 2**14
# One row in, one value out, and no value that makes an engine raise.
_ALLOWED = (
    ops.Field, ops.Literal, ops.Add, ops.Subtract, ops.Multiply, ops.Negate, ops.Abs,
    ops.IfElse, ops.Greatest, ops.Least, ops.Comparison, ops.And, ops.Or, ops.Not, ops.Xor,
)  # fmt: skip


@dataclass(frozen=True)
class SqlKernel:
    """A map's expressions over a row that is nobody's: the map itself never meets the data."""

    row: ir.Table
    values: tuple[ir.FloatingValue, ...]

    def over(self, table: ir.Table) -> ir.Table:
        """The same expressions over a table's rows."""  # proof: maps-sql
        fields = {self.row[name].op(): table[name].op() for name in self.row.columns}
        moved = [value_.op().replace(fields, filter=ops.Value).to_expr() for value_ in self.values]
        return table.select(**_named("v", moved))


def sql_kernel(query: BoundedSum) -> SqlKernel:
    """The map's expressions, if all they do is arithmetic within a row. Tried over no rows."""
    assert isinstance(query.map, SqlMap)
    row = ibis.table(dict.fromkeys(query.columns, "float64"), name="row")
    try:
        found = query.map.function(row)
    except AttributeError as error:
        raise QueryError(f"The map asks for what is not in the row: {error}.") from None
    except ibis.common.exceptions.IbisError as error:
        raise QueryError(f"The map asks for more than the expressions of a row: {error}.") from None
    values = list(found) if isinstance(found, (list, tuple)) else [found]
    numbers = query.numbers
    if len(values) != numbers or numbers > _MOST_NUMBERS:
        raise QueryError(
            f"Expected {numbers} expressions, at most {_MOST_NUMBERS}; got {len(values)}."
        )
    kernel = SqlKernel(row, tuple(_checked(value_, row) for value_ in values))
    nobody = pa.table({name: pa.array([], pa.float64()) for name in query.columns})
    with scanned(nobody) as empty:
        try:
            _steps(kernel.over(empty), query.bounds, exact_noise(query.bounds)).to_pyarrow()
        except Exception as error:  # noqa: BLE001 - over no rows, so it says nothing about any
            raise QueryError(f"The map cannot be computed; nothing was charged.\n{error}") from None
    return kernel


def _checked(value_: Any, row: ir.Table) -> ir.FloatingValue:
    found = value_ if isinstance(value_, ir.Value) else ibis.literal(value_)
    op = found.op()
    for node in op.find(ops.Value, filter=ops.Value):
        cast = isinstance(node, ops.Cast) and node.to.is_float64()
        foreign = isinstance(node, ops.Field) and node.rel != row.op()
        text = isinstance(node, ops.Literal) and not (
            node.dtype.is_numeric() or node.dtype.is_boolean()
        )
        if not (cast or isinstance(node, _ALLOWED)) or foreign or text:
            raise QueryError(
                "A SqlMap may add, subtract, multiply, compare and choose within one row; "
                f"it uses {type(node).__name__}."
            )
    numbers = [n for n in op.find(ops.Literal, filter=ops.Value) if n.dtype.is_numeric()]
    found = op.replace({n: real(float(n.value)).op() for n in numbers}, filter=ops.Value).to_expr()
    return ibis.ifelse(found, _ONE, _ZERO) if found.type().is_boolean() else found.cast("float64")


_ZERO, _ONE = real(0.0), real(1.0)


def sum_in_engine(
    kernel: SqlKernel,
    query: BoundedSum,
    schema: Schema,
    source: Source,
    noise: tuple[Noise, ...],
) -> tuple[np.ndarray, int]:
    """The sum in steps of the grids, and the number of units."""
    with np.errstate(all="ignore"), source.read() as table:
        rows = bounded_rows(table, source, schema)
        cells = [value(schema[name], rows[source.name_of(name)]) for name in query.columns]
        rows = rows.select(first=rows["first"], **_named("x", cells))
        units = rows.agg(units=rows["first"].sum().fill_null(0))
        row = rows.filter(ibis.and_(*[rows[f"x{i}"].notnull() for i in range(len(cells))]))
        row = row.select(**{name: row[f"x{i}"] for i, name in enumerate(query.columns)})
        steps = _steps(kernel.over(row), query.bounds, noise)
        sums = steps.agg(**{c: steps[c].sum().fill_null(0) for c in steps.columns})
        found = sums.to_pyarrow().to_pylist()[0]
        total = np.array([int(found[f"v{i}"]) for i in range(query.numbers)], dtype=np.int64)
        return total, int(units.to_pyarrow().to_pylist()[0]["units"])


def _steps(table: ir.Table, bounds: tuple[Bound, ...], noise: tuple[Noise, ...]) -> ir.Table:
    """Each row's values in whole steps: the same rule as for one unit in `_clip`.

    Each stage is a table of its own, so that no expression is written out twice.
    """
    limits = limits_of(bounds, noise)
    for limit, bound in zip(limits, bounds, strict=True):
        names = [f"v{i}" for i in range(limit["start"], limit["stop"])]
        clip, per_step = real(float(limit["clip"])), real(float(limit["per_step"]))
        most, by_l1 = int(limit["most"]), bound.norm == "l1"
        table = table.mutate(usable=ibis.and_(*[_finite(table[name]) for name in names]))
        usable = {name: ibis.ifelse(table["usable"], table[name], _ZERO) for name in names}
        table = table.mutate(**usable).drop("usable")
        if bound.geometry != "free":
            table = table.mutate(
                **{name: ibis.ifelse(table[name] > 0, table[name], _ZERO) for name in names}
            )
        if bound.geometry == "box":
            cut = {n: ibis.ifelse(table[n] < clip, table[n], clip) * per_step for n in names}
            table = table.mutate(**{name: _whole(x) for name, x in cut.items()})
            continue
        sizes = [table[n].abs() if by_l1 else table[n] * table[n] for n in names]
        table = table.mutate(norm=_sum(sizes) if by_l1 else _sum(sizes).sqrt())
        # A hair shorter than the bound, so that rounding cannot make it too long.
        shrunk = clip * real(1 - 2.0**-40) / table["norm"]
        table = table.mutate(scale=ibis.ifelse(table["norm"] <= clip, _ONE, shrunk))
        table = table.mutate(**{n: table[n] * table["scale"] * per_step for n in names})
        table = table.mutate(**{name: _whole(table[name]) for name in names})
        length = _sum([table[n].abs() if by_l1 else table[n] * table[n] for n in names])
        fits = (length <= (most if by_l1 else most**2)) & _finite(table["norm"])
        table = table.mutate(fits=fits)
        kept = {name: ibis.ifelse(table["fits"], table[name], 0) for name in names}
        table = table.mutate(**kept).drop("norm", "scale", "fits")
    return table


def _named(letter: str, values: list[Any]) -> dict[str, Any]:
    return {f"{letter}{i}": value_ for i, value_ in enumerate(values)}


def _sum(values: list[Any]) -> Any:
    total = values[0]
    for value_ in values[1:]:
        total = total + value_
    return total


def _finite(x: ir.FloatingValue) -> ir.BooleanValue:
    return (~x.isnan() & ~x.isinf()).fill_null(False)


def _whole(x: ir.FloatingValue) -> ir.IntegerValue:
    """Towards zero, and only then to an integer: engines disagree on how a cast rounds."""
    safe = ibis.ifelse(x.abs() <= SQL_STEPS, x, _ZERO)
    return ibis.ifelse(safe < 0, -((-safe).floor()), safe.floor()).cast("int64")
