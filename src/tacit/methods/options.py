"""Options that several methods read in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.spec.errors import ModelError


def whole_number(value: Any, what: str, default: int, *, most: int) -> int:
    """A whole number from 1, or the default."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ModelError(f"Expected {what}={value!r} to be a whole number from 1 to {most}.")
    return value


def refuse_sampling(sampling: Mapping[str, Any], instead: str) -> None:
    """How many draws there are is part of what such a method pays for."""
    for what in ("draws", "chains"):
        if sampling.get(what) is not None:
            raise ModelError(
                f"Expected no {what}=: each draw is paid for, and {instead} says how many."
            )
