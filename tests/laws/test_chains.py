"""Metropolis chains have the law they are given, whatever steers them. Alarms: 1e-6."""

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import kstest, norm, skewnorm

from tacit.laws.chains import hamiltonian, random_walk
from tacit.laws.regions import BallMap, log_volume

ALARM = 1e-6


def uniform(seed):
    rng = np.random.default_rng(seed)
    return lambda n: np.maximum(rng.random(n), 1e-300)


@pytest.mark.no_cover
def test_a_walk_learns_a_narrow_ridge():
    """Standard deviations of 1 and .01 along the diagonals."""
    across = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    scale = np.array([1.0, 0.01])
    drawn = random_walk(
        lambda u: -0.5 * float((((across @ u - 0.5) / scale) ** 2).sum()), 2, 1000, 100,
        uniform(1),
    )  # fmt: skip
    z = (drawn @ across.T - 0.5) / scale
    for i in range(2):
        assert kstest(z[:, i], norm.cdf).pvalue > ALARM


SKEW = 4.0


def skewed(u):
    return float((-0.5 * u**2 + log_ndtr(SKEW * u)).sum())


def skewed_gradient(u):
    log_density = -0.5 * (SKEW * u) ** 2 - 0.5 * np.log(2 * np.pi)
    return -u + SKEW * np.exp(log_density - log_ndtr(SKEW * u))


@pytest.mark.parametrize(
    "gradient",
    [
        pytest.param(skewed_gradient, id="right"),
        pytest.param(lambda u: 0.5 * skewed_gradient(u) + 0.3, id="wrong"),
        # a law without numbers, below, has no gradient either
        pytest.param(lambda u: np.full(3, np.nan), id="none", marks=pytest.mark.slow),
    ],
)
@pytest.mark.no_cover
def test_the_gradient_steers_and_does_not_bend(gradient):
    steps = 30 if gradient is skewed_gradient else 100
    drawn = hamiltonian(skewed, gradient, 3, steps, 300, uniform(2))
    assert drawn.shape == (300, 3)
    for i in range(3):
        assert kstest(drawn[:, i], skewnorm(SKEW).cdf).pvalue > ALARM
    assert kstest(drawn[:, 0] * 1.5, skewnorm(SKEW).cdf).pvalue < ALARM


@pytest.mark.no_cover
def test_a_hundred_dimensions_of_scales_from_one_to_a_hundredth():
    scale = np.geomspace(0.01, 1, 100)
    drawn = hamiltonian(
        lambda u: -0.5 * float(((u / scale) ** 2).sum()), lambda u: -u / scale**2,
        100, 40, 50, uniform(3),
    )  # fmt: skip
    assert kstest((drawn / scale).ravel(), norm.cdf).pvalue > ALARM


@pytest.mark.parametrize("value", [-np.inf, np.nan, 0.0])
def test_a_law_without_numbers_ends_somewhere(value):
    with np.errstate(all="ignore"):
        assert random_walk(lambda u: value, 2, 20, 2, uniform(4)).shape == (2, 2)
        ended = hamiltonian(lambda u: value, lambda u: u * np.nan, 2, 20, 2, uniform(5))
    assert np.isfinite(ended).all()


@pytest.mark.parametrize("tilt", [pytest.param(0.0, marks=pytest.mark.slow), 5.0, 60.0])
@pytest.mark.no_cover
def test_a_law_that_leans_on_the_edge_of_a_ball(tilt):
    """exp(tilt x_1) on a ball of 20 dimensions: x_1 has the density exp(tilt t) (1 - t^2)^9.5."""
    ball, gradient = BallMap(20, 1.0), np.zeros(20)
    gradient[0] = tilt
    drawn = hamiltonian(
        lambda u: float(gradient @ ball.point(u)) + log_volume(u),
        lambda u: ball.pullback_gradient(u, gradient), 20, 40, 400, uniform(6),
    )  # fmt: skip
    first = np.array([ball.point(u)[0] for u in drawn])
    t = np.linspace(-1, 1, 20_001)
    with np.errstate(divide="ignore"):
        log = tilt * t + 9.5 * np.log(1 - t**2)
    below = np.cumsum(np.exp(log - log.max()))
    assert kstest(first, lambda x: np.interp(x, t, below / below[-1])).pvalue > ALARM
