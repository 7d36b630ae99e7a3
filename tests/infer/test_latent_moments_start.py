"""Chains of moments begin near what was seen, however small its noise."""

import numpy as np
import pytest

import tacit
from tacit import Release


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_little_noise_is_reached(noise):
    rng = np.random.default_rng(0)
    n = 5000
    age = rng.normal(50, 10, n)
    bmi = 15 + 0.2 * age + rng.normal(0, 3, n)
    products = {"age": age, "bmi": bmi, "age*age": age**2, "age*bmi": age * bmi, "bmi*bmi": bmi**2}
    release = Release.from_table(
        {"rows": n} | {name: float(values.sum()) for name, values in products.items()},
        schema=tacit.Schema(
            tacit.Real("age", 0, 100), tacit.Real("bmi", 10, 60), neighbours="add_remove"
        ),
        query=tacit.queries.Moments(["age", "bmi"], centred=False),
        noise=noise,
        scale=3.0,
    )
    posterior = tacit.LinearRegression("bmi", ["age"]).posterior(release, seed=1)
    slope = np.polyfit(age, bmi, 1)[0]
    assert posterior.mean("coef")[0] == pytest.approx(slope, abs=0.01)
    chains = posterior.draws["coef"][:, :, 0].mean(axis=1)
    assert np.ptp(chains) < 0.01
