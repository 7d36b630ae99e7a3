"""Columns and their public domains.

Bounds, levels and periods are part of the question, never of the answer: a value outside its
column's domain counts as missing, or as the column's `default`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tacit.spec.checks import among, is_number, is_whole, meant, one_of, set_fields, whole_number
from tacit.spec.errors import SchemaError
from tacit.spec.periods import PERIODS, Period, check_format, period_label, period_number
from tacit.spec.wire import facts_of

Label = str | int | bool | None

# Bounds default to None only so that leaving them out is answered in words.
_LARGEST = 2**53  # integers beyond this are not exact as doubles, on any engine
_MAX_LEVELS = 10**6


def column_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"Expected a column name as text, got {name!r}.")
    return name


def _python(value: Any) -> Any:
    """A number, truth value or text of NumPy as Python's own: levels are often `unique()`."""
    return value.item() if isinstance(value, np.generic) else value


def _listed(values: Any, refusal: str) -> tuple[Any, ...]:
    """Public values in their order, which a set does not have."""
    if isinstance(values, (str, set, frozenset)) or not isinstance(values, Iterable):
        raise SchemaError(refusal)
    return tuple(map(_python, values))


def _whole(value: Any, what: str) -> int:
    value = _python(value)
    if not is_whole(value, -_LARGEST, _LARGEST):
        raise SchemaError(f"Expected a whole number for {what}, got {value!r}.")
    return int(value)


def _bounded(column: Integer | Real, read: Callable[[Any, str], float]) -> None:
    """Check and keep the public bounds of a column, and a default within them."""
    name, type_name = column_name(column.name), type(column).__name__
    if column.low is None or column.high is None:
        raise SchemaError(
            f"Expected public bounds for column {name!r}: write {type_name}({name!r}, low, high); "
            "they are never taken from the data."
        )
    low, high = read(column.low, f"low of {name!r}"), read(column.high, f"high of {name!r}")
    if low > high or (low == high and isinstance(column, Real)):
        sign = "<" if isinstance(column, Real) else "<="
        raise SchemaError(f"Expected low={low} {sign} high={high} for column {name!r}.")
    set_fields(column, low=low, high=high)
    if column.default is not None:
        default = read(column.default, f"default of {name!r}")
        if not low <= default <= high:
            raise SchemaError(f"Expected default={default} within the bounds of {name!r}.")
        set_fields(column, default=default)


def _finite(value: Any, what: str) -> float:
    value = _python(value)
    if not is_number(value) or abs(value) > 1e100:
        raise SchemaError(f"Expected a finite number for {what}, got {value!r}.")
    return float(value)


@dataclass(frozen=True)
class Categorical:
    """A column with listed levels: all text, all whole numbers, or False and True.

    Parameters
    ----------
    name
        The column's name.
    levels
        The public levels, in their order: from a codebook, never from the data.
    default
        The level of a cell that is empty or has no level. How many cells it replaced cannot be
        known from a release.
    codes
        What stands in the data for each level, such as {"1": "male", "2": "female"}: then levels
        may be left out. A level's own name is read too.

    A cell is trimmed and compared as text with levels that are text, so that capitals and accents
    matter; 1.0 is 1. Whole numbers are compared as numbers. False and True are also read from 0
    and 1, no and yes, n and y, f and t, in capitals too, unless there are codes.

    Examples
    --------
    >>> Categorical("smoker", ["no", "yes"], default="no").labels
    ('no', 'yes')
    >>> Categorical("sex", codes={"1": "male", "2": "female"}).labels
    ('male', 'female')
    """

    name: str
    levels: tuple[str | int | bool, ...] = ()
    default: str | int | bool | None = None
    codes: tuple[tuple[str, str | int | bool], ...] = ()

    def __post_init__(self) -> None:
        name = column_name(self.name)
        codes = _codes(name, self.codes)
        levels = _listed(
            self.levels,
            f'Expected levels in an order, as a list: Categorical({name!r}, ["...", "..."]), in a '
            'study file levels = ["...", "..."]. A set has another order in each run, and the '
            "second of two levels is the one that a regression is about.",
        ) or tuple(dict.fromkeys(level for _, level in codes))
        if not levels:
            raise SchemaError(
                f"Expected public levels for column {name!r}: write "
                f'Categorical({name!r}, ["...", "..."]); they are never taken from the data.'
            )
        types = {type(level) for level in levels}
        if len(types) > 1 or not types <= {str, int, bool}:
            raise SchemaError(
                f"Expected the levels of {name!r} to be all text or all whole numbers, or False "
                f"and True, got {', '.join(sorted(each.__name__ for each in types))}."
            )
        if len(set(levels)) < len(levels):
            raise SchemaError(f"Expected each level of {name!r} once.")
        if any(
            (isinstance(level, str) and level != level.strip()) or level == "" for level in levels
        ):
            raise SchemaError(
                f"Expected the levels of {name!r} without surrounding blanks and none empty: "
                "cells are trimmed, and an empty cell is missing (default= gives it a level)."
            )
        if len(levels) > _MAX_LEVELS:
            raise SchemaError(f"Expected at most {_MAX_LEVELS} levels for {name!r}.")
        if types == {int}:
            for level in levels:
                _whole(level, f"each level of {name!r}")
        for code, level in codes:
            if not among(level, levels):
                raise SchemaError(f"Expected the level {level!r} of code {code!r} among levels.")
        default = _python(self.default)
        if default is not None and not among(default, levels):
            raise SchemaError(f"Expected default={default!r} among the levels of {name!r}.")
        set_fields(self, levels=levels, default=default, codes=codes)

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.levels


def _codes(name: str, codes: Any) -> tuple[tuple[str, Any], ...]:
    """Spellings with their levels, from a mapping or pairs."""
    try:
        pairs = [
            (str(_python(code)).strip(), _python(level)) for code, level in dict(codes).items()
        ]
    except (TypeError, ValueError):
        pairs = [("", None)]
    if len({code for code, _ in pairs}) < len(pairs) or not all(code for code, _ in pairs):
        raise SchemaError(
            f"Expected codes of {name!r} as what the data say and what it means, each once and "
            f'none empty: codes={{"1": "male", "2": "female"}}, got {codes!r}.'
        )
    return tuple(pairs)


@dataclass(frozen=True)
class Integer:
    """A whole number between public bounds, both included."""

    name: str
    low: int = None  # type: ignore[assignment]
    high: int = None  # type: ignore[assignment]
    default: int | None = None

    def __post_init__(self) -> None:
        _bounded(self, _whole)

    @property
    def labels(self) -> tuple[Label, ...]:
        if self.high - self.low >= _MAX_LEVELS:
            raise SchemaError(f"Column {self.name!r} has too many values to count one by one.")
        return tuple(range(self.low, self.high + 1))


@dataclass(frozen=True)
class Real:
    """A number between public bounds, both included."""

    name: str
    low: float = None  # type: ignore[assignment]
    high: float = None  # type: ignore[assignment]
    default: float | None = None

    def __post_init__(self) -> None:
        _bounded(self, _finite)

    @property
    def labels(self) -> tuple[Label, ...]:
        raise SchemaError(
            f"Column {self.name!r} is Real and cannot be counted value by value; "
            "declare it Categorical or Integer to count it."
        )


@dataclass(frozen=True)
class Time:
    """A date or time, cut into public periods from `start` to `end`, both included.

    Parameters
    ----------
    name
        The column's name.
    start, end
        The first and the last period: dates such as "2004-11", or labels such as "2004-W45".
    every
        "year", "quarter", "month", "week" (from Monday, by ISO 8601), "day" or "hour".
    default
        The period of a cell that is empty or is no date between start and end.
    format
        How texts write a date, such as "%d.%m.%Y" or "%m/%d/%Y %H:%M". Default: ISO 8601, such as
        2004-11-03 07:30. Columns of dates need none. Times with a zone are taken in UTC.

    Examples
    --------
    >>> Time("seen", "2004-11", "2005-02", every="month").labels
    ('2004-11', '2004-12', '2005-01', '2005-02')
    """

    name: str
    start: str = None  # type: ignore[assignment]
    end: str = None  # type: ignore[assignment]
    every: Period = "month"
    default: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        name = column_name(self.name)
        one_of(self.every, "every", PERIODS, SchemaError)
        if self.start is None or self.end is None:
            raise SchemaError(
                f"Expected public bounds for column {name!r}: write "
                f'Time({name!r}, "2004-01", "2009-12", every="month").'
            )
        if self.format is not None:
            check_format(self.format, self.every, name)
        for what in ("start", "end", "default"):
            value = getattr(self, what)
            if value is not None or what != "default":
                set_fields(self, **{what: period_label(self._period(value), self.every)})
        if self.first > self.last:
            raise SchemaError(f"Expected start <= end for column {name!r}.")
        if self.last - self.first >= _MAX_LEVELS:
            raise SchemaError(f"Expected at most {_MAX_LEVELS} periods for column {name!r}.")
        if self.default is not None and self.default not in self.labels:
            raise SchemaError(f"Expected default={self.default!r} between start and end.")

    def _period(self, text: object) -> int:
        try:
            return period_number(str(text), self.every)
        except ValueError:
            raise SchemaError(
                f"Expected a date such as 2004-01 for column {self.name!r}, got {text!r}."
            ) from None

    @property
    def first(self) -> int:
        return self._period(self.start)

    @property
    def last(self) -> int:
        return self._period(self.end)

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(period_label(p, self.every) for p in range(self.first, self.last + 1))


@dataclass(frozen=True)
class Tokens:
    """A document as counts over a public vocabulary, of at most `max_length` words.

    Of a text no more than 100 letters for each of these are read.
    """

    name: str
    vocabulary: tuple[str, ...] = ()
    max_length: int = None  # type: ignore[assignment]
    default: None = None

    def __post_init__(self) -> None:
        name = column_name(self.name)
        words = _listed(
            self.vocabulary, f"Expected a vocabulary as a list: Tokens({name!r}, [...], 500)."
        )
        if not words or self.max_length is None:
            raise SchemaError(
                f"Expected a public vocabulary and max_length for column {name!r}: "
                f"write Tokens({name!r}, vocabulary, max_length=500)."
            )
        if not all(isinstance(word, str) and word for word in words):
            raise SchemaError(f"Expected the vocabulary of {name!r} to be words.")
        if len(set(words)) < len(words):
            raise SchemaError(f"Expected each word of {name!r} once.")
        whole_number(self.max_length, "max_length", most=_LARGEST, error=SchemaError)
        set_fields(self, vocabulary=words)

    @property
    def max_letters(self) -> int:
        return min(100 * self.max_length, 10**7)

    @property
    def labels(self) -> tuple[Label, ...]:
        raise SchemaError(f"Column {self.name!r} holds documents and cannot be counted by value.")


Column = Categorical | Integer | Real | Time | Tokens
_SHOWN = 12  # levels


def domain_of(column: Column) -> str:
    """Return the public domain of a column in a few words.

    Examples
    --------
    >>> domain_of(Real("bmi", 10, 60))
    '10 to 60'
    """
    match column:
        case Categorical(levels=levels):
            more = f", ... ({len(levels)} levels)" if len(levels) > _SHOWN else ""
            return ", ".join(map(str, levels[:_SHOWN])) + more
        case Integer(low=low, high=high) | Real(low=low, high=high):
            return f"{low:g} to {high:g}"
        case Time(start=start, end=end, every=every):
            return f"{start} to {end}, every {every}"
        case Tokens(vocabulary=words, max_length=most):
            return f"{len(words)} words, at most {most} in a document"


COLUMNS: Mapping[str, type[Column]] = {
    cls.__name__.lower(): cls for cls in (Categorical, Integer, Real, Time, Tokens)
}


def column_to_dict(column: Column) -> dict[str, Any]:
    """A column in its plain form; without the codes and the format that it does not have."""
    facts = {"type": type(column).__name__.lower(), **facts_of(column)}
    return {k: v for k, v in facts.items() if k not in ("codes", "format") or v}


def column_from_dict(facts: Mapping[str, Any]) -> Column:
    """A column from its plain form, as in a study file or a saved release."""
    rest = dict(facts)
    cls = COLUMNS.get(str(rest.pop("type", "")).lower())
    if cls is None:
        raise SchemaError(f"Expected type to be one of {', '.join(COLUMNS)} in {dict(facts)}.")
    known = [each.name for each in fields(cls)]
    for option in rest:
        if option not in known:
            raise SchemaError(
                f"Column {rest.get('name')!r}: type {cls.__name__.lower()!r} does not take "
                f"{option}; it may have {', '.join(known)}{meant(option, known)}"
            )
    try:
        return cls(**rest)
    except TypeError as error:
        what = str(error).split(" ", 1)[-1]
        raise SchemaError(f"Column {rest.get('name')!r}: {cls.__name__} {what}.") from None
