"""Checks that constructors share: each returns what is kept, or refuses in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import numpy as np

from tacit.spec.errors import ModelError, QueryError, TacitError


def is_number(value: Any) -> bool:
    """Whether it is a finite real number; True and False are none."""
    real = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return real and math.isfinite(value)


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether it is a whole number within bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def number(
    value: Any,
    what: str,
    least: float,
    most: float,
    *,
    where: str = "",
    error: type[TacitError] = QueryError,
) -> float:
    """A number within bounds, as a float. `where` ends the sentence that refuses others."""
    kept = float(value) if is_number(value) else math.nan
    if not least <= kept <= most:  # what is checked is what is kept
        ends = f"{least:g} to {most:g}".replace("e-0", "e-").replace("e+0", "e")
        raise error(f"Expected {what}={value!r} from {ends}{where}.")
    return kept


def whole_number(
    value: Any,
    what: str,
    default: int | None = None,
    *,
    least: int = 1,
    most: int,
    error: type[TacitError] = ModelError,
) -> int:
    """A whole number within bounds; None is the default, where there is one."""
    if value is None and default is not None:
        return default
    if not is_whole(value, least, most):
        raise error(f"Expected {what}={value!r} to be a whole number from {least} to {most}.")
    return int(value)


def meant(asked: Any, known: Iterable[str]) -> str:
    """The end of a sentence that lists what is known."""
    by_letters = {each.lower(): each for each in known}
    alike = get_close_matches(str(asked).lower(), by_letters, 1)
    return f"; did you mean {by_letters[alike[0]]}?" if alike else "."


def among(value: Any, options: Sequence[Any]) -> bool:
    """Whether it is one of the options, by value and type: True is not 1."""
    return any(type(value) is type(option) and value == option for option in options)


def one_of(
    value: Any, what: str, options: Sequence[Any], error: type[TacitError] = QueryError
) -> None:
    """Refuse what is not among the options."""
    if not among(value, options):
        raise error(f"Expected {what}={value!r} among {', '.join(map(str, options))}.")


def distinct_columns(columns: Any, what: str = "column") -> tuple[str, ...]:
    """One name or several, each once and at least one, as a tuple of texts."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) for name in names):
        raise QueryError(f"Expected the name of each {what} as a text, and at least one.")
    if len(set(names)) < len(names):
        raise QueryError(f"Expected each {what} once, got {', '.join(names)[:200]}.")
    return names


def doubles(value: Any) -> np.ndarray:
    """A new array of doubles; complex numbers, texts and objects are refused."""
    found = np.array(value)
    if found.dtype.kind not in "biuf":
        raise QueryError(f"Expected real numbers, got {found.dtype}.")
    return found.astype(float)


def set_fields(record: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass, in its constructor. Arrays become read-only."""
    for name, value in values.items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, np.ndarray):
                part.setflags(write=False)
        object.__setattr__(record, name, value)
