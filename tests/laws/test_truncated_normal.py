"""The sampler has the density it says, everywhere. False-alarm rate of each test: 1e-6."""

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest, norm

from tacit.laws.truncated_normal import everywhere, log_density, log_mass, shares

ALARM = 1e-6
CASES = [
    (0.0, 1.0, -1.0, 2.0),
    (0.0, 1.0, -40.0, 40.0),  # the bounds are not felt
    (0.3, 1.0, 0.0, 0.5),  # narrow, with the mean inside
    (-0.7, 1.0, 0.0, 0.8),  # narrow, with the mean outside
    (-0.9, 1.0, 0.0, 5.0),
    (3.0, 1.0, 0.0, 1.0),
    (-5.0, 1.0, 0.0, 9.0),
    (50.0, 0.5, -1.0, 1.0),  # far outside
    (1e6, 1.0, 0.0, 1.0),
    (-1e9, 1e-3, 0.0, 1.0),
    (5.0, 1e-6, 0.0, 1.0),  # a precision of 1e12, outside and inside
    (0.4, 1e-6, 0.0, 1.0),
    (0.0, 1e9, -1.0, 1.0),  # hardly curved at all
    (3e8, 1e9, 10.0, 10.0 + 1e-7),
    (-1e8, 1.0, 0.0, 1e-7),
]


def drawn(mean, sd, low, high, size=20_000, seed=1):
    rng, used = np.random.default_rng(seed), [0]

    def uniform(n):
        used[0] += n
        return 1 - rng.random(n)

    wide = high - low
    found = shares((mean - low) / sd * (wide / sd), (wide / sd) ** 2, size, uniform)
    return np.clip(low + wide * found, low, high), used[0]


def share_below(mean, sd, low, high):
    """The distribution function over the share of the interval, by integration."""
    gradient, curve = (mean - low) * (high - low) / sd**2, ((high - low) / sd) ** 2
    top = min(max((mean - low) / (high - low), 0.0), 1.0)
    # As far from the top as the density matters: it falls by e^-45 at least.
    steep = abs(gradient - curve * top)
    reach = min(1.0, 45 / steep if steep > 0 else np.inf, 10 / np.sqrt(curve))
    reach = max(reach, min(1.0, 10 / np.sqrt(curve))) if steep == 0 else reach
    away = np.linspace(max(-reach, -top), min(reach, 1 - top), 400_001)
    log = (gradient - curve * top) * away - 0.5 * curve * away**2
    weight = np.exp(log - log.max())
    cdf = np.concatenate([[0.0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
    return top, away, cdf / cdf[-1]


@pytest.mark.parametrize("case", CASES)
def test_draws_have_their_density_and_cost_few_proposals(case):
    low, high = case[2:]
    x, used = drawn(*case)
    assert np.all((x >= low) & (x <= high))
    assert used < 2 * 9 * len(x)
    top, away, cdf = share_below(*case)
    edge = high if top == 1 else low + top * (high - low)
    found = (x - edge) / (high - low)
    assert kstest(found, lambda v: np.interp(v, away, cdf)).pvalue > ALARM


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_law_would_be_noticed(case):
    """The broken twin: a tenth off the standard deviation, where that can be seen."""
    mean, sd, low, high = case
    if high - low <= sd and abs(mean - low) < 10 * sd * sd / (high - low):
        pytest.skip("nearly uniform with either standard deviation")
    x, _ = drawn(mean, 1.1 * sd, low, high)
    top, away, cdf = share_below(*case)
    edge = high if top == 1 else low + top * (high - low)
    found = (x - edge) / (high - low)
    assert kstest(found, lambda v: np.interp(v, away, cdf)).pvalue < 0.01


@pytest.mark.parametrize("gradient", [-1e36, -1e12, -1.0, 0.0, 1e-30, 1.0, 1e12, 1e36])
@pytest.mark.parametrize("curve", [1e-40, 1e-12, 1.0, 1e12, 1e36])
def test_nothing_makes_it_fail_or_hang(gradient, curve):
    rng, used = np.random.default_rng(1), [0]

    def uniform(n):
        used[0] += n
        return 1 - rng.random(n)

    with np.errstate(all="ignore"):  # as the wall does
        x = shares(gradient, curve, 1000, uniform)
    assert np.all((x >= 0) & (x <= 1))
    assert used[0] < 2 * 9 * len(x)


@pytest.mark.parametrize(("gradient", "curve"), [(0.0, 1.0), (-3e4, 1e4), (1e9, 1e12), (5.0, 1e-8)])
def test_draws_without_bounds_are_normal(gradient, curve):
    rng = np.random.default_rng(4)
    x = everywhere(gradient, curve, 20_000, lambda n: 1 - rng.random(n))
    centred = (x - gradient / curve) * np.sqrt(curve)
    assert kstest(centred, norm.cdf).pvalue > ALARM
    assert kstest(centred * 1.1, norm.cdf).pvalue < 0.01


def test_the_tails_have_no_gaps():
    """One number of 64 bits has a few hundred values beyond 8.5; two have plenty."""
    u = np.full(10_000, 2.0**-63)
    v = np.random.default_rng(1).random(10_000) * 0.03
    x = everywhere(0.0, 1.0, 10_000, lambda n: np.concatenate([u, v]))
    assert np.all(x > 8.5)
    assert len(np.unique(np.rint(x * 2**40))) > 9_990


def test_the_mass_of_the_whole_line_is_one():
    mean = np.array([-3.0, 0.0, 1e9])
    np.testing.assert_array_equal(log_mass(mean, 2.0, -np.inf, np.inf), 0.0)
    np.testing.assert_allclose(
        log_density(0.7, mean, 2.0, -np.inf, np.inf), norm(mean, 2.0).logpdf(0.7)
    )


def test_densities_agree_with_long_arithmetic():
    with mpmath.workdps(60):
        for mean, sd, low, high in [
            (0, 1, -1, 2), (0.3, 1, 0, 0.5), (3, 1, 0, 1), (50, 0.5, -1, 1), (-8, 0.7, 0, 3)
        ]:  # fmt: skip
            m, s = mpmath.mpf(mean), mpmath.mpf(sd)
            cuts = mpmath.linspace(low, high, 60)  # steep towards an end
            mass = mpmath.quad(lambda x, m=m, s=s: mpmath.npdf(x, m, s), list(cuts))
            assert log_mass(np.array([mean]), sd, low, high)[0] == pytest.approx(
                float(mpmath.log(mass)), rel=1e-11
            )
            x = low + 0.3 * (high - low)
            exact = mpmath.log(mpmath.npdf(x, m, s) / mass)
            found = log_density(x, np.array([float(mean)]), sd, low, high)[0]
            assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-9)
