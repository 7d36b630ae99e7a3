"""Regressions that the wall fits, as symbols: what they refuse, save, and take from a release."""

import numpy as np
import pytest

import tacit
from tacit.accounting.logistic import TOLERANCE, gradient_error
from tacit.models.logistic_regression import theta_of
from tacit.spec.logistic import assumed_curvature, least_ridge, ridge_of, units_of
from tacit.spec.queries import query_from_dict

LAW = tacit.queries.Logistic("y", ("x", "z"), precision=0.1)


@pytest.mark.parametrize(
    "query",
    [
        tacit.queries.LogisticDraw(LAW),
        tacit.queries.LogisticDraw(LAW, draws=7, temper_prior=True),
        tacit.queries.LogisticMinimum(LAW, "objective"),
        tacit.queries.LogisticMinimum(LAW, "output", regularizer=3),
    ],
    ids=str,
)
def test_a_query_survives_being_saved(query):
    assert query_from_dict(query.to_dict()) == query


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tacit.queries.Logistic("y", (), 1.0), "and at least one"),
        (lambda: tacit.queries.Logistic("y", ("x", "y"), 1.0), "not among the features"),
        (lambda: tacit.queries.Logistic("y", ("x", "x"), 1.0), "each feature once"),
        (lambda: tacit.queries.Logistic("y", ("x",), 0.0), "precision=0.0 from 1e-6"),
        (lambda: tacit.queries.Logistic("y", ("x",), float("nan")), "precision=nan"),
        (lambda: tacit.queries.LogisticDraw("y"), "Expected Logistic"),
        (lambda: tacit.queries.LogisticDraw(LAW, draws=0), "draws=0"),
        (lambda: tacit.queries.LogisticDraw(LAW, temper_prior=1), "temper_prior=1"),
        (lambda: tacit.queries.LogisticMinimum(LAW, "both"), "among objective, output"),
        (lambda: tacit.queries.LogisticMinimum(LAW, "output", -1), "regularizer=-1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, match):
    with pytest.raises(tacit.errors.QueryError, match=match):
        make()


def test_the_rule_for_the_regularizer_balances_noise_and_shrinkage():
    """Near the least error, were all directions alike and all log odds of the usual size."""
    for units in (500, 5_000, 30_000, 10**6):
        for size in (6, 101):
            for sigma in (1.0, 8.0, 70.0):
                curve = assumed_curvature(units, size)
                ridges = np.geomspace(1e-2, 1e7, 2000)

                def output(ridge, curve=curve, sigma=sigma):
                    bias = ridge / (curve + ridge) / np.sqrt(0.1)
                    return (sigma / ridge) ** 2 + bias**2

                rule = ridge_of(tacit.queries.LogisticMinimum(LAW, "output"), units, size, sigma)
                least = output(ridges).min()
                assert output(rule) < 3 * least  # it leans to twice that: signs prefer it
                assert output(rule / 2) < 1.3 * least
    given = tacit.queries.LogisticMinimum(LAW, "output", 5.0)
    assert ridge_of(given, 10, 3, 1.0) == 5.0


def test_the_rule_for_a_random_gradient_keeps_its_distance_from_zero():
    query = tacit.queries.LogisticMinimum(LAW, "objective")
    assert ridge_of(query, 10**7, 5, 8.0) == 0.3 * 8.0
    assert ridge_of(query, 100, 50, 8.0) > 10


def test_the_number_of_units_is_public_or_declared():
    columns = [tacit.Real("x", 0, 1), tacit.Categorical("y", ["no", "yes"])]
    assert units_of(tacit.Schema(*columns, neighbours="replace_one"), 12) == 12
    assert units_of(tacit.Schema(*columns, neighbours="add_remove", max_units=99), 12) == 99
    with pytest.raises(tacit.errors.QueryError, match="max_units"):
        units_of(tacit.Schema(*columns, neighbours="add_remove"), 12)


def test_theta_needs_a_regression():
    schema = tacit.Schema(tacit.Categorical("y", ["no", "yes"]), neighbours="replace_one")
    release = tacit.Public({"y": ["no"]}, schema).release(tacit.queries.Counts("y"), tacit.Exact())
    with pytest.raises(tacit.errors.QueryError, match="logistic regression"):
        theta_of(release)


def test_a_regularizer_is_never_less_than_can_be_computed_with():
    query = tacit.queries.LogisticMinimum(LAW, "output", regularizer=1e-6)
    assert ridge_of(query, 10, 5, 8.0) > 1e-6
    assert ridge_of(query, 10**6, 5, 8.0) == least_ridge(10**6, 5)
    assert ridge_of(query, 10**5, 5, 8.0, 10) == least_ridge(10**6, 5)
    with pytest.raises(tacit.errors.QueryError, match="fewer"):
        ridge_of(query, 10**12, 5, 8.0)


@pytest.mark.parametrize("size", [1, 10, 400])
@pytest.mark.parametrize("rows", [1, 10**3, 10**6, 10**8])
def test_with_the_least_regularizer_rounding_stays_below_the_tolerance(rows, size):
    ridge = least_ridge(rows, size)
    if np.isfinite(ridge):
        farthest = np.sqrt(2 * np.log(2) * rows / ridge)
        assert gradient_error(rows, size, farthest) <= TOLERANCE / 4
    else:
        assert rows * size > 10**9
