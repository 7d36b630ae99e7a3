"""Annealed importance sampling against plain draws of the same budget, and its evidence.

Foulds et al. (2016, supplement C.2) propose annealing and measure nothing. Here a success
probability of .3 with a uniform prior is fitted by `AnnealedImportance` and by
`OnePosteriorSample(draws=10)` at delta 1e-6, through `tacit.Public` and its simulated noise. The
distance of ten draws from the posterior is the first Wasserstein distance on the scale of log odds,
in standard deviations of the posterior: 0.25 for ten draws from the posterior itself.

Run: python reproductions/annealed_runs.py [--repeats 20]; it prints the tables of
docs/chains-through-the-wall.md.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaln
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


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
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
