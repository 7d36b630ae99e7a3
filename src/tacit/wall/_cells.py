"""Values of any kind to Arrow columns that no engine can stumble over.

What a cell becomes depends on that cell alone: the same value is read alike in a column of numbers
and among odd neighbours, and different texts stay different, so that no two units can be merged.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Stand-ins for what UTF-8 cannot hold: surrogates, which are also undecodable bytes.
_ODD = re.compile("[\ud800-\udfff\U0010f000-\U0010f800]")
_FARTHEST_DAY = 4_000_000  # about eleven thousand years
_MICROSECONDS = 86_400_000_000


def utf8(text: str) -> str:
    """Text that can be stored as UTF-8; an injective map that leaves ordinary text as it is."""
    return text if text.isascii() else _ODD.sub(_stand_in, text)


def _stand_in(odd: re.Match[str]) -> str:
    code = ord(odd[0])
    # A literal stand-in is marked, so that it cannot be taken for what it stands for.
    return chr(0x10F000 + code - 0xD800) if code < 0xE000 else "\U0010f800" + odd[0]


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
            return utf8(str(cell))
        case bytes():
            return decoded(cell)
        case bool() | np.bool_():
            return "True" if cell else "False"
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


def texts(cells: Iterable[object]) -> pa.Array:
    return pa.array([cell_text(cell) for cell in cells], pa.string())


def safe_type(dtype: pa.DataType) -> pa.DataType:
    """The type that a column of this type is read as."""
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return dtype
    if pa.types.is_float32(dtype) or pa.types.is_float64(dtype):
        return dtype
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return pa.timestamp("us")
    return pa.string()


def safe_arrow(values: pa.Array) -> pa.Array:
    """An Arrow array as one of its safe type, whatever is in it."""
    dtype, safe = values.type, safe_type(values.type)
    if dtype == safe and safe != pa.string() and not pa.types.is_timestamp(safe):
        return values
    if pa.types.is_dictionary(dtype):
        return safe_arrow(values.dictionary_decode())
    if pa.types.is_timestamp(safe):
        return _moments(values)
    if _is_text(dtype):
        try:
            values.validate(full=True)  # Arrow may hold bytes that are not UTF-8
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            values = values.cast(pa.large_binary(), safe=False)
    return texts(value.as_py() for value in values)


def _is_text(dtype: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(dtype) for check in checks)


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


def column(values: Any) -> pa.Array:
    """A column of any in-memory kind."""
    package = type(values).__module__.split(".")[0]
    if isinstance(values, pa.ChunkedArray):
        parts = [safe_arrow(chunk) for chunk in values.chunks]
        return pa.concat_arrays(parts) if parts else pa.array([], safe_type(values.type))
    if isinstance(values, pa.Array):
        return safe_arrow(values)
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        return _from_numpy(values)
    if package == "pandas" and isinstance(getattr(values, "dtype", None), np.dtype):
        return _from_numpy(np.asarray(values))
    if package in ("pandas", "polars"):
        try:
            known = pa.array(values, from_pandas=True) if package == "pandas" else values.to_arrow()
            return column(known)
        except Exception:  # noqa: BLE001 - a type that Arrow cannot hold: one cell at a time
            return texts(list(values))
    return texts(values.tolist() if isinstance(values, np.ma.MaskedArray) else values)


def _from_numpy(values: np.ndarray) -> pa.Array:
    match values.dtype.kind:
        case "b" | "i" | "u":
            return pa.array(values)
        case "f" if values.dtype.itemsize <= 8:
            return pa.array(values.astype("f8"))
        case "M":
            return _moments(pa.array(values.astype("M8[us]")))
        case _:
            return texts(values)
