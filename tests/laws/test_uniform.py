"""Samplers leave no gaps as wide as the grid: which points can be reached tells nothing."""

import numpy as np
import pytest

from tacit.draws.draw import uniforms
from tacit.laws.truncated_dirichlet import LogGamma
from tacit.laws.uniform import exponential, normal

GRID = 2.0**-40
FINE = GRID / 16


def neighbours(v):
    """Uniform numbers as `uniforms` makes them, and the next one up."""
    return v, np.nextafter(v, 1)


@pytest.mark.parametrize("rate", [1e-12, 1e-6, 0.1, 1.0, 15.0, 1e3, 1e6])
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
def test_exponential_tails_are_dense(rate, length):
    v = np.concatenate([2.0 ** -np.arange(1, 120), np.linspace(1e-6, 1 - 1e-6, 1001)])
    one, next_one = (exponential(u, rate, length) for u in neighbours(v))
    assert np.all((one >= 0) & (one <= length * (1 + 1e-12)))
    # relative to the piece beyond 1, where doubles are no finer
    assert np.all(np.abs(one - next_one) <= FINE * max(1, length))


def test_exponential_numbers_have_their_law():
    v = (np.arange(100_000) + 0.5) / 100_000
    x = exponential(v, 3.0, 0.7)
    share = -np.expm1(-3.0 * x) / -np.expm1(-3.0 * 0.7)
    assert np.allclose(share, 1 - v, atol=1e-12)


def test_normal_tails_are_dense():
    u = 2.0 ** -np.arange(1, 120)
    one, next_one = (normal(w, np.full_like(u, 0.01)) for w in neighbours(u))
    assert np.all(np.abs(one - next_one) <= FINE)
    angles = np.linspace(1e-6, 1 - 1e-6, 1001)
    one, next_one = (normal(np.full_like(w, 1e-6), w) for w in neighbours(angles))
    assert np.all(np.abs(one - next_one) <= FINE)


@pytest.mark.parametrize("scale", [1.0, 50.0, 5000.0])
def test_probabilities_piled_up_at_the_truncation_are_dense(scale):
    # The law that a level without rows has beside many: all mass at the lower end.
    law = LogGamma.of(np.array([1.0]), np.array([scale / 0.3]), np.log(0.3), np.log(0.7))

    def drawn(v):
        fed = iter([np.array([0.999999, v, 1e-9])])  # the right piece, accepted
        return np.exp(law.sample(lambda size: next(fed)))[0]

    for v in 2.0 ** -np.arange(1, 60):
        assert abs(drawn(v) - drawn(np.nextafter(v, 1))) <= FINE


def test_uniform_numbers_use_all_their_words():
    def words(count):
        return np.arange(1, count + 1, dtype=np.uint32)

    ones = uniforms(lambda n: np.full(n, 2**32 - 1, np.uint32), 3)
    zeros = uniforms(lambda n: np.zeros(n, np.uint32), 3)
    assert np.all(ones == 1 - 2.0**-53)
    assert np.all(zeros == 2.0**-129)
    # a small number keeps 53 digits: the low words count where the high ones are 0
    made = np.zeros((4, 1), np.uint32)
    made[1] = 12345
    assert uniforms(lambda n: made.ravel(), 1)[0] == (12345 + 0.5) * 2.0**-128
    made[3] = 7
    assert uniforms(lambda n: made.ravel(), 1)[0] == 7 * 2.0**-64 + 12345.5 * 2.0**-128
    assert len(uniforms(words, 5)) == 5
