"""The posterior of the moments of normal data given noisy ones.

The moments of n rows form a matrix M = sum of z z' over the rows, z = (1, u_1, ..., u_D): its
corner is the number of rows, its first row the sums, the rest the products. With a normal model and
conjugate priors the parameters can be integrated out, and what remains is a product of powers of
determinants,

    p(M) proportional to |M|^((n - D - 2) / 2) * prod_k |lead_k(M + S_k)|^(a_k + b_k n) * f(n),

lead_k being a leading block: exact for every n > D, with no large-sample approximation. Each entry
of M has its own noise; `moments_chain` samples the entries.

Where there are too few rows for this density they are latent themselves (Ju et al. 2022): given the
parameters, each row is proposed from the model and accepted with the likelihood ratio of the noisy
moments; given the rows, the parameters have their conjugate law. That is exact for any number of
rows, but its work grows with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from tacit.infer.conjugate import Factor, NormalPrior, Prior, draw_normal
from tacit.infer.latent_sum import log_rows_prior, most_rows, scales
from tacit.infer.moments_chain import run
from tacit.infer.noise import Law
from tacit.spec.moments import ROWS, Moments, bounds_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

_WARM_UP, _ROWS_WARM_UP = 300, 500  # sweeps over entries, and over rows


@dataclass(frozen=True)
class MomentsSeen:
    """Noisy moments as a matrix, the law of each entry, and public facts about the rows.

    The corner of `value` is the number of rows where that is `known`, else a noisy count. There
    are at most `most` rows, and `units` of them at most if every unit has one.
    """

    value: np.ndarray
    scale: np.ndarray
    heavy: bool
    known: bool
    most: float
    units: float | None

    @property
    def columns(self) -> int:
        return len(self.value) - 1


def weak_prior(
    release: Release,
    query: Moments,
    mean: Sequence[float] | None,
    mean_rows: float,
    sd: Sequence[float] | None,
    sd_rows: float,
) -> NormalPrior:
    """A prior in the columns' units; without one, the middle and a tenth of the width."""
    low, high = np.array([bounds_of(release.schema[name]) for name in query.columns]).T
    middle, half = scales(release, query)
    centre = (low + high) / 2 if mean is None else np.asarray(mean)
    spread = (high - low) / 10 if sd is None else np.asarray(sd)
    return NormalPrior.of((centre - middle) / half, mean_rows, spread / half, sd_rows)


def draw_matrices(release: Release, query: Moments, prior: Prior, sampling: Sampling) -> np.ndarray:
    """Draws of the moments' matrix, shape (chains * draws, D + 1, D + 1)."""
    seen = _matrix_seen(release, query)
    shape = sampling.chains * sampling.draws, *seen.value.shape
    if not np.any(seen.scale > 0):
        return np.broadcast_to(seen.value, shape)
    if sampling.noise == "plugin":
        return np.broadcast_to(_project(seen), shape)
    draw = draw_rows if seen.most <= seen.columns else draw_moments  # too few for a density
    return draw(seen, prior, sampling.chains, sampling.draws, sampling.seed).reshape(shape)


def _matrix_seen(release: Release, query: Moments) -> MomentsSeen:
    """The released moments as a symmetric matrix, rows in its corner."""
    names = (ROWS, *query.columns)
    value, scale = np.zeros((2, len(names), len(names)))
    known = not any(block.name == ROWS for block in release.blocks)
    heavy = True
    for i, first in enumerate(names):
        for j, second in enumerate(names[i:], start=i):
            if i == j == 0 and known:
                continue
            name = second if i == 0 else _product(release, first, second)
            _, number, noise = release.table(name)
            law = Law.of(noise)
            value[i, j] = value[j, i] = float(number)
            scale[i, j] = scale[j, i] = law.scale
            heavy = law.heavy
    most, units = most_rows(release)
    if known:
        assert release.n is not None
        most = value[0, 0] = float(release.n)
    return MomentsSeen(value, scale, heavy, known, most, units)


def _product(release: Release, first: str, second: str) -> str:
    """The block of a product, whose columns may come in another order."""
    name = f"{first}*{second}"
    return name if any(b.name == name for b in release.blocks) else f"{second}*{first}"


def _project(seen: MomentsSeen) -> np.ndarray:
    """The papers' projection onto moments that data can have, which forgets the noise."""
    n = float(np.clip(seen.value[0, 0], 0, seen.most))
    matrix = np.clip(seen.value, -n, n)
    matrix[0, 0] = n
    if n == 0:
        return matrix
    sums = matrix[0, 1:]
    values, vectors = np.linalg.eigh(matrix[1:, 1:] - np.outer(sums, sums) / n)
    matrix[1:, 1:] = (vectors * np.maximum(values, 0)) @ vectors.T + np.outer(sums, sums) / n
    return matrix


def draw_moments(
    seen: MomentsSeen, prior: Prior, chains: int, draws: int, seed: int | None
) -> np.ndarray:
    """Return draws of the moments, shape (chains, draws, D + 1, D + 1)."""
    size, density = seen.columns + 1, prior.moments_density()
    own = Factor(np.zeros((size, size)), -(seen.columns + 2) / 2, 0.5)
    factors = own, *density.factors
    sizes = np.array([len(factor.shift) for factor in factors])
    shifts = np.array([np.pad(factor.shift, (0, size - len(factor.shift))) for factor in factors])
    powers = np.array([(factor.a, factor.b) for factor in factors])
    limits = np.array([float(size), seen.most, -1.0 if seen.units is None else seen.units])
    seeds = np.random.default_rng(seed).integers(0, 2**31, chains)
    start = _start(seen)

    given = (
        seen.value, seen.scale, seen.heavy, not seen.known, shifts, sizes, powers,
        np.array(density.rows), limits,
    )  # fmt: skip

    def chain(one: int) -> np.ndarray:
        kept = np.empty((draws, size, size))
        inverses, logs = np.zeros_like(shifts), np.zeros(len(shifts))
        line, scratch = np.empty((len(shifts) + size, 3)), tuple(np.empty((2, size, size)))
        widths = 3 * seen.scale, np.full((size, size), 0.5), np.full(3, 0.5)
        state = start.copy(), inverses, logs, line, scratch
        run(state, widths, given, kept, _WARM_UP, int(one))
        return kept

    with ThreadPoolExecutor(min(chains, 8)) as pool:
        return np.stack(list(pool.map(chain, seeds)))


def _start(seen: MomentsSeen) -> np.ndarray:
    """A valid matrix near what was seen."""
    d = seen.columns
    n = seen.value[0, 0] if seen.known else np.clip(seen.value[0, 0], d + 2, seen.most)
    n = max(float(n), d + 1.0)
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


def draw_rows(
    seen: MomentsSeen, prior: Prior, chains: int, draws: int, seed: int | None
) -> np.ndarray:
    """Return draws of the moment matrix, shape (chains * draws, D + 1, D + 1).

    If the number of rows is not known there are slots for as many as there can be, and an empty
    slot is a row of zeros.
    """
    rng = np.random.default_rng(seed)
    n, size = int(seen.most), seen.columns + 1
    log_taken, taken = np.zeros(n + 1), np.arange(n + 1.0)
    if not seen.known:  # the log prior of one subset of the slots being rows, by its size
        subsets = gammaln(n + 1) - gammaln(taken + 1) - gammaln(n - taken + 1)
        log_taken = log_rows_prior(seen.units, 1)(taken) - subsets
    kept = np.empty((draws, chains, size, size))
    rows = np.concatenate(
        [np.ones((chains, n, 1)), 0.3 * rng.standard_normal((chains, n, size - 1)).clip(-3, 3)],
        axis=2,
    )
    matrix = np.einsum("cni,cnj->cij", rows, rows)
    for sweep in range(_ROWS_WARM_UP + draws):
        mean, root = draw_normal(matrix, prior, rng)
        for r in range(n):
            step = np.einsum("cij,cj->ci", root, rng.standard_normal((chains, size - 1)))
            proposed = np.concatenate([np.ones((chains, 1)), mean + step], axis=1)
            if not seen.known:
                proposed *= rng.random((chains, 1)) < 0.5
            other = (
                matrix
                + proposed[:, :, None] * proposed[:, None, :]
                - rows[:, r, :, None] * rows[:, r, None, :]
            )
            gain = _log_noise(other, seen) - _log_noise(matrix, seen)
            before, after = (np.rint(each[:, 0, 0]).astype(int) for each in (matrix, other))
            gain += log_taken[after] - log_taken[before]
            inside = np.all(np.abs(proposed) <= 1, axis=1)
            take = inside & (np.log(rng.random(chains)) < gain)
            matrix[take], rows[take, r] = other[take], proposed[take]
        if sweep >= _ROWS_WARM_UP:
            kept[sweep - _ROWS_WARM_UP] = matrix
    return kept.swapaxes(0, 1).reshape(chains * draws, size, size)


def _log_noise(matrix: np.ndarray, seen: MomentsSeen) -> np.ndarray:
    """Return the log density of the noise (released minus true moments), for each chain."""
    upper = np.triu(np.ones_like(seen.value))
    upper[0, 0] = not seen.known
    error = (seen.value - matrix) / np.where(seen.scale > 0, seen.scale, 1.0)
    log = -np.abs(error) if seen.heavy else -0.5 * error**2
    return (log * upper).sum(axis=(1, 2))
