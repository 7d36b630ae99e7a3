"""Numbers behind known noise: found about as well as if their spread were known."""

import numpy as np
import pytest

from tacit.infer.denoise import denoised, denoised_sizes


def simulated(sd, seed=0, n=20_000):
    """Half of them 0, the others several times what was expected or a fraction of it."""
    rng = np.random.default_rng(seed)
    expected = rng.gamma(2, 5, size=n)
    ratio = np.where(rng.random(n) < 0.5, 0.0, rng.gamma(2, 1, size=n))
    truth = ratio * expected
    return truth, expected, truth + sd * rng.normal(size=n)


@pytest.mark.parametrize("sd", [0.3, 3, 10, 30])
def test_errors_are_smaller_than_the_noise_and_as_large_as_is_said(sd):
    truth, expected, seen = simulated(sd)
    found, spread = denoised(seen, expected, sd, np.random.default_rng(0))
    error = np.sqrt(np.mean((found - truth) ** 2))
    # Against the noise, what is cut off at 0, and what was expected: 20,000 numbers, wide margins.
    assert error < 0.9 * sd
    assert error < np.sqrt(np.mean((np.maximum(seen, 0) - truth) ** 2))
    assert np.all(found >= 0)
    assert error == pytest.approx(np.sqrt(np.mean(spread**2)), rel=0.15)


def test_without_much_noise_numbers_are_what_they_are():
    truth, expected, seen = simulated(1e-3)
    found, spread = denoised(seen, expected, 1e-3, np.random.default_rng(0))
    seen_well = truth > 0.1
    np.testing.assert_allclose(found[seen_well], truth[seen_well], rtol=0.05, atol=0.01)
    assert np.median(spread[seen_well]) == pytest.approx(1e-3, rel=0.2)


def test_pure_noise_is_shrunk_to_the_expected_values():
    rng = np.random.default_rng(1)
    expected = np.full(20_000, 5.0)
    seen = expected + 50 * rng.normal(size=20_000)
    found, _ = denoised(seen, expected, 50.0, rng)
    assert np.std(found) < 10
    assert found.mean() == pytest.approx(5, abs=2.5)  # the mean of all is known to 0.35


def test_sizes_under_one_common_prior():
    rng = np.random.default_rng(2)
    truth = 10 ** rng.uniform(0, 4, size=3000)
    seen = truth + 20 * rng.normal(size=3000)
    found = denoised_sizes(seen, 20.0)
    assert np.all(found > 0)
    large = truth > 300
    np.testing.assert_allclose(found[large], truth[large], rtol=0.35)
    small = truth < 20
    assert np.mean(np.abs(found[small] - truth[small])) < 10


@pytest.mark.parametrize("values", [np.zeros(7), np.full(7, -3.0), np.zeros(0)])
def test_strange_numbers(values):
    assert np.all(np.isfinite(denoised_sizes(values, 2.0)))
    if values.size:
        found, spread = denoised(values, np.zeros(7), 2.0, np.random.default_rng(0))
        assert np.all(np.isfinite(found) & np.isfinite(spread))
