"""Exact discrete noise for a vector of 400,000 numbers: Tacit's samplers against OpenDP's.

Both draw from the same law with the operating system's entropy, in turns, in one process. For wide
Gaussians also Algorithm 3 of Canonne, Kamath and Steinke, compiled, which narrow ones still take.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import opendp.prelude as dp
from rich import print

from tacit.laws import bulk
from tacit.spec.release import Noise
from tacit.wall import noise as _noise

SIZE, OPENDP_SIZE = 400_000, 2_000  # OpenDP's time is proportional to the size

dp.enable_features("contrib")


def seconds(draw, noise: Noise, size: int) -> float:
    start = time.perf_counter()
    draw(noise, size)
    return (time.perf_counter() - start) / size


def opendp(noise: Noise, size: int) -> None:
    """The same law by OpenDP, on a vector of integers."""
    space = dp.vector_domain(dp.atom_domain(T="i64"), size)
    if noise.family == "discrete_gaussian":
        metric = dp.l2_distance(T="f64")
        measure = dp.m.make_gaussian(space, metric, scale=noise.scale / noise.grid)
    else:
        measure = dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=noise.scale / noise.grid)
    measure([0] * size)


def algorithm_3(noise: Noise, size: int) -> None:
    """On one thread."""
    words = _noise.os_entropy(10 * size + 128)
    bulk.fill_gaussian(np.zeros(size, np.int64), 0, np.uint64(noise.scale / noise.grid), words)


def strips(noise: Noise, size: int) -> None:
    """On one thread as well: words that are not os_words itself are not shared out."""
    _noise.draw(noise, size, partial(_noise.os_entropy))


def main() -> None:
    for noise in (
        Noise("discrete_gaussian", 3 * 2.0**27, 1.0),
        Noise("discrete_gaussian", 100.0, 1.0),
        Noise("discrete_laplace", 3 * 2.0**27, 1.0),
        Noise("discrete_laplace", 100.0, 1.0),
    ):
        _noise.draw(noise, 10)
        ours, theirs = [], []
        for _ in range(5):
            ours.append(seconds(_noise.draw, noise, SIZE))
            theirs.append(seconds(opendp, noise, OPENDP_SIZE))
        ratio = np.median(np.array(theirs) / np.array(ours))
        print(
            f"{noise.family}, scale {noise.scale:g}: Tacit {1e6 * np.median(ours):.2f} us, "
            f"OpenDP {1e6 * np.median(theirs):.2f} us, ratio {ratio:.1f}"
        )
    for sigma in (2.0**12, 3 * 2.0**27):
        noise = Noise("discrete_gaussian", sigma, 1.0)
        strips(noise, 10)
        algorithm_3(noise, 10)
        times = [[seconds(draw, noise, SIZE) for draw in (algorithm_3, strips)] for _ in range(7)]
        old, new = np.median(times, 0)
        ratio = np.median([a / b for a, b in times])
        print(
            f"sigma {sigma:g}, one thread: Algorithm 3 {1e6 * old:.2f} us, strips "
            f"{1e6 * new:.3f} us, ratio {ratio:.1f}"
        )


if __name__ == "__main__":
    main()
