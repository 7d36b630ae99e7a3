"""Chains over parameters: log-likelihoods at several points, as polynomials of the row's number.

A "lifted" kernel takes the least of its numbers away, so that a row has a score from 0 up for each
of them.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import RowKernel


@compiled
def quadratics(row, state, out):
    """Add the values of polynomials of degree two at the row's number.

    One row contributes a number of any sign for each polynomial.
    State: `polynomials` f8[options, 3], intercept, slope and the coefficient of the square. A row
    has one number, and out one for each polynomial.
    """
    polynomials = state[0]
    x = row[0]
    for i in range(polynomials.shape[0]):
        out[i] = polynomials[i, 0] + x * (polynomials[i, 1] + x * polynomials[i, 2])


@compiled
def quadratics_lifted(row, state, out):
    """Add how far the values of polynomials at the row's number exceed the least of them.

    One row contributes numbers from 0 up (a box), one for each polynomial. State: as for
    `quadratics`.
    """
    quadratics(row, state, out)
    least = out[0]
    for i in range(1, state[0].shape[0]):
        least = min(least, out[i])
    for i in range(state[0].shape[0]):
        out[i] -= least


_POLYNOMIALS = "polynomials f8[options, 3]"

KERNELS = (
    RowKernel(
        "walk.quadratics",
        quadratics,
        _POLYNOMIALS,
        lambda given: given.expect_columns(1) * given.sizes["options"],
    ),
    RowKernel(
        "walk.quadratics.lifted",
        quadratics_lifted,
        _POLYNOMIALS,
        lambda given: given.expect_columns(1) * given.sizes["options"],
    ),
)
