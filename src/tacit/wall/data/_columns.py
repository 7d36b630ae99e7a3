"""One raw cell to a code of its public domain, as an Ibis expression that cannot fail.

A value outside the domain becomes null, or the column's default. The rules look at one cell at a
time: no cell can change how another is read.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import ibis
import ibis.expr.types as ir

from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tacit.spec.errors import SourceError
from tacit.spec.keys import Is, Key, name_of
from tacit.spec.schema import Schema

# What a text or number cell may be; anything nested is refused by its type, before any charge.
_SCALAR = ("is_string", "is_numeric", "is_boolean", "is_timestamp", "is_date", "is_null", "is_uuid")
_OWNER = ("is_string", "is_numeric", "is_boolean", "is_null", "is_uuid")


def check_type(name: str, dtype: ibis.DataType, *, owner: bool = False) -> None:
    """Refuse a column whose declared type holds no single values, or none that name a unit."""
    if not any(getattr(dtype, kind)() for kind in (_OWNER if owner else _SCALAR)):
        wanted = "text or numbers to name a unit by" if owner else "text, numbers or dates"
        raise SourceError(f"Column {name!r} has type {dtype}; expected {wanted}.")


def text(cell: ir.Value) -> ir.StringValue:
    """A cell as trimmed text; whole numbers look the same whatever their type (1, not 1.0)."""
    dtype = cell.type()
    if dtype.is_boolean():
        return ibis.ifelse(cell, "True", ibis.ifelse(cell.isnull(), ibis.null("string"), "False"))
    if dtype.is_floating() or dtype.is_decimal():
        value = cell.cast("float64")
        whole = _whole(value)
        rest = ibis.ifelse(value.isnan(), ibis.null("string"), value.cast("string"))
        return ibis.ifelse(whole.isnull(), rest, whole.cast("string"))
    return cell.cast("string").strip()


def letters(column: Tokens, cell: ir.Value) -> ir.StringValue:
    """A text, as far as it is read: how long one is must not decide how others are read."""
    return text(cell).left(column.max_letters)


def owner(cell: ir.Value) -> ir.StringValue:
    """Whose row it is: text that differs for different ids; null for nobody's."""
    if cell.type().is_decimal():
        return cell.cast("string")  # not by way of a double, which would merge long ids
    name = text(cell)
    return ibis.ifelse(name == "", ibis.null("string"), name)


def _whole(value: ir.FloatingValue) -> ir.IntegerValue:
    """The integer that a double is, or null: NaN, infinite and huge values never reach a cast."""
    safe = ibis.ifelse(value.abs() < 2**53, value, ibis.null("float64"))
    return ibis.ifelse(safe == safe.floor(), safe, ibis.null("float64")).cast("int64")


def number(cell: ir.Value) -> ir.FloatingValue:
    """A cell as a double, or null."""
    dtype = cell.type()
    if dtype.is_boolean() or dtype.is_numeric():
        return cell.cast("float64")
    return text(cell).try_cast("float64")


def real(number: float) -> ir.FloatingValue:
    """A double. Written plainly it would be a decimal to some engines, which can overflow."""
    return ibis.literal(repr(number)).cast("float64")


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
            found = _whole(number(cell))
            code = ibis.ifelse(found.between(low, high), found, ibis.null("int64")) - low
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


def value(column: Column, cell: ir.Value) -> ir.FloatingValue:
    """The cell as the number that a map sees; null where it has none."""
    if isinstance(column, Real):
        found = number(cell)
        inside = found.between(column.low, column.high) & ~found.isnan()
        found = ibis.ifelse(inside, found, ibis.null("float64"))
        return found if column.default is None else found.fill_null(column.default)
    code = coded(column, cell)
    return (code + column.low if isinstance(column, Integer) else code).cast("float64")


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
        if isinstance(column, Tokens):
            seen = letters(column, cell)
        elif isinstance(column, Real):
            seen = value(column, cell).cast("string")
        else:
            seen = coded(column, cell).cast("string")
        parts += [seen.fill_null("-"), ibis.literal(";")]
    return ibis.literal("").concat(*parts)


def _period(cell: ir.Value, every: str) -> ir.IntegerValue:
    """The number of the year, month or day that a cell falls in (see Time)."""
    dtype = cell.type()
    if dtype.is_timestamp() or dtype.is_date():
        moment = cell.try_cast("timestamp")
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
