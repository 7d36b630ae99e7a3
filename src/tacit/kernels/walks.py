"""Random walks of one parameter: what one row adds to the log-likelihood ratio of two values.

The ratio is that of the proposed value over the present one. A "two_sided" kernel divides it into
its negative and its positive part, which are the row's scores for staying and for moving.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import RowKernel
from tacit.kernels.tables import at_label_rules


@compiled
def _write(ratio, out):
    """Write the log ratio, or where out has two numbers its negative and its positive part."""
    if out.size == 1:
        out[0] = ratio
    else:
        out[0], out[1] = max(-ratio, 0.0), max(ratio, 0.0)


@compiled
def bernoulli_log_ratio(row, state, out):
    """Add the log ratio of the row's label.

    One row contributes one number of any sign, one of `log_ratio`; two-sided, two numbers, both at
    least 0 and at most max |log_ratio| (a box).
    State: `log_ratio` f8[labels], for each label of the column; `first` i8[1], the number that
    stands for the first label (the lower bound of an Integer column, else 0). The label's number
    less `first` is an index of `log_ratio`, since `check` compares both with the column's domain.
    """
    log_ratio, first = state
    _write(log_ratio[int(row[0]) - first[0]], out)


@compiled
def normal_log_ratio(row, state, out):
    """Add the log ratio of a normal mean with known variance, which is linear in the row's number.

    One row contributes one number of any sign: within |intercept| + |coefficient| * max |x|;
    two-sided, two numbers, both at least 0 and within the same bound (a box).
    State: `line` f8[2], the intercept and the coefficient. A row has one number.
    """
    line = state[0]
    _write(line[0] + line[1] * row[0], out)


_LABELS = "log_ratio f8[labels]; first i8[1]"
_LINE = "line f8[2]"

KERNELS = (
    RowKernel("walk.bernoulli_log_ratio", bernoulli_log_ratio, _LABELS, at_label_rules),
    RowKernel(
        "walk.bernoulli_log_ratio.two_sided",
        bernoulli_log_ratio,
        _LABELS,
        lambda given: 2 * at_label_rules(given),
    ),
    RowKernel(
        "walk.normal_log_ratio", normal_log_ratio, _LINE, lambda given: given.expect_columns(1)
    ),
    RowKernel(
        "walk.normal_log_ratio.two_sided",
        normal_log_ratio,
        _LINE,
        lambda given: 2 * given.expect_columns(1),
    ),
)
