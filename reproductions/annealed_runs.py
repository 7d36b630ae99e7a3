"""Annealed importance sampling against plain draws of the same budget, and its evidence.

Foulds et al. (2016, supplement C.2) propose annealing and measure nothing. Here a success
probability of .3 with a uniform prior is fitted by `AnnealedImportance` and by
`OnePosteriorSample(draws=10)` at delta 1e-6, through `tacit.Public` and its simulated noise. The
distance of ten draws from the posterior is the first Wasserstein distance on the scale of log odds,
in standard deviations of the posterior: 0.39 for ten draws from the posterior itself.

A logistic regression of three coefficients, by `LogDensity`, is measured by how far draws are from
the posterior's mode, in its standard deviations (root mean square: 1 for the posterior).

Run: python reproductions/annealed_runs.py [--repeats 16]; it prints the figures of
docs/chains-through-the-wall.md.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import betaln, expit
from scipy.stats import beta

import tacit

TRUTH, DELTA, RUNS = 0.3, "1e-6", 10
SCHEMA = tacit.Schema(tacit.Categorical("x", ["no", "yes"], default="no"), neighbours="replace_one")
MODEL = tacit.BetaBernoulli("x", success="yes")
SIZES, EPSILONS = (200, 2_000, 20_000, 100_000), (1, 4)
METHODS = {
    "plain draws": lambda epsilon: tacit.OnePosteriorSample(
        epsilon, DELTA, truncation=0.05, draws=RUNS
    ),
    "annealed, as they are": lambda epsilon: tacit.methods.AnnealedImportance(
        epsilon, DELTA, runs=RUNS, weights="none"
    ),
    "annealed, chosen": lambda epsilon: tacit.methods.AnnealedImportance(
        epsilon, DELTA, runs=RUNS, weights="choice"
    ),
    "annealed, noisy weights": lambda epsilon: tacit.methods.AnnealedImportance(
        epsilon, DELTA, runs=RUNS, weights="noise"
    ),
}


@dataclass
class Cell:
    """What repeats of one setting gave."""

    temperature: float = np.nan
    distances: list[float] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)
    evidence: list[tuple[float, float, bool]] = field(default_factory=list)

    def row(self) -> str:
        error = np.std(self.distances) / len(self.distances) ** 0.5
        return (
            f"{self.temperature:7.2f} | {np.mean(self.distances):6.2f} ({error:.2f}) | "
            f"{np.mean(self.distinct):4.1f}"
        )


def measure(how: str, size: int, epsilon: float, repeats: int) -> Cell:
    cell = Cell()
    for seed in range(repeats):
        rng = np.random.default_rng([size, seed])
        yes = int(rng.binomial(size, TRUTH))
        public = tacit.Public({"x": ["yes"] * yes + ["no"] * (size - yes)}, SCHEMA, seed=seed)
        # The draws themselves: the posterior that knows their law is another matter.
        options = {"noise": "plugin", "draws": RUNS, "chains": 1} if how == "plain draws" else {}
        posterior = tacit.fit(MODEL, public, METHODS[how](epsilon), seed=seed, **options)
        p = posterior.flat("p")
        cell.distances.append(distance(p, beta(1 + yes, 1 + size - yes)))
        cell.distinct.append(len(np.unique(p)))
        cell.temperature = temperature(posterior)
        name = next((n for n in posterior.draws if "evidence" in n), None)
        if name is not None:
            power = 1 / cell.temperature
            exact = betaln(1 + power * yes, 1 + power * (size - yes))
            low, high = posterior.interval(0.9, name)
            sd = float(posterior.flat(name).std())
            cell.evidence.append((posterior.mean(name) - exact, sd, low < exact < high))
    return cell


def temperature(posterior: tacit.Posterior) -> float:
    """As the certificate says, or the release of a plain draw."""
    for text in posterior.certificate.assumptions:
        if "T = " in text:
            return float(text.split("T = ")[1])
        if "temperature 1" in text:
            return 1.0
    return posterior.releases[0].noise[0].scale


def distance(p: np.ndarray, law: object) -> float:
    """Between draws and a posterior, on the scale of log odds, in its standard deviations."""
    quantiles = law.ppf((np.arange(1000) + 0.5) / 1000)  # type: ignore[attr-defined]
    exact = np.log(quantiles) - np.log1p(-quantiles)
    drawn = np.quantile(np.log(p) - np.log1p(-p), (np.arange(1000) + 0.5) / 1000,
                        method="inverted_cdf")  # fmt: skip
    return float(np.abs(drawn - exact).mean() / exact.std())


def logistic_data(rows: int = 4_000) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Rows, and the mode and standard deviations of their posterior."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 2))
    y = rng.random(rows) < expit(x @ [1.0, -0.5] + 0.3)
    design, mode = np.column_stack([x, np.ones(rows)]), np.zeros(3)
    for _ in range(20):
        p = expit(design @ mode)
        precision = (design.T * (p * (1 - p))) @ design + np.eye(3) / 4
        mode = mode + np.linalg.solve(precision, design.T @ (y - p) - mode / 4)
    data = {"a": x[:, 0], "b": x[:, 1], "y": np.where(y, "yes", "no")}
    return data, mode, np.sqrt(np.diag(np.linalg.inv(precision)))


def logistic(repeats: int) -> None:
    schema = tacit.Schema(
        tacit.Real("a", -1, 1, default=0),
        tacit.Real("b", -1, 1, default=0),
        tacit.Categorical("y", ["no", "yes"], default="no"),
        neighbours="replace_one",
    )

    def log_likelihood(parameters: Any, x: Any, y: Any) -> Any:
        eta = x @ parameters["slopes"] + parameters["intercept"]
        return y * eta - jnp.logaddexp(0.0, eta)

    shapes = {"slopes": (2,), "intercept": ()}
    model = tacit.LogDensity(log_likelihood, ["a", "b"], "y", parameters=shapes, prior_scale=2.0)
    data, mode, sd = logistic_data()
    tell("logistic regression | epsilon | method | temperature | distance (error)")
    for epsilon in EPSILONS:
        hows = {name: make(epsilon) for name, make in METHODS.items() if "noisy" not in name}
        hows["plain draws"] = tacit.OnePosteriorSample(epsilon, DELTA, truncation=3.0, draws=RUNS)
        for name, how in hows.items():
            far = []
            for seed in range(repeats):
                posterior = tacit.fit(model, tacit.Public(data, schema, seed=seed), how, seed=seed)
                theta = np.column_stack([posterior.flat("slopes"), posterior.flat("intercept")])
                far.append(np.sqrt((((theta - mode) / sd) ** 2).mean()))
            error = np.std(far) / repeats**0.5
            scale = temperature(posterior)
            tell(f"4000 | {epsilon} | {name} | {scale:.2f} | {np.mean(far):.2f} ({error:.2f})")


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=16)
    repeats = parser.parse_args().repeats
    logistic(repeats)
    tell("units | epsilon | method | temperature | distance (error) | distinct points")
    evidence = []
    for size in SIZES:
        for epsilon in EPSILONS:
            for how in METHODS:
                cell = measure(how, size, epsilon, repeats)
                tell(f"{size} | {epsilon} | {how} | {cell.row()}")
                if cell.evidence:
                    errors, sds, covered = (np.array(part) for part in zip(*cell.evidence))
                    evidence.append(
                        f"{size} | {epsilon} | {cell.temperature:.2f} | {errors.mean():+.2f} | "
                        f"{np.sqrt((errors**2).mean()):.2f} | {sds.mean():.2f} | "
                        f"{covered.sum()} of {repeats}"
                    )
    tell("units | epsilon | temperature | mean error | rms error | stated sd | 90% covers")
    tell("\n".join(evidence))


if __name__ == "__main__":
    main()
