"""The table of a summary, which needs no pandas: its import takes longer than many a fit."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """Numbers in named columns, and a label for each row.

    Labels are in named columns too where there are `names`: then each is a tuple. A number that a
    row lacks is not a number (NaN), an empty cell of a file.
    """

    labels: Sequence[Any]
    columns: Mapping[str, np.ndarray]
    names: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        parts: Sequence[tuple[Sequence[str], Mapping[str, np.ndarray]]],
        attrs: Mapping[str, Any],
    ) -> Table:
        """Return a table of the labels and columns of several, one below the other."""
        known = dict.fromkeys(name for _, columns in parts for name in columns)
        columns = {
            name: np.concatenate([
                np.asarray(part.get(name, np.full(len(labels), np.nan)), float)
                for labels, part in parts
            ])
            for name in known
        }  # fmt: skip
        return cls([label for labels, _ in parts for label in labels], columns, attrs=attrs)

    def rows(self) -> list[tuple[Any, list[float]]]:
        """Return the label and the numbers of each row."""
        numbers = zip(*(column.tolist() for column in self.columns.values()), strict=True)
        return [(label, list(row)) for label, row in zip(self.labels, numbers, strict=True)]

    def frame(self) -> pd.DataFrame:
        """Return a data frame, with the labels as its index."""
        import pandas as pd

        made: Any = pd.MultiIndex.from_tuples(self.labels, names=self.names) if self.names else None
        found = pd.DataFrame(dict(self.columns), index=self.labels if made is None else made)
        found.attrs.update(self.attrs)
        return found

    def to_csv(self, path: Path) -> None:
        """Write the file that pandas would write."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*(self.names or ("",)), *self.columns])
            for label, row in self.rows():
                cells = ("" if np.isnan(value) else repr(value) for value in row)
                writer.writerow([*(label if self.names else (label,)), *cells])
