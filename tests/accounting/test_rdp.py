"""Renyi accounting: against dp-accounting, and never below the privacy loss distribution."""

import math

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant

from tacit.accounting import epsilon
from tacit.accounting.pairs import Exchange, Pure, Ranged, add, opposite, remove, shift
from tacit.accounting.pld import pld_epsilon
from tacit.accounting.rdp import WHOLE_ORDERS, rdp_epsilon, renyi, strong_epsilon


@pytest.mark.parametrize(("z", "rate"), [(1.0, 0.01), (0.8, 0.1), (4.0, 0.5)])
def test_poisson_sampling_matches_dp_accounting(z, rate):
    accountant = RdpAccountant()
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(z)), 100)
    mine = rdp_epsilon(((remove(1 / z, rate), 100),), 1e-5)
    assert mine == pytest.approx(accountant.get_epsilon(1e-5), rel=0.005)


def test_whole_orders_match_the_binomial_sum():
    # E_Q[((1-q) + q e^(mu x - mu^2/2))^a] for whole a, term by term.
    mu, rate = 0.9, 0.2
    found = renyi(remove(mu, rate), WHOLE_ORDERS)
    for order in (2, 3, 10, 30):
        total = sum(
            math.comb(order, k)
            * (1 - rate) ** (order - k)
            * rate**k
            * math.exp(mu**2 * k * (k - 1) / 2)
            for k in range(order + 1)
        )
        assert found[order - 2] == pytest.approx(math.log(total) / (order - 1), rel=1e-9)


def test_order_two_of_the_opposite_pair_by_hand():
    mu, rate = 0.7, 0.3
    x = np.linspace(-15, 15, 300001)
    dx = x[1] - x[0]
    base, up, down = (np.exp(-((x - m) ** 2) / 2) for m in (0, mu, -mu))
    p, q = (1 - rate) * base + rate * up, (1 - rate) * base + rate * down
    by_hand = math.log((p**2 / q).sum() * dx / math.sqrt(2 * math.pi))
    assert renyi(opposite(mu, rate), (2.0,))[0] == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(
    "composition",
    [
        ((shift(0.3), 1),),
        ((remove(1.0, 0.01), 1000),),
        ((add(1.0, 0.3), 10),),
        ((opposite(0.5, 0.05), 300),),
        ((remove(0.5, 0.05), 300), (add(0.5, 0.05), 300)),
        ((Exchange(1.5, 0.02), 50),),
        ((remove(60.0, 0.01), 3),),
        ((Pure(0.2), 50),),
        ((Pure(0.1), 50), (remove(0.5, 0.05), 20), (shift(0.4), 1)),
    ],
)
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_renyi_never_undercuts_the_loss_distribution(composition, delta):
    tight = pld_epsilon(composition, delta)
    improved = rdp_epsilon(composition, delta)
    assert tight <= improved * 1.001
    assert improved <= rdp_epsilon(composition, delta, classic=True) + 1e-9


@pytest.mark.parametrize("sampling", ["poisson", "wor"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("geometry", ["free", "nonnegative", "box"])
@pytest.mark.parametrize(
    ("z", "rate", "steps"), [(0.8, 0.05, 20), (6.0, 0.01, 2000), (3.0, 1.0, 4)]
)
def test_strong_composition_never_undercuts_either(sampling, neighbours, geometry, z, rate, steps):
    given = {
        "noise_multiplier": z,
        "sampling_rate": rate,
        "steps": steps,
        "delta": 1e-6,
        "neighbours": neighbours,
        "sampling": sampling,
        "geometry": geometry,
    }
    tight = epsilon(**given)
    assert tight <= epsilon(**given, accountant="rdp") * 1.001
    assert tight <= epsilon(**given, accountant="strong") * 1.001


def test_strong_composition_of_one_step_is_the_step():
    assert strong_epsilon(1.0, 1.0, 1, 1e-6) == pytest.approx(4.887, abs=1e-3)


def test_the_exponential_mechanism_costs_a_quarter_of_pure_privacy():
    orders = (2.0, 8.0)
    assert renyi(Ranged(0.01), orders) == pytest.approx(renyi(Pure(0.01), orders) / 4, rel=0.01)
    assert np.all(renyi(Pure(30.0), (2.0, 200.0)) <= 30.0)
