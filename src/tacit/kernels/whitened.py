"""Derivatives of a logistic regression in other coordinates of its parameters.

States are those of `tacit.kernels.logistic`, with a basis after theta: the derivatives are those in
the coordinates psi of theta + basis psi. A basis for which records have equal curvature in every
direction makes clips suit and noise fair; what one row adds has no bound but the wall's clip.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import Given, RowKernel
from tacit.kernels.logistic import (
    ENCODING,
    THETA,
    encode,
    multiply,
    probability,
    row_rules,
    write_squares,
)
from tacit.spec.packing import packed_size


@compiled
def _turn(x, basis, z):
    """Write basis' x into z."""
    for i in range(basis.shape[0]):
        if x[i] != 0:  # most levels are not the row's
            for j in range(basis.shape[1]):
                z[j] += basis[i, j] * x[i]


@compiled
def whitened_score(row, state, out):
    """Add (y - P) basis' x, the gradient of the log-likelihood in other coordinates, P = P(y = 1).

    One row contributes p numbers of any sign; their norm is bounded by the wall's clip alone.
    State: theta f8[p], basis f8[p, p], then the encoding. Scratch x, theta and both sides of the
    basis have p numbers; out has at least as many.
    """
    theta, basis = state[0], state[1]
    x = np.zeros(theta.size)
    encode(row, state[2:], x)
    _turn(x, basis, out)
    multiply(out, theta.size, row[state[3].size] - probability(theta, x))


@compiled
def whitened_score_and_hessian(row, state, out):
    """Add (y - P) z, the upper triangle of P (1 - P) z z' / sqrt(p), and 1, where z = basis' x.

    One row contributes p + p (p + 1) / 2 + 1 numbers; the norm of all is at most `clip` if that is
    1.2 or more, and bounded by the wall's clip alone. All but the 1 are times a factor of at most 1
    that does not depend on y: rows are shortened as if they had weights, which moves no estimate.
    State: theta f8[p], basis f8[p, p], clip f8[1], then the encoding. The triangle has
    p (p + 1) / 2 numbers after the first p of out, and the last number of out stands after them.
    """
    theta, basis = state[0], state[1]
    size = theta.size
    x = np.zeros(size)
    encode(row, state[3:], x)
    p = probability(theta, x)
    _turn(x, basis, out)
    square = 0.0
    for i in range(size):
        square += out[i] * out[i]
    curvature, farther = p * (1 - p) / math.sqrt(size), max(p, 1 - p)
    room = max(state[2][0] ** 2 - 1, state[2][0] ** 2 / 4)
    longest = farther**2 * square + (curvature * square) ** 2
    share = math.sqrt(room / max(longest, room))
    write_squares(out, size, share * curvature, out, size)
    multiply(out, size, share * (row[state[4].size] - p))
    out[out.size - 1] = 1.0


@compiled
def whitened_score_and_squares(row, state, out):
    """Add the gradient g of `whitened_score`, and after it the upper triangle of g g'.

    One row contributes p numbers of any sign, and p (p + 1) / 2; their norms are bounded by the
    wall's clips alone. State: as for `whitened_score`; out has p (p + 1) / 2 numbers after p.
    """
    size = state[0].size
    whitened_score(row, state, out)
    write_squares(out, size, 1.0, out, size)


def _basis_rules(given: Given) -> int:
    size = row_rules(given)
    # Of a vector of norm 1 no product is then infinite, and the clip has a number to shorten.
    given.expect(np.abs(given.arrays["basis"]).max() <= 1e50, "a basis of numbers within 1e50")
    return size


def _both_basis_rules(given: Given) -> int:
    size = _basis_rules(given)
    return size + packed_size(size)


def _counted_basis_rules(given: Given) -> int:
    given.expect(given.arrays["clip"].min() > 0, "a clip above 0")
    return _both_basis_rules(given) + 1


_STATE = THETA + "basis f8[parameters, parameters]; "

KERNELS = tuple(
    RowKernel(f"logistic.{name}", function, layout + ENCODING, rules)
    for name, function, layout, rules in (
        ("whitened_score", whitened_score, _STATE, _basis_rules),
        ("whitened_score_and_hessian", whitened_score_and_hessian,
         _STATE + "clip f8[1]; ", _counted_basis_rules),
        ("whitened_score_and_squares", whitened_score_and_squares, _STATE, _both_basis_rules),
    )
)  # fmt: skip
