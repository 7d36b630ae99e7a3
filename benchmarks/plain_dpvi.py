"""Private variational inference as it is usually done, beside Tacit's methods, at equal epsilon.

    python benchmarks/plain_dpvi.py [--fits 15] [--seed 1]

The plain method is that of Jälkö et al. (2017): a normal guide of independent parameters, one draw
of it a step, the gradient of each record's share of the evidence lower bound clipped, noise by
`tacit.accounting` on Poisson batches of 5%, Adam. It has 1,000 steps, and of four settings (clip,
learning rate) the one whose held-out score is best on average, for which it does not pay.
Prints the table of docs/gradient-methods.md: the mean held-out log score of a row, less that of the
truth, and shares of 90% intervals that hold the truth.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from gradient_methods import ROWS, Case, counted, logistic, poisson, say
from scipy.special import expit, gammaln, log_expit

import tacit
from tacit.accounting import noise_multiplier
from tacit.methods import DPVI, PrivateNewton

EPSILONS, DELTA, RATE, STEPS = (0.5, 1.0, 4.0), 1e-6, 0.05, 1000
SETTINGS = ((1.0, 0.01), (1.0, 0.05), (4.0, 0.01), (4.0, 0.05))
DRAWS = 1000


def score(family: str, draws: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """The mean log of a row's mean probability over draws."""
    eta = draws @ x.T
    if family == "logistic":
        logs = log_expit(eta * (2 * y - 1))
    else:
        logs = y * eta - np.exp(np.minimum(eta, 30)) - gammaln(y + 1)
    top = logs.max(axis=0)
    return float(np.mean(top + np.log(np.exp(logs - top).mean(axis=0))))


def plain(
    family: str, x: np.ndarray, y: np.ndarray, sd: float, noise: float, setting: Any, rng: Any
) -> np.ndarray:
    """Draws of the guide after all steps."""
    (clip, rate), (n, size) = setting, x.shape
    at = np.concatenate([np.zeros(size), np.full(size, -1.0)])  # means, log deviations
    first, second = np.zeros(2 * size), np.zeros(2 * size)
    for t in range(1, STEPS + 1):
        some = rng.random(n) < RATE
        draw = rng.standard_normal(size)
        wide = np.exp(at[size:])
        theta = at[:size] + wide * draw
        eta = x[some] @ theta
        mean = expit(eta) if family == "logistic" else np.exp(np.minimum(eta, 30))
        slope = (y[some] - mean)[:, None] * x[some] - theta / sd**2 / n
        each = np.hstack([slope, slope * wide * draw + 1 / n])
        each *= np.minimum(1, clip / np.maximum(np.linalg.norm(each, axis=1), 1e-12))[:, None]
        gradient = (each.sum(axis=0) + noise * clip * rng.standard_normal(2 * size)) / RATE / n
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        at = at + rate * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    return at[:size] + np.exp(at[size:]) * rng.standard_normal((DRAWS, size))


def ours(case: Case, how: Any, table: Any, seed: int) -> np.ndarray:
    public = tacit.Public(table, case.schema, seed=seed)
    posterior = tacit.fit(case.model, public, how, seed=seed)
    last = "intercept" if "intercept" in posterior.draws else "base"
    return np.column_stack([posterior.flat("coef"), posterior.flat(last)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fits", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    cases = {"logistic": (logistic(5, 1.0), 2 * 6**0.5), "Poisson": (counted(4, poisson, False), 2)}
    say("| model | method | epsilon | held-out score below the truth's | 90% intervals hold |")
    say("|---|---|---|---|---|")
    for family, (case, sd) in cases.items():
        for epsilon in EPSILONS:
            noise = noise_multiplier(
                epsilon=epsilon, steps=STEPS, sampling_rate=RATE, delta=DELTA,
                neighbours="replace_one",
            )  # fmt: skip
            found: dict[Any, list[tuple[float, float]]] = {}
            for fit in range(given.fits):
                rng = np.random.default_rng([given.seed, fit])
                truth, table = case.simulate(rng)
                names = [c.name for c in case.schema.columns if c.name.startswith("x")]
                x = np.column_stack([*(table[name] for name in names), np.ones(ROWS)])
                true = np.append(truth["coef"], truth.get("intercept", truth.get("base")))
                new = np.column_stack([rng.uniform(-1, 1, (ROWS, len(names))), np.ones(ROWS)])
                if family == "logistic":
                    y = (table["y"] == "yes").astype(float)
                    fresh = (rng.random(ROWS) < expit(new @ true)).astype(float)
                else:
                    y, fresh = table["y"].astype(float), rng.poisson(np.exp(new @ true))
                draws = {
                    "PrivateNewton": ours(case, PrivateNewton(epsilon, DELTA), table, fit),
                    "DPVI": ours(case, DPVI(epsilon, DELTA, steps=100), table, fit),
                    **{s: plain(family, x, y, sd, noise, s, rng) for s in SETTINGS},
                }
                best = score(family, true[None], new, fresh)
                for method, each in draws.items():
                    low, high = np.quantile(each, [0.05, 0.95], axis=0)
                    held = float(np.mean((low <= true) & (true <= high)))
                    loss = best - score(family, each[:DRAWS], new, fresh)
                    found.setdefault(method, []).append((loss, held))
            means = {method: np.mean(rows, axis=0) for method, rows in found.items()}
            chosen = min(SETTINGS, key=lambda s: means[s][0])
            label = f"plain, clip {chosen[0]:g}, rate {chosen[1]:g}"
            for method, name in (("PrivateNewton",) * 2, ("DPVI",) * 2, (chosen, label)):
                loss, held = means[method]
                error = np.std([row[0] for row in found[method]]) / given.fits**0.5
                say(f"| {family} | {name} | {epsilon:g} | {loss:.4f} ± {error:.4f} | {held:.0%} |")


if __name__ == "__main__":
    main()
