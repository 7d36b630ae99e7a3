"""A step of private SGLD, as `tacit.fit` takes it, against a step of BlackJAX's without privacy.

The same logistic regression (107 features and an intercept, 32,561 records), batches of 180, 1,000
and 4,000, in turns. The other step is compiled, and its batch is taken in NumPy, as from a data
loader, or inside the compiled step. Private batches are Poisson: their sizes vary. Prints ratios.
"""

from __future__ import annotations

import itertools
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from rich import print

import tacit

RECORDS, FEATURES = 32_561, 107
NAMES = [f"x{i}" for i in range(FEATURES)]
STEPS, TURNS = 300, 7


def simulate() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(RECORDS, FEATURES)) / np.sqrt(FEATURES)
    y = rng.random(RECORDS) < 1 / (1 + np.exp(-x @ rng.normal(size=FEATURES) * 3))
    return {**dict(zip(NAMES, x.T)), "y": y.astype(int)}


def log_likelihood(parameters, x, y):
    z = parameters["intercept"] + x @ parameters["coef"]
    return y * z - jax.nn.softplus(z)


MODEL = tacit.LogDensity(
    log_likelihood,
    x=NAMES,
    y="y",
    parameters={"coef": (FEATURES,), "intercept": ()},
    prior_scale=1.0,
)
SCHEMA = tacit.Schema(
    *(tacit.Real(name, -1, 1) for name in NAMES),
    tacit.Integer("y", 0, 1),
    neighbours="replace_one",
)


class Stopwatch:
    """A wall, and when the second step of the latest walk began: reading and paying come before."""

    def __init__(self, wall: tacit.Wall) -> None:
        self.wall, self.began = wall, 0.0
        self.schema, self.remaining, self.quote = wall.schema, wall.remaining, wall.quote

    def prepay(self, plan: tacit.queries.Plan) -> Stopwatch:
        self.lease, self.certificate, self.began = self.wall.prepay(plan), None, 0.0
        self.certificate = self.lease.certificate
        return self

    @property
    def steps_left(self) -> int:
        return self.lease.steps_left

    def release(self, query: tacit.queries.BoundedSum) -> tacit.Release:
        release = self.lease.release(query)
        self.began = self.began or time.perf_counter()
        return release


def private(data: dict[str, np.ndarray], batch: int):
    wall = tacit.Wall(data, SCHEMA, budget=tacit.Budget(1e4, 1e-2), ledger=":memory:")
    batches = tacit.subsampling.Poisson(batch / RECORDS)
    how = tacit.SGLD(8, 1e-5, steps=STEPS + 1, sampling=batches)

    def seconds() -> float:
        watch = Stopwatch(wall)
        tacit.fit(MODEL, watch, how, seed=0)
        return (time.perf_counter() - watch.began) / STEPS

    seconds()
    return seconds


def public(data: dict[str, np.ndarray], batch: int, inside: bool):
    rows = np.column_stack([*(data[name] for name in NAMES), data["y"]]).astype(np.float32)

    def log_density(theta, some):
        z = theta[0] + some[:, :-1] @ theta[1:]
        likelihood = jnp.sum(some[:, -1] * z - jax.nn.softplus(z))
        return RECORDS / batch * likelihood - jnp.sum(theta**2) / 2

    sampler = blackjax.sgld(jax.grad(log_density))
    compiled = jax.jit(sampler.step)
    on_device = jnp.asarray(rows)
    keys = itertools.cycle(jax.random.split(jax.random.key(0), 4096))
    rng = np.random.default_rng(0)

    @jax.jit
    def whole(key, theta):
        pick, use = jax.random.split(key)
        some = on_device[jax.random.randint(pick, (batch,), 0, RECORDS)]
        return sampler.step(use, theta, some, 1e-6)

    def step(theta):
        if inside:
            return whole(next(keys), theta).block_until_ready()
        some = rows[rng.integers(0, RECORDS, batch)]
        return compiled(next(keys), theta, some, 1e-6).block_until_ready()

    def seconds() -> float:
        theta = jnp.zeros(FEATURES + 1)
        start = time.perf_counter()
        for _ in range(STEPS):
            theta = step(theta)
        return (time.perf_counter() - start) / STEPS

    seconds()
    return seconds


def main() -> None:
    data = simulate()
    for batch in (180, 1000, 4000):
        contestants = [private(data, batch), public(data, batch, False), public(data, batch, True)]
        times = np.array([[one() for one in contestants] for _ in range(TURNS)])
        mine, other, fused = 1e6 * np.median(times, axis=0)
        ratios = np.median(times[:, :1] / times[:, 1:], axis=0)
        print(
            f"batch {batch}: private {mine:.0f} us; BlackJAX {other:.0f} us, ratio "
            f"{ratios[0]:.2f}; with the batch taken inside {fused:.0f} us, ratio {ratios[1]:.2f}"
        )


if __name__ == "__main__":
    main()
