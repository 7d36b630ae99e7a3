"""Where noise is large: PrivateNewton, RidgeNewton and objective perturbation side by side.

    python benchmarks/small_epsilon.py [--repeats 40] [--data FOLDER] [--problems ...]

Prints the table of docs/logistic-regression.md: accuracy and mean log score on unseen rows, with
standard errors over repeats, each with its own rows and noise; delta is 1e-5. Without Abalone:
simulated problems alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: more threads are slower

import numpy as np
import pandas as pd
import pyarrow as pa

import tacit

sys.path.insert(0, str(Path(__file__).parent.parent / "reproductions"))  # data

from privacy_for_free_data import Problem, abalone, gaussians
from war_logs_data import shared_data

DELTA = Decimal("1e-5")
EPSILONS = (0.01, 0.03, 0.1)
METHODS = {
    "PrivateNewton": tacit.methods.PrivateNewton,
    "RidgeNewton": tacit.methods.RidgeNewton,
    "ObjectivePerturbation": tacit.methods.ObjectivePerturbation,
}


def uniform(size: int = 5, rows: int = 5000) -> Problem:
    """Features in [-1, 1], coefficients and intercept normal around zero, new ones each time."""
    names = [f"x{i}" for i in range(size)]

    def split(repeat: int) -> tuple[Any, pd.DataFrame]:
        rng = np.random.default_rng((2026, repeat, size))
        x, truth = rng.uniform(-1, 1, (2 * rows, size)), rng.normal(0, 1, size + 1)
        ill = rng.random(2 * rows) < 1 / (1 + np.exp(-(truth[-1] + x @ truth[:-1])))
        table = pd.DataFrame(x, columns=names).assign(y=np.where(ill, "yes", "no"))
        return pa.Table.from_pandas(table[:rows], preserve_index=False), table[rows:]

    columns = [tacit.Real(name, -1, 1, default=0) for name in names]
    target = tacit.Categorical("y", ["no", "yes"], default="no")
    schema = tacit.Schema(*columns, target, neighbours="replace_one")
    model = tacit.LogisticRegression("y", names)
    return Problem("uniform", f"{size} uniform features", schema, model, split, rows)


def score(problem: Problem, method: str, epsilon: float, repeat: int) -> tuple[float, float]:
    """The share of unseen rows that are told right, and their mean log probability."""
    train, test = problem.split(repeat)
    public = tacit.Public(train, problem.schema, seed=repeat)
    how = METHODS[method](Decimal(str(epsilon)), DELTA)
    draws = {} if method == "ObjectivePerturbation" else {"draws": 100, "chains": 4}
    posterior = tacit.fit(problem.model, public, how, seed=repeat, progress=False, **draws)
    right = posterior.predict(test) == test[problem.model.target].to_numpy()
    return float(right.mean()), float(posterior.log_likelihood(test).mean())


def cell(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1) / len(values) ** 0.5:.4f}"


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--data", type=Path, help="folder that holds abalone")
    parser.add_argument("--problems", nargs="*", default=["gaussians", "abalone", "uniform"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", tacit.errors.InferenceWarning)
    found = (gaussians(), abalone(given.data or shared_data()), uniform())
    say("| problem | method | epsilon | accuracy | log score |")
    say("|---|---|---|---|---|")
    for problem in found:
        if problem is None or problem.name not in given.problems:
            continue
        for epsilon in given.epsilons:
            for method in given.methods:
                scores = [score(problem, method, epsilon, i) for i in range(given.repeats)]
                accuracy, log_score = (cell(values) for values in np.array(scores).T)
                say(f"| {problem.title} | {method} | {epsilon:g} | {accuracy} | {log_score} |")


if __name__ == "__main__":
    main()
