"""General kernels: a table of scores by label, and the numbers of a row themselves."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import Given, RowKernel


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


def at_label_rules(given: Given) -> int:
    """Refuse tables without an entry for every label of the only column; returns 1."""
    low, high = given.range_of(0, whole=True)
    first, labels = int(given.arrays["first"][0]), given.sizes["labels"]
    given.expect(first <= low, f"first={low} instead of {first}")
    given.expect(high - first < labels, f"{int(high) - first + 1} labels instead of {labels}")
    return given.expect_columns(1)


KERNELS = (
    RowKernel(
        "columns.values",
        values,
        "midpoint f8[columns]; scale f8[columns]",
        lambda given: given.expect_columns(given.sizes["columns"]),
    ),
    RowKernel(
        "table.scores",
        scores,
        "table f8[options, labels]; first i8[1]",
        lambda given: at_label_rules(given) * given.sizes["options"],
    ),
)
