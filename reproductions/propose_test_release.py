"""One posterior sample after a test for outliers, against a clip and against public bounds.

Wang et al. (2015, section 3.1) propose to remove large records by a public threshold, or by
propose-test-release. docs/adr/0023 derives why the test cannot pay for a bound that does not hold;
this is what it costs where it stands beside one that does, and what a test of curvature could save.
"""

from __future__ import annotations

import math
import sys

import numpy as np

import tacit
from tacit.accounting.gaussian import gaussian_mu
from tacit.methods.method import Task

FAR, NEAR = 100.0, 6.0  # public bounds, and the threshold; rows are normal around 1 with sd 1
DELTA = 1e-6


def error(n: int, epsilon: float, bound: float, repeats: int = 400, seed: int = 0) -> float:
    """The root mean square error of a draw of a mean whose column ends at +-bound."""
    rng = np.random.default_rng([seed, n])
    schema = tacit.Schema(tacit.Real("x", -bound, bound), neighbours="replace_one")
    model = tacit.NormalMean("x", sd=1.0, prior=(0.0, 10.0))
    query = tacit.OnePosteriorSample(epsilon).query(Task(model, schema))
    found = []
    for _ in range(repeats):
        public = tacit.Public({"x": rng.normal(1, 1, n)}, schema, seed=int(rng.integers(2**31)))
        release = public.release(query, tacit.queries.Exponential(epsilon))
        found.append(bound * (2 * float(release.table("mean").value[0]) - 1) - 1)
    return float(np.sqrt(np.mean(np.square(found))))


def margin(epsilon: float) -> float:
    """How many outliers a test forgives: what Laplace noise exceeds with probability delta."""
    return math.log(1 / (2 * DELTA)) / epsilon


def curvature_temperatures(least: float, epsilon: float) -> tuple[float, float]:
    """Temperatures of a regression of 5 features, radius 1, sd and prior scale .3 (scaled).

    The first by the prior's curvature alone, as the wall has it; the second if the least eigenvalue
    of the rows' precision were known to be `least`, for nothing.
    """
    longest, sd, prior = math.sqrt(6), 0.3, 1 / 0.3**2
    gradient, mu = longest * (longest + 2) / sd**2, gaussian_mu(epsilon, DELTA)
    alone = gradient / (mu * math.sqrt(prior))
    # (gradient / T)^2 = mu^2 (prior + least / T)
    a, b, c = prior, least, -((gradient / mu) ** 2)
    return alone, (-b + math.sqrt(b**2 - 4 * a * c)) / (2 * a)


def main() -> None:
    say = sys.stdout.write
    say("n, epsilon: rmse with bounds +-100, +-6, +-6 after a test for half of epsilon; margin\n")
    for n in (1000, 10_000):
        for epsilon in (1.0, 4.0):
            ways = (epsilon, FAR), (epsilon, NEAR), (epsilon / 2, NEAR)
            errors = " ".join(f"{error(n, *way):.3f}" for way in ways)
            say(f"{n} {epsilon:g} {errors} {margin(epsilon / 2):.0f} rows\n")
    say("rows: temperature at epsilon 1 by the prior's curvature, and with the rows' own\n")
    for n in (1000, 5000, 50_000):
        alone, known = curvature_temperatures(n / 3 / 0.3**2, 1.0)
        say(f"{n} {alone:.0f} {known:.1f}\n")


if __name__ == "__main__":
    main()
