"""Every way to fit a logistic regression, and how well it predicts rows it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from kept import Kept
from privacy_for_free_data import Problem
from scipy.optimize import minimize
from scipy.special import expit

import tacit
from tacit.posterior.classes import values_of

DELTA = Decimal("1e-5")
RADIUS = 5.0  # of the ball of one posterior sample, on the scale of vectors of norm 1
_EXACTLY = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-8}
DRAWS = 400  # that predictions are averaged over, where there are more

NONE = "no privacy"
BUDGET = "Tacit: Budget"
OBJECTIVE = "objective perturbation"
KIFER = "paper: objective perturbation (Kifer)"
KIFER_TWICE = "Kifer's with noise for a replaced row"
WANG = "paper: OPS, temperature 4B / epsilon"
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


def wang(model: Any, schema: Any, epsilon: Decimal) -> tuple[Any, Any]:
    """The paper's Algorithm 1 on a ball: likelihood and prior to the power epsilon / 4B.

    B = log(1 + e^R) bounds a row's log-likelihood. Tacit's temperature at some epsilon is 2 R over
    it, so that the paper's is Tacit's at a smaller one, and privacy holds with room to spare.
    """
    bound = 4 * np.log1p(np.exp(RADIUS))
    power = min(1.0, float(epsilon) / bound)
    equal = Decimal(f"{2 * RADIUS * power:.6g}")
    flattened = replace(model, prior_scale=model.prior_scale / np.sqrt(power))
    return flattened, tacit.OnePosteriorSample(equal, truncation=RADIUS)


def kifer(
    vectors: np.ndarray,
    signs: np.ndarray,
    ridge: float,
    epsilon: float,
    rng: np.random.Generator,
    moved: float = 1.0,
) -> np.ndarray:
    """Kifer, Smith and Thakurta's (2012) Algorithm 1 with Gaussian noise, as printed.

    The minimum of the losses, |theta|^2 (ridge + 2 curvature / epsilon) / 2 and a random linear
    term: gradients of norm 1 and a curvature of 1/4 for rows of norm 1. Under replace_one a row
    moves the gradient by 2 and the noise would have to be twice as large (`moved=2`); the paper has
    it as here.
    It looks at the rows, and there is no wall: for public data.
    """
    variance = (8 * np.log(2 / float(DELTA)) + 4 * epsilon) / epsilon**2
    tilt = moved * np.sqrt(variance) * rng.standard_normal(vectors.shape[1])
    total = ridge + 2 * 0.25 / epsilon

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        margin = signs * (vectors @ theta)
        value = np.logaddexp(0, -margin).sum() + total / 2 * theta @ theta + tilt @ theta
        gradient = -vectors.T @ (signs * expit(-margin)) + total * theta + tilt
        return float(value), gradient

    start = np.zeros(vectors.shape[1])
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=_EXACTLY).x


def kifer_scores(
    problem: Problem, epsilon: float, repeat: int, moved: float
) -> tuple[float, float]:
    """Accuracy and mean log score of Kifer's minimum."""
    train, test = problem.split(repeat)
    model, schema = problem.model, problem.schema
    design, levels = model.design(schema), schema[model.target].labels

    def encoded(table: Any) -> tuple[np.ndarray, np.ndarray]:
        values = np.column_stack([values_of(table, column) for column in design.columns])
        return design.rows(values), np.where(table[model.target] == levels[1], 1.0, -1.0)

    ridge = model.logistic(schema).precision
    rng = np.random.default_rng((repeat, 2012))
    theta = kifer(*encoded(train.to_pandas()), ridge, epsilon, rng, moved)
    vectors, signs = encoded(test)
    margin = signs * (vectors @ theta)
    return float((margin > 0).mean()), float(-np.logaddexp(0, -margin).mean())


@dataclass(frozen=True, eq=False)
class Curve:
    """Accuracy and mean log score, each of shape (epsilons, repeats)."""

    epsilons: tuple[float, ...]
    accuracy: np.ndarray
    log_score: np.ndarray


def fit_and_score(
    problem: Problem, method: str, epsilon: Decimal, repeat: int
) -> tuple[float, float]:
    """The share of unseen rows that are told right, and their mean log probability."""
    if method in (KIFER, KIFER_TWICE):
        moved = 1.0 if method == KIFER else 2.0
        return kifer_scores(problem, float(epsilon), repeat, moved)
    train, test = problem.split(repeat)
    public = tacit.Public(train, problem.schema, seed=repeat)
    if method == WANG:
        model, how = wang(problem.model, problem.schema, epsilon)
    else:
        model, how = problem.model, HOW[method](epsilon, problem.rows)
    posterior = thinned(tacit.fit(model, public, how, seed=repeat, progress=False))
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
            exact = Decimal(str(epsilon))
            one = 0 if method == NONE and problem.name == "adult" else repeat  # all the same
            key = f"{problem.name}/{problem.rows}/{method}/{level:g}/{one}"
            found[i, repeat] = kept.get(
                key,
                lambda: fit_and_score(problem, method, exact, repeat),  # noqa: B023
            )
        say(f"{problem.title}, {method}, epsilon {epsilon:g}: {found[i].mean(axis=0).round(4)}")
    return Curve(epsilons, found[..., 0], found[..., 1])
