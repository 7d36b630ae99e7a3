"""How far posterior means are from the truth: Tacit's default, and the papers' mechanism.

Every family, truths from its prior, at equal epsilon. Writes docs/posterior-means.md and .png.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import sys
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import tacit
from tacit.spec.release import Noise, Release
from tacit.testing import simulated_release

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the simulations are those of the tests

from tests.statistical.families import FAMILIES, variables  # noqa: E402

NS = (10, 30, 100, 300, 1000, 3000)
EPSILONS = (0.1, 1.0)
WAYS = ("Tacit", "papers", "not private")
# What the papers add up: the width of every statistic's range, all with the same noise.
NAIVE = {"NormalMean": 2, "GammaPoisson": 2, "GammaExponential": 2, "NormalModel": 3}
NAIVE |= {"MultivariateNormalModel": 8, "LinearRegression": 8}
COUNTED = {"BetaBernoulli": (1.0, 1.0), "DirichletCategorical": (1.0, 1.0, 1.0, 1.0)}
MAIN = {
    "BetaBernoulli": "p",
    "DirichletCategorical": "p",
    "GammaPoisson": "rate",
    "GammaExponential": "rate",
    "NormalMean": "mean",
    "NormalModel": "mean",
    "MultivariateNormalModel": "mean",
    "LinearRegression": "coef",
}
Errors = dict[str, np.ndarray]  # squared errors of each variable, in the order of WAYS


def counts_errors(name: str, n: int, epsilon: float, rng: np.random.Generator) -> Errors:
    """Squared errors of the mean probabilities, averaged over the levels."""
    prior = np.array(COUNTED[name])
    levels = [f"l{i}" for i in range(len(prior))]
    schema = tacit.Schema(tacit.Categorical("x", levels, default="l0"), neighbours="replace_one")
    truth = rng.dirichlet(prior)
    counts = rng.multinomial(n, truth)
    if name == "BetaBernoulli":
        model: Any = tacit.BetaBernoulli("x", success="l1")
        release = simulated_release(schema, model.query(), tacit.Laplace(epsilon), counts[1:], n)
        p = model.posterior(release, draws=1000, chains=1).mean()
        ours = np.array([1 - p, p])
    else:
        model = tacit.DirichletCategorical("x")
        release = simulated_release(schema, model.query(), tacit.Laplace(epsilon), counts, n)
        ours = model.posterior(release, draws=1000, chains=1).mean()
    noisy = np.maximum(counts + rng.laplace(scale=2 / epsilon, size=len(prior)), 0)
    papers, exact = ((prior + c) / (prior + c).sum() for c in (noisy, counts))
    return {"p": np.array([((mean - truth) ** 2).mean() for mean in (ours, papers, exact)])}


def as_the_papers(exact: Release, scale: float, rng: np.random.Generator) -> Release:
    """The same moments with Laplace noise of one scale on each of them."""
    grids = np.array([law.grid for law in exact.noise])
    noisy = exact.value + rng.laplace(scale=scale, size=len(grids))
    return replace(
        exact,
        integers=np.rint(noisy / grids).astype(np.int64),
        noise=tuple(Noise("laplace", scale, grid) for grid in grids),
    )


def moments_errors(name: str, n: int, epsilon: float, rng: np.random.Generator) -> Errors:
    case = FAMILIES[name]
    truth, rows = case.simulate(rng, n)
    ours = case.release(rows, tacit.Laplace(epsilon), "replace_one")
    exact = case.release(rows, tacit.Exact(), "replace_one")
    papers = as_the_papers(exact, NAIVE[name] / epsilon, rng)
    errors: dict[str, list[float]] = {}
    for release, noise in ((ours, "aware"), (papers, "plugin"), (exact, "aware")):
        seed = int(rng.integers(2**31))
        posterior = case.model.posterior(release, draws=800, chains=1, seed=seed, noise=noise)
        for key, draws in variables(posterior, truth).items():
            errors.setdefault(key, []).append(float((draws.mean() - truth[key]) ** 2))
    grouped: dict[str, list[list[float]]] = {}
    for key, squares in errors.items():
        grouped.setdefault(key.partition("[")[0], []).append(squares)
    return {key: np.mean(squares, axis=0) for key, squares in grouped.items()}


def part(job: tuple[str, int, float, int, int]) -> dict[str, np.ndarray]:
    """Squared errors of each variable, shape (repeats, ways)."""
    name, n, epsilon, repeats, seed = job
    rng = np.random.default_rng((seed, n, int(10 * epsilon), len(name)))
    errors = counts_errors if name in COUNTED else moments_errors
    found = [errors(name, n, epsilon, rng) for _ in range(repeats)]
    return {key: np.array([one[key] for one in found]) for key in found[0]}


Results = dict[tuple[str, str, float, int], np.ndarray]


def run(names: list[str], repeats: int) -> Results:
    results: Results = {}
    size = max(repeats // 4, 1)
    with Pool(2) as pool:
        for name, epsilon, n in itertools.product(names, EPSILONS, NS):
            jobs = [(name, n, epsilon, size, seed) for seed in range(repeats // size)]
            parts = pool.map(part, jobs, chunksize=1)
            for key in parts[0]:
                results[name, key, epsilon, n] = np.concatenate([p[key] for p in parts])
            sys.stdout.write(f"{name} {epsilon} {n}\n")
            sys.stdout.flush()
    return results


def rms(squares: np.ndarray) -> tuple[float, float]:
    """Root mean square, and its standard error."""
    mean = squares.mean()
    return float(np.sqrt(mean)), float(squares.std() / np.sqrt(len(squares)) / 2 / np.sqrt(mean))


def gap(squares: np.ndarray) -> float:
    """Tacit's mean squared error over the papers', in standard errors of their difference."""
    difference = squares[:, 0] - squares[:, 1]
    return float(difference.mean() / (difference.std() / np.sqrt(len(difference))))


STYLE = {
    "papers": {"color": "#d55e00", "linestyle": "--", "marker": "s"},
    "Tacit": {"color": "#0072b2", "linestyle": "-", "marker": "o"},
    "not private": {"color": "#000000", "linestyle": ":", "marker": ""},
}


def picture(results: Results, path: Path) -> None:
    figure, axes = plt.subplots(2, 4, figsize=(15, 7), sharex=True, layout="constrained")
    for axis, (name, main) in zip(axes.flat, MAIN.items(), strict=True):
        for epsilon, light in zip(EPSILONS, (1.0, 0.45), strict=True):
            for way, style in STYLE.items():
                if way == "not private" and epsilon != EPSILONS[0]:
                    continue
                column = WAYS.index(way)
                found = np.array([rms(results[name, main, epsilon, n][:, column]) for n in NS])
                label = way if way == "not private" else f"{way}, epsilon {epsilon:g}"
                axis.errorbar(
                    NS, found[:, 0], yerr=2 * found[:, 1], label=label, alpha=light,
                    markersize=4, linewidth=1.6, **style,
                )  # fmt: skip
        axis.set(xscale="log", yscale="log", title=f"{name}: {main}")
        axis.grid(alpha=0.25)
    for axis in axes[1]:
        axis.set_xlabel("rows")
    figure.supylabel("root mean square error of the posterior mean")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=110)


HEAD = """\
# How far posterior means are from the truth

At equal epsilon Tacit's default is compared with the mechanism of the papers: truths from the
prior, n rows from each, replace_one with n public, {repeats} repeats; the same rows for both.

- **Tacit**: the model's own query under `Laplace(epsilon)`, its noise-aware posterior mean.
- **papers**: every statistic gets Laplace noise of scale S / epsilon, S the sum of the widths of
  all statistics' ranges; the noisy statistics are projected onto the valid range and taken as exact
  (`noise="plugin"`). For counts S = 2 on every cell, both cells of a Bernoulli column too. With
  columns scaled to [-1, 1] S = 2 for a sum, 2 + 1 for a sum and a square, 2 + 2 + 1 + 1 + 2 = 8 for
  two columns with their products. The update is by the model's own likelihood, which knows of the
  bounds where the model does; that favours the papers, whose update ignores them.
- **not private**: the exact statistics.

Priors are those of [calibration](calibration.md); Beta(1, 1), and Dirichlet(1, 1, 1, 1).
Errors are root mean squares (over levels, means or coefficients too) with standard errors. The last
column is the difference of mean squared errors, Tacit's minus the papers', in its standard errors:
above 2 Tacit would be worse.

`python benchmarks/posterior_means.py --repeats {repeats}`, {date}.

![posterior means](posterior-means.png)

"""


def page(results: Results, repeats: int) -> str:
    lines = [
        "| family | variable | epsilon | n | Tacit | papers | not private | difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    worse = []
    for (name, key, epsilon, n), squares in results.items():
        cells = [f"{value:.3g} +- {error:.1g}" for value, error in map(rms, squares.T)]
        z = gap(squares)
        lines.append(f"| {name} | {key} | {epsilon:g} | {n} | {' | '.join(cells)} | {z:.1f} |")
        if z > 2:
            worse.append(f"{name} {key} (epsilon {epsilon:g}, n {n}: {z:.1f})")
    said = f"{len(worse)} of {len(results)} differences exceed 2"
    said += f": {', '.join(worse)}." if worse else "."
    head = HEAD.format(repeats=repeats, date=dt.date.today().isoformat())
    return head + said + "\n\n" + "\n".join(lines) + "\n"


def main(repeats: int, folder: Path, names: Mapping[str, str] = MAIN) -> None:
    results = run(list(names), repeats)
    picture(results, folder / "posterior-means.png")
    (folder / "posterior-means.md").write_text(page(results, repeats))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs")
    main(**vars(parser.parse_args()))
