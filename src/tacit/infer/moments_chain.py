"""A Markov chain of moments: slice sampling of entries and of moves of all rows, compiled.

Slice sampling entry by entry needs no step sizes, and a determinant is a quadratic in one entry.
Where the noise is so wide that the entries hold each other fast, moves of the rows themselves
(shifting, scaling and shearing their values) change many entries at once. Along such a move, too,
every determinant is a quadratic: with inverses at hand a density costs a few logarithms, and no
factorisation. Only moves of the number of rows need one.

What stays the same is a tuple `given`: noisy moments, scales of the noise, whether it is Laplace,
whether the number of rows is secret, then of each determinant its shift, size and power, facts for
f(n) and limits of n. What moves is `state`: the matrix, inverses, log determinants, and space.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.compile_cache import cached
from tacit.infer.latent_counts import MISSING, ROWS

_WIDE = 2.5  # a slice's first interval, in typical moves
_STEPS = 100  # of a slice's interval, at most
_SHEAR, _STRETCH, _CORNER, _NUMBER = range(4)  # what moves; there are three moves of a number
ZERO = np.int64(0)  # a literal 0 is a type of its own, for which Numba compiles all calls again
_compiled = cached(nogil=True, error_model="numpy")


@_compiled
def _lgamma_d(x, d):  # type: ignore[no-untyped-def]
    """log of the multivariate gamma function, up to a constant."""
    total = 0.0
    for j in range(d):
        total += math.lgamma(x - 0.5 * j)
    return total


@_compiled
def _log_rows(n, facts, limits):  # type: ignore[no-untyped-def]
    """Return log f(n) plus the log of a weak prior of n (docs/adr/0002)."""
    d, kappa, nu, shape = int(facts[0]), facts[1], facts[2], facts[3]
    log = -0.5 * (n - 2) * np.log(n) + 0.5 * (nu + n - d) * np.log(kappa + n)
    log += _lgamma_d(0.5 * (nu + n), d) - _lgamma_d(0.5 * (n - 1), d)
    if shape > 0:
        log += math.lgamma(shape + 0.5 * n) - math.lgamma(0.5 * (n - d - 1))
    log += math.lgamma(n + ROWS) - math.lgamma(n + 1.0)
    if limits[2] >= 0:
        lost = max(limits[2] - n, 0.0)
        log += math.lgamma(lost + MISSING) - math.lgamma(lost + 1.0)
    return log


@_compiled
def _noise(error, scale, heavy):  # type: ignore[no-untyped-def]
    return -abs(error) / scale if heavy else -0.5 * (error / scale) ** 2


@_compiled
def _factorised(matrix, shift, size, lower):  # type: ignore[no-untyped-def]
    """The log determinant of a leading block of M + shift, -inf if it is not positive.

    Leaves its Cholesky root below the diagonal of `lower`, one over it on the diagonal.
    """
    log, product = 0.0, 1.0
    for j in range(size):
        for i in range(j, size):
            left = matrix[i, j] + shift[i, j]
            for k in range(j):
                left -= lower[i, k] * lower[j, k]
            lower[i, j] = left
        left = lower[j, j]
        if not left > 1e-13 * (matrix[j, j] + shift[j, j]):
            return -np.inf
        lower[j, j] = 1 / np.sqrt(left)
        for i in range(j + 1, size):
            lower[i, j] *= lower[j, j]
        product *= left
        if j % 8 == 7 or j == size - 1:  # few logarithms, and no overflow
            log += np.log(product)
            product = 1.0
    return log


@_compiled
def _inverted(lower, size, inverse):  # type: ignore[no-untyped-def]
    """The inverse of what was factorised: the root is inverted in place, then squared."""
    for j in range(size):
        for i in range(j + 1, size):
            entry = 0.0
            for k in range(j, i):
                entry -= lower[i, k] * lower[k, j]
            lower[i, j] = entry * lower[i, i]
    for i in range(size):
        for j in range(i + 1):
            entry = 0.0
            for k in range(i, size):
                entry += lower[k, i] * lower[k, j]
            inverse[i, j] = inverse[j, i] = entry


@_compiled
def _refactored(state, given):  # type: ignore[no-untyped-def]
    """All inverses and log determinants from scratch: updates would lose digits in time."""
    matrix, inverses, logs, _, (scratch, _) = state
    shifts, sizes = given[4], given[5]
    for k in range(len(sizes)):
        log = _factorised(matrix, shifts[k], sizes[k], scratch)
        if log > -np.inf:  # else too near to singular: what the updates left is better
            logs[k] = log
            _inverted(scratch, sizes[k], inverses[k])


@_compiled
def _updated(inverses, k, size, x, z, step, a, p, gap):  # type: ignore[no-untyped-def]
    """The inverse P of A after v w' + w v' + c v v' were added to A.

    x = P v, z = P w / step, p = v' P v, a = v' P w / step, gap = w' P w - c; the determinant grows
    by (1 + step a)^2 - p gap.
    """
    growth = (1 + step * a) ** 2 - p * gap
    xx, xz, zz = gap / growth, -step * (1 + step * a) / growth, p * step * step / growth
    for b in range(size):
        left, right = xx * x[b] + xz * z[b], xz * x[b] + zz * z[b]
        for c in range(size):
            inverses[k, b, c] += left * x[c] + right * z[c]
    return growth


@_compiled
def _log_all(matrix, given, scratch):  # type: ignore[no-untyped-def]
    """The log density of a matrix, from scratch; -inf outside what data can be."""
    seen, scale, heavy, _, shifts, sizes, powers, facts, limits = given
    size, n = matrix.shape[0], matrix[0, 0]
    if not limits[0] <= n <= limits[1]:
        return -np.inf
    for i in range(1, size):
        if matrix[i, i] > n:
            return -np.inf
    log = _log_rows(n, facts, limits)
    for k in range(len(sizes)):
        part = _factorised(matrix, shifts[k], sizes[k], scratch)
        if part == -np.inf:
            return -np.inf
        log += (powers[k, 0] + powers[k, 1] * n) * part
    for i in range(size):
        for j in range(i, size):
            log += _noise(seen[i, j] - matrix[i, j], scale[i, j], heavy)
    return log


@_compiled
def _log_at(t, what, factors, last, state, given):  # type: ignore[no-untyped-def]
    """The log density where a move by t leads, with the Jacobian of the move, up to a constant.

    Rows of `line`: a power, and what a determinant grows by, as a quadratic; then errors, as
    quadratics too. If the number of rows itself moves, so do the powers.
    """
    if what >= _NUMBER:
        return _log_times(t, what - _NUMBER, state, given)
    line, heavy, facts, limits = state[3], given[2], given[7], given[8]
    log, step = 0.0, t
    if what == _STRETCH:
        log, step = (last - factors + 1) * t, math.expm1(t)
    if what == _CORNER:
        log = _log_rows(line[last, 0] + t, facts, limits) + line[last, 1] * t
    for k in range(factors):
        quadratic = 0.0 if what == _CORNER else line[k, 2]
        power = line[k, 0] + (t * line[k, 2] if what == _CORNER else 0.0)
        growth = 1 + step * (line[k, 1] + step * quadratic)
        if not growth > 0:
            return -np.inf
        log += power * np.log(growth)
    for k in range(factors, last):
        log += _noise(line[k, 0] - step * (line[k, 1] + step * line[k, 2]), 1.0, heavy)
    return log


@_compiled
def _slice(what, width, low, high, factors, last, state, given):  # type: ignore[no-untyped-def]
    """Return a slice-sampled step between low and high."""
    level = _log_at(0.0, what, factors, last, state, given) - np.random.exponential(1.0)
    left = -width * np.random.random()
    right = left + width
    steps = np.random.randint(_STEPS)  # how far to either side is random, for detailed balance
    others = _STEPS - 1 - steps
    while steps > 0 and left > low:
        if _log_at(left, what, factors, last, state, given) < level:
            break
        left -= width
        steps -= 1
    while others > 0 and right < high:
        if _log_at(right, what, factors, last, state, given) < level:
            break
        right += width
        others -= 1
    left, right = max(left, low), min(right, high)
    for _ in range(200):
        t = left + (right - left) * np.random.random()
        if _log_at(t, what, factors, last, state, given) > level:
            return t
        if t < 0:
            left = t
        else:
            right = t
    return 0.0


@_compiled
def _room(matrix, i, j, inverse, limits):  # type: ignore[no-untyped-def]
    """The changes of an entry that keep the matrix positive and within the bounds of the data."""
    n, here = matrix[0, 0], matrix[i, j]
    if i == j:
        low = -1 / inverse[i, i]
        if i > 0:
            return low, n - here
        low, high = max(low, limits[0] - n), limits[1] - n
        for a in range(1, matrix.shape[0]):
            low = max(low, max(matrix[a, a], abs(matrix[0, a])) - n)
        return low, high
    root = np.sqrt(inverse[i, i] * inverse[j, j])
    low, high = -1 / (root + inverse[i, j]), 1 / (root - inverse[i, j])
    if i == 0:
        low, high = max(low, -n - here), min(high, n - here)
    return low, high


@_compiled
def _move_entry(i, j, width, state, given):  # type: ignore[no-untyped-def]
    """Slice-sample one entry, given all others."""
    matrix, inverses, logs, line, (scratch, _) = state
    seen, scale, _, _, _, sizes, powers, _, limits = given
    low, high = _room(matrix, i, j, inverses[0], limits)
    corner, factors, log_rate = i + j == 0, ZERO, 0.0
    for k in range(len(sizes)):
        if j < sizes[k]:
            one, other, both = inverses[k, i, i], inverses[k, j, j], inverses[k, i, j]
            line[factors, 0] = powers[k, 0] + powers[k, 1] * matrix[0, 0]
            line[factors, 1] = one if i == j else 2 * both
            line[factors, 2] = 0.0 if i == j else both * both - one * other
            if corner:
                line[factors, 2] = powers[k, 1]
                log_rate += powers[k, 1] * logs[k]
            factors += 1
    line[factors, 0] = (seen[i, j] - matrix[i, j]) / scale[i, j]
    line[factors, 1] = 1 / scale[i, j]
    line[factors, 2] = 0.0
    line[factors + 1, 0], line[factors + 1, 1] = matrix[0, 0], log_rate
    what = _CORNER if corner else _SHEAR
    t = _slice(what, width, low, high, factors, factors + 1, state, given)
    if t == 0.0:
        return t
    x, z = scratch[0], scratch[1]
    for k in range(len(sizes)):
        if j < sizes[k]:
            for a in range(sizes[k]):
                x[a], z[a] = inverses[k, a, i], 0.0 if i == j else inverses[k, a, j]
            gap = -t if i == j else t * t * z[j]
            logs[k] += np.log(_updated(inverses, k, sizes[k], x, z, t, z[i], x[i], gap))
    matrix[i, j] += t
    matrix[j, i] = matrix[i, j]
    return t


@_compiled
def _move_rows(i, j, width, state, given):  # type: ignore[no-untyped-def]
    """Slice-sample a move of all rows: u_i grows by t u_j (or by t, if j = 0), or e^t-fold (j = i).

    With w = column j of M the move adds t (e_i w' + w e_i') + t^2 w_j e_i e_i'.
    """
    matrix, inverses, _, line, (scratch, _) = state
    seen, scale, _, _, _, sizes, powers, _, _ = given
    size, n, square = matrix.shape[0], matrix[0, 0], matrix[j, j]
    factors, x, z = ZERO, scratch[0], scratch[1]
    for k in range(len(sizes)):
        if i < sizes[k]:
            within = _times_column(inverses, k, sizes[k], matrix, j, z)
            line[factors, 0] = powers[k, 0] + powers[k, 1] * n
            line[factors, 1] = 2 * z[i]
            line[factors, 2] = z[i] ** 2 + inverses[k, i, i] * (square - within)
            factors += 1
    for a in range(size):
        line[factors + a, 0] = (seen[i, a] - matrix[i, a]) / scale[i, a]
        line[factors + a, 1] = (2.0 if a == i else 1.0) * matrix[j, a] / scale[i, a]
        line[factors + a, 2] = square / scale[i, a] if a == i else 0.0
    if i == j:  # no square beyond n
        what, low, high = _STRETCH, -np.inf, 0.5 * np.log(n / square)
    else:
        root = np.sqrt(matrix[i, j] ** 2 + square * max(n - matrix[i, i], 0.0))
        what, low, high = _SHEAR, (-matrix[i, j] - root) / square, (-matrix[i, j] + root) / square
    t = _slice(what, width, low, high, factors, factors + size, state, given)
    step = math.expm1(t) if i == j else t
    for k in range(len(sizes)):
        if i < sizes[k]:
            within = _times_column(inverses, k, sizes[k], matrix, j, z)
            for b in range(sizes[k]):
                x[b] = inverses[k, b, i]
            gap = step * step * (within - square)
            _updated(inverses, k, sizes[k], x, z, step, z[i], x[i], gap)
    for a in range(size):
        matrix[i, a] += step * matrix[j, a]
    for a in range(size):
        matrix[a, i] += step * matrix[a, j]
    return t


@_compiled
def _times_column(inverses, k, size, matrix, j, z):  # type: ignore[no-untyped-def]
    """z = P w and w' P w, w being a column of the matrix."""
    within = 0.0
    for b in range(size):
        entry = 0.0
        for c in range(size):
            entry += inverses[k, b, c] * matrix[c, j]
        z[b] = entry
        within += entry * matrix[b, j]
    if k == 0:  # its shift is 0: exactly, whatever the inverse has lost
        for b in range(size):
            z[b] = 1.0 if b == j else 0.0
        within = matrix[j, j]
    return within


@_compiled
def _log_times(t, move, state, given):  # type: ignore[no-untyped-def]
    """Take e^t times the rows, and return the log density there with the move's Jacobian.

    move 0: their values stay; 1: they grow e^(-t/2)-fold, and the products stay; 2: they shift,
    and the sums stay. Leaves the matrix in the state's space.
    """
    matrix, _, _, _, (out, scratch) = state
    size, times, root = matrix.shape[0], math.exp(t), math.exp(0.5 * t)
    entries = 0.5 * size * (size + 1)
    out[0, 0] = matrix[0, 0] * times
    for a in range(1, size):
        sums = times if move == 0 else (root if move == 1 else 1.0)
        out[0, a] = out[a, 0] = matrix[0, a] * sums
        for b in range(1, size):
            out[a, b] = matrix[a, b]
            if move != 1:
                out[a, b] *= times
            if move == 2:
                out[a, b] += matrix[0, a] * matrix[0, b] / matrix[0, 0] * (1 / times - times)
    jacobian = (entries, 0.5 * (size + 1), entries - (size - 1))[move]
    return jacobian * t + _log_all(out, given, scratch)


@_compiled
def _move_number(move, width, state, given):  # type: ignore[no-untyped-def]
    """Slice-sample a move of the number of rows."""
    t = _slice(_NUMBER + move, width, -np.inf, np.inf, ZERO, ZERO, state, given)
    if t != 0.0:
        matrix, _, _, _, (out, _) = state
        matrix[:] = out
    return t


@_compiled
def run(state, widths, given, kept, warm_up, seed):  # type: ignore[no-untyped-def]
    """Fill `kept` with the matrices of a chain; the slices' first widths are learnt in warm-up."""
    np.random.seed(seed)
    entries, rows, numbers = widths
    matrix, latent, pair = state[0], given[3], 0
    size = len(matrix)
    for sweep in range(warm_up + len(kept)):
        learn = 0.1 if sweep < warm_up else 0.0  # later it would spoil the balance
        _refactored(state, given)
        for i in range(size):
            for j in range(i, size):
                if i + j > 0 or latent:
                    t = _move_entry(i, j, entries[i, j], state, given)
                    entries[i, j] += learn * (_WIDE * abs(t) - entries[i, j])
        _refactored(state, given)
        for _ in range(min(size * (size - 1), 3 * size)):  # some of all pairs in turn
            i, j = 1 + pair // size, pair % size
            pair = (pair + 1) % (size * (size - 1))
            t = _move_rows(i, j, rows[i, j], state, given)
            rows[i, j] += learn * (_WIDE * abs(t) - rows[i, j])
        for move in range(3 if latent else 0):
            t = _move_number(move, numbers[move], state, given)
            numbers[move] += learn * (_WIDE * abs(t) - numbers[move])
        if sweep >= warm_up:
            kept[sweep - warm_up] = matrix
