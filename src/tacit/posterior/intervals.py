"""Intervals of draws, of a type and a probability that do not depend on ArviZ."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from tacit.spec.checks import is_number
from tacit.spec.errors import ModelError

Interval = Literal["central", "hdi"]


def tails(level: float) -> list[float]:
    """Return the probabilities below the ends of a central interval."""
    if not is_number(level) or not 0 < level < 1:
        raise ModelError(f"Expected 0 < level={level!r} < 1, such as 0.9.")
    return [(1 - level) / 2, (1 + level) / 2]


def ends_of(draws: np.ndarray, level: float, kind: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of intervals over draws, the first axis."""
    central = tails(level)
    match kind:
        case "central":
            low, high = np.quantile(draws, central, axis=0)
        case "hdi":
            low, high = _narrowest(draws, level)
        case _:
            raise ModelError(f'Expected kind={kind!r} to be "central" or "hdi".')
    return low * spread_known(draws), high * spread_known(draws)


def _narrowest(draws: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the narrowest intervals that hold the share `level` of the draws."""
    ordered = np.sort(draws, axis=0)
    held = min(math.ceil(level * len(ordered)), len(ordered) - 1)
    widths = ordered[held:] - ordered[: len(ordered) - held]
    first = widths.argmin(axis=0)[None]
    low = np.take_along_axis(ordered, first, axis=0)[0]
    return low, np.take_along_axis(ordered, first + held, axis=0)[0]


def spread_known(draws: np.ndarray) -> float:
    """Return one, or not a number: a single draw says nothing of its own error."""
    return 1.0 if len(draws) > 1 else np.nan


def summary_columns(
    mean: Any, sd: Any, low: Any, high: Any, level: float, kind: Interval = "central"
) -> dict[str, np.ndarray]:
    """Return the columns of a summary, by name."""
    which = "hdi_" if kind == "hdi" else ""
    ends = f"{which}{50 - 50 * level:g}%", f"{which}{50 + 50 * level:g}%"
    return {"mean": np.ravel(mean), "sd": np.ravel(sd)} | {
        name: np.ravel(end) for name, end in zip(ends, (low, high), strict=True)
    }
