"""Moments of numeric columns: how many rows, their sums, and the sums of their products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from tacit.spec.checks import distinct_columns, is_number, one_of, set_fields
from tacit.spec.columns import Categorical, Column, Integer, Real
from tacit.spec.errors import QueryError
from tacit.spec.schema import Schema
from tacit.spec.wire import Record

ROWS = "rows"
_MOST_COLUMNS = 100


@dataclass(frozen=True)
class Moments(Record):
    """How many rows have a value in all of `columns`, their sums, and sums of products.

    Each column is scaled by its public bounds to [-1, 1]: u = (x - middle) / half. Every moment is
    a block of one number: "rows", "bmi", "bmi*bmi", "bmi*age". A row with a missing value in any
    of the columns adds nothing. Where the number of complete rows is public, "rows" is left out.

    Parameters
    ----------
    columns
        Real, Integer or two-level Categorical columns (which count as 0 and 1).
    degree
        1 for sums alone, 2 for products as well.
    split
        How noisy the number of rows, a sum and a product are, relative to each other, such as
        (1, 1, 1). Default: so that mean and standard deviation are known best.
    centred
        If not, u = x / (the larger bound in size): sums of x itself, as others release them.

    Examples
    --------
    >>> Moments(["age", "bmi"]).names
    ('rows', 'age', 'bmi', 'age*age', 'age*bmi', 'bmi*bmi')
    """

    columns: tuple[str, ...]
    degree: int = 2
    split: tuple[float, float, float] | None = None
    centred: bool = True

    def __post_init__(self) -> None:
        columns = distinct_columns(self.columns)
        if len(columns) > _MOST_COLUMNS:
            raise QueryError(f"Expected at most {_MOST_COLUMNS} columns, got {len(columns)}.")
        if isinstance(self.degree, bool) or self.degree not in (1, 2):
            raise QueryError(f"Expected degree={self.degree!r} to be 1 (sums) or 2 (products too).")
        one_of(self.centred, "centred", (True, False))
        split = None if self.split is None else _ratios(self.split)
        set_fields(self, columns=columns, degree=int(self.degree), split=split)
        if len(set(self.names)) < len(self.names):
            raise QueryError(
                f"Expected columns whose moments have names of their own, got {columns}: rename "
                'the one that is called "rows" or like a product.'
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The moments in order, with the number of rows first."""
        products = combinations_with_replacement(self.columns, 2) if self.degree == 2 else ()
        return (ROWS, *self.columns, *(f"{a}*{b}" for a, b in products))

    def rows_are_public(self, schema: Schema) -> bool:
        """Whether each of the n units has exactly one complete row, and n is public."""
        return (
            schema.neighbours == "replace_one"
            and schema.max_rows_per_unit == 1
            and all(schema[name].default is not None for name in self.columns)
        )


def bounds_of(column: Column) -> tuple[float, float]:
    """The public bounds that scale a column to [-1, 1]."""
    match column:
        case Real(low=low, high=high):
            return low, high
        case Integer(low=low, high=high) if low < high:
            return float(low), float(high)
        case Categorical(levels=(_, _)):
            return 0.0, 1.0
        case _:
            raise QueryError(
                f"Expected column {column.name!r} to be Real or Integer with low < high, or "
                "Categorical with two levels, to take its moments."
            )


def scale_of(column: Column, centred: bool = True) -> tuple[float, float]:
    """The middle and half the width of a column's bounds: x = middle + half * u."""
    low, high = bounds_of(column)
    if not centred:
        return 0.0, max(abs(low), abs(high))
    half = high / 2 - low / 2
    if not half > 0 or math.isinf(1 / half):  # tiny numbers that cannot be halved or divided by
        raise QueryError(f"Expected bounds of column {column.name!r} further apart.")
    return low / 2 + high / 2, half


def _ratios(split: Any) -> tuple[float, float, float]:
    three = isinstance(split, (tuple, list)) and len(split) == 3
    if not three or not all(is_number(r) and r > 0 for r in split):
        raise QueryError(
            "Expected split=(rows, sum, product), three positive numbers that say how noisy each "
            f"is relative to the others, got {split!r}."
        )
    if max(split) > 1e6 * min(split):
        raise QueryError(f"Expected ratios up to a million in split={split!r}.")
    return tuple(float(r) / max(split) for r in split)
