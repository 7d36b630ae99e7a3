"""Theorem 3 of Wang et al. (2015), and its step sizes: how far SGLD is from the posterior.

The posterior is that of one coin's log odds, so that the law a chain settles in can be computed on
a grid: errors here are not sampled. A step is `tacit.methods.sgld.langevin_step`, whose law is
N(theta + eta / 2 gradient, eta) whatever part of that variance is privacy noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from kept import Kept
from privacy_for_free_data import Problem
from privacy_for_free_measures import DELTA
from scipy.special import expit
from scipy.stats import binom
from war_logs_tables import table

import tacit
from tacit.methods import PhaseTransition, Polynomial

ROWS, HEADS, PRIOR_SD = 20, 4, 2.0
BATCH = 2  # rows with replacement, a tenth
RELATIVE = (0.2, 0.1, 0.05, 0.025)  # step sizes times the precision at the mode
ALL, BATCHES, PRINTED = "all rows", "batches of a tenth", "all rows, drift as printed"
HOW = (ALL, BATCHES, PRINTED)
_GRID = np.linspace(-6.0, 3.5, 801)


def gradient(theta: np.ndarray, heads: float = HEADS, rows: int = ROWS) -> np.ndarray:
    """Of the log-posterior, with the likelihood of `rows` rows scaled up to all."""
    return ROWS / rows * (heads - rows * expit(theta)) - theta / PRIOR_SD**2


def precision() -> float:
    """Minus the second derivative of the log-posterior at the mode."""
    mode = _GRID[np.abs(gradient(_GRID)).argmin()]
    return float(ROWS * expit(mode) * expit(-mode) + PRIOR_SD**-2)


def posterior() -> np.ndarray:
    """Probabilities of the grid's points."""
    log = HEADS * _GRID - ROWS * np.logaddexp(0, _GRID) - _GRID**2 / (2 * PRIOR_SD**2)
    weight = np.exp(log - log.max())
    return weight / weight.sum()


def kernel(eta: float, how: str) -> np.ndarray:
    """Row i has the law of the step that follows the grid's point i."""
    if how == BATCHES:
        options = [(h, BATCH, binom.pmf(h, BATCH, HEADS / ROWS)) for h in range(BATCH + 1)]
    else:
        options = [(HEADS, ROWS, 1.0)]
    drift = eta if how == PRINTED else eta / 2
    total = np.zeros((_GRID.size, _GRID.size))
    for heads, rows, probability in options:
        mean = _GRID + drift * gradient(_GRID, heads, rows)
        step = np.exp(-((_GRID - mean[:, None]) ** 2) / (2 * eta))
        total += probability * step / step.sum(axis=1, keepdims=True)
    return total


def stationary(eta: float, how: str) -> np.ndarray:
    """What the chain settles in: the left eigenvector of eigenvalue 1."""
    moves = kernel(eta, how) - np.eye(_GRID.size)
    moves[:, -1] = 1.0  # probabilities add up to 1
    return np.linalg.solve(moves.T, np.eye(_GRID.size)[-1])


@dataclass(frozen=True, eq=False)
class Weak:
    """Errors of E h in standard deviations (h = theta) and variances (h = its squared deviation).

    Shape (step sizes, 2), and between neighbouring step sizes the order: 1 if error is O(eta).
    """

    errors: np.ndarray
    orders: np.ndarray


def weak_convergence(how: str) -> Weak:
    """Theorem 3: the error of an expectation against the step size."""
    true, scale = posterior(), precision()
    mean = true @ _GRID
    variance = true @ (_GRID - mean) ** 2
    errors = []
    for relative in RELATIVE:
        law = stationary(relative / scale, how)
        errors.append([(law @ _GRID - mean) / variance**0.5,
                       law @ (_GRID - mean) ** 2 / variance - 1])  # fmt: skip
    found = np.array(errors)
    size = np.log(np.abs(found))
    steps = np.log(np.array(RELATIVE))
    return Weak(found, (size[:-1] - size[1:]) / (steps[:-1] - steps[1:])[:, None])


FIRST = 0.2  # a first step over the precision: the longest that the default takes
SCHEDULES: dict[str, Callable[[float], object]] = {
    "constant, the default": lambda first: None,
    "(10 + t)^-0.55": lambda first: Polynomial(first * 11**0.55, b=10, gamma=0.55),
    "phase transition, alpha 0.1": lambda first: PhaseTransition(0.1),
    "phase transition, alpha 0.5": lambda first: PhaseTransition(0.5),
}


def followed(
    problem: Problem, schedule: str, epsilon: float, pilots: bool, repeat: int, steps: int
) -> tuple[float, float, float]:
    """How a chain's draws compare with the posterior without privacy.

    Distance of the means and ratio of the standard deviations, both in the latter's (root mean
    square over coefficients), and accuracy on unseen rows.
    """
    train, test = problem.split(repeat)
    public = tacit.Public(train, problem.schema, seed=repeat)
    first = FIRST / problem.rows if pilots else 4 * FIRST / problem.rows  # curvature 1, or 1/4
    how = tacit.SGLD(
        Decimal(str(epsilon)), DELTA, steps=steps, step_size=SCHEDULES[schedule](first),
        pilot_share=0.75 if pilots else 0,
    )  # fmt: skip
    exact = tacit.fit(problem.model, public, tacit.Exact(), seed=repeat, progress=False)
    drawn = tacit.fit(problem.model, public, how, seed=repeat, progress=False, noise="plugin")
    true, ours = exact.flat("coef"), drawn.flat("coef")
    away = (ours.mean(axis=0) - true.mean(axis=0)) / true.std(axis=0)
    ratio = ours.std(axis=0) / true.std(axis=0)
    right = drawn.predict(test) == test[problem.model.target].to_numpy()
    rms = (float(np.sqrt(np.mean(x**2))) for x in (away, ratio))
    return *rms, float(right.mean())


@dataclass(frozen=True, eq=False)
class Followed:
    """Scores of `followed` by schedule: shape (settings, repeats, 3)."""

    steps: int
    settings: tuple[tuple[float, bool], ...]  # epsilon, and whether there are pilot queries
    scores: dict[str, np.ndarray]


def schedules(
    problem: Problem, epsilons: tuple[float, ...], repeats: int, steps: int, kept: Kept
) -> Followed:
    """All schedules, with and without pilot queries."""
    settings = tuple((e, pilots) for pilots in (True, False) for e in epsilons)
    scores = {}
    for schedule in SCHEDULES:
        found = np.empty((len(settings), repeats, 3))
        for i, (epsilon, pilots) in enumerate(settings):
            for r in range(repeats):
                one = f"{schedule}, {steps} steps/{epsilon:g}/pilots {pilots}/{r}"
                found[i, r] = kept.get(
                    f"{problem.name}/{problem.rows}/{one}",
                    lambda: followed(problem, schedule, epsilon, pilots, r, steps),  # noqa: B023
                )
        scores[schedule] = found
    return Followed(steps, settings, scores)


def part(weak: dict[str, Weak], found: Followed) -> str:
    """Both on the page."""
    rows = []
    for how, one in weak.items():
        cells = [f"{mean:+.4f}, {variance:+.4f}" for mean, variance in one.errors]
        rows.append((how, [*cells, " and ".join(f"{order:.2f}" for order in one.orders[-1])]))
    heads = [*(f"{relative:g}" for relative in RELATIVE), "last order"]
    followed_rows = [
        (name, [f"{away:.2f}, {ratio:.2f}" for away, ratio, _ in scores.mean(axis=1)])
        for name, scores in found.scores.items()
    ]
    settings = [f"epsilon {e:g}{'' if pilots else ', no pilots'}" for e, pilots in found.settings]
    accuracies = np.array([scores.mean(axis=1)[:, 2] for scores in found.scores.values()])
    repeats = next(iter(found.scores.values())).shape[1]
    return f"""\
## Theorem 3: the error of an expectation is O(step size)

SGLD on the posterior of one coin's log odds ({HEADS} heads in {ROWS} throws, prior standard
deviation {PRIOR_SD:g}), without and with batches. The law in which a chain settles is computed on a
grid, so that nothing here is sampled. A step's law is normal with variance eta, whatever part of
it is privacy noise, so that the table is that of private SGLD as well, as long as its noise fits.
Step sizes are relative: times the precision at the mode. Errors are those of the mean, in standard
deviations, and of the expected squared distance from it, in variances; the order is the slope of
log error against log step size between the last two.

{table("error of mean, of variance", heads, rows)}

As the theorem says, with and without batches, which cost more than the discretisation. With the
drift as printed (Equation 4.1, Algorithm 2) no step size helps: the variance stays half of what it
should be.

## Step sizes: constant, polynomial, phase transition

SGLD on the two normals, {found.steps:,} steps of all rows, draws of the chain itself
(`noise="plugin"`). The distance of the means from the posterior without privacy and the ratio of
standard deviations, both in those of the latter (root mean square over coefficients; 0 and 1 would
be right); means of {repeats} repeats. The polynomial begins at the longest step of the default.

{table("distance, ratio", settings, followed_rows)}

Accuracies are between {accuracies.min():.3f} and {accuracies.max():.3f}: they do not tell. A phase
transition begins hot and ends with less noise than a sampler needs, as the paper says; but its last
steps are too short to get around, so that its draws are too narrow where noise limits its steps.
Without pilot queries no schedule
reaches the posterior in so many steps, whose length a bound on the curvature limits. Tacit's
default is a constant, and its posterior with pilot queries is not that of the chain.
"""
