"""Logistic regression: what one row adds to the log-likelihood and its derivatives.

A row holds the features and then the target, 0 or 1. Every state ends with the encoding of a
`tacit.spec.design.Design` of p parameters and q features, by which a row becomes a vector x of
p numbers; for every `Design` the norm of x is at most 1.

- `base` f8[p]: x before any feature is added;
- `position` i8[q]: where in x a feature begins;
- `levels` i8[q]: how many levels a feature has, or 0 for a number;
- `midpoint`, `scale` f8[q]: a number v adds (v - midpoint) * scale at `position`; level v adds
  `scale` at `position` + v.

Upper triangles of a matrix x x' are written row by row, entries off the diagonal times the root of
2, so that the norm of the vector is the Frobenius norm of the matrix.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from tacit.kernels.compiling import compiled, reassociated, uncounted
from tacit.kernels.kernel import Given, RowKernel
from tacit.spec.packing import packed_size

_ROOT = math.sqrt(2.0)


@uncounted
def encode(row, encoding, x):
    """Write the vector of a row into x, without its target."""
    base, position, levels, midpoint, scale = encoding
    for j in range(base.size):
        x[j] = base[j]
    others = 0
    for f in range(position.size):
        others += (levels[f] > 0) | (position[f] != f + 1)
    if others == 0:  # numbers alone, side by side: in vector lanes
        for f in range(position.size):
            x[f + 1] += (row[f] - midpoint[f]) * scale[f]
        return
    for f in range(position.size):
        if levels[f] > 0:
            x[position[f] + int(row[f])] += scale[f]
        else:
            x[position[f]] += (row[f] - midpoint[f]) * scale[f]


@reassociated
def _log_odds(theta, x):
    total = 0.0
    for j in range(theta.size):
        total += theta[j] * x[j]
    return total


@uncounted
def probability(theta, x):
    return 1 / (1 + math.exp(-_log_odds(theta, x)))


@uncounted
def multiply(x, size, factor):
    for j in range(size):
        x[j] *= factor


@uncounted
def write_squares(x, size, weight, out, start):
    """Write weight * x x', packed as in `tacit.spec.packing`, from out[start] on."""
    for i in range(size):
        factor = weight * x[i]
        if factor != 0:  # most levels are not the row's
            out[start] = factor * x[i]
            for j in range(i + 1, size):
                out[start + j - i] = factor * _ROOT * x[j]
        start += size - i


@compiled
def expected_polya_gamma(square):
    """E[PG(1, c)] for c^2 = square, between 0 and 1/4: tanh(c / 2) / (2 c)."""
    odds = math.sqrt(max(square, 0.0))
    return 0.25 if odds < 1e-4 else math.tanh(odds / 2) / (2 * odds)


@uncounted
def gradient_constant(row, state, out):
    """Add (y - 1/2) x, the part of the gradient that does not depend on the coefficients.

    One row contributes p numbers of any sign, of norm at most 1/2.
    State: the encoding. Indices stay within x since `row_rules` bounds position + levels by p and
    the labels of each column by its levels.
    """
    encode(row, state, out)
    multiply(out, out.size, row[state[1].size] - 0.5)


@uncounted
def gradient_varying(row, state, out):
    """Add (P - 1/2) x, the part of the negative gradient that depends on theta, P = P(y = 1 | x).

    One row contributes p numbers of any sign, of norm at most 1/2. Where out goes on, as for
    `gradient_and_hessian`, the upper triangle of 2 P (1 - P) x x' follows, and all of the
    p + p (p + 1) / 2 numbers together are of norm at most 1/2: twice the Hessian is the largest
    multiple for which this is so.
    State: theta f8[p], then the encoding. Indices stay within x and theta, which have p numbers, as
    for `gradient_constant`; out has p, or p (p + 1) / 2 more for the triangle.
    """
    theta = state[0]
    encode(row, state[1:], out)
    p = probability(theta, out)
    if out.size > theta.size:
        write_squares(out, theta.size, 2.0 * p * (1 - p), out, theta.size)
    multiply(out, theta.size, p - 0.5)


@compiled
def polya_gamma_squares(row, state, out):
    """Add the upper triangle of w x x' with the expected Polya-Gamma weight w <= 1/4 of the row.

    One row contributes p (p + 1) / 2 numbers of any sign, of norm at most 1/4.
    State: `moments` f8[p (p + 1) / 2], the upper triangle of E[theta theta'], then the encoding.
    Scratch x has p numbers; `moments` and out both have p (p + 1) / 2.
    """
    moments = state[0]
    size = state[1].size
    x = np.zeros(size)
    encode(row, state[1:], x)
    write_squares(x, size, 1.0, out, 0)
    square = 0.0
    for i in range(moments.size):
        square += moments[i] * out[i]
    multiply(out, out.size, expected_polya_gamma(square))


@uncounted
def score(row, state, out):
    """Add g = (y - P(y = 1 | x, theta)) x, the gradient of the log-likelihood.

    One row contributes p numbers of any sign, of norm at most 1. Where out goes on, as for
    `score_and_squares`, the upper triangle of g g' follows: p (p + 1) / 2 numbers of norm at most
    1. State: theta f8[p], then the encoding. Indices stay within x and theta, which have p numbers,
    as for `gradient_constant`; out has p, or p (p + 1) / 2 more for the triangle.
    """
    encode(row, state[1:], out)
    size = state[0].size
    multiply(out, size, row[state[2].size] - probability(state[0], out))
    if out.size > size:
        write_squares(out, size, 1.0, out, size)


@compiled
def log_likelihood(row, state, out):
    """Add log P(y | x, theta), at most 0.

    One row contributes one number between -log(2) - |theta| and 0.
    State: theta f8[p], then the encoding. Scratch x and theta have p numbers; out has one.
    """
    out[0] = _log_likelihood(row, state[0], state[1:])


@compiled
def _log_likelihood(row, theta, encoding):
    x = np.zeros(theta.size)
    encode(row, encoding, x)
    wrong = _log_odds(theta, x) * (1 - 2 * row[encoding[1].size])
    return -(max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong))))


@compiled
def log_likelihood_at_points(row, state, out):
    """Add the log-likelihood at each of m points, less the largest of them, plus the width.

    One row contributes m numbers, each cut to between 0 and the width (a box): the row's best point
    has the width, and NaN counts as 0.
    State: points f8[m, p], width f8[1], then the encoding. out has m numbers, one for each point.
    """
    points, width = state[0], state[1]
    best = -np.inf
    for j in range(points.shape[0]):
        out[j] = _log_likelihood(row, points[j], state[2:])
        if out[j] > best:  # noqa: PLR1730 - max may return NaN
            best = out[j]
    for j in range(points.shape[0]):
        above = out[j] - best + width[0]
        out[j] = above if above > 0 else 0.0


@compiled
def log_likelihood_centred(row, state, out):
    """Add the log-likelihood at theta, less that at the centre, plus the lift.

    One row contributes one number, cut to between 0 and the width (a box); NaN counts as 0.
    State: theta f8[p], centre f8[p], (lift, width) f8[2], then the encoding. out has one number.
    """
    theta, centre, limits = state[0], state[1], state[2]
    here = _log_likelihood(row, theta, state[3:])
    above = here - _log_likelihood(row, centre, state[3:]) + limits[0]
    out[0] = min(above, limits[1]) if above > 0 else 0.0


def row_rules(given: Given) -> int:
    """Refuse encodings that would write outside x, or read a column that is not there."""
    size, features = given.sizes["parameters"], given.sizes["features"]
    given.expect_columns(features + 1)
    position, levels = given.arrays["position"], given.arrays["levels"]
    given.expect(levels.min() >= 0 and levels.max() <= size, f"levels from 0 to {size}")
    inside = (position >= 0) & (position <= size - np.maximum(levels, 1))
    given.expect(inside.all(), f"position + levels at most {size}")
    for f in np.flatnonzero(levels):
        low, high = given.range_of(int(f), whole=True)
        given.expect(low >= 0 and high < levels[f], f"{high + 1} levels for column {f}")
    low, high = given.range_of(features)
    given.expect(low >= 0 and high <= 1, "a target of two levels as the last column")
    return size


def _squares_rules(given: Given) -> int:
    numbers = packed_size(row_rules(given))
    given.expect(given.sizes["squares"] == numbers, f"moments of {numbers} numbers")
    return numbers


def _both_rules(given: Given) -> int:
    size = row_rules(given)
    return size + packed_size(size)


def _value_rules(given: Given) -> int:
    row_rules(given)
    return given.sizes.get("points", 1)


ENCODING = (
    "base f8[parameters]; position i8[features]; levels i8[features]; "
    "midpoint f8[features]; scale f8[features]"
)
THETA = "theta f8[parameters]; "

KERNELS = tuple(
    RowKernel(f"logistic.{name}", function, layout + ENCODING, rules)
    for name, function, layout, rules in (
        ("gradient_constant", gradient_constant, "", row_rules),
        ("gradient_varying", gradient_varying, THETA, row_rules),
        ("gradient_and_hessian", gradient_varying, THETA, _both_rules),
        ("polya_gamma_squares", polya_gamma_squares, "moments f8[squares]; ", _squares_rules),
        ("score", score, THETA, row_rules),
        ("score_and_squares", score, THETA, _both_rules),
        ("log_likelihood", log_likelihood, THETA, _value_rules),
        ("log_likelihood.at_points", log_likelihood_at_points,
         "points f8[points, parameters]; width f8[1]; ", _value_rules),
        ("log_likelihood.centred", log_likelihood_centred,
         f"{THETA}centre f8[parameters]; limits f8[2]; ", _value_rules),
    )
)  # fmt: skip
