"""Checks that several queries share: each returns what is kept, or refuses in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.spec.errors import ModelError, QueryError


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


def whole_number(value: Any, what: str, default: int, *, most: int) -> int:
    """A whole number from 1, or the default."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ModelError(f"Expected {what}={value!r} to be a whole number from 1 to {most}.")
    return value
