"""A model in plain values, for study files and saved results, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any

from tacit.spec.columns import Column, Integer, Real
from tacit.spec.errors import ModelError


def describe(model: Any) -> dict[str, Any]:
    """The model's name and its options."""
    options = {field.name: _plain(getattr(model, field.name)) for field in fields(model)}
    return {"model": type(model).__name__, **options}


def positive(values: Sequence[Any], length: int, what: str) -> tuple[float, ...]:
    """Prior parameters as floats: finite and positive, so that the prior is proper."""
    if not isinstance(values, (tuple, list)) or len(values) != length:
        raise ModelError(f"Expected {what} with {length} numbers, got {values!r}.")
    for value in values:
        number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not 1e-6 <= value <= 1e12:
            raise ModelError(f"Expected {what} between 1e-6 and 1e12, got {value!r}.")
    return tuple(float(value) for value in values)


def number(value: Any, what: str, *, above: float | None = None) -> float:
    """An option as a finite float, larger than `above`."""
    real = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or abs(value) > 1e100:
        raise ModelError(f"Expected a finite number for {what}, got {value!r}.")
    if above is not None and not value > above:
        raise ModelError(f"Expected {what}={value} > {above:g}.")
    return float(value)


def whole(value: Any, what: str, least: int) -> int:
    """An option as a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**6:
        raise ModelError(f"Expected {what}={value!r} to be a whole number from {least}.")
    return value


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """Names of columns: one or more, each once."""
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ModelError(f"Expected at least one {what}, each once, got {value!r}.")
    return names


def pair(value: Any) -> tuple[float, float]:
    """The ends of an interval, or those of the whole line."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ModelError(
            f"Expected truncation=(low, high), the ends of an interval, got {value!r}."
        )
    if tuple(value) == (-math.inf, math.inf):
        return -math.inf, math.inf
    if any(isinstance(end, (float, Decimal)) and math.isinf(end) for end in value):
        raise ModelError(
            f"Expected two finite ends in truncation={value!r}, or (-inf, inf) to cut nothing off; "
            "not one of each."
        )
    low, high = (number(end, "each end of truncation") for end in value)
    if not low < high:
        raise ModelError(f"Expected low={low} < high={high} in truncation.")
    return low, high


def cap_of(column: Column, *, whole: bool = False) -> float:
    """The public cap of a column that starts at 0."""
    wanted = f"Integer({column.name!r}, 0, cap)" if whole else f"Real({column.name!r}, 0, cap)"
    kinds: tuple[type, ...] = (Integer,) if whole else (Integer, Real)
    if not isinstance(column, kinds) or column.low != 0 or column.high <= 0:  # type: ignore[union-attr]
        raise ModelError(f"Expected the schema to have {wanted} for this model.")
    return float(column.high)  # type: ignore[union-attr]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
