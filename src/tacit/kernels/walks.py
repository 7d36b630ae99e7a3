"""Random walks of one parameter: what one row adds to the log-likelihood ratio of two values.

The ratio is that of the proposed value over the present one. A "two_sided" kernel divides it into
its negative and its positive part, which are the row's scores for staying and for moving.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.example_columns import labels, numbers, scaling
from tacit.kernels.kernel import Array, Example, Given, RowKernel
from tacit.kernels.tables import at_label_rules
from tacit.spec.sums import Bound


@compiled
def bernoulli_log_ratio(row, state, out):
    """Add the log ratio of the row's label.

    One row contributes one number of any sign, one of `log_ratio`.
    State: `log_ratio` f8[labels], for each label of the column; `first` i8[1], the number that
    stands for the first label (the lower bound of an Integer column, else 0). The label's number
    less `first` is an index of `log_ratio`, since `check` compares both with the column's domain.
    """
    log_ratio, first = state
    out[0] = log_ratio[int(row[0]) - first[0]]


@compiled
def normal_log_ratio(row, state, out):
    """Add the log ratio of a normal mean with known variance, which is linear in the row's number.

    One row contributes one number of any sign: within |intercept| + |coefficient| * max |x|.
    State: `line` f8[2], the intercept and the coefficient. A row and out have one number.
    """
    line = state[0]
    out[0] = line[0] + line[1] * row[0]


@compiled
def _split_signs(out):
    """Write the negative part of out[0] into out[0] and its positive part into out[1]."""
    out[1] = max(out[0], 0.0)
    out[0] = max(-out[0], 0.0)


@compiled
def bernoulli_log_ratio_two_sided(row, state, out):
    """Add the negative and the positive part of the log ratio of the row's label.

    One row contributes two numbers, both at least 0 and at most max |log_ratio| (a box).
    State and indices: as for `bernoulli_log_ratio`; out has two numbers.
    """
    bernoulli_log_ratio(row, state, out)
    _split_signs(out)


@compiled
def normal_log_ratio_two_sided(row, state, out):
    """Add the negative and the positive part of the log ratio of a normal mean.

    One row contributes two numbers, both at least 0 and within the bound of `normal_log_ratio` (a
    box). State: `line` f8[2]. A row has one number and out two.
    """
    normal_log_ratio(row, state, out)
    _split_signs(out)


def _of_label(given: Given) -> int:
    at_label_rules(given)
    return 1


def _of_number(given: Given) -> int:
    given.expect_columns(1)
    return 1


def _bernoulli_example(rng: np.random.Generator) -> Example:
    (column,) = labels(rng, 1)
    log_ratio = rng.normal(size=len(column.levels)) * 10.0 ** rng.integers(-3, 3)
    clip = max(float(np.abs(log_ratio).max()), 1e-9)
    return Example((column,), (log_ratio, np.zeros(1, np.int64)), (Bound(1, clip),))


def _normal_example(rng: np.random.Generator) -> Example:
    (column,) = numbers(rng, 1)
    middle, half = scaling(column)
    largest = abs(middle) + half
    line = rng.normal(size=2)
    clip = float(np.abs(line).sum()) * (1 + 1e-9)
    return Example((column,), (line / [1.0, largest],), (Bound(1, clip),))


def _two_sided(
    one: Callable[[np.random.Generator], Example], number_of: Callable[[Given], int]
) -> tuple[Callable[[Given], int], Callable[[np.random.Generator], Example]]:
    """The rules and the example of a two-sided kernel, from those of the one-sided."""

    def example(rng: np.random.Generator) -> Example:
        made = one(rng)
        (block,) = made.blocks
        return Example(made.columns, made.state, (Bound(2, block.clip, geometry="box"),))

    return (lambda given: 2 * number_of(given)), example


_LABELS = (Array("log_ratio", "f8", ("labels",)), Array("first", "i8", (1,)))
_LINE = (Array("line", "f8", (2,)),)

KERNELS = (
    RowKernel(
        "walk.bernoulli_log_ratio", bernoulli_log_ratio, _LABELS, _of_label, _bernoulli_example
    ),
    RowKernel(
        "walk.bernoulli_log_ratio.two_sided",
        bernoulli_log_ratio_two_sided,
        _LABELS,
        *_two_sided(_bernoulli_example, _of_label),
    ),
    RowKernel("walk.normal_log_ratio", normal_log_ratio, _LINE, _of_number, _normal_example),
    RowKernel(
        "walk.normal_log_ratio.two_sided",
        normal_log_ratio_two_sided,
        _LINE,
        *_two_sided(_normal_example, _of_number),
    ),
)
