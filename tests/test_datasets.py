"""Simulators draw what they say they draw."""

import numpy as np
import pytest

from tacit.datasets import WARDS, simulate_readmissions


def test_readmissions_follow_their_regression():
    """Residuals and features are not correlated: within 5 standard errors each, alarms 5e-6."""
    patients = simulate_readmissions(20_000, seed=4)
    table, truth = patients.table, patients.truth
    features = {
        "intercept": np.ones(20_000),
        "age": table["age"],
        "visits": table["visits"],
        "alone[yes]": table["alone"] == "yes",
        **{f"ward[{ward}]": table["ward"] == ward for ward in WARDS},
    }
    assert set(features) == set(truth)
    assert sum(truth[f"ward[{ward}]"] for ward in WARDS) == pytest.approx(0)
    odds = sum(truth[name] * np.asarray(x, float) for name, x in features.items())
    np.testing.assert_allclose(patients.probability, 1 / (1 + np.exp(-odds)))
    missed = (table["readmitted"] == "yes") - patients.probability
    variance = patients.probability * (1 - patients.probability)
    for name, x in features.items():
        score, sd = (missed * x).sum(), np.sqrt((variance * np.asarray(x, float) ** 2).sum())
        assert abs(score) < 5 * sd, name


def test_readmissions_lie_within_the_tutorials_bounds():
    table = simulate_readmissions(20_000, seed=5).table
    assert table["age"].min() >= 18
    assert table["age"].max() <= 95
    assert table["visits"].max() <= 10
    again = simulate_readmissions(20_000, seed=5).table
    assert all(np.array_equal(table[name], again[name]) for name in table)
