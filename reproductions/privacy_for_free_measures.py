"""Every way to fit a logistic regression, and how well it predicts rows it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from kept import Kept
from privacy_for_free_data import Problem

import tacit

DELTA = Decimal("1e-5")
RADIUS = 5.0  # of the ball of one posterior sample, on the scale of vectors of norm 1
DRAWS = 400  # that predictions are averaged over, where there are more

NONE = "no privacy"
BUDGET = "Tacit: Budget"
OBJECTIVE = "objective perturbation"
OUTPUT = "output perturbation"
OPS = "OPS, everywhere"
BALL = "OPS, in a ball"
HYBRID = "hybrid SGNHT"
SGNHT = "SGNHT"
WEIGHTS = "VIPS, Polya-Gamma weights"
SGLD_PAPER = "SGLD, the paper's noise"
SGLD_SAME = "SGLD, the accountant's noise"


def _batches(rows: int) -> dict[str, Any]:
    """Batches of root N and root N passes, as in the paper: N steps."""
    return {"steps": rows, "sampling": tacit.subsampling.Poisson(rows**-0.5)}


def _hybrid(epsilon: Decimal, rows: int) -> Any:
    half = (epsilon / 2, DELTA / 2)
    return tacit.methods.Hybrid(
        tacit.OnePosteriorSample(*half), tacit.methods.SGNHT(*half, **_batches(rows))
    )


# What each method is, for an epsilon and a number of rows.
HOW: dict[str, Callable[[Decimal, int], Any]] = {
    NONE: lambda e, n: tacit.Exact(),
    BUDGET: lambda e, n: tacit.Budget(e, DELTA),
    OBJECTIVE: lambda e, n: tacit.methods.ObjectivePerturbation(e, DELTA),
    OUTPUT: lambda e, n: tacit.methods.OutputPerturbation(e, DELTA),
    OPS: lambda e, n: tacit.OnePosteriorSample(e, DELTA),
    BALL: lambda e, n: tacit.OnePosteriorSample(e, truncation=RADIUS),
    HYBRID: _hybrid,
    SGNHT: lambda e, n: tacit.methods.SGNHT(e, DELTA, sampling=tacit.subsampling.Poisson(0.05)),
    WEIGHTS: lambda e, n: tacit.VIPS(e, DELTA),
    SGLD_PAPER: lambda e, n: tacit.SGLD(e, DELTA, **_batches(n), constants="paper"),
    SGLD_SAME: lambda e, n: tacit.SGLD(e, DELTA, **_batches(n)),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """Accuracy and mean log score, each of shape (epsilons, repeats)."""

    epsilons: tuple[float, ...]
    accuracy: np.ndarray
    log_score: np.ndarray


def fit_and_score(problem: Problem, how: Any, repeat: int) -> tuple[float, float]:
    """The share of unseen rows that are told right, and their mean log probability."""
    train, test = problem.split(repeat)
    public = tacit.Public(train, problem.schema, seed=repeat)
    posterior = thinned(tacit.fit(problem.model, public, how, seed=repeat, progress=False))
    truth = test[problem.model.target].to_numpy()
    right = posterior.predict(test) == truth
    return float(right.mean()), float(posterior.log_likelihood(test).mean())


def thinned(posterior: Any) -> Any:
    """At most `DRAWS` draws, evenly spaced: predictions of thousands take long."""
    chains, draws = posterior.draws["intercept"].shape
    every = max(1, chains * draws // DRAWS)
    return replace(posterior, draws={k: v[:, ::every] for k, v in posterior.draws.items()})


def measure(
    problem: Problem,
    method: str,
    epsilons: tuple[float, ...],
    repeats: int,
    kept: Kept,
    say: Callable[[str], None] = lambda words: None,
) -> Curve:
    """Repeats at every epsilon; without privacy epsilon does not matter."""
    found = np.empty((len(epsilons), repeats, 2))
    for i, epsilon in enumerate(epsilons):
        for repeat in range(repeats):
            level = 0.0 if method == NONE else epsilon
            how = HOW[method](Decimal(str(epsilon)), problem.rows)
            one = 0 if method == NONE and problem.name == "adult" else repeat  # all the same
            key = f"{problem.name}/{problem.rows}/{method}/{level:g}/{one}"
            found[i, repeat] = kept.get(key, lambda: fit_and_score(problem, how, repeat))  # noqa: B023
        say(f"{problem.title}, {method}, epsilon {epsilon:g}: {found[i].mean(axis=0).round(4)}")
    return Curve(epsilons, found[..., 0], found[..., 1])
