"""The public description of a table: what may be known about it without looking.

Bounds, levels and periods are part of the question, never of the answer: a value outside its
column's domain counts as missing, or as the column's `default`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tacit.spec.errors import SchemaError

Label = str | int | bool | None
Neighbours = Literal["replace_one", "add_remove"]
Period = Literal["year", "month", "day"]

# Bounds default to None only so that leaving them out is answered in words.
_LARGEST = 2**53  # integers beyond this are not exact as doubles, on any engine
_MAX_LEVELS = 10**6


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"Expected a column name as text, got {name!r}.")
    return name


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise SchemaError(f"Expected a whole number for {what}, got {value!r}.")
    return value


@dataclass(frozen=True)
class Categorical:
    """A column with listed levels: all text, all whole numbers, or False and True.

    Examples
    --------
    >>> Categorical("smoker", ["no", "yes"], default="no").labels
    ('no', 'yes')
    """

    name: str
    levels: tuple[str | int | bool, ...] = ()
    default: str | int | bool | None = None

    def __post_init__(self) -> None:
        name = _name(self.name)
        if isinstance(self.levels, str) or not isinstance(self.levels, Iterable):
            raise SchemaError(f"Expected levels as a list: Categorical({name!r}, [...]).")
        levels = tuple(self.levels)
        if not levels:
            raise SchemaError(
                f"Expected public levels for column {name!r}: write "
                f'Categorical({name!r}, ["...", "..."]); they are never taken from the data.'
            )
        kinds = {type(level) for level in levels}
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            raise SchemaError(
                f"Expected the levels of {name!r} to be all text or all whole numbers."
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
        if kinds == {int}:
            for level in levels:
                _whole(level, f"each level of {name!r}")
        if self.default is not None and not _among(self.default, levels):
            raise SchemaError(f"Expected default={self.default!r} among the levels of {name!r}.")
        object.__setattr__(self, "levels", levels)

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.levels


@dataclass(frozen=True)
class Integer:
    """A whole number between public bounds, both included."""

    name: str
    low: int = None  # type: ignore[assignment]
    high: int = None  # type: ignore[assignment]
    default: int | None = None

    def __post_init__(self) -> None:
        name = _name(self.name)
        if self.low is None or self.high is None:
            raise SchemaError(
                f"Expected public bounds for column {name!r}: write Integer({name!r}, low, high); "
                "they are never taken from the data."
            )
        low = _whole(self.low, f"low of {name!r}")
        high = _whole(self.high, f"high of {name!r}")
        if low > high:
            raise SchemaError(f"Expected low={low} <= high={high} for column {name!r}.")
        if self.default is not None and not low <= _whole(self.default, "default") <= high:
            raise SchemaError(f"Expected default={self.default} within the bounds of {name!r}.")

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
        name = _name(self.name)
        if self.low is None or self.high is None:
            raise SchemaError(
                f"Expected public bounds for column {name!r}: write Real({name!r}, low, high); "
                "they are never taken from the data."
            )
        for what in ("low", "high", "default"):
            value = getattr(self, what)
            if value is None and what == "default":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise SchemaError(f"Expected a number for {what} of {name!r}, got {value!r}.")
            if not math.isfinite(value) or abs(value) > 1e100:
                raise SchemaError(f"Expected a finite {what} for {name!r}, got {value!r}.")
            object.__setattr__(self, what, float(value))
        low, high = self.low, self.high
        if not low < high:
            raise SchemaError(f"Expected low={low} < high={high} for column {name!r}.")
        if self.default is not None and not low <= self.default <= high:
            raise SchemaError(f"Expected default={self.default} within the bounds of {name!r}.")

    @property
    def labels(self) -> tuple[Label, ...]:
        raise SchemaError(
            f"Column {self.name!r} is Real and cannot be counted value by value; "
            "declare it Categorical or Integer to count it."
        )


@dataclass(frozen=True)
class Time:
    """A date or time, cut into public periods from `start` to `end`, both included.

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

    def __post_init__(self) -> None:
        name = _name(self.name)
        if self.every not in ("year", "month", "day"):
            raise SchemaError(f"Expected every='year', 'month' or 'day' for column {name!r}.")
        if self.start is None or self.end is None:
            raise SchemaError(
                f"Expected public bounds for column {name!r}: write "
                f'Time({name!r}, "2004-01", "2009-12", every="month").'
            )
        for what in ("start", "end", "default"):
            value = getattr(self, what)
            if value is not None or what != "default":
                object.__setattr__(self, what, self._label(self._period(value)))
        if self.first > self.last:
            raise SchemaError(f"Expected start <= end for column {name!r}.")
        if self.last - self.first >= _MAX_LEVELS:
            raise SchemaError(f"Expected at most {_MAX_LEVELS} periods for column {name!r}.")
        if self.default is not None and self.default not in self.labels:
            raise SchemaError(f"Expected default={self.default!r} between start and end.")

    def _period(self, text: object) -> int:
        """The number of a period: years, months or days since year 0 or 1."""
        parts = str(text).split("-")
        try:
            year, month, day = (int(p) for p in [*parts, "1", "1"][:3])
            day_number = dt.date(year, month, day).toordinal()
        except ValueError:
            raise SchemaError(
                f"Expected a date such as 2004-01 for column {self.name!r}, got {text!r}."
            ) from None
        return {"year": year, "month": 12 * year + month - 1, "day": day_number}[self.every]

    def _label(self, period: int) -> str:
        match self.every:
            case "year":
                return f"{period:04d}"
            case "month":
                return f"{period // 12:04d}-{period % 12 + 1:02d}"
            case "day":
                return dt.date.fromordinal(period).isoformat()

    @property
    def first(self) -> int:
        return self._period(self.start)

    @property
    def last(self) -> int:
        return self._period(self.end)

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(self._label(p) for p in range(self.first, self.last + 1))


@dataclass(frozen=True)
class Tokens:
    """A document as counts over a public vocabulary, of at most `max_length` words."""

    name: str
    vocabulary: tuple[str, ...] = ()
    max_length: int = None  # type: ignore[assignment]
    default: None = None

    def __post_init__(self) -> None:
        name = _name(self.name)
        if isinstance(self.vocabulary, str) or not isinstance(self.vocabulary, Iterable):
            raise SchemaError(f"Expected a vocabulary as a list: Tokens({name!r}, [...], 500).")
        words = tuple(self.vocabulary)
        if not words or self.max_length is None:
            raise SchemaError(
                f"Expected a public vocabulary and max_length for column {name!r}: "
                f"write Tokens({name!r}, vocabulary, max_length=500)."
            )
        if not all(isinstance(word, str) and word for word in words):
            raise SchemaError(f"Expected the vocabulary of {name!r} to be words.")
        if len(set(words)) < len(words):
            raise SchemaError(f"Expected each word of {name!r} once.")
        if _whole(self.max_length, f"max_length of {name!r}") < 1:
            raise SchemaError(f"Expected max_length={self.max_length} >= 1 for {name!r}.")
        object.__setattr__(self, "vocabulary", words)

    @property
    def labels(self) -> tuple[Label, ...]:
        raise SchemaError(f"Column {self.name!r} holds documents and cannot be counted by value.")


Column = Categorical | Integer | Real | Time | Tokens
COLUMNS: Mapping[str, type[Column]] = {
    kind.__name__.lower(): kind for kind in (Categorical, Integer, Real, Time, Tokens)
}


@dataclass(frozen=True)
class Schema:
    """What is public about the data, and who is protected.

    Parameters
    ----------
    *columns
        `Categorical`, `Integer`, `Real`, `Time` or `Tokens`, each with its public domain.
    unit
        The column that says whose row it is. Default: every row is its own unit.
    max_rows_per_unit
        How many rows of one unit are used; the others are left out.
    max_units
        An upper limit on the number of units that is known beforehand. It sharpens inference
        under "add_remove"; no unit is dropped because of it.
    neighbours
        "replace_one": the number of units is public, and what one unit says is protected.
        "add_remove": whether a unit is there at all is protected, and so is their number.
    """

    columns: tuple[Column, ...]
    unit: str | None
    max_rows_per_unit: int
    max_units: int | None
    neighbours: Neighbours

    def __init__(
        self,
        *columns: Column,
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        max_units: int | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        if not columns:
            raise SchemaError("Expected at least one column; tacit.Schema.stub(names) helps.")
        for column in columns:
            if not isinstance(column, tuple(COLUMNS.values())):
                raise SchemaError(f"Expected a column such as Categorical(...), got {column!r}.")
        names = [column.name for column in columns]
        if unit is not None:
            names.append(_name(unit))
        if len(set(names)) < len(names):
            raise SchemaError(f"Expected each column once, got {', '.join(names)}.")
        if neighbours not in ("replace_one", "add_remove"):
            raise SchemaError(
                'Expected neighbours="replace_one" (the number of units is public) or '
                f'neighbours="add_remove" (it is not), got {neighbours!r}.'
            )
        if unit is None and max_rows_per_unit not in (None, 1):
            raise SchemaError('Expected unit="<column>" beside max_rows_per_unit.')
        if unit is not None and max_rows_per_unit is None:
            raise SchemaError(
                f"Expected max_rows_per_unit beside unit={unit!r}: how many rows of one "
                "unit may count, for example max_rows_per_unit=3."
            )
        rows = 1 if max_rows_per_unit is None else _whole(max_rows_per_unit, "max_rows_per_unit")
        if not 1 <= rows <= 10**6:
            raise SchemaError(f"Expected max_rows_per_unit={rows} from 1 to 1000000.")
        if max_units is not None and not 1 <= _whole(max_units, "max_units") <= 10**12:
            raise SchemaError(f"Expected max_units={max_units} from 1 to 1e12.")
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "max_rows_per_unit", rows)
        object.__setattr__(self, "max_units", max_units)
        object.__setattr__(self, "neighbours", neighbours)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        known = ", ".join(column.name for column in self.columns)
        raise SchemaError(f"No column {name!r} in the schema; it has {known}.")

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        if self.unit is None:
            return "one row"
        rows = self.max_rows_per_unit
        return f"all rows of one {self.unit} (at most {rows} row{'s' * (rows > 1)} of each used)"

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": [
                {"type": type(c).__name__.lower(), **{k: _plain(v) for k, v in vars(c).items()}}
                for c in self.columns
            ],
            "unit": self.unit,
            "max_rows_per_unit": self.max_rows_per_unit,
            "max_units": self.max_units,
            "neighbours": self.neighbours,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Schema:
        rest = dict(facts)
        columns = [column_from_dict(c) for c in rest.pop("columns")]
        if rest.get("unit") is None:
            rest.pop("max_rows_per_unit", None)
        return cls(*columns, **rest)

    @property
    def digest(self) -> str:
        """A short fingerprint, pinned by the ledger."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @staticmethod
    def stub(names: Sequence[str]) -> str:
        """A template to fill in, made from column names alone.

        Examples
        --------
        >>> print(Schema.stub(["age", "smoker"]))
        tacit.Schema(
            # one line a column you will ask about; delete the others
            tacit.Categorical("age", ["...", "..."]),  # or Integer/Real("age", low, high)
            tacit.Categorical("smoker", ["...", "..."]),  # or Integer/Real("smoker", low, high)
            # unit="...", max_rows_per_unit=1,  # the column that says whose row it is
            neighbours="replace_one",  # or "add_remove", if the number of units is secret too
        )
        """
        lines = [
            f"    tacit.Categorical({json.dumps(str(n))}, "
            f'["...", "..."]),  # or Integer/Real({json.dumps(str(n))}, low, high)'
            for n in names
        ]
        return "\n".join(
            [
                "tacit.Schema(",
                "    # one line a column you will ask about; delete the others",
                *lines,
                '    # unit="...", max_rows_per_unit=1,  # the column that says whose row it is',
                '    neighbours="replace_one",  # or "add_remove", '
                "if the number of units is secret too",
                ")",
            ]
        )


def column_from_dict(facts: Mapping[str, Any]) -> Column:
    """A column from its plain form, as in a study file or a saved release."""
    rest = dict(facts)
    kind = COLUMNS.get(str(rest.pop("type", "")).lower())
    if kind is None:
        raise SchemaError(f"Expected type to be one of {', '.join(COLUMNS)} in {dict(facts)}.")
    try:
        return kind(**rest)
    except TypeError as error:
        what = str(error).split(" ", 1)[-1]
        raise SchemaError(f"Column {rest.get('name')!r}: {kind.__name__} {what}.") from None


def _among(value: object, levels: Sequence[object]) -> bool:
    return any(type(value) is type(level) and value == level for level in levels)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
