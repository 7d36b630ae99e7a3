"""Hidden Markov models simulated from their prior: intervals and probabilities are calibrated."""

import numpy as np
import pytest
from scipy.stats import binom

from tacit.infer.hmm import Cells, Priors, draw_hidden_states
from tacit.infer.noise import Law
from tacit.spec.sampling import Sampling

pytestmark = pytest.mark.no_cover
FIRST = np.array([0, 3, 5])
SEQUENCES, TIMES, STATES, ROUNDS = 3, 8, 2, 80


def simulated(rng, law, rows):
    """True emissions and states, and counts with noise."""
    parts = [rng.dirichlet(np.ones(b - a), STATES) for a, b in ((0, 3), (3, 5))]
    theta = np.concatenate(parts, axis=1)
    transition, start = rng.dirichlet(np.ones(STATES), STATES), rng.dirichlet(np.ones(STATES))
    z = np.empty((SEQUENCES, TIMES), int)
    for path in z:
        probability = start
        for t in range(TIMES):
            path[t] = rng.choice(STATES, p=probability)
            probability = transition[path[t]]
    rate = 2 * rows * rng.gamma(0.5, size=(SEQUENCES, TIMES, 1))
    counts = rng.poisson(rate * theta[z])
    match law.family:
        case "none":
            noise = np.zeros(counts.shape)
        case "discrete_laplace":
            p = 1 - np.exp(-1 / law.scale)
            noise = rng.geometric(p, counts.shape) - rng.geometric(p, counts.shape)
        case _:
            noise = rng.normal(0, law.scale, counts.shape)
    return theta, z, counts + noise


@pytest.mark.parametrize(
    ("family", "scale", "rows"),
    [
        ("none", 0.0, 5),
        ("discrete_laplace", 1.5, 8),
        pytest.param("gaussian", 4.0, 20, marks=pytest.mark.slow),
        pytest.param("discrete_laplace", 15.0, 80, marks=pytest.mark.slow),
        ("gaussian", 60.0, 100),
    ],
)
def test_emissions_and_states_are_calibrated(family, scale, rows):
    """Label-free: emissions where a cell is, and whether two cells share a state.

    90% intervals cover within what a binomial allows, and probabilities are right on average:
    false alarms 1e-6 each, two-sided.
    """
    law, rng = Law(family, scale), np.random.default_rng(7)
    covered, surprise, variance = 0, 0.0, 0.0
    for i in range(ROUNDS):
        theta, z, y = simulated(rng, law, rows)
        cells = Cells(y, FIRST, [law] * 2, np.ones(z.shape, bool))
        found = draw_hidden_states(cells, STATES, Priors(), Sampling(500, 2, i))
        r, t, j = rng.integers(SEQUENCES), rng.integers(TIMES), rng.integers(FIRST[-1])
        states = found.states[:, r, t]
        here = found.theta[np.arange(len(states)), states, j]
        low, high = np.quantile(here, [0.05, 0.95])
        covered += low <= theta[z[r, t], j] <= high
        other = (r + 1) % SEQUENCES, rng.integers(TIMES)
        probability = (states == found.states[:, *other]).mean()
        surprise += probability - (z[r, t] == z[other])
        variance += probability * (1 - probability)
    assert binom.ppf(5e-7, ROUNDS, 0.9) <= covered <= binom.ppf(1 - 5e-7, ROUNDS, 0.9)
    assert abs(surprise) < 4.9 * np.sqrt(variance + 0.25)
