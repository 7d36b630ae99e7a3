"""Rates on points: log-likelihoods against sums and integrals, and the sampler's law."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import chi2

from tacit.laws.bounded_rates import PIECES, log_rates, sample, statistics


@pytest.mark.parametrize("cap", [1, 7, 300])
def test_counts_up_to_a_cap_have_probabilities_that_sum_to_one(cap):
    at = log_rates(1e-3 * cap, 1e3 * cap)[:: PIECES // 64]
    theta, partition = statistics("poisson", at, cap)
    j = np.arange(cap + 1)
    log = j[:, None] * theta - partition - gammaln(j + 1)[:, None]
    np.testing.assert_allclose(logsumexp(log, axis=0), 0, atol=1e-9)


def test_a_large_cap_far_below_the_rate():
    cap = 50_000
    at = np.log(cap * np.array([1.1, 1.2, 3.0, 1e6]))
    _, partition = statistics("poisson", at, cap)
    j = np.arange(cap + 1)
    exact = [logsumexp(j * a - gammaln(j + 1)) for a in at]
    np.testing.assert_allclose(partition, exact, rtol=1e-12)


def test_waits_up_to_a_cap_have_a_density_that_integrates_to_one():
    cap = 4.0
    at = log_rates(1e-4, 50)[:: PIECES // 64]
    theta, partition = statistics("exponential", at, cap)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    x = cap * (nodes + 1) / 2
    density = np.exp(x[:, None] * theta - partition)
    np.testing.assert_allclose(cap / 2 * weights @ density, 1, rtol=1e-9)


def test_points_are_drawn_in_proportion_to_their_weights():
    """A chi-square test, false alarms 1e-6; one weight is 12 powers of ten below the others."""
    rng = np.random.default_rng(1)
    weights = np.array([0.5, 0.3, 0.15, 0.05, 1e-12])
    drawn = sample(np.log(weights) + 700, 20_000, lambda n: 1 - rng.random(n))
    seen = np.bincount(drawn, minlength=5)
    assert seen[4] == 0
    expected = 20_000 * weights[:4] / weights.sum()
    assert chi2.sf(((seen[:4] - expected) ** 2 / expected).sum(), 3) > 1e-6
    ends = log_rates(0.5, 8.0)
    assert (len(ends), ends[0], ends[-1]) == (PIECES + 1, np.log(0.5), pytest.approx(np.log(8.0)))
