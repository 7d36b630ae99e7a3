"""The topics of one document, against plain arithmetic in double precision."""

import numpy as np
import pytest
from scipy.special import digamma

from tacit.laws.mixing import LANES, divided, exp_digamma, mixed


def test_exp_digamma():
    x = np.geomspace(0.02, 1e6, 20_000).astype(np.float32)
    out = np.zeros_like(x)
    exp_digamma(x, out)
    expected = np.exp(digamma(x.astype(float)))
    usual = x > 0.1
    np.testing.assert_allclose(out[usual], expected[usual], rtol=5e-5)
    np.testing.assert_allclose(out, expected, rtol=2e-3)


def document(words=30, topics=LANES, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(words, 0.3), size=topics).T.astype(np.float32)
    return np.ascontiguousarray(rows), rng.poisson(3, size=words).astype(np.float32) + 1


def found(rows, counts, alpha=0.1, tolerance=1e-4, most=500):
    gamma, theta = np.zeros((2, rows.shape[1]), np.float32)
    shares = np.zeros_like(counts)
    rounds = mixed(rows, counts, alpha, tolerance, most, gamma, theta, shares)
    return gamma, theta, shares, rounds


@pytest.mark.parametrize("seed", range(5))
def test_coordinate_ascent_in_double_precision_ends_where_it_does(seed):
    rows, counts = document(seed=seed)
    gamma, theta, shares, rounds = found(rows, counts)
    expected = np.ones(rows.shape[1])
    for _ in range(rounds):
        weights = np.exp(digamma(expected))
        ratio = counts / (rows.astype(float) @ weights)
        expected = 0.1 + weights * (ratio @ rows)
    assert 1 < rounds < 500
    np.testing.assert_allclose(gamma, expected, rtol=1e-3, atol=1e-3)
    split = shares[:, None] * rows * theta
    np.testing.assert_allclose(split.sum(axis=1), counts, rtol=1e-4)  # no word is lost
    np.testing.assert_allclose(gamma.sum(), counts.sum() + 0.1 * rows.shape[1], rtol=1e-4)


def test_rounds_are_limited():
    rows, counts = document()
    assert found(rows, counts, tolerance=0.0, most=7)[3] == 7
    assert found(rows, counts, tolerance=1e9, most=7)[3] == 1


def test_the_same_bits_wherever_it_stands_in_memory():
    rows, counts = document(words=37)
    first = found(rows, counts)
    for shift in range(1, 20):
        room = np.zeros(rows.size + 64, np.float32)
        moved = room[shift : shift + rows.size].reshape(rows.shape)
        moved[:] = rows
        for a, b in zip(first, found(moved, counts)):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("short", range(4))
def test_sizes_are_checked(short):
    rows, counts = document()
    parts = [counts, *np.zeros((2, rows.shape[1]), np.float32), np.zeros_like(counts)]
    parts[short] = parts[short][:-1]
    with pytest.raises(ValueError, match="sizes differ"):
        mixed(rows, parts[0], 0.1, 1e-3, 10, parts[1], parts[2], parts[3])


def test_amounts_are_divided_among_the_first_topics():
    rows, counts = document(words=9)
    theta = np.random.default_rng(4).random(LANES).astype(np.float32)
    out = np.zeros((9, 5))
    squares = divided(rows, theta, counts.astype(float), out)
    share = rows[:, :5] * theta[:5]
    np.testing.assert_allclose(out, counts[:, None] * share / share.sum(axis=1)[:, None], rtol=1e-5)
    assert squares == pytest.approx((out**2).sum())
    for bad in (np.zeros((8, 5)), np.zeros((9, LANES + 1))):
        with pytest.raises(ValueError, match="sizes differ"):
            divided(rows, theta, counts.astype(float), bad)
    with pytest.raises(ValueError, match="sizes differ"):
        divided(rows, theta[:-1], counts.astype(float), out)
