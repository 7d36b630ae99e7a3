"""One paid step of a lease against one step of BlackJAX's SGLD without privacy.

The same logistic regression (107 features and an intercept, 32,561 records, batches of 180), both
called from Python one step at a time, in turns. Prints the ratio; `--steps 32641` runs as many
private steps and reports the memory before and after.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from rich import print

import tacit

RECORDS, FEATURES, BATCH = 32_561, 107, 180
NAMES = [f"x{i}" for i in range(FEATURES)]


def simulate() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(RECORDS, FEATURES)) / np.sqrt(FEATURES)
    y = rng.random(RECORDS) < 1 / (1 + np.exp(-x @ rng.normal(size=FEATURES) * 3))
    return {**dict(zip(NAMES, x.T)), "y": y.astype(int)}


def gradient(row, theta):
    x = jnp.append(row[:-1], 1.0)
    return (row[-1] - jax.nn.sigmoid(x @ theta)) * x


def private(data: dict[str, np.ndarray], steps: int):
    schema = tacit.Schema(
        *(tacit.Real(name, -1, 1) for name in NAMES),
        tacit.Integer("y", 0, 1),
        neighbours="replace_one",
    )
    wall = tacit.Wall(data, schema, budget=tacit.Budget(1e4, 1e-3), ledger=":memory:")
    noisy = tacit.queries.Steps(
        steps,
        tacit.Gaussian(noise_multiplier=8.0),
        tacit.subsampling.Poisson(BATCH / RECORDS),
        numbers=108,
    )
    lease = wall.prepay(tacit.queries.Plan(noisy, delta=1e-5))
    theta = np.zeros(FEATURES + 1, np.float32)
    columns = [*NAMES, "y"]
    query = tacit.queries.BoundedSum(gradient, columns, size=FEATURES + 1, clip=1.0, state=theta)

    def step(theta):
        release = lease.release(query.at(theta))
        drift = RECORDS / BATCH * release.value - theta
        return (theta + 1e-6 * drift).astype(np.float32)

    return step, theta


def public(data: dict[str, np.ndarray], fused: bool):
    """BlackJAX's SGLD, jitted: the step alone, or with the choice of a batch compiled into it."""
    rows = np.column_stack([*(data[name] for name in NAMES), data["y"]]).astype(np.float32)

    def log_density(theta, batch):
        x = jnp.column_stack([batch[:, :-1], jnp.ones(len(batch))])
        z = x @ theta
        likelihood = jnp.sum(batch[:, -1] * z - jax.nn.softplus(z))
        return RECORDS / BATCH * likelihood - jnp.sum(theta**2) / 2

    sampler = blackjax.sgld(jax.grad(log_density))
    jitted = jax.jit(sampler.step)
    keys = itertools.cycle(jax.random.split(jax.random.key(0), 4096))
    rng = np.random.default_rng(0)
    on_device = jnp.asarray(rows)

    @jax.jit
    def whole(key, theta):
        pick, use = jax.random.split(key)
        batch = on_device[jax.random.randint(pick, (BATCH,), 0, RECORDS)]
        return sampler.step(use, theta, batch, 1e-6)

    def step(theta):
        if fused:
            return whole(next(keys), theta).block_until_ready()
        batch = rows[rng.integers(0, RECORDS, BATCH)]
        return jitted(next(keys), theta, batch, 1e-6).block_until_ready()

    return step, jnp.zeros(FEATURES + 1)


def seconds_a_step(step, state, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        state = step(state)
    return (time.perf_counter() - start) / count


def resident() -> float:
    """Megabytes in use, not at the peak."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=0, help="private steps for the memory check")
    options = parser.parse_args()
    data = simulate()
    turns, count = 15, 200
    contestants = [
        private(data, turns * count + 100 + options.steps),
        public(data, fused=False),
        public(data, fused=True),
    ]
    for step, state in contestants:
        seconds_a_step(step, state, 100)
    times = np.array([[seconds_a_step(*one, count) for one in contestants] for _ in range(turns)])
    mine, other, fused = 1e6 * np.median(times, axis=0)
    print(
        f"lease step {mine:.0f} us; BlackJAX SGLD step {other:.0f} us, ratio "
        f"{np.median(times[:, 0] / times[:, 1]):.2f}; with the batch chosen inside the compiled "
        f"step {fused:.0f} us, ratio {np.median(times[:, 0] / times[:, 2]):.2f}"
    )
    ours, ours_state = contestants[0]
    if options.steps:
        before = resident()
        each = seconds_a_step(ours, ours_state, options.steps)
        print(
            f"{options.steps} steps at {1e6 * each:.0f} us; memory {before:.0f} MB before, "
            f"{resident():.0f} MB after"
        )


if __name__ == "__main__":
    main()
