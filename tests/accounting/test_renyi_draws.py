"""Renyi divergences of untruncated draws against numerical integrals and brute force."""

import doctest
from itertools import product

import numpy as np
import pytest
from reproductions.renyi_draws import dirichlet_divergence, dirichlet_draw_epsilon
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import beta

from reproductions import renyi_draws
from tacit.spec.errors import BudgetError


def by_integral(p, q, order):
    integrand = lambda x: np.exp(order * beta(*p).logpdf(x) + (1 - order) * beta(*q).logpdf(x))  # noqa: E731
    return np.log(quad(integrand, 0, 1, limit=200)[0]) / (order - 1)


def by_formula(p, q, order):
    log = lambda v: gammaln(v).sum() - gammaln(v.sum())  # noqa: E731
    between = order * p + (1 - order) * q
    return (log(between) - order * log(p)) / (order - 1) + log(q) if np.all(between > 0) else np.inf


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
@pytest.mark.parametrize(("prior", "scale"), [((3.0, 2.0), 0.4), ((5.0, 5.0), 1.0)])
def test_replacing_the_only_row_is_the_worst(prior, scale, order):
    found = dirichlet_divergence(prior, "replace_one", scale, np.array([order]))[0]
    a, b = prior
    ways = [
        by_integral((a + scale, b), (a, b + scale), order),
        by_integral((a, b + scale), (a + scale, b), order),
    ]
    assert found == pytest.approx(max(ways), rel=1e-6)


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_no_counts_are_worse_than_the_bound(neighbours):
    prior, scale = np.array([2.0, 1.0, 1.5]), 0.3
    orders = np.array([1.2, 2.0, 3.0])
    bound = dirichlet_divergence(prior, neighbours, scale, orders)
    worst = np.zeros(3)
    for counts in product([0, 1, 3, 10, 10_000], repeat=3):
        at = prior + scale * np.array(counts)
        moves = [at + scale * np.eye(3)[i] for i in range(3)]
        pairs = (
            [(moves[i], moves[j]) for i in range(3) for j in range(3) if i != j]
            if neighbours == "replace_one"
            else [pair for m in moves for pair in ((m, at), (at, m))]
        )
        for p, q in pairs:
            worst = np.maximum(worst, [by_formula(p, q, order) for order in orders])
    assert np.all(worst <= bound * (1 + 1e-9) + 1e-12)
    np.testing.assert_allclose(worst, bound, rtol=1e-3)


def test_epsilon_falls_with_the_prior_and_the_scale():
    strong = dirichlet_draw_epsilon((50, 50), 1e-5, "replace_one", scale=0.1)
    weak = dirichlet_draw_epsilon((5, 5), 1e-5, "replace_one", scale=0.1)
    loud = dirichlet_draw_epsilon((5, 5), 1e-5, "replace_one", scale=1.0)
    assert 0 < strong < weak < loud
    assert dirichlet_draw_epsilon((5, 5), 1e-5, "add_remove", scale=0.1) < weak
    for wrong in ({"delta": 0}, {"neighbours": "both"}, {"scale": 0}, {"prior": (1, -1)}):
        with pytest.raises(BudgetError):
            dirichlet_draw_epsilon(
                **{"prior": (1, 1), "delta": 1e-5, "neighbours": "add_remove", **wrong}
            )


def test_the_examples_run():
    assert doctest.testmod(renyi_draws).failed == 0
    assert doctest.testmod(renyi_draws).attempted > 0
