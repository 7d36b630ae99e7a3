"""One raw cell as text, as a number or as a moment: total functions of that cell's own value.

`text_of`, `number_of` and `moment_of` define what a cell means; `text`, `number` and `moment` apply
them to a column, vectorised where its declared type allows. Neither looks at what a library
inferred for the column, so no cell changes how another is read.
"""  # proof: cells

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.spec.periods import date_pattern

Raw = Any  # a column: a pa.Array of a declared type, or Python values to be read one by one

TEXT = pa.large_binary()  # bytes, so that text of any encoding is text
# Bytes of a text, and of one whose words are counted: engines do not send longer ones.
WORD, LONGEST = 2**16, 2**26
_FEW_TEXTS = 4096  # to remember: beyond them a column has more texts than pay
NO_MOMENT = np.iinfo(np.int64).min
_BLANKS = " \t\n\r\v\f"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_IS_NUMBER = re.compile(_NUMBER.encode())
_EXACT = 2**53  # whole doubles below this are the whole numbers they print as
_DAY = 86_400_000_000  # microseconds
_EPOCH = dt.datetime(1970, 1, 1)
_LAST_DAY = 4_000_000  # about eleven thousand years from the epoch: no calendar needs more
_MOMENT = re.compile(
    rb"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2})"
    rb"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?)?)?"
)


def text_of(cell: object, longest: int = WORD) -> bytes | None:
    """A cell as trimmed text; equal numbers read alike whatever their type (1, not 1.0)."""
    return _total(partial(_text, longest=longest), cell)


def number_of(cell: object) -> float:
    """A cell as a double; NaN where it is no finite number."""
    found = _total(_number, cell)
    return np.nan if found is None or not np.isfinite(found) else found


def moment_of(cell: object, format_: str | None = None) -> int:
    """A cell as microseconds since 1970, in UTC where it names a zone; else `NO_MOMENT`.

    Texts are read in the public format, by default ISO 8601.
    """
    found = _total(lambda cell: _moment(cell, format_), cell)
    return NO_MOMENT if found is None or abs(found) >= _LAST_DAY * _DAY else found


def _total(rule: Callable[[Any], Any], cell: object) -> Any:
    try:
        return rule(cell)
    except Exception:  # noqa: BLE001 - a cell that cannot even be looked at is a missing cell
        return None


def _text(cell: object, longest: int = WORD) -> bytes | None:
    match cell:
        case str():
            return _text(str.encode(cell, "utf-8", "surrogatepass"), longest)
        case bytes():
            return bytes.strip(cell, _BLANKS.encode()) if len(cell) <= longest else None
        case bool() | np.bool_():
            return b"True" if cell else b"False"
        case int() | np.integer() if not isinstance(cell, np.timedelta64):
            whole = int(cell)
            return (str(whole) if abs(whole) < 10**4000 else hex(whole)).encode()
        case float() | np.floating():
            return _double(float(cell))
        case Decimal():
            return _decimal(cell)
        case dt.datetime() | np.datetime64():
            moment = _moment(cell)
            aware = getattr(cell, "tzinfo", None) is not None
            return None if moment is None else _printed(moment, aware)
        case dt.date() | uuid.UUID():
            return str(cell).encode()
        case _:
            return None


def _double(number: float) -> bytes | None:
    if number != number:  # noqa: PLR0124 - NaN
        return None
    whole = number.is_integer() and abs(number) < _EXACT
    return (str(int(number)) if whole else repr(number)).encode()


def _decimal(number: Decimal) -> bytes | None:
    """Without the zeros that a column's scale adds at the end; digits are never lost."""
    if number.is_nan():
        return None
    if not number.is_finite() or abs(number.adjusted()) > 1000:
        return str(number).encode()
    digits = format(number, "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return (digits if number else "0").encode()


def _number(cell: object) -> float | None:
    match cell:
        case bool() | np.bool_() | float() | np.floating() | Decimal():
            return float(cell)
        case int() | np.integer() if not isinstance(cell, np.timedelta64):
            return float(int(cell))
        case str() | bytes():
            found = _text(cell)
            return float(found) if found is not None and _IS_NUMBER.match(found) else None
        case _:
            return None


def _moment(cell: object, format_: str | None = None) -> int | None:
    match cell:
        case dt.datetime():
            if cell != cell:  # noqa: PLR0124 - pandas' NaT
                return None
            away = cell.utcoffset() or dt.timedelta(0)
            since = dt.datetime(*cell.timetuple()[:6], cell.microsecond) - _EPOCH - away
            return since // dt.timedelta(microseconds=1)
        case dt.date():
            return (cell.toordinal() - _EPOCH.toordinal()) * _DAY
        case np.datetime64():
            found = int(_microseconds(np.array([cell]))[0])
            return None if found == NO_MOMENT else found
        case _:
            if (written := _text(cell)) is None:
                return None
            return _parsed(written) if format_ is None else _formatted(written, format_)


def _formatted(text: bytes, format_: str) -> int | None:
    """A text in a public format, such as %d.%m.%Y."""
    if (found := date_pattern(format_).fullmatch(text)) is None:
        return None
    given = {name: int(digits) for name, digits in found.groupdict().items()}
    hour, minute, second = (given.get(name, 0) for name in "HMS")
    day = dt.datetime(given["Y"], given.get("m", 1), given.get("d", 1), hour, minute, second)
    return (day - _EPOCH) // dt.timedelta(microseconds=1)


def _parsed(text: bytes) -> int | None:
    """2004, 2004-05, 2004-05-06, 2004-05-06 07:08[:09[.5]][+01:00]; with / for -, or T."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = int((found[7] or b"").ljust(6, b"0")[:6])
    moment = dt.datetime(year, month or 1, day or 1, hour, minute, second, fraction) - _EPOCH
    if zone := (found[8] or b"").replace(b"Z", b"").replace(b":", b""):
        away = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[3:] or 0))
        moment = moment + away if zone.startswith(b"-") else moment - away
    return moment // dt.timedelta(microseconds=1)


def _printed(moment: int, aware: bool) -> bytes:
    found = _EPOCH + dt.timedelta(microseconds=moment)
    return (found.isoformat(sep=" ") + "+00:00" * aware).encode()


def text(values: Raw, longest: int = WORD) -> pa.Array:
    """`text_of` each cell of a column."""
    if not isinstance(values, pa.Array):
        return pa.array(_for_each(partial(text_of, longest=longest), values), TEXT)
    if isinstance(values, pa.DictionaryArray):
        return text(values.dictionary, longest).take(values.indices)
    if is_textual(values.type):
        texts = values.cast(TEXT)
        if (pc.max(sizes := pc.binary_length(texts)).as_py() or 0) > longest:
            texts = pc.if_else(pc.less_equal(sizes, longest), texts, pa.scalar(None, TEXT))
        return pc.ascii_trim(texts.view(pa.large_string()), characters=_BLANKS).view(TEXT)
    if pa.types.is_integer(values.type):
        return values.cast(pa.large_string()).view(TEXT)
    return _by_distinct(values, text_of, TEXT)


def number(values: Raw) -> np.ndarray:
    """`number_of` each cell of a column."""
    if not isinstance(values, pa.Array):
        return np.array(_for_each(number_of, values), float)
    if is_textual(values.type):
        texts = text(values)
        # One cell at a time: a cell that is no number does not decide how the others are read.
        known = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, pa.scalar(None, TEXT))
        return _doubles(known.view(pa.large_string()).cast(pa.float64()))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return _doubles(values)
    return _doubles(_by_distinct(values, number_of, pa.float64()))


def moment(values: Raw, format_: str | None = None) -> np.ndarray:
    """`moment_of` each cell of a column."""
    rule = partial(moment_of, format_=format_)
    if not isinstance(values, pa.Array):
        return np.array(_for_each(rule, values), np.int64)
    if pa.types.is_date32(values.type):
        return _scaled(_integers(values.view(pa.int32())), _DAY)
    if pa.types.is_date64(values.type):
        ticks = _integers(values.view(pa.int64()))
        return _scaled(np.where(ticks == NO_MOMENT, ticks, ticks - ticks % 86_400_000), 1000)
    if pa.types.is_timestamp(values.type):
        ticks = _integers(values.view(pa.int64()))
        return _scaled(ticks, *_MICROSECONDS[values.type.unit])
    return _integers(_by_distinct(text(values), rule, pa.int64()))


def _for_each(rule: Callable[[Any], Any], cells: Raw) -> list[Any]:
    """A rule for each cell; for equal texts it is applied once, while they are few."""
    known: dict[str, Any] = {}
    found = []
    for cell in cells:
        if type(cell) is not str:
            found.append(rule(cell))
            continue
        if cell not in known:
            if len(known) == _FEW_TEXTS:
                known.clear()
            known[cell] = rule(cell)
        found.append(known[cell])
    return found


def is_textual(dtype: pa.DataType) -> bool:
    types = "string", "large_string", "string_view", "binary", "large_binary", "binary_view"
    fixed = pa.types.is_fixed_size_binary(dtype) and not pa.types.is_decimal(dtype)
    return fixed or any(getattr(pa.types, f"is_{name}")(dtype) for name in types)


def _by_distinct(values: pa.Array, rule: Callable[[Any], Any], dtype: pa.DataType) -> pa.Array:
    """A rule for each different value, and then for every cell that has it."""
    encoded = values.dictionary_encode()
    found = [rule(cell) for cell in each(encoded.dictionary)]
    return pa.array(found, dtype).take(encoded.indices)


def each(values: Any) -> Iterator[object]:
    """Python values one by one; one that cannot be had is missing."""
    for i in range(len(values)):
        try:
            value = values[i]
            yield value.as_py() if isinstance(value, pa.Scalar) else value
        except Exception:  # noqa: BLE001
            yield None


def _doubles(values: pa.Array) -> np.ndarray:
    with np.errstate(all="ignore"):  # a signalling NaN would be announced
        found = values.to_numpy(zero_copy_only=False).astype(float, copy=False)
    return np.where(np.isfinite(found), found, np.nan)


def _integers(values: pa.Array) -> np.ndarray:
    return values.cast(pa.int64()).fill_null(NO_MOMENT).to_numpy(zero_copy_only=False)


def _scaled(ticks: np.ndarray, up: int, down: int = 1) -> np.ndarray:
    """Ticks of `up` / `down` microseconds as microseconds; what no calendar needs is none."""
    near = (ticks != NO_MOMENT) & (np.abs(ticks.astype(float)) * up / down < _LAST_DAY * _DAY)
    return np.where(near, np.where(near, ticks, 0) * up // down, NO_MOMENT)


_MICROSECONDS = {  # of one tick, as a numerator and a denominator
    **{"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1)},
    **{"ns": (1, 1000), "ps": (1, 10**6), "fs": (1, 10**9), "as": (1, 10**12)},
}
_DAYS = {"Y": 365.25, "M": 30.44, "W": 7, "D": 1, "h": 1 / 24, "m": 1 / 1440}


def _microseconds(values: np.ndarray) -> np.ndarray:
    """NumPy's times of any unit as `moment` has them."""
    unit, count = np.datetime_data(values.dtype)
    ticks = values.astype(values.dtype.newbyteorder("=")).view(np.int64)
    if unit == "generic":
        return np.full(len(ticks), NO_MOMENT)
    if unit in _MICROSECONDS:  # NumPy's NaT is NO_MOMENT
        up, down = _MICROSECONDS[unit]
        return _scaled(ticks, count * up, down)
    near = (ticks != NO_MOMENT) & (np.abs(ticks.astype(float)) * count * _DAYS[unit] < _LAST_DAY)
    days = np.where(near, ticks, 0).view(f"M8[{count}{unit}]").astype("M8[us]").view(np.int64)
    return np.where(near, days, NO_MOMENT)


def arrow_of_times(values: np.ndarray) -> pa.Array:
    """NumPy's times as an Arrow column, read by the same rule."""
    found = _microseconds(values)
    return pa.array(found, mask=found == NO_MOMENT).view(pa.timestamp("us"))
