"""Exact discrete noise and exact samples of units, from the operating system's entropy.

Ordinary releases take their noise from OpenDP; large ones, and steps of a lease, from the compiled
samplers of `laws/bulk.py`. Nothing here holds state or words between calls, so there is nothing to
copy, fork or pickle. The noise is drawn without the data in sight and added in integers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from tacit.laws import bulk
from tacit.laws.discrete import OutOfWords, Stream
from tacit.laws.strips import LARGEST_SIGMA, LEAST_SIGMA, strips
from tacit.spec.release import Block, Noise

enable_features("contrib")

_VECTOR = vector_domain(atom_domain(T="i64"))
_BULK = 1_000  # from here on OpenDP's samplers would be felt
_CORES = os.cpu_count() or 1
_THREADED = 60_000  # words for which a thread pays
# Keeps statistic plus noise inside int64 (accounting keeps the noise below 2^61).
_LIMIT = 2**62


@dataclass(frozen=True)
class Statistic:
    """The exact answer, in steps of the noise's grids, or the counts or rows that a draw is from.

    It never leaves the wall as it is.
    """

    steps: np.ndarray
    units: int


Words = Callable[[int], np.ndarray]


def os_words(count: int) -> np.ndarray:
    """Fresh 32-bit words from the operating system."""
    return np.frombuffer(os.urandom(4 * count), np.uint32)


def uniforms(words: Words, count: int) -> np.ndarray:
    """Numbers strictly between 0 and 1, near 0 with all bits that a double has there.

    128 bits each: samplers put the tails of their laws at 0, where too few bits would leave gaps
    wider than the grid of what is released, and where the gaps are would tell of the data.
    """  # proof: draw-dense
    parts = words(4 * count).reshape(4, -1).astype(np.uint64)
    low, high = (parts[i] << np.uint64(32) | parts[i + 1] for i in (0, 2))
    inside = high.astype(float) * 2.0**-64 + (low.astype(float) + 0.5) * 2.0**-128
    return np.minimum(inside, 1 - 2.0**-53)


def noised(
    statistic: Statistic, noise: tuple[Noise, ...], blocks: tuple[Block, ...], words: Words
) -> np.ndarray:
    """The statistic plus noise, in integers."""
    drawn = [_noise(law, block.size, words) for law, block in zip(noise, blocks, strict=True)]
    return statistic.steps + np.concatenate(drawn)


def _noise(law: Noise, size: int, words: Words) -> np.ndarray:
    if law.family == "none":
        return np.zeros(size, dtype=np.int64)
    if words is os_words:
        return draw(law, size)
    return draw_seeded(law, size, words)


def draw(noise: Noise, size: int) -> np.ndarray:
    """`size` independent integers of the law, in steps of its grid."""
    if size >= _BULK and fits_bulk(noise):
        return draw_bulk(noise, size)
    scale = noise.scale / noise.grid  # exact: the grid is a power of two
    match noise.family:
        case "discrete_laplace":
            sampler = make_laplace(_VECTOR, l1_distance(T="i64"), scale)
        case "discrete_gaussian":
            sampler = make_gaussian(_VECTOR, l2_distance(T="f64"), scale)
        case _:
            raise ValueError(f"no sampler for {noise.family}")
    return np.array(sampler([0] * size), dtype=np.int64)


def fits_bulk(noise: Noise) -> bool:
    """Whether the compiled samplers can draw this law: a whole sigma, or a Laplace fraction."""
    scale = noise.scale / noise.grid
    if noise.family == "discrete_gaussian":
        return scale.is_integer() and 1 <= scale <= LARGEST_SIGMA
    t, over = scale.as_integer_ratio()
    return 0 < t <= bulk.LARGEST_LAPLACE and over.bit_length() <= 60


def draw_bulk(noise: Noise, size: int, words: Words = os_words) -> np.ndarray:
    """The same law as `draw`, some fifty times faster, and faster still on several cores."""
    threads = min(_CORES, int(_filler(noise)[1] * size) // _THREADED) if words is os_words else 1
    if threads < 2:
        return _filled(noise, size, words)
    sizes = [size * (i + 1) // threads - size * i // threads for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(lambda part: _filled(noise, part, words), sizes)))


def _filled(noise: Noise, size: int, words: Words) -> np.ndarray:
    out, done = np.zeros(size, np.int64), 0
    fill, each = _filler(noise)
    left = words(int(each * size) + 128)
    while done < size:
        done, used, doubt = fill(out, done, left)
        left = left[used:]
        if doubt:
            out[done], left = settled(_one(noise), left, words)
            done += 1
        elif done < size:
            # What a cut sample had read is read again: dropping it would favour short samples.
            left = np.concatenate([left, words(int(each * (size - done)) + 128)])
    return out


_Filler = Callable[[np.ndarray, int, np.ndarray], tuple[int, int, bool]]


def _filler(noise: Noise) -> tuple[_Filler, float]:
    """The compiled sampler of a law, and a little more than the words that a sample takes."""
    t, over = (noise.scale / noise.grid).as_integer_ratio()
    scale, shift = np.uint64(t), over.bit_length() - 1
    if noise.family != "discrete_gaussian":
        return lambda out, done, left: bulk.fill_laplace(out, done, scale, shift, left), 6
    if t < LEAST_SIGMA:
        return lambda out, done, left: bulk.fill_gaussian(out, done, scale, left), 10
    cut = strips(t)
    table = (scale, cut.left, cut.width, cut.sure, np.uint64(cut.area))
    return lambda out, done, left: bulk.fill_strips(out, done, *table, left), cut.words


def draw_seeded(noise: Noise, size: int, words: Words) -> np.ndarray:
    """The same from given words, in long arithmetic where the law is too wide for 64 bits."""
    if fits_bulk(noise):
        return draw_bulk(noise, size, words)
    draw_one, left = _one(noise), words(64)
    out = np.zeros(size, np.int64)
    for i in range(size):
        out[i], left = settled(draw_one, left, words)
    return out


def _one(noise: Noise) -> Callable[[Stream], int]:
    """One sample of a law, in long arithmetic."""
    t, over = (noise.scale / noise.grid).as_integer_ratio()
    if noise.family == "discrete_gaussian":
        return lambda stream: stream.gaussian(t)
    return lambda stream: stream.laplace(t, over.bit_length() - 1)


def settled(
    draw_one: Callable[[Stream], int], left: np.ndarray, words: Words
) -> tuple[int, np.ndarray]:
    """One sample in long arithmetic, and the words that are left."""
    more = 64
    while True:
        stream = Stream(left)
        try:
            return draw_one(stream), left[stream.used :]
        except OutOfWords:
            left = np.concatenate([left, words(more)])
            more *= 2  # a long sample starts again a few times, not once for every 64 words


def draw_poisson(n: int, rate: float, words: Words = os_words) -> np.ndarray:
    """Which of n units take part, each with a chance of at most `rate`, in increasing order."""
    if rate >= 1:
        return np.arange(n)
    k = skip_numerator(rate)
    expected = n * rate
    out = np.zeros(int(expected + 8 * math.sqrt(expected) + 16), np.int64)
    done, last, left = 0, -1, np.zeros(0, np.uint32)
    while last < n:
        if done + 1 >= out.size:
            out = np.concatenate([out, np.zeros_like(out)])
        if left.size < 2:
            left = np.concatenate([left, words(int(2.2 * (n - last) * rate) + 16)])
        done, last, used, doubt = bulk.fill_skips(out, done, last, n, np.uint64(k), left)
        left = left[used:]
        if doubt:
            passed, left = settled(lambda s: s.skip(k), left, words)
            last += 1 + passed
            if last < n:
                out[done] = last
                done += 1
    return out[:done]


def skip_numerator(rate: float) -> int:
    """The largest k for which 1 - exp(-k / 2^32) is at most `rate`, or a little less."""
    return max(1, math.floor(-math.log1p(-rate) * 2.0**bulk.SKIP_BITS * (1 - 1e-14)))


def draw_subset(order: np.ndarray, size: int, words: Words = os_words) -> np.ndarray:
    """A uniform subset, in increasing order. `order` is any permutation, shuffled in place."""
    done, left = 0, np.zeros(0, np.uint32)
    while done < size:
        stock = np.concatenate([left, words(2 * (size - done) + 16)])
        done, used = bulk.shuffle_front(order, done, size, stock)
        left = stock[used:]
    return np.sort(order[:size])


def to_steps(values: np.ndarray, noise: Noise) -> np.ndarray:
    """Integers as steps of the grid, which divides one. Clipping moves no two of them apart."""
    per_one = round(1 / noise.grid)
    if per_one * noise.grid != 1:
        raise ValueError("counts need a grid that divides one")
    limit = _LIMIT // per_one
    return np.clip(values, -limit, limit) * per_one


def refined(steps: int, grid: float, noise: Noise) -> int:
    """Steps of a grid as steps of the noise's, which divides it."""
    factor = round(grid / noise.grid)
    if factor * noise.grid != grid:
        raise ValueError("the noise needs a grid that divides that of the statistic")
    limit = _LIMIT // factor
    return min(max(steps, -limit), limit) * factor
