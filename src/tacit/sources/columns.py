"""A column's cells as values of its public domain: positions among its labels, or numbers.

A value outside the domain is missing, or the column's default.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.sources.cells import NO_MOMENT, TEXT, Raw, moment, number, text
from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens

MISSING = -1  # the code of a cell without a value; that of a number is NaN
_DAY = 86_400_000_000
_EPOCH_DAY = 719_163  # the ordinal of 1970-01-01
# True and 1 are one value to Python, and libraries turn one into the other for a whole column.
_ALSO = {b"True": b"1", b"1": b"True", b"False": b"0", b"0": b"False"}


def decoded(column: Column, cells: Raw) -> np.ndarray:
    """Codes from 0, or for a Real column numbers; `MISSING` or NaN where there is no value."""
    if isinstance(column, Real):
        found = number(cells)
        with np.errstate(invalid="ignore"):
            # + 0.0: minus zero is zero.
            inside = (found >= column.low) & (found <= column.high)
            found = np.where(inside, found + 0.0, np.nan)
        return found if column.default is None else np.where(np.isnan(found), column.default, found)
    code = _code(column, cells)
    if column.default is None:
        return code
    if isinstance(column, Integer):
        default = column.default - column.low
    else:
        default = column.labels.index(column.default)
    return np.where(code == MISSING, default, code)


def values(column: Column, found: np.ndarray) -> np.ndarray:
    """What a kernel sees of decoded cells: doubles, NaN where there is no value."""
    if isinstance(column, Real):
        return found
    low = column.low if isinstance(column, Integer) else 0
    return np.where(found == MISSING, np.nan, (found + low).astype(float))


def letters(column: Tokens, cells: Raw) -> pa.Array:
    """Texts as far as they are read: how long one is must not decide how others are read."""
    bytes_ = text(cells).fill_null(b"")
    texts = bytes_.view(pa.large_string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:  # each text alone: bytes that are not UTF-8 end a word
        known = [cell.decode("utf-8", "replace") for cell in bytes_.to_pylist()]
        texts = pa.array(known, pa.large_string())
    return pc.utf8_slice_codeunits(texts, 0, column.max_letters)


def digests(texts: pa.Array) -> np.ndarray:
    """A digest of each text, to put a unit's texts in an order."""
    found = [hashlib.sha256(cell.encode()).digest() for cell in texts.to_pylist()]
    return np.array(found, "S32")


def _code(column: Column, cells: Raw) -> np.ndarray:
    match column:
        case Categorical(levels=levels) if isinstance(levels[0], bool):
            lower = pc.ascii_lower(text(cells).view(pa.large_string())).view(TEXT)
            numbers, code = number(cells), np.full(len(cells), MISSING)
            for index, level in enumerate(levels):
                named = pc.equal(lower, str(level).lower().encode()).fill_null(False)
                code[named.to_numpy(zero_copy_only=False) | (numbers == level)] = index
            return code
        case Categorical(levels=levels) if isinstance(levels[0], int):
            ordered = np.argsort(np.array(levels, float))
            known, numbers = np.array(levels, float)[ordered], number(cells)
            at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            return np.where(known[at] == numbers, ordered[at], MISSING)
        case Categorical(levels=levels):
            names = [str(level).encode("utf-8", "surrogatepass") for level in levels]
            indices = {name: index for index, name in enumerate(names)}
            spelt = {_ALSO[name]: at for name, at in indices.items() if name in _ALSO}
            indices = spelt | indices
            code = pc.index_in(text(cells), value_set=pa.array(list(indices), TEXT))
            where = np.append(np.array(list(indices.values()), np.int64), MISSING)
            return where[code.fill_null(len(indices)).to_numpy(zero_copy_only=False)]
        case Integer(low=low, high=high):
            numbers = number(cells)
            with np.errstate(invalid="ignore"):
                inside = (numbers >= low) & (numbers <= high) & (numbers == np.floor(numbers))
            whole = np.where(inside, numbers, low).astype(np.int64)
            return np.where(inside, whole - low, MISSING)
        case Time(every=every):
            moments = moment(cells)
            period = _periods(moments, every) - column.first
            inside = (moments != NO_MOMENT) & (period >= 0) & (period <= column.last - column.first)
            return np.where(inside, period, MISSING)
        case _:
            raise AssertionError(f"no codes for {column.name}")  # refused when it is resolved


def _periods(moments: np.ndarray, every: str) -> np.ndarray:
    """The number of the year, month or day that a moment falls in (see Time)."""
    days = np.where(moments == NO_MOMENT, 0, moments) // _DAY
    if every == "day":
        return days + _EPOCH_DAY
    months = days.view("M8[D]").astype("M8[M]").view(np.int64) + 12 * 1970
    return months if every == "month" else months // 12
