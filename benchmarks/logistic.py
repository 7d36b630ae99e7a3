"""Every way to fit a logistic regression, side by side on Adult; and whether intervals cover.

    python benchmarks/logistic.py [--data FOLDER] [--kept FILE]

Prints the tables of docs/logistic-regression.md. Without Adult: coverage alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: more threads are slower

import numpy as np

import tacit

sys.path.insert(0, str(Path(__file__).parent.parent / "reproductions"))  # data and measures

import privacy_for_free_data as data
from privacy_for_free_measures import (
    BUDGET,
    NONE,
    OBJECTIVE,
    OPS,
    OUTPUT,
    SGNHT,
    WEIGHTS,
    Curve,
    Kept,
    measure,
)
from war_logs_data import shared_data
from war_logs_tables import table

EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
TARGETS = (0.82, 0.835, 0.839, 0.842, 0.845)  # of Budget
METHODS = {BUDGET: 10, OBJECTIVE: 10, OUTPUT: 10, WEIGHTS: 5, OPS: 5, SGNHT: 3}  # and how often


def adult_tables(problem: data.Problem, kept: Kept, share: float = 1.0) -> str:
    """Accuracy and log score of every method, and Budget less objective perturbation."""
    curves = {}
    for method, times in METHODS.items():
        repeats = max(2, round(share * times))
        curves[method] = measure(problem, method, EPSILONS, repeats, kept, _say)
    plain = measure(problem, NONE, EPSILONS[:1], 1, kept, _say)
    heads = [f"epsilon {e:g}" for e in EPSILONS]
    parts = []
    for what, name in (("accuracy", "accuracy"), ("log_score", "log score")):
        rows = [(f"{m} ({getattr(c, what).shape[1]} runs)", _cells(c, what))
                for m, c in curves.items()]  # fmt: skip
        rows.append((NONE, [f"{getattr(plain, what)[0, 0]:.4f}", *[""] * (len(heads) - 1)]))
        if what == "accuracy":
            rows.append(("target of Budget", [f"{t:.3f}" for t in TARGETS]))
        rows.append(("Budget less objective", _apart(curves[BUDGET], curves[OBJECTIVE], what)))
        parts.append(table(name, heads, rows))
    return "\n\n".join([*parts, verdict(curves[BUDGET], curves[OBJECTIVE])])


def _cells(curve: Curve, what: str) -> list[str]:
    values = getattr(curve, what)
    error = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    return [f"{m:.4f} ± {s:.4f}" for m, s in zip(values.mean(axis=1), error, strict=True)]


def apart(one: Curve, other: Curve, what: str = "accuracy") -> tuple[np.ndarray, np.ndarray]:
    """How much better one is, and the standard error, at each epsilon."""
    a, b = getattr(one, what), getattr(other, what)
    error = np.sqrt(a.var(axis=1, ddof=1) / a.shape[1] + b.var(axis=1, ddof=1) / b.shape[1])
    return a.mean(axis=1) - b.mean(axis=1), error


def _apart(one: Curve, other: Curve, what: str) -> list[str]:
    return [f"{g:+.4f} ± {s:.4f}" for g, s in zip(*apart(one, other, what), strict=True)]


def verdict(budget: Curve, objective: Curve) -> str:
    """Where Budget misses its target or is clearly behind."""
    missed = [f"{e:g}" for e, m, t in zip(EPSILONS, budget.accuracy.mean(axis=1), TARGETS) if m < t]
    lines = [f"Targets missed at epsilon: {', '.join(missed) or 'none'}."]
    for what, name in (("accuracy", "accuracy"), ("log_score", "log score")):
        gap, error = apart(budget, objective, what)
        behind = [f"{e:g}" for e, g, s in zip(EPSILONS, gap, error) if g < -2 * s]
        lines.append(
            f"In {name} Budget is behind objective perturbation by more than 2 standard errors at "
            f"epsilon: {', '.join(behind) or 'none'}."
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class Simulated:
    """Regressions with known truth: features in [-1, 1], coefficients normal around zero."""

    features: str  # "uniform", or "normal" of sd 1/3
    size: int
    sd: float
    epsilon: float
    repeats: int
    rows: int = 5000


CASES = tuple(
    Simulated(features, size, sd, epsilon, repeats)
    for size, sd, repeats in ((5, 1.0, 200), (20, 1.0, 200), (5, 3.0, 200))
    for features in (("uniform", "normal") if sd == 1 else ("uniform",))
    for epsilon in (0.5, 2.0)
)


@dataclass(frozen=True)
class Covered:
    """Shares of 90% intervals that hold the truth, their widths, and errors of the means."""

    coefficients: float
    intercept: float
    error: float  # standard error of `coefficients`, by repeats
    width: float
    rmse: float
    ratio: float  # squared error over posterior variance, averaged: 1 if calibrated


def cover(case: Simulated, noise: str = "aware") -> Covered:
    """Fits `case.repeats` data sets, each with its own truth."""
    names = [f"x{i}" for i in range(case.size)]
    columns = [tacit.Real(name, -1, 1, default=0) for name in names]
    target = tacit.Categorical("y", [0, 1], default=0)
    schema = tacit.Schema(*columns, target, neighbours="replace_one")
    model = tacit.LogisticRegression("y", names)
    how = tacit.Budget(Decimal(str(case.epsilon)), Decimal("1e-5"))
    hits, widths, misses, ratios = [], [], [], []
    for repeat in range(case.repeats):
        rng = np.random.default_rng((repeat, case.size, case.features == "normal"))
        truth = rng.normal(0, case.sd, case.size + 1)  # the intercept last
        x = _features(case, rng)
        y = rng.random(case.rows) < 1 / (1 + np.exp(-(x @ truth[:-1] + truth[-1])))
        source: Any = dict(zip(names, x.T, strict=True)) | {"y": y.astype(int)}
        public = tacit.Public(source, schema, seed=repeat)
        found = tacit.fit(model, public, how, draws=500, seed=repeat, noise=noise, progress=False)
        draws = np.column_stack([found.flat("coef"), found.flat("intercept")])
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        hits.append((low <= truth) & (truth <= high))
        widths.append(high - low)
        misses.append(draws.mean(axis=0) - truth)
        ratios.append(misses[-1] ** 2 / draws.var(axis=0))
    hit = np.array(hits)
    by_repeat = hit[:, :-1].mean(axis=1)
    return Covered(
        coefficients=float(by_repeat.mean()),
        intercept=float(hit[:, -1].mean()),
        error=float(by_repeat.std(ddof=1) / np.sqrt(len(by_repeat))),
        width=float(np.array(widths)[:, :-1].mean()),
        rmse=float(np.sqrt(np.square(misses)[:, :-1].mean())),
        ratio=float(np.mean(np.array(ratios)[:, :-1])),
    )


def _features(case: Simulated, rng: np.random.Generator) -> np.ndarray:
    if case.features == "uniform":
        return rng.uniform(-1, 1, (case.rows, case.size))
    return np.clip(rng.normal(0, 1 / 3, (case.rows, case.size)), -1, 1)


def coverage_table(found: list[tuple[Simulated, Covered]]) -> str:
    """90% intervals of Budget on simulated data."""
    rows = []
    for case, got in found:
        what = f"{case.features}, {case.size} features, sd {case.sd:g}, epsilon {case.epsilon:g}"
        cells = [
            f"{got.coefficients:.1%} ± {got.error:.1%}", f"{got.intercept:.1%}",
            f"{got.width:.2f}", f"{got.rmse:.2f}", f"{got.ratio:.2f}", str(case.repeats),
        ]  # fmt: skip
        rows.append((what, cells))
    heads = ["coefficients", "intercept", "width", "rms error", "error²/variance", "repeats"]
    return table("90% intervals", heads, rows)


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds adult")
    parser.add_argument("--kept", type=Path, help="a file that keeps scores: a run can be resumed")
    given = parser.parse_args()
    folder = given.data or shared_data()
    adult = data.adult(folder)
    if adult is None:
        _say(f"No Adult in {folder}: coverage alone.")
    else:
        sys.stdout.write(adult_tables(adult, Kept.load(given.kept)) + "\n\n")
    sys.stdout.write(coverage_table([(case, cover(case)) for case in CASES]) + "\n")


if __name__ == "__main__":
    main()
