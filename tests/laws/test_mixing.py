"""The topics of one document, against plain arithmetic in double precision."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from tacit.laws.mixing import LANES, cleared, divided, exp_digamma, gathered, mixed


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
    rounds = mixed(rows, counts, alpha, tolerance, most, gamma, theta)
    return gamma, theta, rounds


def ascended(rows, counts, gamma, rounds, alpha=0.1):
    """Coordinate ascent in double precision."""
    for _ in range(rounds):
        weights = np.exp(digamma(gamma))
        gamma = alpha + weights * ((counts / (rows.astype(float) @ weights)) @ rows)
    return gamma


def lower_bound(rows, counts, gamma, alpha=0.1):
    """Of the log probability of a document, up to what gamma does not change."""
    logs = digamma(gamma) - digamma(gamma.sum())
    words = counts @ np.log(rows.astype(float) @ np.exp(logs))
    return words + (alpha - gamma) @ logs - gammaln(gamma.sum()) + gammaln(gamma).sum()


@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_coordinate_ascent_stays(seed):
    rows, counts = document(seed=seed)
    gamma, theta, rounds = found(rows, counts, tolerance=1e-5)
    assert 1 < rounds < 500
    once = ascended(rows, counts, gamma.astype(float), 1)
    np.testing.assert_allclose(gamma, once, rtol=1e-3, atol=1e-3)
    weights = np.exp(digamma(gamma.astype(float)))
    np.testing.assert_allclose(theta / theta.max(), weights / weights.max(), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(gamma.sum(), counts.sum() + 0.1 * rows.shape[1], rtol=1e-4)


def test_jumps_are_no_worse_and_save_rounds():
    gains, saved = [], []
    for seed in range(40):  # the same documents each time
        rows, counts = document(seed=seed)
        gamma, _, rounds = found(rows, counts)
        plain, needed, change = np.ones(rows.shape[1]), 0, np.inf
        while change > 1e-4:
            other = ascended(rows, counts, plain, 1)
            plain, needed, change = other, needed + 1, np.abs(other - plain).mean()
        saved.append(1 - rounds / needed)
        jumped, walked = (lower_bound(rows, counts, g) for g in (gamma.astype(float), plain))
        gains.append(jumped - walked)
    assert np.mean(saved) > 0.3
    assert np.mean(gains) > -0.5  # of some 370


def test_rounds_are_limited():
    rows, counts = document()
    assert found(rows, counts, tolerance=0.0, most=7)[2] == 7
    assert found(rows, counts, tolerance=1e9, most=7)[2] == 1


def test_the_same_bits_wherever_it_stands_in_memory():
    rows, counts = document(words=37)
    first = found(rows, counts)
    for shift in range(1, 20):
        room = np.zeros(rows.size + 64, np.float32)
        moved = room[shift : shift + rows.size].reshape(rows.shape)
        moved[:] = rows
        for a, b in zip(first, found(moved, counts)):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("short", range(3))
def test_sizes_are_checked(short):
    rows, counts = document()
    parts = [counts, *np.zeros((2, rows.shape[1]), np.float32)]
    parts[short] = parts[short][:-1]
    with pytest.raises(ValueError, match="sizes differ"):
        mixed(rows, parts[0], 0.1, 1e-3, 10, parts[1], parts[2])


def test_amounts_are_divided_among_the_first_topics():
    rows, counts = document(words=9)
    theta = np.random.default_rng(4).random(LANES).astype(np.float32)
    amounts, out, scaled = counts.astype(float), *np.zeros((2, 9, 5))
    divided(rows, theta, amounts, 0.0, out)
    share = rows[:, :5] * theta[:5]
    np.testing.assert_allclose(out, counts[:, None] * share / share.sum(axis=1)[:, None], rtol=1e-5)
    divided(rows, theta, amounts, 3.0, scaled)
    np.testing.assert_allclose(scaled, 3 * out / np.linalg.norm(out), rtol=1e-5)
    for bad in (np.zeros((8, 5)), np.zeros((9, LANES + 1))):
        with pytest.raises(ValueError, match="sizes differ"):
            divided(rows, theta, amounts, 1.0, bad)
    with pytest.raises(ValueError, match="sizes differ"):
        divided(rows, theta[:-1], amounts, 1.0, out)


def test_rows_are_gathered_from_within_the_table():
    rows, _ = document(words=9)
    words, out = np.array([3, 0, 8], np.int32), np.zeros((3, LANES), np.float32)
    gathered(rows, words, out)
    assert np.array_equal(out, rows[words])
    for wrong, shape in (([3, 9], 2), ([-1, 2], 2), ([1, 2], 3)):
        with pytest.raises(ValueError, match=r"no such word|sizes differ"):
            gathered(rows, np.array(wrong, np.int32), np.zeros((shape, LANES), np.float32))


def test_cleared_rows_say_the_same():
    rows, counts = document(words=40, topics=2 * LANES - 3)
    rows = rows.astype(float) * np.geomspace(1e-30, 1e3, 40)[:, None]  # scales of no matter
    wide = cleared(rows)
    assert wide.shape == (40, 2 * LANES)
    assert np.all(wide.max(axis=1) == 1)
    plain = np.zeros_like(wide)
    plain[:, : rows.shape[1]] = rows / rows.sum(axis=1, keepdims=True)
    for a, b in zip(found(wide, counts)[:2], found(plain, counts)[:2]):
        np.testing.assert_allclose(a / a.max(), b / b.max(), rtol=2e-3, atol=1e-6)


def test_nothing_is_nearly_zero():
    """Or processors are slow: products of what is kept are numbers with all their digits."""
    rows, counts = document(words=40)
    rows[rows < np.median(rows)] = 1e-25
    wide = cleared(rows)
    _, theta, _ = found(wide, counts, alpha=0.01)
    assert np.any(theta == 0)
    least = wide[wide > 0].min() * theta[theta > 0].min()
    assert least > np.finfo(np.float32).tiny
    assert wide[0].max() == 1


def test_a_word_that_no_topic_has_is_of_all():
    assert np.all(cleared(np.full((2, LANES), 1e-40)) == 1)
    assert np.all(cleared(np.zeros((2, LANES))) == 0)
