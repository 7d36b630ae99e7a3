"""Exact discrete noise from the operating system's entropy, in integers.

The compiled samplers of `laws/bulk.py` draw every law that fits 64 bits, and the same algorithms in
long arithmetic the others: both have the same law. Every call begins from fresh entropy, so there
is nothing to copy, fork or pickle. The noise is drawn without the data in sight and added in
integers.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tacit.laws import bulk
from tacit.laws.discrete import LARGEST_SIGMA, LEAST_SIGMA, OutOfRandomBitsError, Stream, strips
from tacit.spec.release import Block, Noise
from tacit.wall.statistics.statistic import Statistic

_CORES = os.cpu_count() or 1
_RESEEDS = ssl.OPENSSL_VERSION.startswith("OpenSSL ")  # others may ignore what they are given
_THREADED = 60_000  # 32-bit entries of entropy for which a thread pays
# proof: integers. Statistic plus noise fit int64 (accounting keeps the noise below 2^61).
_LIMIT = 2**62

Entropy = Callable[[int], np.ndarray]  # n times 32 random bits, given n


def os_entropy(count: int) -> np.ndarray:
    """`count` times 32 bits: 256 bits of the operating system's entropy, expanded by OpenSSL."""
    if not _RESEEDS:
        return np.frombuffer(os.urandom(4 * count), np.uint32)
    ssl.RAND_add(os.urandom(32), 32.0)  # proof: entropy. Each call reseeds the generator.
    return np.frombuffer(ssl.RAND_bytes(4 * count), np.uint32)


def noised(
    statistic: Statistic, noise: tuple[Noise, ...], blocks: tuple[Block, ...], entropy: Entropy
) -> np.ndarray:
    """The statistic plus noise, in integers."""
    drawn = [draw(law, block.size, entropy) for law, block in zip(noise, blocks, strict=True)]
    return statistic.integers + np.concatenate(drawn)


def draw(noise: Noise, size: int, entropy: Entropy = os_entropy) -> np.ndarray:
    """`size` independent multiples of the grid that follow the law, as integers."""
    if noise.family == "none":
        return np.zeros(size, dtype=np.int64)
    if noise.family not in ("discrete_laplace", "discrete_gaussian"):
        raise ValueError(f"no sampler for {noise.family}")
    if fits_bulk(noise):
        return _in_bulk(noise, size, entropy)
    draw_one, left = _one(noise), entropy(64)
    out = np.zeros(size, np.int64)
    for i in range(size):
        out[i], left = settled(draw_one, left, entropy)
    return out


def fits_bulk(noise: Noise) -> bool:
    """Whether the compiled samplers can draw this law: a whole sigma, or a Laplace fraction."""
    scale = noise.scale / noise.grid
    if noise.family == "discrete_gaussian":
        return scale.is_integer() and LEAST_SIGMA <= scale <= LARGEST_SIGMA
    t, over = scale.as_integer_ratio()
    return 0 < t <= bulk.LARGEST_LAPLACE and over.bit_length() <= 60


def _in_bulk(noise: Noise, size: int, entropy: Entropy) -> np.ndarray:
    """By the compiled samplers, on several cores where that pays."""
    several = int(_filler(noise)[1] * size) // _THREADED
    threads = min(_CORES, several) if entropy is os_entropy else 1
    if threads < 2:
        return _fill(noise, np.zeros(size, np.int64), entropy)
    out = np.zeros(size, np.int64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: _fill(noise, part, entropy), np.array_split(out, threads)))
    return out


def _fill(noise: Noise, out: np.ndarray, entropy: Entropy) -> np.ndarray:
    size, done = out.size, 0
    fill, each = _filler(noise)
    left = entropy(int(each * size) + 128)
    while done < size:
        done, used, doubt = fill(out, done, left)
        left = left[used:]
        if doubt:
            out[done], left = settled(_one(noise), left, entropy)
            done += 1
        elif done < size:
            # What a cut sample had read is read again: dropping it would favour short samples.
            left = np.concatenate([left, entropy(int(each * (size - done)) + 128)])
    return out


_Filler = Callable[[np.ndarray, int, np.ndarray], tuple[int, int, bool]]


def _filler(noise: Noise) -> tuple[_Filler, float]:
    """The compiled sampler of a law, and a little more than the entropy that a sample takes."""
    t, over = (noise.scale / noise.grid).as_integer_ratio()
    scale, shift = np.uint64(t), over.bit_length() - 1
    if noise.family != "discrete_gaussian":
        return lambda out, done, left: bulk.fill_laplace(out, done, scale, shift, left), 6
    cut = strips(t)
    table = (scale, cut.left, cut.width, cut.sure, np.uint64(cut.area))
    return lambda out, done, left: bulk.fill_strips(out, done, *table, left), cut.entropy


def _one(noise: Noise) -> Callable[[Stream], int]:
    """One sample of a law, in long arithmetic."""
    t, over = (noise.scale / noise.grid).as_integer_ratio()  # exact: the grid is a power of two
    if noise.family == "discrete_gaussian":
        if over != 1:
            raise ValueError("a Gaussian needs a sigma that is a multiple of the grid")
        return lambda stream: stream.gaussian(t)
    return lambda stream: stream.laplace(t, over.bit_length() - 1)


def settled(
    draw_one: Callable[[Stream], int], left: np.ndarray, entropy: Entropy
) -> tuple[int, np.ndarray]:
    """One sample in long arithmetic, and the entropy that is left."""
    more = 64
    while True:
        stream = Stream(left)
        try:
            return draw_one(stream), left[stream.used :]
        except OutOfRandomBitsError:
            left = np.concatenate([left, entropy(more)])
            more *= 2  # a long sample starts again a few times, not once for every 2048 bits


def to_integers(values: np.ndarray, noise: Noise) -> np.ndarray:
    """Numbers as multiples of the grid, which divides one. Clipping moves no two apart."""
    per_one = round(1 / noise.grid)
    if per_one * noise.grid != 1:
        raise ValueError("counts need a grid that divides one")
    limit = _LIMIT // per_one
    return np.clip(values, -limit, limit) * per_one


def refined(integer: int, grid: float, noise: Noise) -> int:
    """A multiple of `grid` as a multiple of the noise's grid, which divides it."""
    factor = round(grid / noise.grid)
    if factor * noise.grid != grid:
        raise ValueError("the noise needs a grid that divides that of the statistic")
    limit = _LIMIT // factor
    return min(max(integer, -limit), limit) * factor
