"""Cells of a table that the analyst has, encoded like private data: indices of public labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.posterior.base import column_of
from tacit.spec.columns import Categorical, Column
from tacit.spec.errors import ModelError


def codes_of(table: Mapping[str, Any], column: Column) -> np.ndarray:
    """Return the index of each cell among the column's labels, -1 where it has none.

    Cells are read like private data: a value outside the public domain is missing, or the
    column's default where it has one.
    """
    cells = np.asarray(column_of(table, column.name), dtype=object).ravel()
    numbers = not isinstance(column.labels[0], str)
    known = {_text(label, numbers): code for code, label in enumerate(column.labels)}
    other = -1 if column.default is None else column.labels.index(column.default)
    return np.array([known.get(_text(cell, numbers), other) for cell in cells], dtype=np.int64)


def values_of(table: Mapping[str, Any], column: Any) -> np.ndarray:
    """Return a column of a table as floats: clipped numbers, or indices of levels."""
    if isinstance(column, Categorical):
        codes = codes_of(table, column)
        if np.any(codes < 0):
            unknown = np.asarray(column_of(table, column.name), dtype=object).ravel()[codes < 0][0]
            raise ModelError(
                f"Expected a level of {column.name!r} in each row of the table, got {unknown!r}."
            )
        return codes.astype(float)
    cells = np.asarray(column_of(table, column.name), float).ravel()
    if column.default is not None:
        cells = np.where(np.isfinite(cells), cells, float(column.default))
    if not np.all(np.isfinite(cells)):
        raise ModelError(f"Expected a number in each row of {column.name!r} in the table.")
    return np.clip(cells, column.low, column.high)


def _text(cell: Any, numbers: bool) -> str | None:
    """Return a cell as text; if labels are numbers, equal integers of all types give equal text."""
    if cell is None:
        return None
    if hasattr(cell, "isoformat"):
        return str(cell.isoformat())[:10]
    if isinstance(cell, (bool, np.bool_)):
        return str(bool(cell)).lower() if numbers else str(bool(cell))
    if isinstance(cell, str) and not numbers:
        return cell.strip()
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return str(cell).strip().lower()
    if number != number:  # noqa: PLR0124 - NaN
        return None
    return str(int(number)) if number.is_integer() else str(number)
