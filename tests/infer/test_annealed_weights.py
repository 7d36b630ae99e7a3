"""Weights of annealed runs from noisy logarithms: no bias, honest intervals.

False-alarm rates are 1e-6 for each comparison, were the seeds not fixed.
"""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from tacit.infer.annealed_weights import NoisyWeights, draw_weights

RUNS, REPEATS, DRAWS = 10, 400, 400


def released(rng, width, noise, level_noise=0.5, runs=RUNS):
    """Log weights of mean exp(0), and what a wall would release of them."""
    logs = rng.normal(-(width**2) / 2, width, runs)
    mean = logs.mean()
    spread = logs - mean + noise * rng.standard_normal(runs)
    return logs, NoisyWeights(
        mean + level_noise * rng.standard_normal(), spread, level_noise, noise
    )


@pytest.mark.parametrize(
    ("width", "noise", "bias"),
    [
        (1.0, 0.1, 0.25),
        (1.0, 1.0, 0.25),
        (1.0, 3.0, 0.25),
        (0.1, 3.0, 0.5),  # noise hides the width, whose prior median of 1 adds half of its square
    ],
)
def test_the_constant_is_covered_and_the_plugin_estimate_is_not(width, noise, bias):
    rng = np.random.default_rng(1)
    covered, errors, plugin = 0, [], []
    for _ in range(REPEATS):
        _, seen = released(rng, width, noise)
        _, constant = draw_weights(seen, DRAWS, rng)
        low, high = np.quantile(constant, [0.05, 0.95])
        covered += low < 0 < high
        errors.append(constant.mean())
        plugin.append(seen.level + logsumexp(seen.spread - seen.spread.mean()) - np.log(RUNS))
    # The weights' own spread is estimated from ten runs: 4% less than 90% are allowed for.
    assert binom.ppf(1e-6, REPEATS, 0.86) <= covered
    assert abs(np.mean(errors)) < bias
    if noise == 3.0:
        assert np.mean(plugin) > 1.5


def test_runs_are_chosen_by_their_weights_and_alike_where_noise_hides_these():
    rng = np.random.default_rng(2)
    spread = np.array([2.0, 0.0, -2.0])
    exact = NoisyWeights(0.0, spread, 0.0, 0.0)
    run, constant = draw_weights(exact, 20_000, rng)
    shares = np.bincount(run, minlength=3) / len(run)
    weights = np.exp(spread) / np.exp(spread).sum()
    np.testing.assert_allclose(shares, weights, atol=5 * 0.5 / len(run) ** 0.5)
    assert constant.min() > -2
    hidden = NoisyWeights(0.0, spread, 0.0, 100.0)
    run, _ = draw_weights(hidden, 20_000, rng)
    assert np.ptp(np.bincount(run, minlength=3)) < 0.1 * len(run)


def test_one_run_has_no_error_but_the_noise():
    rng = np.random.default_rng(3)
    run, constant = draw_weights(NoisyWeights(-5.0, np.zeros(1), 2.0, 1.0), 20_000, rng)
    assert np.all(run == 0)
    assert constant.mean() == pytest.approx(-5, abs=5 * 2 / len(run) ** 0.5)
    assert constant.std() == pytest.approx(2, rel=0.05)
