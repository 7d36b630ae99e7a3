"""The posterior of the moments of normal data given noisy ones.

The moments of n rows form a matrix M = sum of z z' over the rows, z = (1, u_1, ..., u_D): its
corner is the number of rows, its first row the sums, the rest the products. With a normal model and
conjugate priors the parameters can be integrated out, and what remains is a product of powers of
determinants,

    p(M) proportional to |M|^((n - D - 2) / 2) * prod_k |lead_k(M + S_k)|^(a_k + b_k n) * f(n),

lead_k being a leading block: exact for every n > D, with no large-sample approximation. Each entry
of M has its own noise; `moments_chain` samples the entries.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tacit.infer.moments_chain import run

_WARM_UP = 300


@dataclass(frozen=True)
class MomentsSeen:
    """Noisy moments as a matrix, the law of each entry, and public facts about the rows.

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
class MomentsDensity:
    """The density of moments with the parameters integrated out.

    `rows` are the numbers of f(n): columns d, prior rows and degrees of freedom of a normal law
    for the first d columns, then the shape of a regression of the last column (or 0).
    """

    factors: tuple[Factor, ...]
    rows: tuple[float, float, float, float]


def draw_moments(
    seen: MomentsSeen, density: MomentsDensity, chains: int, draws: int, seed: int | None
) -> np.ndarray:
    """Return draws of the moments, shape (chains, draws, D + 1, D + 1)."""
    size = seen.columns + 1
    shifts = np.zeros((len(density.factors) + 1, size, size))
    sizes = np.full(len(shifts), size)
    powers = np.zeros((len(shifts), 2))
    powers[0] = -(seen.columns + 2) / 2, 0.5
    for k, factor in enumerate(density.factors, start=1):
        sizes[k] = len(factor.shift)
        shifts[k, : sizes[k], : sizes[k]] = factor.shift
        powers[k] = factor.a, factor.b
    limits = np.array([float(size), seen.most, -1.0 if seen.units is None else seen.units])
    seeds = np.random.default_rng(seed).integers(0, 2**31, chains)
    start = _start(seen)

    given = (
        seen.value, seen.scale, seen.heavy, seen.rows is None, shifts, sizes, powers,
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
