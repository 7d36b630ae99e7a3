"""Values of any kind to Arrow columns that no engine can stumble over.

What a cell becomes depends on that cell alone: the same value is read alike in a column of numbers
and among odd neighbours, and different texts stay different, so that no two units can be merged.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

# Stand-ins for what UTF-8 or a CSV cannot hold: surrogates, which are also undecodable bytes, and
# a carriage return. A literal stand-in is marked, so that it is not taken for what it stands for.
_STAND_INS = "\U0010f000-\U0010f80f"
_MARK = "\U0010f800"
CARRIAGE_RETURN = "\U0010f80d"
_ODD = re.compile(f"[\ud800-\udfff{_STAND_INS}]")

TEXT = pa.large_string()
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_FARTHEST_DAY = 4_000_000  # about eleven thousand years
_MICROSECONDS = 86_400_000_000
# pandas types whose Arrow form is known without looking at the cells
_DECLARED = re.compile(r"(String|Arrow|Boolean|DatetimeTZ|U?Int\d+|Float\d+)Dtype")


def utf8(text: str) -> str:
    """Text that can be stored as UTF-8; an injective map that leaves ordinary text as it is."""
    return text if text.isascii() else _ODD.sub(_stand_in, text)


def _stand_in(odd: re.Match[str]) -> str:
    code = ord(odd[0])
    return chr(0x10F000 + code - 0xD800) if code < 0xE000 else _MARK + odd[0]


def decoded(raw: bytes) -> str:
    return utf8(raw.decode("utf-8", errors="surrogateescape"))


def is_ordinary(raw: bytes) -> bool:
    """Whether bytes are UTF-8 text that needs no stand-ins."""
    try:
        return raw.isascii() or _ODD.search(raw.decode("utf-8")) is None
    except UnicodeDecodeError:
        return False


def cell_text(cell: object) -> str | None:
    """One Python value as text. A closed set of types; anything else is a missing cell."""
    match cell:
        case str():
            return utf8(str.__str__(cell))
        case bytes():
            return decoded(cell)
        case bool() | np.bool_():
            return "True" if cell else "False"
        case np.timedelta64():  # an integer to numpy
            return None
        case int() | np.integer():
            whole = int(cell)
            return str(whole) if abs(whole) < 10**4000 else hex(whole)
        case float() | np.floating():
            number = float(cell)
            if number != number:  # noqa: PLR0124 - NaN
                return None
            return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
        case Decimal():
            if not cell.is_finite() or cell.adjusted() > 1000:
                return None if cell.is_nan() else str(cell)
            return str(int(cell)) if cell == int(cell) else str(cell)
        case dt.datetime():
            return cell.isoformat(sep=" ")
        case dt.date() | np.datetime64() | uuid.UUID():
            return str(cell)
        case _:
            return None


def _total(cell: object) -> str | None:
    try:
        return cell_text(cell)
    except Exception:  # noqa: BLE001 - a cell that cannot even be printed is a missing cell
        return None


def texts(cells: Iterable[object]) -> pa.Array:
    return pa.array([_total(cell) for cell in cells], TEXT)


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """The type of the values themselves, inside dictionaries and extensions."""
    while True:
        if isinstance(dtype, pa.BaseExtensionType):
            dtype = dtype.storage_type
        elif pa.types.is_dictionary(dtype):
            dtype = dtype.value_type
        else:
            return dtype


def safe_type(dtype: pa.DataType) -> pa.DataType:
    """The type that a column of this type is read as."""
    dtype = plain_type(dtype)
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return dtype
    if pa.types.is_float32(dtype) or pa.types.is_float64(dtype):
        return dtype
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return pa.timestamp("us")
    return TEXT


def safe_arrow(values: pa.Array) -> pa.Array:
    """An Arrow array as one of its safe type, whatever is in it."""
    dtype, safe = values.type, safe_type(values.type)
    if isinstance(dtype, pa.BaseExtensionType):
        return safe_arrow(values.storage)
    if pa.types.is_dictionary(dtype):
        return safe_arrow(values.dictionary).take(values.indices)
    if pa.types.is_timestamp(safe):
        return _moments(values)
    if safe != TEXT:
        return values
    if (
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_string_view(dtype)
    ):
        try:
            values.validate(full=True)  # Arrow may hold bytes that are not UTF-8
            if not pc.any(pc.match_substring_regex(values, f"[{_STAND_INS}]")).as_py():
                return values.cast(TEXT)
        except pa.ArrowException:
            pass
        values = values.cast(pa.large_binary(), safe=False)
    return texts(_each(values))


def _each(values: Any) -> Iterator[object]:
    """The values one by one; one that cannot be had is missing."""
    for i in range(len(values)):
        try:
            value = values[i]
            yield value.as_py() if isinstance(value, pa.Scalar) else value
        except Exception:  # noqa: BLE001
            yield None


def _moments(values: pa.Array) -> pa.Array:
    """Dates and times as microseconds of UTC; those no calendar needs become null."""
    if pa.types.is_date(values.type):
        days = values.cast(pa.date32(), safe=False).cast(pa.int32()).cast(pa.int64())
        steps = pc.multiply(_near(days, days, _FARTHEST_DAY), _MICROSECONDS)
    else:
        stored = values.cast(pa.int64())
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit]
        kept = _near(stored, pc.divide(stored, per_second), _FARTHEST_DAY * 86_400)
        finer = pc.multiply(kept, max(10**6 // per_second, 1))
        steps = pc.divide(finer, max(per_second // 10**6, 1))
    return steps.cast(pa.timestamp("us"))


def _near(values: pa.Array, distance: pa.Array, farthest: int) -> pa.Array:
    inside = pc.and_(pc.less(distance, farthest), pc.greater(distance, -farthest))
    return pc.if_else(inside, values, pa.scalar(None, pa.int64()))


def declared_type(values: Any) -> pa.DataType | None:
    """What a column's type says before a cell is seen; None where cells are read one by one."""
    dtype: Any = getattr(values, "dtype", None)
    if _package(values) == "pandas" and hasattr(dtype, "categories"):
        return declared_type(dtype.categories)
    if not isinstance(dtype, np.dtype):
        known = _typed(values[:0] if hasattr(values, "dtype") else values)
        return None if known is None else known.type
    match dtype.kind:
        case "b" | "i" | "u":
            return pa.from_numpy_dtype(dtype.newbyteorder("="))
        case "f" if dtype.itemsize <= 8:
            return pa.float64()
        case "M":
            return pa.timestamp("us")
        case "m":
            return pa.duration("s")
        case "O" | "U" | "S" | "T":
            return None
        case _:
            return pa.list_(pa.null())  # no single values: refused like any nested type


def _typed(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """The Arrow form that a typed column has by its type alone, never by inference from cells."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        if _package(values) == "polars":
            return values.to_arrow()
        name = type(getattr(values, "dtype", None)).__name__
        if _package(values) == "pandas" and _DECLARED.fullmatch(name):
            return pa.array(values)
    except Exception:  # noqa: BLE001 - no Arrow form: its cells are read one by one
        return None
    return None


def column(values: Any) -> pa.Array:
    """A column of any in-memory kind, as an Arrow array of a safe type."""
    known = _typed(values)
    if isinstance(known, pa.ChunkedArray):
        parts = [safe_arrow(chunk) for chunk in known.chunks]
        return pa.concat_arrays(parts) if parts else pa.array([], safe_type(known.type))
    if known is not None:
        return safe_arrow(known)
    if _package(values) == "pandas":
        dtype = values.dtype
        if hasattr(dtype, "categories"):
            codes = np.asarray(getattr(values, "cat", values).codes)
            return column(np.asarray(dtype.categories)).take(pa.array(codes, mask=codes < 0))
        values = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):
        return texts(values.tolist())
    return _from_numpy(values) if isinstance(values, np.ndarray) else texts(values)


def _package(values: object) -> str:
    return type(values).__module__.split(".")[0]


def _from_numpy(values: np.ndarray) -> pa.Array:
    kind, native = values.dtype.kind, values.dtype.newbyteorder("=")
    if kind in "biu":
        return pa.array(values.astype(native))
    if kind == "f" and values.dtype.itemsize <= 8:
        return pa.array(values.astype("f8"))
    if kind == "M":
        return _moments(pa.array(values.astype("M8[us]")))
    if kind == "U" and values.ndim == 1:  # equal texts are read once
        try:
            codes, distinct = pd.factorize(values.astype(object))
            return texts(distinct).take(pa.array(codes))
        except Exception:  # noqa: BLE001 - some cell holds no character: one by one
            return texts(_each(values))
    return texts(_each(values))
