"""The topics of one document, against plain arithmetic in double precision."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import digamma, gammaln

from tacit.infer.topics import mixtures
from tacit.kernels.mixing import (
    LANES,
    divide_counts,
    exp_digamma,
    fit_proportions,
    flush_denormals,
    gather_columns,
)


def test_exp_digamma():
    x = np.geomspace(0.02, 1e6, 20_000).astype(np.float32)
    out = exp_digamma(x)
    assert out.dtype == np.float32
    expected = np.exp(digamma(x.astype(float)))
    usual = x > 0.1
    np.testing.assert_allclose(out[usual], expected[usual], rtol=5e-5)
    np.testing.assert_allclose(out, expected, rtol=2e-3)


def document(words=30, topics=LANES, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(words, 0.3), size=topics).T.astype(np.float32)
    return np.ascontiguousarray(rows), rng.poisson(3, size=words).astype(np.float32) + 1


def padded_to_lanes(words):
    return -(-words // LANES) * LANES


def side_by_side(rows):
    """A document's words as they are gathered from a table of theirs alone."""
    columns = np.zeros((rows.shape[1], padded_to_lanes(len(rows))), np.float32)
    gather_columns(rows, np.arange(len(rows), dtype=np.int32), columns)
    return columns


def found(rows, counts, alpha=0.1, tolerance=1e-4, most=500):
    gamma, theta = np.zeros((2, rows.shape[1]), np.float32)
    wide = np.zeros(padded_to_lanes(counts.size), np.float32)
    wide[: counts.size] = counts
    rounds = fit_proportions(side_by_side(rows), wide, alpha, tolerance, most, gamma, theta)
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


def test_amounts_are_divided_among_the_topics():
    rows, counts = document(words=9, topics=5)
    theta = np.random.default_rng(4).random(5).astype(np.float32)
    amounts, out, scaled = counts.astype(float), *np.zeros((2, 9, 5))
    words = np.arange(9, dtype=np.int32), side_by_side(rows)
    divide_counts(rows, *words, theta, amounts, 0.0, out)
    share = rows * theta
    np.testing.assert_allclose(out, counts[:, None] * share / share.sum(axis=1)[:, None], rtol=1e-5)
    divide_counts(rows, *words, theta, amounts, 3.0, scaled)
    np.testing.assert_allclose(scaled, 3 * out / np.linalg.norm(out), rtol=1e-5)


def test_words_are_gathered_side_by_side():
    rows, _ = document(words=9, topics=5)
    words, out = np.array([3, 0, 8], np.int32), np.zeros((5, LANES), np.float32)
    gather_columns(rows, words, out)
    assert np.array_equal(out[:, :3], rows[words].T)
    assert not out[:, 3:].any()


def test_documents_with_words_beyond_the_table_are_refused():
    """The loops have no index checks of their own."""
    rows, _ = document(words=9)
    how = {"tolerance": 1e-3, "most": 10}
    fine = csr_matrix(np.eye(9))
    assert mixtures(fine, rows, 0.1, **how).shape == (9, LANES)
    with pytest.raises(ValueError, match="documents of 9 words, got 10"):
        mixtures(csr_matrix(np.eye(10)), rows, 0.1, **how)
    for wrong in (9, -1):
        broken = fine.copy()
        broken.indices[4] = wrong
        with pytest.raises(ValueError, match="indices must be"):
            mixtures(broken, rows, 0.1, **how)


def test_cleared_rows_say_the_same():
    rows, counts = document(words=40, topics=2 * LANES - 3)
    rows = rows.astype(float) * np.geomspace(1e-30, 1e3, 40)[:, None]  # scales of no matter
    wide = flush_denormals(rows)
    assert wide.shape == rows.shape
    assert np.all(wide.max(axis=1) == 1)
    plain = np.zeros_like(wide)
    plain[:, : rows.shape[1]] = rows / rows.sum(axis=1, keepdims=True)
    for a, b in zip(found(wide, counts)[:2], found(plain, counts)[:2]):
        np.testing.assert_allclose(a / a.max(), b / b.max(), rtol=2e-3, atol=1e-6)


def test_nothing_is_nearly_zero():
    """Or processors are slow: products of what is kept are numbers with all their digits."""
    rows, counts = document(words=40)
    rows[rows < np.median(rows)] = 1e-25
    wide = flush_denormals(rows)
    _, theta, _ = found(wide, counts, alpha=0.01)
    assert np.any(theta == 0)
    least = wide[wide > 0].min() * theta[theta > 0].min()
    assert least > np.finfo(np.float32).tiny
    assert wide[0].max() == 1


def test_a_word_that_no_topic_has_is_of_all():
    assert np.all(flush_denormals(np.full((2, LANES), 1e-40)) == 1)
    assert np.all(flush_denormals(np.zeros((2, LANES))) == 0)
