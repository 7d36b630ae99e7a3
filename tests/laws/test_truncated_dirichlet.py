"""The samplers have the density they say. False-alarm rate of each statistical test: 1e-6."""

import mpmath
import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import kstest

from tacit.audit.draws import Simplex
from tacit.laws.truncated_dirichlet import LogGamma, log_kernel, log_normaliser, sample

ALARM = 1e-6
SIGMAS = 4.9  # two-sided, 1e-6


def drawn(concentration, truncation, size=20_000, seed=1):
    rng = np.random.default_rng(seed)
    rows = np.tile(np.array(concentration, float), (size, 1))
    return sample(rows, truncation, lambda n: 1 - rng.random(n))


@pytest.mark.parametrize(
    ("a", "b", "truncation"),
    [(1, 1, 0.1), (0.5, 0.5, 0.01), (0.1, 3, 0.05), (5, 4, 0.2), (17, 1, 0.05), (300, 900, 0.3),
     (1e6, 1e6, 0.05), (1, 1, 0.499)],
)  # fmt: skip
def test_two_levels_are_a_truncated_beta(a, b, truncation):
    low, high = betainc(a, b, truncation), betainc(a, b, 1 - truncation)
    x = drawn((a, b), truncation)[:, 0]
    assert kstest(x, lambda v: (betainc(a, b, v) - low) / (high - low)).pvalue > ALARM


@pytest.mark.parametrize(
    ("counts", "truncation"),
    [((0, 0, 0), 0.1), ((100, 0, 0), 0.1), ((1e6, 3, 0), 0.05), ((3, 2, 1), 0.3),
     ((40, 40, 5), 0.05), ((-0.9, -0.5, 0), 0.01)],
)  # fmt: skip
def test_means_agree_with_integrals(counts, truncation):
    """Also where all mass lies far beyond the truncation."""
    at = 1 + np.array(counts, float)
    x = drawn(at, truncation)
    assert x.min() >= truncation - 1e-15
    np.testing.assert_allclose(x.sum(axis=1), 1, rtol=0, atol=1e-12)
    if max(counts) > 1e4:  # beyond the quadrature: two exponentials at the corner
        for j, more in ((1, 3), (2, 0)):
            rate = counts[0] / (1 - 2 * truncation) - more / truncation
            assert abs((x[:, j] - truncation).mean() * rate - 1) < SIGMAS / np.sqrt(len(x)) + 1e-3
        return
    simplex = Simplex.of(3, truncation)
    log = simplex.log_weight + log_kernel(simplex.theta, at)
    weight = np.exp(log - log.max())
    mean = weight @ simplex.theta / weight.sum()
    error = x.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(x.mean(axis=0) - mean) < SIGMAS * error + 1e-6)


def test_the_uniform_law_has_equal_means():
    """One coordinate after another would give .375, .3125, .3125."""
    mean = drawn((1, 1, 1), 0.1).mean(axis=0)
    assert np.all(np.abs(mean - 1 / 3) < SIGMAS * 0.17 / np.sqrt(20_000))


@pytest.mark.parametrize("levels", [10, 60])
def test_many_levels_cost_few_proposals(levels):
    """About the square root of the levels, whatever the counts."""
    rng = np.random.default_rng(2)
    for at in (np.ones(levels), np.full(levels, 30.0), 1 + 1e4 * (np.arange(levels) == 3)):
        used = [0]

        def uniform(n, used=used):
            used[0] += n
            return 1 - rng.random(n)

        x = sample(np.tile(at, (200, 1)), 0.5 / levels, uniform)
        assert x.min() >= 0.5 / levels - 1e-15
        assert used[0] / 200 < 30 * levels * np.sqrt(levels)


@pytest.mark.parametrize(
    ("shape", "rate", "low", "high"),
    [(1.0, 2.0, -3, 0), (0.2, 1.0, -6, 1), (50.0, 1.0, -2, 0), (50.0, 1e4, -2, 0),
     (3.0, 0.0, -4, 1)],
)  # fmt: skip
def test_log_gammas_have_their_density(shape, rate, low, high):
    law = LogGamma.of(np.full(20_000, shape), np.full(20_000, rate), low, high)
    rng = np.random.default_rng(3)
    z = law.sample(lambda n: 1 - rng.random(n))
    grid = np.linspace(low, high, 200_001)
    log = shape * grid - rate * np.exp(grid)
    cdf = np.cumsum(np.exp(log - log.max()))
    assert kstest(z, lambda v: np.interp(v, grid, cdf / cdf[-1])).pvalue > ALARM
    within = abs(np.exp(z).mean() / law.mean()[0] - 1)
    assert within < 0.02 + SIGMAS * np.exp(z).std() / np.exp(z).mean() / np.sqrt(z.size)


def test_normalisers_agree_with_long_arithmetic():
    cases = [(1, 1, 0.1), (0.5, 2, 0.01), (1e-6, 1e-6, 0.01), (200, 1, 0.1), (3000, 1, 0.3),
             (5000, 9000, 0.05), (1, 300, 0.4)]  # fmt: skip
    with mpmath.workdps(100):  # the far tail is 10^-67 of the whole
        for a, b, truncation in cases:
            low = mpmath.mpf(truncation)
            exact = mpmath.log(mpmath.betainc(a, b, low, 1 - low))
            found = log_normaliser(np.array([a]), np.array([b]), truncation)[0]
            assert found == pytest.approx(float(exact), abs=1e-9, rel=1e-12)
