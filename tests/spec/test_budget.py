from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Budget, Gaussian, Laplace
from tacit.errors import BudgetError
from tacit.spec.budget import Spent, plain, round_up

BAD = [
    0,
    -1,
    float("nan"),
    float("inf"),
    -float("inf"),
    "x",
    None,
    True,
    1e-300,
    1e300,
    [1],
    "1" * 80,
]


@pytest.mark.parametrize("epsilon", BAD)
def test_bad_epsilon_is_refused(epsilon):
    for make in (Budget, Laplace, lambda e: Gaussian(e, 1e-6)):
        with pytest.raises(BudgetError):
            make(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, float("nan"), float("inf"), "y", None, True])
def test_bad_delta_is_refused(delta):
    with pytest.raises(BudgetError):
        Budget(1, delta)


@pytest.mark.parametrize("multiplier", [0, -1, float("nan"), float("inf"), 1e-9])
def test_bad_noise_multiplier_is_refused(multiplier):
    with pytest.raises(BudgetError):
        Gaussian(noise_multiplier=multiplier, delta=1e-6)


def test_gaussian_needs_one_way_to_say_how_much_and_a_delta():
    for bad in (
        {},
        {"epsilon": 1},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "noise_multiplier": 1},
    ):
        with pytest.raises(BudgetError):
            Gaussian(**bad)
    with pytest.raises(BudgetError):
        Gaussian(1, 1e-6, noise_multiplier=1)


def test_fifty_charges_of_two_hundredths_fit_in_one():
    spent = Spent()
    for _ in range(50):
        spent = spent + Budget(0.02)
    assert spent.within(Budget(1))
    assert spent.left_of(Budget(1)).epsilon == 0
    assert not (spent + Budget("1e-9")).within(Budget(1))


@given(st.floats(1e-3, 1e5), st.integers(1, 50))
def test_shares_never_exceed_the_whole(epsilon, parts):
    share = Budget(epsilon, 1e-6).split(parts)
    total = Spent()
    for _ in range(parts):
        total = total + share
    assert total.within(Budget(epsilon, 1e-6))


@given(st.floats(1e-9, 1e6))
def test_costs_are_rounded_up(value):
    assert Decimal(value) <= round_up(value) <= Decimal(value) * Decimal("1.00001")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2.50000", "2.5"),
        ("0.000000", "0"),
        ("1E+1", "10"),
        ("1E-7", "0.0000001"),
        ("1E-99", "1E-99"),
    ],
)
def test_prices_are_written_exactly_and_without_spare_zeros(value, text):
    assert plain(Decimal(value)) == text
    assert Decimal(text) == Decimal(value)
    assert str(Spent(Decimal("1.00000"), Decimal("0.000000"))) == "epsilon 1, delta 0"


def test_how_a_price_is_written_in_the_name_of_a_question_stays():
    """Ledgers know stored answers by a digest of it: other zeros would have them paid for again."""
    assert str(Budget("1.00000", "1E-7")) == "epsilon 1.00000, delta 1E-7"


def test_numpy_numbers_are_numbers():
    assert Laplace(np.float64(0.1)).epsilon == Decimal("0.1")
