"""Released numbers given the law of the true ones, against integrals and sums done elsewhere."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.integrate import quad

from tacit.numpyro import NoisyCounts, NormalLaplace
from tacit.spec.release import Noise

GRAINY = [
    Noise("discrete_laplace", 0.4, 1.0),
    Noise("discrete_laplace", 3.0, 1.0),
    Noise("discrete_gaussian", 0.6, 1.0),
    Noise("discrete_gaussian", 2.5, 1.0),
]


@jax.jit
def _log_normal_laplace(value, variance, scale):
    return NormalLaplace(0.0, variance, scale).log_prob(value)


@pytest.mark.parametrize("b", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("width", [0.02, 0.5, 1.0, 3.0, 5.0, 12.0])  # standard deviation / b
def test_a_normal_plus_laplace_is_their_convolution(width, b):
    s = width * b
    constant = 2 * b * s * math.sqrt(2 * math.pi)
    residuals = np.array([0.0, 0.3 * b, -2 * b, 7 * b, 25 * b, 3 * s, -8 * s])
    with jax.enable_x64(True):
        found = np.asarray(_log_normal_laplace(residuals, np.float64(s**2), np.float64(b)))
    single = np.asarray(
        _log_normal_laplace(*(np.asarray(x, np.float32) for x in (residuals, s**2, b)))
    )
    np.testing.assert_allclose(single, found, rtol=3e-6, atol=3e-6)
    for r, log in zip(residuals, found, strict=True):
        top = max(-abs(r) / b, -0.5 * (r / s) ** 2)  # so that the integral is not all zeros

        def at(e, r=r, top=top):
            return math.exp(-abs(e) / b - 0.5 * ((r - e) / s) ** 2 - top) / constant

        # Kinks, and where the product is largest.
        ends = sorted({0.0, r, *(np.sign(r) * max(abs(r) - s * s / b, 0) + k * s for k in (-9, 9))})
        low, high = ends[0] - 40 * max(b, s), ends[-1] + 40 * max(b, s)
        pieces = zip([low, *ends], [*ends, high], strict=True)
        total = sum(quad(at, *piece, epsabs=0, epsrel=1e-11, limit=400)[0] for piece in pieces)
        assert log == pytest.approx(top + np.log(total), abs=1e-8)


def test_gradients_are_finite_at_any_residual():
    far = [0.0, 1e-20, 1e-3, 1.0, 1e3, 1e6, 1e12, 1e18]
    wide = [0.0, 1e-30, 1e-6, 1.0, 1e4, 1e8, 1e14]
    gradient = jax.grad(lambda m, v: NormalLaplace(m, v, 2.0).log_prob(0.0), argnums=(0, 1))
    r, v = (x.ravel() for x in np.meshgrid(np.float32(far), np.float32(wide)))
    by_mean, by_variance = jax.jit(jax.vmap(gradient))(r, v)
    assert np.isfinite(by_mean).all()
    assert np.isfinite(by_variance).all()
    assert np.abs(by_mean).max() <= 0.5 * (1 + 1e-5)  # never steeper than the noise
    np.testing.assert_allclose(by_mean[(r == 1e12) & (v <= 1e8)], -0.5, rtol=1e-5)


def test_samples_have_the_law():
    """A Kolmogorov test with false-alarm rate 1e-6."""
    law = NormalLaplace(3.0, 4.0, 1.5)
    found = np.sort(np.asarray(law.sample(jax.random.key(1), (20_000,)), dtype=float))
    grid = np.linspace(-60, 60, 40_001)
    cdf = np.cumsum(np.exp(np.asarray(jax.jit(law.log_prob)(grid)))) * (grid[1] - grid[0])
    assert stats.kstest(found, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-6
    assert law.variance == pytest.approx(8.5)


@pytest.mark.parametrize("noise", GRAINY, ids=str)
def test_whole_numbers_are_summed_out(noise):
    """All that can be seen has probability one, and each value that of the sum by hand."""
    n, p = 12, 0.3
    seen = np.arange(-60.0, 80.0)
    steps = np.arange(-400, 401)
    falls = np.abs(steps) / noise.scale
    weights = np.exp(-falls if noise.family == "discrete_laplace" else -0.5 * falls**2)
    by_hand = np.convolve(stats.binom.pmf(np.arange(n + 1), n, p), weights / weights.sum())
    with jax.enable_x64(True):
        law = NoisyCounts(dist.Binomial(n, p).expand((len(seen),)), noise)
        found = np.exp(np.asarray(jax.jit(law.log_prob)(seen)))
    assert found.sum() == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(found, by_hand[400 + seen.astype(int)], rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("noise", GRAINY, ids=str)
def test_samples_of_noisy_counts_have_the_law(noise):
    """A chi-square test with false-alarm rate 1e-6, where counts are expected."""
    values = np.arange(-40.0, 60.0)
    law = NoisyCounts(dist.Poisson(4.0).expand(values.shape), noise)
    seen = np.asarray(jax.jit(lambda key: law.sample(key, (400,)))(jax.random.key(2)))
    expected = seen.size * np.exp(np.asarray(jax.jit(law.log_prob)(values)))
    found = np.array([(seen == v).sum() for v in values])
    kept = expected > 20
    statistic = ((found - expected)[kept] ** 2 / expected[kept]).sum()
    assert stats.chi2.sf(statistic, kept.sum()) > 1e-6


@pytest.mark.parametrize("noise", GRAINY, ids=str)
def test_counts_far_from_what_was_seen_still_have_a_gradient(noise):
    """Noise can go below zero and beyond n; a sampler may start anywhere."""
    seen = jnp.array([-500.0, -3.0, 0.0, 40.0, 5_000.0])

    def total(make):
        return jax.jit(
            jax.value_and_grad(lambda at: NoisyCounts(make(at), noise).log_prob(seen).sum())
        )

    poisson = total(lambda rate: dist.Poisson(rate).expand(seen.shape))
    binomial = total(lambda p: dist.Binomial(40, p).expand(seen.shape))
    for rate, p in zip([1e-6, 1.0, 1e5], [1e-6, 0.5, 1 - 1e-6], strict=True):
        assert np.isfinite([*poisson(rate), *binomial(p)]).all()


def test_fine_noise_on_whole_numbers():
    """Gaussian noise of the wall sits on a grid far finer than a count."""
    noise = Noise("discrete_gaussian", 1.7, 2.0**-28)
    with jax.enable_x64(True):
        seen = jnp.linspace(-20, 40, 6001)
        law = NoisyCounts(dist.Poisson(4.0).expand((6001,)), noise)
        density = jnp.exp(jax.jit(law.log_prob)(seen))
        total = float(density.sum() * 0.01)
    assert total == pytest.approx(1, abs=1e-6)
