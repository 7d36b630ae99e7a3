"""Exact discrete noise for a vector of 400,000 numbers: Tacit's samplers against OpenDP's.

Both draw from the same law with the operating system's entropy, in turns, in one process.
"""

from __future__ import annotations

import time

import numpy as np
import opendp.prelude as dp
from rich import print

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


def main() -> None:
    for noise in (
        Noise("discrete_gaussian", 3 * 2.0**27, 1.0),
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


if __name__ == "__main__":
    main()
