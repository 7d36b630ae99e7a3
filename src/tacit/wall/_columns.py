"""One raw cell to a code of its public domain, as an Ibis expression that cannot fail.

A value outside the domain becomes null, or the column's default. The rules look at one cell at a
time: no cell can change how another is read.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import ibis
import ibis.expr.types as ir

from tacit.spec.columns import Categorical, Column, Integer, Real, Time
from tacit.spec.errors import SourceError
from tacit.spec.queries import Is, Key, name_of
from tacit.spec.schema import Schema

# What a text or number cell may be; anything nested is refused by its type, before any charge.
_SCALAR = ("is_string", "is_numeric", "is_boolean", "is_timestamp", "is_date", "is_null", "is_uuid")


def check_type(name: str, dtype: ibis.DataType) -> None:
    """Refuse a column whose declared type holds no single values."""
    if not any(getattr(dtype, kind)() for kind in _SCALAR):
        raise SourceError(f"Column {name!r} has type {dtype}; expected text, numbers or dates.")


def text(cell: ir.Value) -> ir.StringValue:
    """A cell as trimmed text; whole numbers look the same whatever their type (1, not 1.0)."""
    dtype = cell.type()
    if dtype.is_boolean():
        return ibis.ifelse(cell, "True", "False")
    if dtype.is_floating() or dtype.is_decimal():
        number = cell.cast("float64")
        whole = (number.abs() < 2**53) & (number == number.floor())
        # The inner ifelse keeps the cast away from values that an integer cannot hold.
        as_integer = ibis.ifelse(whole, number, 0.0).cast("int64").cast("string")
        return ibis.ifelse(whole, as_integer, number.cast("string"))
    return cell.cast("string").strip()


def number(cell: ir.Value) -> ir.FloatingValue:
    """A cell as a double, or null."""
    dtype = cell.type()
    if dtype.is_boolean() or dtype.is_numeric():
        return cell.cast("float64")
    return text(cell).try_cast("float64")


def coded(column: Column, cell: ir.Value) -> ir.IntegerValue:
    """The position of the cell's value among the column's labels; null where it has none."""
    match column:
        case Categorical(levels=levels, default=default):
            if isinstance(levels[0], bool):
                found = text(cell).lower()
                known: list[Any] = [str(level).lower() for level in levels]
            elif isinstance(levels[0], int):
                found, known = number(cell), [float(level) for level in levels]
            else:
                found, known = text(cell), list(levels)
            pairs = [(level, code) for code, level in enumerate(known)]
            code = found.cases(*pairs, else_=ibis.null("int64"))
            fallback = None if default is None else levels.index(default)
        case Integer(low=low, high=high, default=default):
            found = number(cell)
            inside = found.between(low, high) & (found == found.floor()) & ~found.isnan()
            code = ibis.ifelse(inside, found, ibis.null("float64")).cast("int64") - low
            fallback = None if default is None else default - low
        case Time(every=every, default=default):
            code = _period(cell, every) - column.first
            inside = code.between(0, column.last - column.first)
            code = ibis.ifelse(inside, code, ibis.null("int64"))
            fallback = None if default is None else column.labels.index(default)
        case _:  # resolve() has refused to count these
            raise AssertionError(f"no codes for {column.name}")
    code = code.cast("int64")
    return code if fallback is None else code.fill_null(fallback)


def key_code(key: Key, schema: Schema, cell: ir.Value) -> ir.IntegerValue:
    """The same for a key of a query, which may merge levels."""
    column = schema[name_of(key)]
    code = coded(column, cell)
    if isinstance(key, Is):
        wanted = [column.labels.index(level) for level in key.levels]
        code = ibis.ifelse(code.isnull(), ibis.null("int64"), code.isin(wanted).cast("int64"))
    return code


def content(schema: Schema, cells: dict[str, ir.Value]) -> ir.StringValue:
    """All that the schema sees of a row, as text."""
    parts: list[ir.StringValue] = []
    for column in schema.columns:
        cell = cells[column.name]
        if isinstance(column, Real):
            value = number(cell)
            inside = value.between(column.low, column.high) & ~value.isnan()
            seen = ibis.ifelse(inside, value.cast("string"), "-")
        else:
            seen = coded(column, cell).cast("string")
        parts += [seen.fill_null("-"), ibis.literal(";")]
    return ibis.literal("").concat(*parts)


def _period(cell: ir.Value, every: str) -> ir.IntegerValue:
    """The number of the year, month or day that a cell falls in (see Time)."""
    dtype = cell.type()
    if dtype.is_timestamp() or dtype.is_date():
        moment = cell.cast("timestamp")
    else:
        words = text(cell)
        # "2004" and "2004-05" are dates to people, not to engines.
        moment = ibis.coalesce(
            words.try_cast("timestamp"),
            (words + "-01").try_cast("timestamp"),
            (words + "-01-01").try_cast("timestamp"),
        )
    epoch = dt.date(1970, 1, 1)
    year = moment.year().cast("int64")
    match every:
        case "year":
            return year
        case "month":
            return 12 * year + moment.month() - 1
        case _:
            days = moment.date().delta(ibis.date(epoch.isoformat()), unit="day")
            return days.cast("int64") + epoch.toordinal()
