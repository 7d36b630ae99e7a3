"""General kernels: a table of scores by label, and the numbers of a row themselves."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.example_columns import scaling, some_columns
from tacit.kernels.kernel import Array, Example, Given, RowKernel
from tacit.spec.columns import Integer
from tacit.spec.sums import Bound


@compiled
def scores(row, state, out):
    """Add the scores that a table has for the row's label: one for each option.

    One row contributes a column of the table, as many numbers as there are options; from a table
    of numbers between 0 and c, numbers between 0 and c (a box).
    State: `table` f8[options, labels]; `first` i8[1], the number that stands for the first label
    (the lower bound of an Integer column, else 0). The label's number less `first` is a column of
    the table, since `check` compares both with the column's domain.
    """
    table, first = state
    label = int(row[0]) - first[0]
    for i in range(table.shape[0]):
        out[i] = table[i, label]


@compiled
def values(row, state, out):
    """Add the row's numbers, each shifted and scaled: (x - midpoint) * scale.

    One row contributes a number for each column, each within |scale| times how far the column's
    bounds are from the midpoint.
    State: `midpoint` and `scale` f8[columns]. A row, both arrays and out have one length.
    """
    midpoint, scale = state
    for j in range(midpoint.size):
        out[j] = (row[j] - midpoint[j]) * scale[j]


def at_label_rules(given: Given) -> None:
    """Refuse tables that do not have an entry for every label of the only column."""
    given.expect_columns(1)
    low, high = given.range_of(0, whole=True)
    first, labels = int(given.arrays["first"][0]), given.sizes["labels"]
    given.expect(first <= low, f"first={low} instead of {first}")
    given.expect(high - first < labels, f"{int(high) - first + 1} labels instead of {labels}")


def _scores_rules(given: Given) -> int:
    at_label_rules(given)
    return given.sizes["options"]


def _values_rules(given: Given) -> int:
    given.expect_columns(given.sizes["columns"])
    return given.sizes["columns"]


def _scores_example(rng: np.random.Generator) -> Example:
    low, labels, options = (
        int(rng.integers(-3, 3)),
        int(rng.integers(1, 6)),
        int(rng.integers(1, 9)),
    )
    table = rng.uniform(0, 2, (options, labels))
    state = table, np.array([low], np.int64)
    return Example(
        (Integer("x", low, low + labels - 1),), state, (Bound(options, 2, geometry="box"),)
    )


def _values_example(rng: np.random.Generator) -> Example:
    columns = some_columns(rng, int(rng.integers(1, 6)))
    scalings = [scaling(column) for column in columns]
    midpoint, half = (np.array(part, float) for part in zip(*scalings))
    factor = rng.normal(size=len(columns))
    clip = float(np.linalg.norm(factor)) * (1 + 1e-9)
    return Example(columns, (midpoint, factor / half), (Bound(len(columns), clip),))


KERNELS = (
    RowKernel(
        "columns.values",
        values,
        (Array("midpoint", "f8", ("columns",)), Array("scale", "f8", ("columns",))),
        _values_rules,
        _values_example,
    ),
    RowKernel(
        "table.scores",
        scores,
        (Array("table", "f8", ("options", "labels")), Array("first", "i8", (1,))),
        _scores_rules,
        _scores_example,
    ),
)
