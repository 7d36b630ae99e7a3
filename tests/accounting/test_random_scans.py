"""Gibbs scans that update some of the latent variables, against the laws of single updates."""

import doctest

import numpy as np
import pytest
from reproductions.random_scans import random_scan_delta, subset_epsilon

import tacit
from reproductions import random_scans


def test_a_random_scan_saves_delta_and_no_epsilon():
    """Foulds et al. claim .039 (twice .01 of it, or so); an update can be seen, and costs 1.946."""
    claimed, true, share = 0.039, 1.946, 0.01
    assert random_scan_delta(true, share, true) == 0
    assert random_scan_delta(true, share, claimed) > 0.003
    just_below = random_scan_delta(true, share, true * 0.999)
    assert just_below > 0
    # as far as delta goes the share is the price
    for total in (0.0, claimed, 1.0):
        whole = random_scan_delta(true, 1, total)
        assert random_scan_delta(true, share, total) == pytest.approx(share * whole)


def test_the_delta_of_a_scan_is_that_of_its_worst_update():
    """One update of two outcomes whose losses are t and t - epsilon, all t."""
    epsilon, share = 1.5, 0.2
    for total in (0.0, 0.3, 1.2):
        worst = 0.0
        for t in np.linspace(1e-6, epsilon - 1e-6, 1001):
            q = np.expm1(epsilon - t) / np.expm1(epsilon)  # of the outcome with loss t
            p = q * np.exp(t)
            here = np.array([1 - share, share * p, share * (1 - p)])
            there = np.array([1 - share, share * q, share * (1 - q)])
            np.testing.assert_allclose(np.log((1 - p) / (1 - q)), t - epsilon, atol=1e-6)
            worst = max(worst, np.maximum(here - np.exp(total) * there, 0).sum())
        assert random_scan_delta(epsilon, share, total) == pytest.approx(worst, rel=1e-4)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("epsilon", [0.4, 2.0])
def test_a_subset_costs_what_its_worst_outcome_does(epsilon, share):
    """Over all ratios of an outcome's probabilities without a unit, with it, with another one."""
    with_it = np.exp(np.linspace(-epsilon, epsilon, 201))  # against 1 without
    added = np.log(1 - share + share * with_it)
    found = subset_epsilon(epsilon, share, "add_remove")
    assert np.abs(added).max() == pytest.approx(found, rel=1e-9)
    one = np.exp(np.linspace(-epsilon / 2, epsilon / 2, 201))
    both = 1 - share + share * one
    found = subset_epsilon(epsilon, share, "replace_one")
    assert np.log(both[:, None] / both).max() == pytest.approx(found, rel=1e-9)
    if share == 1:
        assert found == pytest.approx(epsilon)


def test_a_subset_that_weighs_as_much_as_all_units_is_hardly_cheaper():
    for epsilon in (0.1, 1.0, 4.0):
        for share in (0.01, 0.1, 0.5, 0.9):
            assert subset_epsilon(epsilon / share, share, "add_remove") >= epsilon * (1 - 1e-12)
            replaced = subset_epsilon(epsilon / share, share, "replace_one")
            assert replaced >= epsilon * (1 - 1e-12 if share <= 0.5 else 0.9)
    with pytest.raises(tacit.errors.BudgetError, match="neighbours"):
        subset_epsilon(1.0, 0.5, "both")
    with pytest.raises(tacit.errors.BudgetError, match="share"):
        subset_epsilon(1.0, 0.0, "add_remove")


@pytest.mark.parametrize(
    "given", [(0, 0.1, 1), (1, 0, 1), (1, 1.5, 1), (1, float("nan"), 1), (float("nan"), 0.1, 1)]
)
def test_senseless_scans_are_refused(given):
    with pytest.raises(tacit.errors.BudgetError):
        random_scan_delta(*given)


def test_the_examples_run():
    assert doctest.testmod(random_scans).failed == 0
    assert doctest.testmod(random_scans).attempted > 0
