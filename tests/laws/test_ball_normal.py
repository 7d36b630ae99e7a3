"""The sampler has the density it says, everywhere. False-alarm rate of each test: 1e-6."""

import time

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from tacit.laws.ball_normal import sample

ALARM = 1e-6
PLAIN = np.eye(2)
TILTED = np.array([[4.0, 1.9], [1.9, 1.0]])
CASES = [
    ((0.0, 0.0), PLAIN, 1.0),
    ((0.3, -0.2), 30 * PLAIN, 1.0),  # the ball is hardly felt
    ((0.0, 0.0), 1e-6 * PLAIN, 1.0),  # uniform
    ((2.0, 0.0), TILTED, 1.0),
    ((-1.0, 3.0), 5 * TILTED, 2.0),
    ((10.0, 10.0), TILTED, 1.0),
    ((0.5, 0.8), 40 * TILTED, 1.0),
    ((1e-4, 0.0), TILTED, 1e-5),  # a tiny ball
    ((0.0, 0.9), np.diag([1.0, 1e6]), 1.0),
    ((0.0, 0.0), np.diag([1e-9, 1e4]), 3.0),
]


def drawn(mean, precision, radius, size=20_000, seed=1):
    rng = np.random.default_rng(seed)
    means = np.tile(np.array(mean, float), (size, 1))
    each = np.broadcast_to(precision, (size, *np.shape(precision)))
    return sample(means, each, radius, lambda n: 1 - rng.random(n))


def masses(mean, precision, radius, cells=12, fine=150):
    """The probability of each cell of a grid in polar coordinates, by integration."""
    r = (np.arange(cells * fine) + 0.5) / (cells * fine)
    angle = (np.arange(cells * fine) + 0.5) / (cells * fine) * 2 * np.pi
    x = radius * np.stack([r[:, None] * np.cos(angle), r[:, None] * np.sin(angle)], axis=-1)
    away = x - np.array(mean)
    log = -0.5 * np.einsum("abi,ij,abj->ab", away, np.array(precision), away)
    weight = r[:, None] * np.exp(log - log.max())
    table = weight.reshape(cells, fine, cells, fine).sum(axis=(1, 3))
    return table / table.sum()


def fits(x, probability, radius, cells=12):
    r = np.minimum((np.linalg.norm(x, axis=1) / radius * cells).astype(int), cells - 1)
    angle = np.arctan2(x[:, 1], x[:, 0]) % (2 * np.pi) / (2 * np.pi)
    where = r * cells + np.minimum((angle * cells).astype(int), cells - 1)
    seen = np.bincount(where, minlength=cells**2)
    expected = probability.ravel() * len(x)
    large = expected >= 8
    seen = np.append(seen[large], seen[~large].sum())
    expected = np.append(expected[large], expected[~large].sum())
    if expected[-1] < 8:
        seen, expected = seen[:-1], expected[:-1]
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)


@pytest.mark.parametrize("case", CASES)
def test_draws_have_their_density(case):
    x = drawn(*case)
    assert np.all(np.linalg.norm(x, axis=1) <= case[2] * (1 + 1e-14))
    assert fits(x, masses(*case), case[2]) > ALARM


def test_a_wrong_law_would_be_noticed():
    """The broken twin: the ball's edge without the correction of the tilt would be a fifth off."""
    mean, precision, radius = CASES[3]
    x = drawn(mean, 1.2 * precision, radius)
    assert fits(x, masses(mean, precision, radius), radius) < ALARM


def test_an_interval_is_a_ball():
    """One dimension, against the distribution function."""
    grid = np.linspace(-0.5, 0.5, 100_001)
    log = -0.5 * 7.0 * (grid - 1.0) ** 2
    cdf = np.cumsum(np.exp(log - log.max()))
    x = drawn((1.0,), np.array([[7.0]]), 0.5)[:, 0]
    assert kstest(x, lambda v: np.interp(v, grid, cdf / cdf[-1])).pvalue > ALARM


@pytest.mark.parametrize("dimensions", [3, 8, 25])
def test_more_dimensions_have_their_marginal(dimensions):
    """Along the mean the rest integrates out: a ball's slice, with a chi-square in it."""
    mean = np.zeros(dimensions)
    mean[0] = 1.5
    x = drawn(mean, 9 * np.eye(dimensions), 1.0, size=8_000)
    grid = np.linspace(-1, 1, 20_001)
    log = -4.5 * (grid - 1.5) ** 2
    weight = np.exp(log - log.max()) * chi2.cdf(9 * (1 - grid**2), dimensions - 1)
    cdf = np.cumsum(weight)
    assert kstest(x[:, 0], lambda v: np.interp(v, grid, cdf / cdf[-1])).pvalue > ALARM


@pytest.mark.parametrize("dimensions", [1, 2, 11])
@pytest.mark.parametrize("precision", [1e-12, 1.0, 1e6])
@pytest.mark.parametrize("far", [0.0, 0.999, 1.001, 2.0, 1e3])
def test_nothing_makes_it_fail_or_hang(dimensions, precision, far):
    start = time.perf_counter()
    for radius in (1e-6, 1.0, 1e6):
        mean = np.full(dimensions, far * radius / np.sqrt(dimensions))
        scaled = precision * np.eye(dimensions) / radius**2
        scaled[0, 0] *= 1e3  # and not round
        x = drawn(mean, scaled, radius, size=3)
        assert np.all(np.isfinite(x))
        assert np.all(np.linalg.norm(x, axis=1) <= radius * (1 + 1e-14))
    assert time.perf_counter() - start < 60
