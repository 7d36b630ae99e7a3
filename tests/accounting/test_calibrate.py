"""The accountant against dp-accounting, against high precision, and against known figures."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_mechanism as plm
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Gaussian, Laplace
from tacit.accounting import (
    Sensitivity,
    calibrate,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    laplace_scale,
)
from tacit.accounting.calibrate import discrete_loss
from tacit.errors import BudgetError

ONE = Sensitivity(l1=1, l2_squared=1, unit_l2_squared=1, coordinates=1)


def precise_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """Balle and Wang's profile with 60 digits."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        upper = mpmath.ncdf(mu / 2 - epsilon / mu)
        return upper - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def test_published_figures():
    # noise multiplier 1 at delta 1e-6: add/remove has mu = 1, free replace-one mu = 2
    assert gaussian_epsilon(1.0, 1e-6) == pytest.approx(4.887, abs=5e-4)
    assert gaussian_epsilon(2.0, 1e-6) == pytest.approx(10.997, abs=5e-4)


@settings(deadline=None)
@given(st.floats(0.01, 20), st.floats(0.0, 50))
def test_the_profile_is_right_to_nine_digits(mu, epsilon):
    exact = precise_delta(mu, epsilon)
    if exact > 1e-250:
        assert gaussian_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-7, abs=1e-290)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.05, 5), st.floats(0.01, 8))
def test_dp_accounting_agrees(mu, epsilon):
    theirs = plm.GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
    assert gaussian_delta(mu, epsilon) == pytest.approx(theirs, rel=1e-6, abs=1e-13)


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-4, 300), st.floats(-60, -0.1))
def test_calibrated_gaussian_noise_suffices_and_is_not_wasteful(epsilon, log_delta):
    delta = math.exp(log_delta)
    noise = calibrate(Gaussian(epsilon, delta), ONE).noise[0]
    assert precise_delta(1 / noise.scale, epsilon - 2 * discrete_loss(1, 2**28)) <= delta
    assert precise_delta(1.0001 / noise.scale, epsilon) > delta


def test_large_epsilon_is_calibrated_exactly():
    # The textbook sqrt(2 log(1.25/delta))/epsilon is wrong beyond epsilon = 1.
    sigma = calibrate(Gaussian(10, 1e-6), ONE).noise[0].scale
    assert precise_delta(1 / sigma, 10) <= 1e-6
    classical = math.sqrt(2 * math.log(1.25e6)) / 10
    assert precise_delta(1 / classical, 10) > 1e-6


@given(st.integers(1, 10**6), st.decimals("1e-6", "1e3", places=6))
def test_laplace_noise_is_rounded_up_and_barely(l1, epsilon):
    scale = laplace_scale(l1, epsilon)
    assert Fraction(scale) * Fraction(epsilon) >= l1
    assert Fraction(math.nextafter(scale, 0)) * Fraction(epsilon) < l1 * (1 + Fraction(1, 2**51))


def test_relation_and_rows_enter_through_the_sensitivity():
    four = Sensitivity(l1=4, l2_squared=8, unit_l2_squared=4, coordinates=3)
    assert calibrate(Laplace(0.5), four).noise[0].scale == 8
    one = calibrate(Gaussian(1, 1e-6), ONE).noise[0].scale
    assert calibrate(Gaussian(1, 1e-6), four).noise[0].scale == pytest.approx(one * math.sqrt(8))
    by_multiplier = calibrate(Gaussian(noise_multiplier=3, delta=1e-6), four)
    assert by_multiplier.noise[0].scale == pytest.approx(6)
    assert float(by_multiplier.cost.epsilon) == pytest.approx(
        gaussian_epsilon(math.sqrt(8) / 6, 1e-6), rel=1e-5
    )


@settings(deadline=None, max_examples=40)
@given(st.floats(0.3, 50), st.floats(1e-9, 0.1))
def test_what_a_multiplier_costs_is_rounded_up(multiplier, delta):
    calibration = calibrate(Gaussian(noise_multiplier=multiplier, delta=delta), ONE)
    epsilon = float(calibration.cost.epsilon)
    assert precise_delta(1 / calibration.noise[0].scale, epsilon) <= delta


def test_both_ways_of_asking_for_gaussian_noise_meet():
    sigma = calibrate(Gaussian(0.7, 1e-5), ONE).noise[0].scale
    back = calibrate(Gaussian(noise_multiplier=sigma, delta=1e-5), ONE).cost
    assert Decimal("0.7") <= back.epsilon < Decimal("0.70001")


@pytest.mark.parametrize("s", [16, 64, 1024])
def test_discrete_noise_is_as_close_to_rounded_noise_as_the_proof_says(s):
    with mpmath.workdps(60):
        whole = mpmath.sqrt(2 * mpmath.pi) * s  # up to e^(-2 pi^2 s^2), by Poisson summation
        for z in (0, 0.5, 1, 2, 5, 10, 20, 40):
            x = mpmath.mpf(int(z * s))
            discrete = mpmath.exp(-(x**2) / (2 * mpmath.mpf(s) ** 2)) / whole
            rounded = mpmath.ncdf(-(x - 0.5) / s) - mpmath.ncdf(-(x + 0.5) / s)
            assert abs(mpmath.log(discrete / rounded)) <= mpmath.mpf(201) / s**2


def test_the_grid_is_fine_and_divides_one():
    for epsilon in (1e-6, 0.1, 1, 30, 400):
        noise = calibrate(Gaussian(epsilon, 1e-6), ONE).noise[0]
        assert noise.scale / noise.grid >= 2**28
        assert noise.grid <= 1
        assert math.log2(noise.grid) == int(math.log2(noise.grid))


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_bad_numbers_are_refused(bad):
    for call in (
        lambda: gaussian_delta(bad, 1),
        lambda: gaussian_epsilon(bad, 1e-6),
        lambda: gaussian_mu(bad, 1e-6),
        lambda: gaussian_mu(1.0, bad),
        lambda: gaussian_epsilon(1.0, bad),
    ):
        with pytest.raises(BudgetError):
            call()
    with pytest.raises(BudgetError):
        gaussian_epsilon(1.0, 1.0)


def test_impossible_requests_are_refused():
    many = Sensitivity(1, 1, 1, coordinates=10**7)
    for mechanism in (Gaussian("1e-8", 1e-6), Gaussian(501, 1e-6)):
        with pytest.raises(BudgetError, match="for Gaussian noise on"):
            calibrate(mechanism, many)
    with pytest.raises(BudgetError, match="larger noise_multiplier"):
        calibrate(Gaussian(noise_multiplier=0.01, delta=1e-6), ONE)
    with pytest.raises(BudgetError, match="spend more"):
        calibrate(Laplace("1e-9"), Sensitivity(10**9, 1, 1, 1))
