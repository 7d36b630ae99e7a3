"""Attacks on the steps of a lease."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.accounting import epsilon as steps_epsilon
from tacit.audit.game import DELTA, Game, Scores, Table
from tacit.audit.statistics import xy_sum
from tacit.public import Public
from tacit.spec.columns import Real
from tacit.spec.mechanisms import Gaussian
from tacit.spec.plan import Geometry, Plan, Poisson, Steps, Subsampling, WithoutReplacement
from tacit.spec.schema import Neighbours, Schema


def step_games() -> list[Game]:
    base, zero = [-1.0] * 7, [0.0] * 7
    turned = ({"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]})
    across = ({"x": [1.0], "y": [0.0]}, {"x": [0.0], "y": [1.0]})
    joined = ({"x": [0.0], "y": [0.0]}, {"x": [1.0, 0.0], "y": [0.0, 0.0]})
    among = ({"x": [*base, -1.0], "y": [*zero, 0.0]}, {"x": [*base, 1.0], "y": [*zero, 0.0]})
    # Few steps with little noise: caught at 4000 runs with 5 standard deviations to spare.
    return [
        _lease_game(
            "5 steps, Poisson", "add_remove", "free", Poisson(0.2), joined,
            "everyone takes part", multiplier=1.0, steps=5, broken_sampling=Poisson(1.0),
        ),
        _lease_game(
            "5 steps, Poisson, free", "replace_one", "free", Poisson(0.2), turned,
            "half the noise", multiplier=1.0, steps=5, broken_multiplier=0.5,
        ),
        _lease_game(
            "5 steps, Poisson, nonnegative", "replace_one", "nonnegative", Poisson(0.2), across,
            "half the noise", multiplier=1.0, steps=5, broken_multiplier=0.5,
        ),
        _lease_game(
            "5 steps, fixed size", "replace_one", "free", WithoutReplacement(1, 8), among,
            "half the noise", multiplier=1.5, steps=5, broken_multiplier=0.75,
        ),
        _lease_game(
            "5 steps, Poisson", "replace_one", "free", Poisson(0.125), among,
            "fixed size at the price of Poisson", multiplier=0.6, steps=5,
            broken_sampling=WithoutReplacement(1, 8),
        ),
    ]  # fmt: skip


def _lease_game(
    name: str,
    neighbours: Neighbours,
    geometry: Geometry,
    sampling: Subsampling,
    tables: tuple[Table, Table],
    mistake: str,
    *,
    multiplier: float,
    steps: int,
    broken_multiplier: float | None = None,
    broken_sampling: Subsampling | None = None,
) -> Game:
    """Real steps of a lease, several to a game; the twin runs another plan than was paid for."""
    fixed = isinstance(sampling, WithoutReplacement)
    claim = steps_epsilon(
        noise_multiplier=multiplier,
        steps=steps,
        sampling_rate=sampling.rate,
        delta=DELTA,
        neighbours=neighbours,
        sampling="wor" if fixed else "poisson",
        geometry=geometry,
    )
    schema = Schema(Real("x", -1, 1), Real("y", -1, 1), neighbours=neighbours)
    query = xy_sum(geometry=geometry)

    def sampler(z: float, way: Subsampling) -> Callable[[int], Scores]:
        def side(table: Table, runs: int) -> np.ndarray:
            several = Steps(runs * steps, Gaussian(noise_multiplier=z), way, geometry, numbers=2)
            lease = Public(table, schema).prepay(Plan(several, delta=DELTA))
            values = np.array([lease.release(query).value for _ in range(runs * steps)])
            logs = [_batch_log_density(values, t, z, way, geometry) for t in tables]
            return (logs[1] - logs[0]).reshape(runs, steps).sum(axis=1)

        return lambda runs: (side(tables[0], runs), side(tables[1], runs))

    return Game(
        f"{name}, {neighbours}",
        claim,
        DELTA,
        sampler(multiplier, sampling),
        mistake,
        sampler(broken_multiplier or multiplier, broken_sampling or sampling),
    )


def _batch_log_density(
    values: np.ndarray, table: Table, sigma: float, sampling: Subsampling, geometry: Geometry
) -> np.ndarray:
    """The density of a step's output: a mixture over batches, up to a constant."""
    points = np.column_stack([table["x"], table["y"]]).astype(float)
    if geometry != "free":
        points = np.maximum(points, 0)
    n = len(points)
    batches = [np.array([i >> j & 1 for j in range(n)], bool) for i in range(2**n)]
    if isinstance(sampling, WithoutReplacement):
        batches = [b for b in batches if b.sum() == sampling.size]
        weights = np.full(len(batches), 1 / len(batches))
    else:
        rate = sampling.rate
        weights = np.array([rate ** b.sum() * (1 - rate) ** (n - b.sum()) for b in batches])
    means = np.array([points[b].sum(axis=0) for b in batches])
    means, which = np.unique(means[weights > 0], axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), weights[weights > 0])
    squares = ((values[:, None, :] - means[None]) ** 2).sum(axis=2)
    exponents = np.log(weights) - squares / (2 * sigma**2)
    top = exponents.max(axis=1)
    return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
