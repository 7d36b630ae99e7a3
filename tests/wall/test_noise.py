"""The noise is what its law says, and nothing repeats it. False-alarm rate of each test: 1e-6."""

import math
import multiprocessing as mp
import os
import pickle

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.accounting import Sensitivity, calibrate
from tacit.spec.mechanisms import Gaussian
from tacit.spec.release import Noise
from tacit.wall.noise import draw, to_integers

ALARM = 1e-6
LAWS = [
    Noise("discrete_laplace", 0.7, 1.0),
    Noise("discrete_laplace", 12.5, 1.0),
    Noise("discrete_gaussian", 1.0, 1.0),
    Noise("discrete_gaussian", 9.0, 1.0),
    Noise("discrete_gaussian", 9.0, 0.25),
]


def pmf(noise: Noise, x: np.ndarray) -> np.ndarray:
    scale = noise.scale / noise.grid
    log = -np.abs(x) / scale if noise.family == "discrete_laplace" else -((x / scale) ** 2) / 2
    return np.exp(log)


def chi_square_p(drawn: np.ndarray, noise: Noise) -> float:
    support = np.arange(-4000, 4001)
    probability = pmf(noise, support)
    probability /= probability.sum()
    expected = probability * drawn.size
    inner = expected >= 10
    observed = np.array([(drawn == x).sum() for x in support[inner]])
    rest = drawn.size - observed.sum()
    terms = (observed - expected[inner]) ** 2 / expected[inner]
    left = drawn.size * (1 - probability[inner].sum())
    total = terms.sum() + (rest - left) ** 2 / max(left, 1e-9) * (left > 5)
    return float(chi2.sf(total, inner.sum() - 1 + (left > 5)))


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_the_noise_has_its_exact_law(noise):
    assert chi_square_p(draw(noise, 40_000), noise) > ALARM


@pytest.mark.parametrize("noise", LAWS[1:4:2], ids=str)
def test_the_test_would_notice_other_noise(noise):
    """The broken twin: noise a tenth too small, in whole steps of a Gaussian's sigma, is caught."""
    small = Noise(noise.family, math.floor(noise.scale * 0.9), noise.grid)
    assert chi_square_p(draw(small, 40_000), noise) < ALARM


def test_a_law_without_a_sampler_is_refused():
    """Calibration gives Gaussians a sigma that is a multiple of the grid; all else is refused."""
    for noise in (Noise("discrete_gaussian", 0.8, 1.0), Noise("draw", 1.0, 1.0)):
        with pytest.raises(ValueError, match=r"multiple of the grid|no sampler"):
            draw(noise, 3)
    assert not draw(Noise("none", 0.0, 1.0), 3).any()


def test_the_variance_is_that_of_the_law():
    for noise in LAWS:
        x = np.arange(-4000, 4001)
        probability = pmf(noise, x) / pmf(noise, x).sum()
        if noise.scale / noise.grid > 2 or noise.family == "discrete_laplace":
            assert noise.variance == pytest.approx((probability @ x**2) * noise.grid**2, rel=1e-6)


def test_low_bits_say_nothing_about_the_count():
    """Gaussian noise on its fine grid: residues are uniform for either of two neighbours."""
    noise = calibrate(Gaussian(1, 1e-6), Sensitivity(1, 1, 1, 1)).noise[0]
    for count in (0, 1):
        steps = to_integers(np.full(20_000, count), noise) + draw(noise, 20_000)
        for bits in (1, 3, 6):
            seen = np.bincount(steps % 2**bits, minlength=2**bits)
            statistic = ((seen - 20_000 / 2**bits) ** 2 / (20_000 / 2**bits)).sum()
            assert chi2.sf(statistic, 2**bits - 1) > ALARM


def test_large_counts_stay_on_the_grid_and_in_range():
    noise = calibrate(Gaussian(30, 1e-6), Sensitivity(1, 1, 1, 1)).noise[0]
    steps = to_integers(np.array([10**9, 2**62, -(2**62)]), noise)
    assert steps[0] * noise.grid == 10**9
    assert np.all(np.abs(steps) <= 2**62)


def _child(pipe) -> None:
    pipe.send(draw(LAWS[1], 50))


def test_a_fork_draws_other_noise():
    drawn = []
    for _ in range(2):
        here, there = mp.get_context("fork").Pipe()
        child = mp.get_context("fork").Process(target=_child, args=(there,))
        child.start()
        drawn.append(tuple(here.recv()))
        child.join()
    drawn.append(tuple(draw(LAWS[1], 50)))
    assert len(set(drawn)) == 3
    assert os.getpid()


def test_there_is_no_state_to_copy():
    assert pickle.loads(pickle.dumps(draw)) is draw
