"""Steps on noisy gradients: their target is the posterior, and privacy noise counts as noise.

The stationary variance of a step on a normal target follows from its recursion. It is estimated
from many walkers side by side: the false-alarm rate of each comparison is below 1e-6.
"""

import numpy as np
import pytest

from tacit.infer.newton import curvature_of, eigen_floored
from tacit.methods.sgfs import scoring_step
from tacit.methods.sghmc import Moving, hamiltonian_step, thermostat_step
from tacit.methods.sgld import langevin_step
from tacit.spec.packing import packed_size, symmetric

PRECISION, WALKERS = 40.0, 4000
# Of the variance of 4,000 independent draws: its own error is 1 / sqrt(2000), five of them 11%.
WITHIN = 0.11
ETA = 0.1 / PRECISION


def gradient(theta, known, rng):
    return -PRECISION * theta + np.sqrt(known) * rng.standard_normal(theta.size)


# `known` as a share of what makes privacy noise all the noise of a step
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_langevin_steps_have_the_posteriors_variance(share, temperature):
    rng = np.random.default_rng(1)
    theta, known = np.zeros(WALKERS), share * 4 * temperature / ETA
    for _ in range(150):
        theta = langevin_step(theta, gradient(theta, known, rng), ETA, known, temperature, rng)
    exact = temperature / PRECISION / (1 - ETA * PRECISION / 4)
    assert theta.var() == pytest.approx(exact, rel=WITHIN)
    assert exact == pytest.approx(temperature / PRECISION, rel=0.03)


def test_too_much_privacy_noise_raises_the_temperature():
    rng = np.random.default_rng(2)
    theta, known = np.zeros(WALKERS), 5 * 4 / ETA
    for _ in range(150):
        theta = langevin_step(theta, gradient(theta, known, rng), ETA, known, 1.0, rng)
    assert theta.var() == pytest.approx(5 / PRECISION, rel=WITHIN + 0.03)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_hamiltonian_steps_have_the_posteriors_variance(share, temperature):
    rng = np.random.default_rng(3)
    at, known = Moving(np.zeros(WALKERS), np.zeros(WALKERS), 0.1), share * 0.2 * temperature / ETA
    for _ in range(200):
        at = hamiltonian_step(at, gradient(at.theta, known, rng), ETA, known, temperature, 0.1, rng)
    assert at.theta.var() == pytest.approx(temperature / PRECISION, rel=WITHIN + 0.03)


@pytest.mark.parametrize("unknown", [0.0, 0.5, 3.0])
def test_a_thermostat_absorbs_noise_that_nobody_told_it_of(unknown):
    """All walkers share one thermostat, as coordinates do."""
    rng = np.random.default_rng(4)
    at, hidden = Moving(np.zeros(WALKERS), np.zeros(WALKERS), 0.1), unknown * 0.2 / ETA
    for _ in range(1500):
        at = thermostat_step(at, gradient(at.theta, hidden, rng), ETA, 0.0, 1.0, 0.1, rng)
    # friction grows by as much as it takes: eta * hidden / 2
    assert at.friction == pytest.approx(0.1 * (1 + unknown), rel=0.2)
    assert at.theta.var() == pytest.approx(1 / PRECISION, rel=WITHIN + 0.06)


def test_a_thermostat_of_one_coordinate_is_the_posteriors():
    rng = np.random.default_rng(5)
    at, known, places = Moving(np.zeros(1), np.zeros(1), 0.1), 0.1 / ETA, []
    for _ in range(60_000):
        at = thermostat_step(at, gradient(at.theta, known, rng), ETA, known, 1.0, 0.1, rng)
        places.append(at.theta[0])
    # 60,000 steps are worth 1,500 draws of the square: five errors are 18%
    assert np.var(places) == pytest.approx(1 / PRECISION, rel=0.18 + 0.05)


@pytest.mark.parametrize("known", [0.0, 2.0, 50.0, 5000.0])
@pytest.mark.parametrize(("eta", "temperature"), [(1.0, 1.0), (0.2, 1.0), (1.0, 4.0)])
def test_scoring_steps_are_exact_on_a_normal_target(known, eta, temperature):
    """Each walker is a target of one coordinate; noise of the batch is in the gradient too."""
    rng = np.random.default_rng(6)
    precision, ways = np.full(WALKERS, PRECISION), _Diagonal()
    batch = np.full(WALKERS, 7.0)
    theta = rng.standard_normal(WALKERS) * np.sqrt(temperature / PRECISION)
    for _ in range(60):
        seen = gradient(theta, known + 7.0, rng)
        theta = scoring_step(theta, seen, precision, ways, batch, eta, known, temperature, rng)
    assert theta.var() == pytest.approx(temperature / PRECISION, rel=WITHIN)


class _Diagonal:
    """An identity matrix without its zeros."""

    T = property(lambda self: self)

    def __matmul__(self, other):
        return other


def test_packing_keeps_the_norm_and_comes_back():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 5))
    a = a @ a.T
    first, second = np.triu_indices(5)
    packed = np.where(first == second, 1.0, 2**0.5) * a[first, second]
    assert packed.size == packed_size(5)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(a))
    np.testing.assert_allclose(symmetric(packed, 5), a)
    values, ways, share = eigen_floored(a, 0.0, 2 * np.eye(5))
    np.testing.assert_allclose(ways * (values - 2) @ ways.T, a)
    np.testing.assert_allclose(share, values - 2)


def test_directions_below_the_noise_are_not_thought_flat():
    values, _, share = eigen_floored(np.diag([100.0, -3.0]), 2.0, np.diag([1.0, 3.0]))
    np.testing.assert_allclose(values, [7.0, 101.0])
    np.testing.assert_allclose(share, [4.0, 100.0])


def test_curvature_is_found_by_differences():
    a = np.array([[3.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(curvature_of(lambda at: -a @ at, np.array([1.0, -2.0])), a)
    np.testing.assert_allclose(curvature_of(lambda at: at, np.zeros(2)), np.zeros((2, 2)))
