"""Do 90% intervals of methods by gradients cover? Several models and epsilons, simulated data.

    python benchmarks/gradient_methods.py [--fits 80] [--steps 300] [--models ...] [--methods ...]

Prints the table of docs/gradient-methods.md. Each fit has its own truth, rows and noise; delta is
1e-6, rows 5,000, neighbours replace_one. Truths are drawn, not fixed, and not from the prior.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: more threads are slower

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln

import tacit
from tacit.methods import DPVI, SGFS, SGHMC, SGLD, SGNHT, PrivateNewton

ROWS = 5_000
EPSILONS = (0.5, 1.0, 4.0)
GROUPS = 6


@dataclass(frozen=True, eq=False)
class Case:
    """A model, its schema, and a simulator of a truth by variable and of a table."""

    model: Any
    schema: tacit.Schema
    simulate: Callable[[np.random.Generator], tuple[dict[str, Any], dict[str, Any]]]


def inputs(count: int) -> list[tacit.Real]:
    return [tacit.Real(f"x{i}", -1, 1, default=0) for i in range(count)]


def features(rng: np.random.Generator, count: int) -> tuple[np.ndarray, dict[str, Any]]:
    x = rng.uniform(-1, 1, (ROWS, count))
    return x, {f"x{i}": x[:, i] for i in range(count)}


def logistic(count: int, spread: float) -> Case:
    names = [f"x{i}" for i in range(count)]

    def simulate(rng: np.random.Generator) -> Any:
        x, table = features(rng, count)
        coef, intercept = rng.normal(0, spread, count), rng.normal(0, spread)
        ill = rng.random(ROWS) < 1 / (1 + np.exp(-(intercept + x @ coef)))
        table["y"] = np.where(ill, "yes", "no")
        return {"coef": coef, "intercept": intercept}, table

    target = tacit.Categorical("y", ["no", "yes"], default="no")
    schema = tacit.Schema(*inputs(count), target, neighbours="replace_one")
    return Case(tacit.LogisticRegression("y", names), schema, simulate)


def counted(count: int, log_likelihood: Any, dispersed: bool) -> Case:
    names = [f"x{i}" for i in range(count)]

    def simulate(rng: np.random.Generator) -> Any:
        x, table = features(rng, count)
        truth = {"coef": rng.normal(0, 0.5, count), "base": rng.normal(0.5, 0.3)}
        rate = np.exp(truth["base"] + x @ truth["coef"])
        if dispersed:
            truth["log_size"] = rng.normal(0.5, 0.5)
            size = np.exp(truth["log_size"])
            rate = rng.gamma(size, rate / size)
        table["y"] = rng.poisson(rate).clip(0, 50)
        return truth, table

    shapes: dict[str, Any] = {"coef": (count,), "base": ()}
    if dispersed:
        shapes["log_size"] = ()
    schema = tacit.Schema(
        *inputs(count), tacit.Integer("y", 0, 50, default=0), neighbours="replace_one"
    )
    model = tacit.LogDensity(log_likelihood, x=names, y="y", parameters=shapes, prior_scale=2.0)
    return Case(model, schema, simulate)


def poisson(parameters: Any, x: Any, y: Any) -> Any:
    eta = parameters["base"] + x @ parameters["coef"]
    return y * eta - jnp.exp(eta)


def negative_binomial(parameters: Any, x: Any, y: Any) -> Any:
    eta = parameters["base"] + x @ parameters["coef"]
    size = jnp.exp(parameters["log_size"])
    total = jnp.logaddexp(parameters["log_size"], eta)
    log_binomial = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
    return log_binomial + size * (parameters["log_size"] - total) + y * (eta - total)


def hierarchy(x0: Any, group: Any, y: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("groups", GROUPS):
        level = numpyro.sample("level", dist.Normal(mean, spread))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level[group] + slope * x0)), obs=y)


def offsets(x0: Any, group: Any, y: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("groups", GROUPS):
        away = numpyro.sample("away", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        rate = jnp.exp(mean + spread * away[group] + slope * x0)
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def not_centred() -> Case:
    """The hierarchy written with offsets: methods by gradients are to warn."""
    case = hierarchical()

    def simulate(rng: np.random.Generator) -> Any:
        truth, table = case.simulate(rng)
        truth["away"] = (truth.pop("level") - truth["mean"]) / truth["spread"]
        return truth, table

    return Case(tacit.LogDensity(offsets), case.schema, simulate)


def hierarchical() -> Case:
    groups = [f"g{i}" for i in range(GROUPS)]

    def simulate(rng: np.random.Generator) -> Any:
        x, table = features(rng, 1)
        mean, spread, slope = rng.normal(0.5, 0.3), rng.uniform(0.2, 0.8), rng.normal(0, 0.5)
        level = rng.normal(mean, spread, GROUPS)
        group = rng.integers(0, GROUPS, ROWS)
        table["group"] = np.array(groups)[group]
        table["y"] = rng.poisson(np.exp(level[group] + slope * x[:, 0])).clip(0, 50)
        return {"level": level, "slope": slope, "mean": mean, "spread": spread}, table

    schema = tacit.Schema(
        *inputs(1),
        tacit.Categorical("group", groups, default=groups[0]),
        tacit.Integer("y", 0, 50, default=0),
        neighbours="replace_one",
    )
    return Case(tacit.LogDensity(hierarchy), schema, simulate)


CASES: dict[str, Callable[[], Case]] = {
    "logistic, 5 features": lambda: logistic(5, 1.0),
    "logistic, 15 features": lambda: logistic(15, 0.7),
    "Poisson, 4 features": lambda: counted(4, poisson, False),
    "negative binomial, 4 features": lambda: counted(4, negative_binomial, True),
    "hierarchy, 6 groups": hierarchical,
    "hierarchy, not centred": not_centred,
}
SAMPLERS = {each.__name__: each for each in (PrivateNewton, SGLD, SGHMC, SGNHT, SGFS, DPVI)}


def how(method: str, epsilon: float, steps: int) -> Any:
    method, _, more = method.partition(" ")  # "SGLD 20%", "DPVI AutoNormal"
    if method == "PrivateNewton":
        return PrivateNewton(epsilon, 1e-6)
    options: dict[str, Any] = {}
    if more.endswith("%"):
        options["sampling"] = tacit.subsampling.Poisson(float(more[:-1]) / 100)
    elif more:
        options["guide"] = getattr(numpyro.infer.autoguide, more)
    return SAMPLERS[method](epsilon, 1e-6, steps=steps, **options)


def measure(case: Case, method: str, epsilon: float, fits: int, steps: int, seed: int) -> str:
    """One line of the table: intervals of fits without a warning, and how many warn."""
    held, errors, widths, warned = [], [], [], 0
    for fit in range(fits):
        rng = np.random.default_rng([seed, fit])
        truth, table = case.simulate(rng)
        public = tacit.Public(table, case.schema, seed=1000 * seed + fit)
        posterior = tacit.fit(case.model, public, how(method, epsilon, steps), seed=fit)
        if posterior.warnings:
            warned += 1
            continue
        for name, value in truth.items():
            low, high = posterior.interval(0.9, name)
            held.append(np.ravel((low <= value) & (value <= high)))
            errors.append(np.ravel(posterior.mean(name) - value))
            widths.append(np.ravel(np.asarray(high) - low))
    if not held:
        return f"all {fits} fits warn | | |"
    covered, each = np.concatenate(held), len(held) // len(truth)
    share = covered.mean()
    by_fit = np.array([np.concatenate(held[i::each]).mean() for i in range(each)])
    error = by_fit.std() / max(len(by_fit), 1) ** 0.5
    rms = np.sqrt(np.mean(np.concatenate(errors) ** 2))
    text = f"{share:.1%} ± {error:.1%} | {covered.size} | {np.concatenate(widths).mean():.2f}"
    return f"{text} | {rms:.3f} | {warned} of {fits}"


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fits", type=int, default=80)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=list(CASES))
    parser.add_argument("--methods", nargs="*", default=[*SAMPLERS, "SGLD 20%", "SGNHT 20%"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    given = parser.parse_args()
    say("| model | method | epsilon | 90% intervals hold | intervals | width | rms | warn |")
    say("|---|---|---|---|---|---|---|---|")
    for name in given.models:
        case = CASES[name]()
        for method in given.methods:
            for epsilon in given.epsilons:
                line = measure(case, method, epsilon, given.fits, given.steps, given.seed)
                say(f"| {name} | {method} | {epsilon:g} | {line} |")
        jax.clear_caches()


if __name__ == "__main__":
    main()
