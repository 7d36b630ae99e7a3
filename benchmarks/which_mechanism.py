"""Which mechanism is best for what: errors, widths and coverage, measured side by side.

Truths are drawn anew in every repeat, and all mechanisms see the same simulated rows. Writes the
tables of docs/which-mechanism.md, between its markers, and its picture.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import tacit
from tacit.fitting import for_budget
from tacit.testing import simulated_release

mpl.use("Agg")
import matplotlib.pyplot as plt

PAGE = Path(__file__).parent.parent / "docs" / "which-mechanism.md"
ROWS, EPSILONS, DELTA = (100, 1_000, 10_000), (0.1, 1.0, 10.0), 1e-6
REPEATS = {"BetaBernoulli": 200, "NormalModel": 120, "LinearRegression": 60}
WAYS = ("no privacy", "Laplace", "Gaussian", "one sample", "Laplace, plug-in")
PARTS = 4  # jobs of a setting
LEVELS = tacit.Categorical("x", ["no", "yes"], default="no")
SCORE = tacit.Real("score", 0, 100, default=50)
NUMBERS = """\
The standard deviation of Laplace noise divided by that of Gaussian noise, for the moments of a
regression. A ratio above 1 says that Gaussian noise is the smaller one. For d features d + 1 sums
and (d + 1)(d + 2) / 2 products are released."""
DOSES = (tacit.Real("a", 0, 10, default=5), tacit.Real("b", 0, 10, default=5))


@dataclass(frozen=True)
class Task:
    """Simulated rows: the truth, a model, the one for a draw and its options, exact statistics."""

    truth: np.ndarray
    schema: tacit.Schema
    model: Any
    drawn: Any
    truncation: Any
    variable: str
    value: np.ndarray


def beta_bernoulli(n: int, rng: np.random.Generator) -> Task:
    truth = rng.random()
    schema = tacit.Schema(LEVELS, neighbours="replace_one")
    model = tacit.BetaBernoulli("x", success="yes")
    yes = rng.binomial(n, truth)
    return Task(np.array([truth]), schema, model, model, 0.05, "p", np.array([yes]))


def normal(n: int, rng: np.random.Generator) -> Task:
    mean, sd = rng.uniform(30, 70), rng.uniform(5, 10)
    schema = tacit.Schema(SCORE, neighbours="replace_one")
    model, drawn = tacit.NormalModel("score"), tacit.NormalMean("score", sd=sd)
    u = np.clip(rng.normal(mean, sd, (n, 1)), 0, 100) / 50 - 1
    return Task(np.array([mean]), schema, model, drawn, None, "mean", moments(u))


def linear_regression(n: int, rng: np.random.Generator) -> Task:
    truth = rng.uniform(-4, 4, 2)
    schema = tacit.Schema(*DOSES, SCORE, neighbours="replace_one")
    x = np.clip(rng.normal(5, 2, (n, 2)), 0, 10)
    y = np.clip(50 + (x - 5) @ truth + rng.normal(0, 8, n), 0, 100)
    u = np.column_stack([x / 5 - 1, y / 50 - 1])
    model = tacit.LinearRegression("score", ["a", "b"])
    drawn = tacit.LinearRegression("score", ["a", "b"], prior_sd=8)
    return Task(truth, schema, model, drawn, 1.0, "coef", moments(u))


TASKS = {
    "BetaBernoulli": beta_bernoulli,
    "NormalModel": normal,
    "LinearRegression": linear_regression,
}


def moments(u: np.ndarray) -> np.ndarray:
    """Sums and products of columns in [-1, 1], in the order of `Moments.names`."""
    pairs = itertools.combinations_with_replacement(range(u.shape[1]), 2)
    return np.array([*u.sum(axis=0), *(u[:, i] @ u[:, j] for i, j in pairs)])


def posteriors(task: Task, n: int, epsilon: float, seed: int) -> list[Any]:
    """One posterior for each of WAYS."""
    schema, query = task.schema, task.model.query()
    sampling: dict[str, Any] = {"draws": 1000, "chains": 1, "seed": seed}
    exact = simulated_release(schema, query, tacit.Exact(), task.value, n)
    noisy = [
        simulated_release(schema, query, mechanism, task.value, n, seed=seed)
        for mechanism in (tacit.Laplace(epsilon), tacit.Gaussian(epsilon, DELTA))
    ]
    levels = isinstance(task.model, tacit.BetaBernoulli)
    one = tacit.OnePosteriorSample(
        epsilon,
        DELTA if isinstance(task.model, tacit.LinearRegression) else 0,
        truncation=task.truncation,
    )
    asked, how = one.question(task.drawn, schema)
    integers = np.array([n - task.value[0], task.value[0]]) if levels else exact.integers
    if isinstance(task.drawn, tacit.NormalMean):  # its draw is made from the sum alone
        summed = task.drawn.query()
        integers = simulated_release(schema, summed, tacit.Exact(), task.value[:1], n).integers
    draw = simulated_release(schema, asked, how, integers, n, seed=seed)
    moves = (
        dict(sampling, draws=300) if isinstance(task.model, tacit.LinearRegression) else sampling
    )
    return [
        task.model.posterior(exact, **sampling),
        *(task.model.posterior(release, **sampling) for release in noisy),
        task.drawn.posterior(draw, **moves),
        task.model.posterior(noisy[0], noise="plugin", **sampling),
    ]


def one(job: tuple[str, int, float, int, int]) -> np.ndarray:
    """Squared error, width and hits of every way, a row for each repeat."""
    name, n, epsilon, part, repeats = job
    # the same truths and rows for all epsilons
    rng = np.random.default_rng([list(TASKS).index(name), n, part])
    found = np.zeros((repeats, len(WAYS), 3))
    for i in range(repeats):
        task = TASKS[name](n, rng)
        for j, posterior in enumerate(posteriors(task, n, epsilon, part * repeats + i)):
            error = np.asarray(posterior.mean(task.variable)) - task.truth
            low, high = map(np.asarray, posterior.interval(0.9, task.variable))
            inside = (low <= task.truth) & (task.truth <= high)
            found[i, j] = (error**2).mean(), (high - low).mean(), inside.mean()
    return found


def picked(name: str, epsilon: float) -> str:
    """What `Budget(epsilon, delta)` chooses; it does not depend on the data."""
    task = TASKS[name](10, np.random.default_rng(0))
    public = tacit.Public({column.name: [] for column in task.schema.columns}, task.schema)
    chosen = for_budget(task.model, public, tacit.Budget(epsilon, DELTA))
    return type(chosen.mechanism).__name__


def noise_ratios() -> str:
    """The standard deviation of Laplace over that of Gaussian noise, by number of features."""
    features = (1, 2, 4, 8, 16, 32)
    lines = ["| epsilon | " + " | ".join(f"{d} feature{'s' * (d > 1)}" for d in features) + " |"]
    lines.append("|---" * (len(features) + 1) + "|")
    for epsilon in EPSILONS:
        ratios = []
        for d in features:
            columns = [tacit.Real(f"x{i}", 0, 1, default=0.5) for i in range(d + 1)]
            schema = tacit.Schema(*columns, neighbours="replace_one")
            public = tacit.Public({column.name: [] for column in columns}, schema)
            query = tacit.queries.Moments([column.name for column in columns])
            mechanisms = tacit.Laplace(epsilon), tacit.Gaussian(epsilon, DELTA)
            laplace, gaussian = (public.quote(query, how).variance for how in mechanisms)
            ratios.append(f"{np.sqrt(laplace / gaussian):.2f}")
        lines.append(f"| {epsilon:g} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def table(name: str, found: dict[tuple[int, float], np.ndarray]) -> str:
    """A row for each setting; the least error of what is private and honest stands in bold."""
    lines = [
        f"| n | epsilon | {' | '.join(WAYS)} | `Budget` takes |",
        "|---" * (len(WAYS) + 3) + "|",
    ]
    for (n, epsilon), numbers in found.items():
        square, width, hits = numbers.mean(axis=0).T
        rmse = np.sqrt(square)
        best = 1 + int(rmse[1:4].argmin())
        cells = [
            f"{'**' * (j == best)}{rmse[j]:.3g}{'**' * (j == best)} ({width[j]:.3g}, {hits[j]:.0%})"
            for j in range(len(WAYS))
        ]
        lines.append(f"| {n:,} | {epsilon:g} | {' | '.join(cells)} | {picked(name, epsilon)} |")
    return "\n".join(lines)


def picture(found: dict[str, dict[tuple[int, float], np.ndarray]], epsilon: float) -> None:
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    styles = ("k:", "C0o-", "C1s-", "C3^-", "C0--")
    for axes, (name, settings) in zip(panels, found.items(), strict=True):
        for j, (way, style) in enumerate(zip(WAYS, styles, strict=True)):
            rmse = [np.sqrt(settings[n, epsilon][:, j, 0].mean()) for n in ROWS]
            axes.loglog(ROWS, rmse, style, label=way, markersize=5)
        axes.set(title=name, xlabel="rows")
    panels[0].set_ylabel("root mean squared error")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(PAGE.with_suffix(".png"), dpi=110)


def main(share: float) -> None:
    found: dict[str, dict[tuple[int, float], np.ndarray]] = {}
    with Pool(2) as pool:
        for name in TASKS:
            repeats = max(1, round(share * REPEATS[name] / PARTS))
            found[name] = {}
            for n, epsilon in itertools.product(ROWS, EPSILONS):
                jobs = [(name, n, epsilon, part, repeats) for part in range(PARTS)]
                found[name][n, epsilon] = np.concatenate(pool.map(one, jobs))
            sys.stdout.write(f"{name}, {PARTS * repeats} repeats\n{table(name, found[name])}\n\n")
            sys.stdout.flush()
    counts = ", ".join(f"{len(next(iter(s.values())))} for {name}" for name, s in found.items())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    when = f"{dt.date.today().isoformat()}, at commit {commit}"
    parts = [f"`make mechanisms`, {when}. Repeats: {counts}."]
    parts += [f"### {name}\n\n{table(name, found[name])}" for name in found]
    parts.append(f"### How many numbers?\n\n{NUMBERS}\n\n{noise_ratios()}")
    measured = "\n\n".join(parts)
    page = PAGE.read_text()
    PAGE.write_text(
        re.sub(
            r"(<!-- measured -->\n).*?(<!-- end -->)",
            lambda found: f"{found[1]}{measured}\n{found[2]}",
            page,
            flags=re.DOTALL,
        )
    )
    picture(found, 1.0)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
