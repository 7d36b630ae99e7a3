"""Draws from a noisy gradient and curvature: against laws that are known exactly."""

import numpy as np
import pytest
from scipy.stats import binom

from tacit.infer.newton import Curvature, NoisyGradient, best_ridge, draw, next_iterate
from tacit.methods.ridge_newton import CURVATURE, unpacked
from tacit.spec.sampling import Sampling


def symmetric_noise(size, sd, rng):
    """Noise of this sd on the diagonal, and over the root of 2 off it."""
    upper = np.triu(rng.normal(0, sd / np.sqrt(2), (size, size)), 1)
    return upper + upper.T + np.diag(rng.normal(0, sd, size))


def test_a_released_vector_is_unpacked():
    gradient, matrix = np.arange(3.0), np.array([[2.0, 1, 3], [1, 5, 4], [3, 4, 7]])
    packed = [CURVATURE * matrix[i, j] * (1 if i == j else 2**0.5) for i, j in UPPER]
    found_gradient, found = unpacked(np.array([*gradient, *packed]), 3)
    np.testing.assert_array_equal(found_gradient, gradient)
    np.testing.assert_allclose(found, matrix)
    # Written so, the norm of what is released is that of the matrix.
    assert np.linalg.norm(packed) == pytest.approx(CURVATURE * np.linalg.norm(matrix))


UPPER = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]


def test_noise_spreads_eigenvalues_and_they_are_brought_together():
    rng = np.random.default_rng(1)
    truth = np.diag(np.full(30, 40.0))
    raw, shrunk = [], []
    for _ in range(20):
        known = Curvature(truth + symmetric_noise(30, 3.0, rng), 3.0)
        raw.append(known.eigen[0].std())
        shrunk.append(known.shrunk.std())
        assert known.shrunk.mean() == pytest.approx(known.eigen[0].mean(), rel=0.02)
    assert np.mean(shrunk) < 0.3 * np.mean(raw)


@pytest.mark.parametrize("noise", [0.0, 5.0, 50.0])
def test_intervals_cover_where_the_model_is_exact(noise):
    """Gradient of the assumed law, coefficients of the assumed prior. False alarms: 1e-6 a side.

    The spread of coefficients is learnt from eight of them, hence the two points of slack.
    """
    rng = np.random.default_rng(2)
    h, spread, repeats = np.array([200.0, 80, 40, 30, 20, 10, 5, 2]), 2.0, 2000
    hits = 0
    for _ in range(repeats):
        theta = spread * rng.standard_normal(8)
        axes, _ = np.linalg.qr(rng.standard_normal((8, 8)))
        matrix = (axes * h) @ axes.T
        known = Curvature(matrix, 1e-6)
        ridge = 0.75 * best_ridge(known, noise**2, spread)
        law = rng.standard_normal(8) * np.sqrt(h + noise**2)
        at = theta + rng.standard_normal(8)
        gradient = matrix @ (theta - at) + axes @ law
        how = Sampling(draws=300, chains=1, seed=int(rng.integers(2**32)))
        (found,) = draw(NoisyGradient(at, gradient, noise**2), known, ridge, spread, how)
        low, high = np.quantile(found, [0.05, 0.95], axis=0)
        hits += int(((low <= theta) & (theta <= high)).sum())
    n = 8 * repeats
    low, high = binom.ppf(1e-6, n, 0.88), binom.isf(1e-6, n, 0.92)
    assert low <= hits <= high, hits / n


def test_without_awareness_intervals_are_too_narrow():
    seen = NoisyGradient(np.zeros(3), np.ones(3), 100.0), Curvature(20 * np.eye(3), 1e-6)
    (aware,) = draw(*seen, 0.1, 2.0, Sampling(draws=4000, chains=1, seed=3))
    (plugin,) = draw(*seen, 0.1, 2.0, Sampling(draws=4000, chains=1, seed=4, noise="plugin"))
    assert np.all(aware.std(axis=0) > 2 * plugin.std(axis=0))


def test_curvatures_are_averaged_by_their_precision():
    found = Curvature.mean([Curvature(np.array([[1.0]]), 1.0), Curvature(np.array([[4.0]]), 2.0)])
    assert found.matrix[0, 0] == pytest.approx((1 + 4 / 4) / (1 + 1 / 4))
    assert found.sd == pytest.approx((1 + 1 / 4) ** -0.5)


def test_a_step_is_never_far():
    gradient = NoisyGradient(np.zeros(2), np.array([1e6, 1.0]), 0.0)
    there = next_iterate(gradient, Curvature(np.diag([1e-6, 1.0]), 1e-9), 1e-4)
    assert np.linalg.norm(there) <= 8.001
