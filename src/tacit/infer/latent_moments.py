"""Moments of normal data that were seen through noise: draws of what they were.

The moments of n rows form a matrix M = sum of z z' over the rows, z = (1, u_1, ..., u_D): its
corner is the number of rows, its first row the sums, the rest the products. With a normal model and
conjugate priors the parameters can be integrated out, and what remains is a product of powers of
determinants,

    p(M) proportional to |M|^((n - D - 2) / 2) * prod_k |lead_k(M + S_k)|^(a_k + b_k n) * f(n),

lead_k being a leading block: exact for every n > D, with no large-sample approximation. Each entry
of M has its own noise. Slice sampling entry by entry needs no step sizes, and a determinant is a
quadratic in one entry. Where the noise is so wide that the entries hold each other fast, moves of
the rows themselves (shifting, scaling and shearing their values) change many entries at once.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np

from tacit.infer.latent_counts import MISSING, ROWS

_WARM_UP = 300
_STEPS = 100  # of a slice's interval, at most
_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


@dataclass(frozen=True)
class MomentsSeen:
    """Noisy moments as a matrix, the law of each entry, and what is known of the rows.

    `rows` is the number of rows where it is public; else the corner of `value` is a noisy count,
    there are at most `most` rows, and `units` of them at most if every unit has one.
    """

    value: np.ndarray
    scale: np.ndarray
    heavy: bool
    rows: float | None
    most: float
    units: float | None

    @property
    def columns(self) -> int:
        return len(self.value) - 1


@dataclass(frozen=True)
class Factor:
    """|lead(M + shift)|^(a + b n), the leading block having the size of `shift`."""

    shift: np.ndarray
    a: float
    b: float


@dataclass(frozen=True)
class Believed:
    """The density of moments once the parameters are integrated out.

    `rows` are the numbers of f(n): columns d, prior rows and degrees of freedom of a normal law
    for the first d columns, then the shape of a regression of the last column (or 0).
    """

    factors: tuple[Factor, ...]
    rows: tuple[float, float, float, float]


def draw_moments(
    seen: MomentsSeen, believed: Believed, chains: int, draws: int, seed: int | None
) -> np.ndarray:
    """Draws of the moments, shape (chains, draws, D + 1, D + 1)."""
    size = seen.columns + 1
    shifts = np.zeros((len(believed.factors) + 1, size, size))
    sizes = np.full(len(shifts), size)
    powers = np.zeros((len(shifts), 2))
    powers[0] = -(seen.columns + 2) / 2, 0.5
    for k, factor in enumerate(believed.factors, start=1):
        sizes[k] = len(factor.shift)
        shifts[k, : sizes[k], : sizes[k]] = factor.shift
        powers[k] = factor.a, factor.b
    limits = np.array([float(size), seen.most, -1.0 if seen.units is None else seen.units])
    seeds = np.random.default_rng(seed).integers(0, 2**31, chains)
    start = _start(seen)

    given = (
        seen.value, seen.scale, seen.heavy, seen.rows is None, shifts, sizes, powers,
        np.array(believed.rows), limits,
    )  # fmt: skip

    def chain(one: int) -> np.ndarray:
        kept = np.empty((draws, size, size))
        inverses, logs = np.zeros_like(shifts), np.zeros(len(shifts))
        spare, scratch = np.empty((2, size, size))
        _chain(start.copy(), given, inverses, logs, spare, scratch, kept, _WARM_UP, int(one))
        return kept

    with ThreadPoolExecutor(min(chains, 8)) as pool:
        return np.stack(list(pool.map(chain, seeds)))


def _start(seen: MomentsSeen) -> np.ndarray:
    """A valid matrix near what was seen."""
    d = seen.columns
    n = seen.rows if seen.rows is not None else float(np.clip(seen.value[0, 0], d + 2, seen.most))
    n = max(n, d + 1.0)
    mean = np.clip(seen.value[0, 1:] / n, -0.8, 0.8)
    scatter = seen.value[1:, 1:] / n - np.outer(mean, mean)
    values, vectors = np.linalg.eigh((scatter + scatter.T) / 2)
    # As near to what was seen as its noise allows: small steps would take long to get there.
    least = float(np.clip(seen.scale.max() / n, 1e-6, 0.02))
    scatter = (vectors * np.clip(values, least, 0.3)) @ vectors.T
    room = np.minimum(1.0, 0.9 * (1 - mean**2) / np.diag(scatter))  # no product beyond n
    scatter *= np.sqrt(np.outer(room, room))
    matrix = np.ones((d + 1, d + 1))
    matrix[0, 1:] = matrix[1:, 0] = mean
    matrix[1:, 1:] = scatter + np.outer(mean, mean)
    return n * matrix


@_compiled
def _lgamma_d(x, d):  # type: ignore[no-untyped-def]
    """log of the multivariate gamma function, up to a constant."""
    total = 0.0
    for j in range(d):
        total += math.lgamma(x - 0.5 * j)
    return total


@_compiled
def _log_rows(n, facts, limits):  # type: ignore[no-untyped-def]
    """log f(n), and weak beliefs about n (docs/adr/0002)."""
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
def _factorised(matrix, shift, size, inverse, lower, invert):  # type: ignore[no-untyped-def]
    """The log determinant of a leading block, and its inverse; -inf if it is not positive."""
    log = 0.0
    for j in range(size):
        left = matrix[j, j] + shift[j, j]
        whole = left
        for k in range(j):
            left -= lower[j, k] ** 2
        if not left > 1e-13 * whole:
            return -np.inf
        lower[j, j] = np.sqrt(left)
        log += 2 * np.log(lower[j, j])
        for i in range(j + 1, size):
            entry = matrix[i, j] + shift[i, j]
            for k in range(j):
                entry -= lower[i, k] * lower[j, k]
            lower[i, j] = entry / lower[j, j]
    for c in range(size if invert else 0):  # one column of the inverse after another
        for i in range(size):
            entry = 1.0 if i == c else 0.0
            for k in range(i):
                entry -= lower[i, k] * inverse[k, c]
            inverse[i, c] = entry / lower[i, i]
        for i in range(size - 1, -1, -1):
            entry = inverse[i, c]
            for k in range(i + 1, size):
                entry -= lower[k, i] * inverse[k, c]
            inverse[i, c] = entry / lower[i, i]
    return log


@_compiled
def _bumped(inverse, i, j, sign, step, size, scratch):  # type: ignore[no-untyped-def]
    """The inverse after `step` times v v' was added, v = e_i + sign e_j (or e_i if i = j)."""
    v = scratch[0]
    for a in range(size):
        v[a] = inverse[a, i] + (sign * inverse[a, j] if i != j else 0.0)
    across = v[i] + (sign * v[j] if i != j else 0.0)
    factor = step / (1 + step * across)
    for a in range(size):
        for b in range(size):
            inverse[a, b] -= factor * v[a] * v[b]


@_compiled
def _log_ratio(inverse, i, j, t):  # type: ignore[no-untyped-def]
    """log of the determinant's growth when t is added to the entries (i, j) and (j, i)."""
    if i == j:
        growth = 1 + t * inverse[i, i]
    else:
        growth = (1 + t * inverse[i, j]) ** 2 - t * t * inverse[i, i] * inverse[j, j]
    return np.log(growth) if growth > 0 else -np.inf


@_compiled
def _log_all(matrix, given, scratch):  # type: ignore[no-untyped-def]
    """The log density of a matrix, from scratch; -inf outside what data can be."""
    seen, scale, heavy, latent, shifts, sizes, powers, facts, limits = given
    n, size = matrix[0, 0], matrix.shape[0]
    if latent and not (limits[0] <= n <= limits[1]):
        return -np.inf
    for i in range(1, size):
        if matrix[i, i] > n or abs(matrix[0, i]) > n:
            return -np.inf
    log = 0.0
    for k in range(len(sizes)):
        part = _factorised(matrix, shifts[k], sizes[k], scratch, scratch, False)
        if part == -np.inf:
            return -np.inf
        log += (powers[k, 0] + powers[k, 1] * n) * part
    for i in range(size):
        for j in range(i, size):
            if i + j > 0 or latent:
                log += _noise(seen[i, j] - matrix[i, j], scale[i, j], heavy)
    return log + _log_rows(n, facts, limits) if latent else log


@_compiled
def _log_entry(t, matrix, i, j, inverses, logs, given):  # type: ignore[no-untyped-def]
    """The log density when t is added to the entries (i, j) and (j, i), up to a constant."""
    seen, scale, heavy, _, _, sizes, powers, facts, limits = given
    corner = i + j == 0
    rows = matrix[0, 0] + t if corner else matrix[0, 0]
    log = _noise(seen[i, j] - matrix[i, j] - t, scale[i, j], heavy)
    for k in range(len(sizes)):
        if j < sizes[k]:
            power = powers[k, 0] + powers[k, 1] * rows
            log += power * _log_ratio(inverses[k], i, j, t)
        if corner:
            log += powers[k, 1] * t * logs[k]
    return log + _log_rows(rows, facts, limits) if corner else log


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
def _move_entry(matrix, i, j, inverses, logs, given, scratch):  # type: ignore[no-untyped-def]
    """Slice-sample one entry, given all others."""
    scale, sizes = given[1], given[5]
    low, high = _room(matrix, i, j, inverses[0], given[8])
    level = _log_entry(0.0, matrix, i, j, inverses, logs, given) - np.random.exponential(1.0)
    width = 3 * scale[i, j]
    left = -width * np.random.random()
    right = left + width
    steps = np.random.randint(_STEPS)  # how far to either side is random, for detailed balance
    others = _STEPS - 1 - steps
    while steps > 0 and left > low:
        if _log_entry(left, matrix, i, j, inverses, logs, given) < level:
            break
        left -= width
        steps -= 1
    steps = others
    while steps > 0 and right < high:
        if _log_entry(right, matrix, i, j, inverses, logs, given) < level:
            break
        right += width
        steps -= 1
    left, right, t = max(left, low), min(right, high), 0.0
    for _ in range(200):
        t = left + (right - left) * np.random.random()
        if _log_entry(t, matrix, i, j, inverses, logs, given) > level:
            break
        if t < 0:
            left = t
        else:
            right = t
        t = 0.0
    if t == 0.0:
        return
    for k in range(len(sizes)):
        if j < sizes[k]:
            logs[k] += _log_ratio(inverses[k], i, j, t)
            if i == j:
                _bumped(inverses[k], i, j, 1.0, t, sizes[k], scratch)
            else:  # first the half that keeps it positive
                first = 1.0 if t > 0 else -1.0
                _bumped(inverses[k], i, j, first, first * t / 2, sizes[k], scratch)
                _bumped(inverses[k], i, j, -first, -first * t / 2, sizes[k], scratch)
    matrix[i, j] += t
    matrix[j, i] = matrix[i, j]


@_compiled
def _log_moved(t, matrix, kind, i, j, given, out, scratch):  # type: ignore[no-untyped-def]
    """Move all rows, and return the log density there with the move's Jacobian.

    kind 0: u_i grows by t u_j (or by t, if j = 0); 1: u_i grows e^t-fold; 2: e^t times the rows.
    """
    size, log, times = matrix.shape[0], 0.0, math.exp(t) if kind > 0 else 1.0
    everywhere = times if kind == 2 else 1.0
    for a in range(size):  # loops, because array expressions take long to compile
        for b in range(size):
            out[a, b] = matrix[a, b] * everywhere
    if kind == 2:
        log = 0.5 * size * (size + 1) * t
    elif kind == 1:
        log = (size + 1) * t
        for a in range(size):
            out[i, a] *= times
        for a in range(size):
            out[a, i] *= times
    else:
        for a in range(size):
            out[i, a] += t * out[j, a]
        for a in range(size):
            out[a, i] += t * out[a, j]
    return log + _log_all(out, given, scratch)


@_compiled
def _move_rows(matrix, kind, i, j, given, out, scratch):  # type: ignore[no-untyped-def]
    """Slice-sample a move of all rows."""
    level = _log_moved(0.0, matrix, kind, i, j, given, out, scratch) - np.random.exponential(1.0)
    width = 0.5
    left = -width * np.random.random()
    right = left + width
    steps = np.random.randint(_STEPS)
    others = _STEPS - 1 - steps
    while steps > 0 and _log_moved(left, matrix, kind, i, j, given, out, scratch) > level:
        left -= width
        steps -= 1
    steps = others
    while steps > 0 and _log_moved(right, matrix, kind, i, j, given, out, scratch) > level:
        right += width
        steps -= 1
    for _ in range(60):
        t = left + (right - left) * np.random.random()
        if _log_moved(t, matrix, kind, i, j, given, out, scratch) > level:
            for a in range(len(matrix)):
                for b in range(len(matrix)):
                    matrix[a, b] = out[a, b]
            return
        if t < 0:
            left = t
        else:
            right = t


@_compiled
def _chain(matrix, given, inverses, logs, out, scratch, kept, warm_up, seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    latent, shifts, sizes = given[3], given[4], given[5]
    size = matrix.shape[0]
    for sweep in range(warm_up + len(kept)):
        for k in range(len(sizes)):
            logs[k] = _factorised(matrix, shifts[k], sizes[k], inverses[k], scratch, True)
        for i in range(size):
            for j in range(i, size):
                if i + j > 0 or latent:
                    _move_entry(matrix, i, j, inverses, logs, given, scratch)
        for _ in range(min(size * (size - 1), 2 * size)):  # about as much work as the entries
            i, j = 1 + np.random.randint(size - 1), np.random.randint(size)
            _move_rows(matrix, 1 if i == j else 0, i, j, given, out, scratch)
        if latent:
            _move_rows(matrix, 2, 0, 0, given, out, scratch)
        if sweep >= warm_up:
            for a in range(size):
                for b in range(size):
                    kept[sweep - warm_up, a, b] = matrix[a, b]
