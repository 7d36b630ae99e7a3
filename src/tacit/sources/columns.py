"""A column's cells as values of its public domain: positions among its labels, or numbers.

A value outside the domain is missing, or the column's default.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.compile_cache import cached
from tacit.sources.cells import LONGEST, NO_MOMENT, TEXT, Raw, moment, number, text
from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tacit.spec.periods import Period

MISSING = -1  # the code of a cell without a value; that of a number is NaN
_WHOLE_SINGLE = 2**24  # up to which 32 bits hold every whole number
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_EPOCH_DAY = 719_163  # the ordinal of 1970-01-01
# True and 1 are one value to Python, and libraries turn one into the other for a whole column.
_ALSO = {b"True": b"1", b"1": b"True", b"False": b"0", b"0": b"False"}
_TRUTH = {False: [b"false", b"f", b"no", b"n"], True: [b"true", b"t", b"yes", b"y"]}


def decoded(column: Column, cells: Raw) -> np.ndarray:
    """Codes from 0, or for a Real column numbers; `MISSING` or NaN where there is no value."""
    if isinstance(cells, pa.DictionaryArray):
        return Decoder(column)(cells)
    if isinstance(column, Real):
        default = np.nan if column.default is None else column.default
        return _inside(number(cells), float(column.low), float(column.high), float(default))
    code = _code(column, cells)
    if column.default is None:
        return code
    if isinstance(column, Integer):
        default = column.default - column.low
    else:
        default = column.labels.index(column.default)
    return np.where(code == MISSING, default, code)


class Decoder:
    """`decoded` for one batch of a column after the other: each different cell is read once.

    `single` says whether 32 bits hold all numbers of the cells so far: by types alone.
    """

    def __init__(self, column: Column) -> None:
        self._column, self._dictionary, self._found = column, pa.nulls(0), np.zeros(0)
        self.single = True

    def __call__(self, cells: Raw) -> np.ndarray:
        self.single = self.single and _single(self._column, cells)
        if not isinstance(cells, pa.DictionaryArray):
            return decoded(self._column, cells)
        if not cells.dictionary.equals(self._dictionary):
            self._dictionary = cells.dictionary
            # One more, which null indices point to.
            known = pa.concat_arrays([self._dictionary, pa.nulls(1, self._dictionary.type)])
            self._found = decoded(self._column, known)
        where = cells.indices.fill_null(len(self._dictionary))
        return self._found[where.to_numpy(zero_copy_only=False)]


def _single(column: Column, cells: Raw) -> bool:
    """Whether each number that the column can have from such cells is one of 32 bits."""
    match column:
        case Real(default=default):
            dtype = cells.type if isinstance(cells, pa.Array) else pa.float64()
            dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
            short = pa.types.is_floating(dtype) and dtype.bit_width <= 32
            return short and (default is None or float(np.float32(default)) == default)
        case Integer(low=low, high=high):
            return max(abs(low), abs(high)) <= _WHOLE_SINGLE
        case Time(first=first, last=last):
            return last - first <= _WHOLE_SINGLE
        case Categorical(levels=levels):
            return len(levels) <= _WHOLE_SINGLE
    return False


def values(column: Column, found: np.ndarray) -> np.ndarray:
    """What a kernel sees of decoded cells: doubles, NaN where there is no value."""
    if isinstance(column, Real):
        return found
    low = column.low if isinstance(column, Integer) else 0
    return _numbers(found, low)


def letters(column: Tokens, cells: Raw) -> pa.Array:
    """Texts as far as they are read: how long one is must not decide how others are read."""
    bytes_ = text(cells, LONGEST).fill_null(b"")
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
        case Categorical(codes=(_, *_)):
            return _spelt(text(cells), _spellings(column))
        case Categorical(levels=levels) if isinstance(levels[0], bool):
            lower = pc.ascii_lower(text(cells).view(pa.large_string())).view(TEXT)
            numbers, code = number(cells), np.full(len(cells), MISSING)
            for index, level in enumerate(levels):
                named = pc.is_in(lower, value_set=pa.array(_TRUTH[bool(level)], TEXT))
                code[named.to_numpy(zero_copy_only=False) | (numbers == level)] = index
            return code
        case Categorical(levels=levels) if isinstance(levels[0], int):
            ordered = np.argsort(np.array(levels, float))
            known, numbers = np.array(levels, float)[ordered], number(cells)
            at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
            return np.where(known[at] == numbers, ordered[at], MISSING)
        case Categorical():
            return _spelt(text(cells), _spellings(column))
        case Integer(low=low, high=high):
            return _whole(number(cells), low, high)
        case Time(every=every):
            moments = moment(cells, column.format)
            period = _periods(moments, every) - column.first
            inside = (moments != NO_MOMENT) & (period >= 0) & (period <= column.last - column.first)
            return np.where(inside, period, MISSING)
        case _:
            raise AssertionError(f"no codes for {column.name}")  # refused when it is resolved


@cached(nogil=True)
def _inside(found, low, high, default):
    """The numbers within the bounds; `default` for others, NaN among them."""
    out = np.empty(found.size)
    for i in range(found.size):
        out[i] = found[i] + 0.0 if low <= found[i] <= high else default  # minus zero is zero
    return out


@cached(nogil=True)
def _numbers(code, low):
    """The whole numbers that codes stand for, as doubles; NaN for `MISSING`."""
    out = np.empty(code.size)
    for i in range(code.size):
        out[i] = np.float64(code[i] + low) if code[i] != -1 else np.nan
    return out


@cached(nogil=True)
def _whole(found, low, high):
    """How far each whole number within the bounds is above the lower one; `MISSING` for others."""
    out = np.empty(found.size, np.int64)
    for i in range(found.size):
        inside = low <= found[i] <= high and found[i] == np.floor(found[i])
        out[i] = np.int64(found[i]) - low if inside else -1
    return out


def _spellings(column: Categorical) -> dict[bytes, int]:
    """The texts that stand for each level, its index among the levels: its codes and its name."""
    indices = {level: index for index, level in enumerate(column.levels)}
    coded = {_encoded(code): indices[level] for code, level in column.codes}
    named = {_encoded(level): index for level, index in indices.items()}
    exact = named | coded
    texts = coded if isinstance(column.levels[0], bool) else exact
    alike = {_ALSO[name]: at for name, at in texts.items() if name in _ALSO}
    return alike | exact


def _encoded(level: str | int | bool) -> bytes:
    return str(level).encode("utf-8", "surrogatepass")


def _spelt(texts: pa.Array, spellings: dict[bytes, int]) -> np.ndarray:
    """The index of the level that each text stands for; one that is no whole number is not cut.

    A library that has once seen a missing cell writes 1 as 1.0: it is read as 1 where 1.0 itself
    stands for nothing.
    """
    names = pa.array(list(spellings), TEXT)
    code = pc.index_in(texts, value_set=names)
    cut = pc.replace_substring_regex(texts, r"^([+-]?[0-9]+)\.0+$", r"\1")
    code = pc.coalesce(code, pc.index_in(cut, value_set=names)).fill_null(len(spellings))
    where = np.append(np.array(list(spellings.values()), np.int64), MISSING)
    return where[code.to_numpy(zero_copy_only=False)]


def _periods(moments: np.ndarray, every: Period) -> np.ndarray:
    """The number of the period that a moment falls in (see `tacit.spec.periods`)."""
    ticks = np.where(moments == NO_MOMENT, 0, moments)
    days = ticks // _DAY
    match every:
        case "hour":
            return ticks // _HOUR + 24 * _EPOCH_DAY
        case "day":
            return days + _EPOCH_DAY
        case "week":
            return (days + _EPOCH_DAY - 1) // 7
    months = days.view("M8[D]").astype("M8[M]").view(np.int64) + 12 * 1970
    return months // {"month": 1, "quarter": 3, "year": 12}[every]
