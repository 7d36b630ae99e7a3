"""Logistic regression by VIPS is aware of its gradient's noise in every direction."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.infer.newton import Curvature, NoisyGradient, draw
from tacit.models.logistic_variational import Augmented
from tacit.spec.packing import upper
from tacit.spec.sampling import Sampling
from tacit.spec.variational import FitSetting, Sums

AT, SD, PULLED = np.array([0.5, 2.0, -1.0]), 3.0, 0.7


def variational():
    features = tacit.Real("a", -1, 1), tacit.Real("b", -1, 1)
    schema = tacit.Schema(*features, tacit.Categorical("y", ["no", "yes"]), neighbours="add_remove")
    return tacit.LogisticRegression("y", ["a", "b"]).variational(schema, FitSetting(1000, 1.0))


def seen_by(fit, vector):
    """What a step at `AT` makes of these squares."""
    here = Augmented(NoisyGradient(AT, np.zeros(3), 1.0), Curvature(np.eye(3), 1.0), 0.0, 1.0)
    vars(here)["place"] = AT  # kept there instead of a step's end
    constant = SimpleNamespace(value=np.zeros(3), noise=(SimpleNamespace(scale=PULLED),))
    return fit.read(Sums({"sum": vector}, {"sum": SD}, (constant,)), here)


def test_noise_of_the_gradient_has_the_stated_covariance():
    """Along the coefficients it has twice the variance. False alarms: 1e-6 a direction."""
    rng, fit, repeats = np.random.default_rng(0), variational(), 2000
    base = upper(80 * np.eye(3))
    gradient = fit.maximise(seen_by(fit, base)).gradient
    law = (gradient.variance - PULLED**2) * np.eye(3) + np.outer(gradient.along, gradient.along)
    noise = np.array([
        seen_by(fit, base + SD * rng.standard_normal(6)).values["product"] - 80 * AT
        for _ in range(repeats)
    ])  # fmt: skip
    low, high = chi2.ppf([5e-7, 1 - 5e-7], repeats) / repeats
    for direction in (AT, np.array([2.0, 0.5, 0.0]), *(np.eye(3))):
        assert low < np.mean((noise @ direction) ** 2) / (direction @ law @ direction) < high
    # The twin without the second term is noticed.
    assert np.mean((noise @ AT) ** 2) / ((gradient.variance - PULLED**2) * AT @ AT) > high


@pytest.mark.parametrize("aware", [True, False])
def test_draws_have_the_noise_of_one_direction(aware):
    """Covariances as the law has them, within a tenth: 20 standard errors."""
    rng, along = np.random.default_rng(1), np.array([6.0, 0.0, 8.0])
    axes, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    curvature = (axes * [9.0, 16.0, 25.0]) @ axes.T
    gradient = NoisyGradient(np.zeros(3), np.zeros(3), 4.0, along)
    how = Sampling(draws=80_000, chains=1, seed=1, noise="aware" if aware else "plugin")
    (found,) = draw(gradient, Curvature(curvature, 1e-6), 0.0, 1.0, how)
    back = np.linalg.inv(curvature)
    noise = aware * (4 * np.eye(3) + np.outer(along, along))
    expected = back @ (curvature + noise) @ back
    np.testing.assert_allclose(np.cov(found.T), expected, atol=0.1 * expected.max())
