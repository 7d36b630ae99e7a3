"""Periods of the calendar: their numbers and labels, and the formats that dates are written in."""

from __future__ import annotations

import datetime as dt
import re
from functools import cache
from typing import Literal

from tacit.spec.errors import SchemaError

Period = Literal["year", "quarter", "month", "week", "day", "hour"]
PERIODS = ("year", "quarter", "month", "week", "day", "hour")

_LABEL = re.compile(
    r"(\d{4})(?:-(?:Q([1-4])|W(\d\d?)|(\d\d?)(?:-(\d\d?)(?:[ T](\d\d?)(?::\d\d)?(?::\d\d)?)?)?))?"
)
# What a format may hold, and how many digits each part has.
_DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_DIRECTIVE = re.compile(r"%(.?)")
_NEEDED = {"year": "Y", "quarter": "Ym", "month": "Ym", "week": "Ymd", "day": "Ymd", "hour": "YmdH"}


def period_number(text: str, every: Period) -> int:
    """The number of the period in which a date or a label begins; ValueError if it is neither.

    Years, quarters and months count from year 0, weeks (from Monday), days and hours from year 1.

    Examples
    --------
    >>> period_label(period_number("2004-11-03", "week"), "week")
    '2004-W45'
    """
    found = _LABEL.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, quarter, week, month, day, hour = (int(part or 0) for part in found.groups())
    if week:
        begin = dt.datetime.combine(dt.date.fromisocalendar(year, week, 1), dt.time())
    else:
        begin = dt.datetime(year, 3 * quarter - 2 if quarter else month or 1, day or 1, hour)
    match every:
        case "year":
            return begin.year
        case "quarter":
            return 4 * begin.year + (begin.month - 1) // 3
        case "month":
            return 12 * begin.year + begin.month - 1
        case "week":
            return (begin.toordinal() - 1) // 7
        case "day":
            return begin.toordinal()
        case "hour":
            return 24 * begin.toordinal() + begin.hour


def period_begin(number: int, every: Period) -> dt.datetime:
    """The moment at which a period begins."""
    match every:
        case "year":
            return dt.datetime(number, 1, 1)
        case "quarter":
            return dt.datetime(number // 4, 3 * (number % 4) + 1, 1)
        case "month":
            return dt.datetime(number // 12, number % 12 + 1, 1)
        case "week":
            return dt.datetime.fromordinal(7 * number + 1)
        case "day":
            return dt.datetime.fromordinal(number)
        case "hour":
            return dt.datetime.fromordinal(number // 24).replace(hour=number % 24)


def period_label(number: int, every: Period) -> str:
    """The label of a period: 2004, 2004-Q4, 2004-11, 2004-W45, 2004-11-03 or 2004-11-03T07."""
    begin = period_begin(number, every)
    match every:
        case "quarter":
            return f"{begin.year:04d}-Q{number % 4 + 1}"
        case "week":
            year, week, _ = begin.isocalendar()
            return f"{year:04d}-W{week:02d}"
    return begin.isoformat()[: {"year": 4, "month": 7, "day": 10, "hour": 13}[every]]


def check_format(format_: object, every: Period, column: str) -> None:
    """Refuse a format that cannot be read, or that does not tell one period from another."""
    parts = _DIRECTIVE.findall(format_) if isinstance(format_, str) else []
    needed = _NEEDED[every]
    if len(set(parts)) < len(parts) or not set(needed) <= set(parts) <= set(_DIGITS):
        raise SchemaError(
            f"Expected format={format_!r} of column {column!r} to hold each of "
            f'{" ".join("%" + part for part in needed)}, such as "%d.%m.%Y", and besides them no '
            f"more than {' '.join('%' + part for part in _DIGITS)}; years have four digits."
        )


@cache
def date_pattern(format_: str) -> re.Pattern[bytes]:
    """A pattern for all of a text, with a group for each part of the date.

    A part may be written without its leading zero, unless the next part follows it directly.
    """
    found, end = "", 0
    for part in _DIRECTIVE.finditer(format_):
        digits = _DIGITS[part[1]]
        fixed = digits == 4 or format_[part.end() :].startswith("%")
        found += re.escape(format_[end : part.start()])
        found += rf"(?P<{part[1]}>\d{{{digits if fixed else 1},{digits}}})"
        end = part.end()
    return re.compile((found + re.escape(format_[end:])).encode())
