"""Boxes and balls as images of the whole space: uniform laws, gradients, ends. Alarms: 1e-6."""

import numpy as np
import pytest
from scipy.stats import kstest

from tacit.laws.regions import BallMap, BoxMap, log_volume

ALARM = 1e-6


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_normal_vectors_become_uniform_on_a_ball(size):
    ball = BallMap(size, 2.0)
    noise = np.random.default_rng(size).normal(size=(2000, size))
    places = np.array([ball.point(u) for u in noise])
    length = np.linalg.norm(places, axis=1) / 2
    assert kstest(length**size, "uniform").pvalue > ALARM
    # not so if they were normal vectors that are only cut
    assert kstest((length * 0.97) ** size, "uniform").pvalue < (1 if size < 7 else ALARM)
    cosine = np.einsum("ij,ij->i", places, noise) / np.linalg.norm(noise, axis=1) / (2 * length)
    np.testing.assert_allclose(cosine, 1)


def test_normal_vectors_become_uniform_in_a_box():
    box = BoxMap(np.array([-1.0, 3.0]), np.array([1.0, 10.0]))
    noise = np.random.default_rng(0).normal(size=(2000, 2))
    places = np.array([box.point(u) for u in noise])
    for i, (low, high) in enumerate([(-1, 1), (3, 10)]):
        assert kstest((places[:, i] - low) / (high - low), "uniform").pvalue > ALARM


@pytest.mark.parametrize(
    "onto", [BallMap(3, 2.0), BallMap(1, 0.5), BoxMap(np.full(3, -2.0), np.full(3, 5.0))]
)
@pytest.mark.parametrize("far", [1e-6, 1.0, 5.0])
def test_gradients_are_pulled_back_as_differences_say(onto, far):
    size = onto.size if isinstance(onto, BallMap) else 3
    u = np.array([0.5, -0.8, 0.3])[:size] * far
    gradient = np.array([1.0, 2.0, -3.0])[:size]

    def value(u):
        return gradient @ onto.point(u) + log_volume(u)

    moved = 1e-5 * np.eye(size)
    found = np.array([value(u + step) - value(u - step) for step in moved]) / 2e-5
    np.testing.assert_allclose(onto.pullback_gradient(u, gradient), found, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 100, 1000])
def test_places_lie_within_and_at_the_ends_of_the_doubles_too(size):
    ball, box = BallMap(size, 3.0), BoxMap(np.full(size, -1.0), np.full(size, 1.0))
    for far in (0.0, 1e-200, 1e-8, 1.0, 30.0, 1e8):
        u = np.full(size, far / np.sqrt(size))
        for onto in (ball, box):
            assert np.isfinite(onto.point(u)).all()
            assert np.isfinite(onto.pullback_gradient(u, np.ones(size))).all()
        assert np.linalg.norm(ball.share(u)) <= 1 + 1e-12
        assert np.abs(box.point(u)).max() <= 1
