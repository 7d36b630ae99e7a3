"""Classes of rows that one already has: how cells are read, and what posteriors predict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tacit.posterior.base import Posterior, column_of
from tacit.posterior.intervals import tails
from tacit.spec.columns import Categorical, Column
from tacit.spec.errors import InferenceWarning, ModelError


class ClassPosterior(Posterior):
    """A posterior whose draws give probabilities of classes to rows.

    The classes are those of the model's target, or of `target`, which a model without one needs.
    """

    @property
    def classes(self) -> tuple[Any, ...]:
        return self._classes(self._target(None))

    def predict(self, table: Mapping[str, Any], target: str | None = None) -> np.ndarray:
        """Return the most probable class of each row of a table that you already have."""
        best = self.predict_proba(table, target).argmax(axis=1)
        return np.array(self._classes(self._target(target)))[best]

    def predict_proba(self, table: Mapping[str, Any], target: str | None = None) -> np.ndarray:
        """Return the mean probability over draws of each class, shape (row, class)."""
        name = self._target(target)
        parts = [p.mean(axis=0) for p in self._probabilities(table, name)]
        return np.concatenate([np.zeros((0, len(self._classes(name)))), *parts])

    def predict_interval(
        self, table: Mapping[str, Any], level: float = 0.9, target: str | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the credible interval of each class's probability, (row, class)."""
        name, ends = self._target(target), tails(level)
        parts = [np.quantile(p, ends, axis=0) for p in self._probabilities(table, name)]
        found = np.concatenate([np.zeros((2, 0, len(self._classes(name)))), *parts], axis=1)
        return found[0], found[1]

    def _target(self, target: str | None) -> str:
        """Return the name of what is predicted; refuse anything but the model's own target."""
        mine = str(self.model["target"])
        if target not in (None, mine):
            raise ModelError(f"Expected target={mine!r} or none, got {target!r}.")
        return mine

    def _classes(self, target: str) -> tuple[Any, ...]:
        return self.coords[target]

    def _probabilities(self, table: Mapping[str, Any], target: str) -> Iterator[np.ndarray]:
        """Yield the classes' probabilities, shape (draw, row, class), in chunks of rows."""
        raise NotImplementedError


def codes_of(table: Mapping[str, Any], column: Column) -> np.ndarray:
    """Return the index of each cell among the column's labels, -1 where it has none.

    Cells are read like private data: a value outside the public domain is missing, or the
    column's default where it has one.
    """
    cells = np.asarray(column_of(table, column.name), dtype=object).ravel()
    numbers = not isinstance(column.labels[0], str)
    known = {_text(label, numbers): code for code, label in enumerate(column.labels)}
    other = -1 if column.default is None else column.labels.index(column.default)
    texts = [_text(cell, numbers) for cell in cells]
    strange = [str(cell) for cell, text in zip(cells, texts) if text and text not in known]
    if strange:
        counted = "missing" if column.default is None else f"the default {column.default!r}"
        warnings.warn(
            f"{len(strange)} cells of {column.name!r} are none of its levels, such as "
            f"{strange[0][:40]!r}: they count as {counted}.",
            InferenceWarning,
            stacklevel=2,
        )
    return np.array([known.get(text, other) for text in texts], dtype=np.int64)


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
