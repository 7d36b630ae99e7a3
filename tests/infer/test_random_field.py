"""Chains over a Markov random field against sums over every table of rows."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom, chi2

from tacit.infer.latent_counts import ROWS, Rows
from tacit.infer.noise import Law
from tacit.infer.random_field import Field, sample_field, sample_from_counts
from tacit.infer.random_field_chain import SeenCells, binomial, follow

SD = 1.5


@pytest.mark.parametrize(("n", "p"), [(5, 0.3), (1000, 0.02), (1000, 0.7), (100_000, 0.4)])
def test_binomial_draws_have_their_law(n, p):
    """Chi-square, false-alarm rate 1e-6 each."""
    size = 4000
    drawn = np.array([binomial(n, p) for _ in range(size)])
    edges = np.unique(binom.ppf(np.linspace(0.02, 0.98, 25), n, p))
    probability = np.diff(binom.cdf(np.concatenate([[-1], edges, [n]]), n, p))
    found = np.histogram(drawn, [-0.5, *(edges + 0.5), n + 0.5])[0]
    kept = probability * size > 5
    statistic = ((found - probability * size)[kept] ** 2 / (probability * size)[kept]).sum()
    assert chi2.sf(statistic, kept.sum()) > 1e-6


@pytest.mark.parametrize("fixed", [True, False])
def test_rows_that_follow_have_the_new_law(fixed):
    """Rows drawn under old expectations and moved: means of 4,000 within 6 errors."""
    rng = np.random.default_rng(1)
    old, new = np.array([8.0, 2.0, 6.0, 4.0]), np.array([3.0, 7.0, 6.5, 3.5])
    totals = np.zeros((4000, 4))
    out = np.zeros(4, dtype=np.int64)
    for i in range(len(totals)):
        m = rng.multinomial(20, old / 20) if fixed else rng.poisson(old)
        follow(m.astype(np.int64), old, new, fixed, out)
        totals[i] = out
    if fixed:
        assert np.all(totals.sum(axis=1) == 20)
    variance = new * (1 - new / 20) if fixed else new
    assert np.all(np.abs(totals.mean(axis=0) - new) < 6 * np.sqrt(variance / len(totals)))
    assert np.all(np.abs(totals.var(axis=0) / variance - 1) < 0.25)


def brute_force(field, seen, rows, most, draws=60_000):
    """The posterior mean of each cell's probability, its error, and that of the rows' number.

    Over every table of rows, and over draws of theta from the prior as weighted draws.
    """
    rng = np.random.default_rng(0)
    theta = rng.normal(0, SD, (draws, field.cells))
    score = theta[:, field.cell].sum(axis=2)
    p = np.exp(score - np.logaddexp.reduce(score, axis=1)[:, None])
    weight, number = np.zeros(draws), np.zeros(draws)
    law = Law("laplace" if seen.heavy else "gaussian", 1.0)
    for m in product(range(most + 1), repeat=len(field.cell)):
        n = sum(m)
        if not rows.least <= n <= most:
            continue
        t = np.zeros(field.cells)
        for x, k in enumerate(m):
            t[field.cell[x]] += k
        log = gammaln(n + ROWS) - gammaln(np.array(m) + 1).sum()
        log += (seen.power * law.log((seen.value - t) / seen.scale)).sum()
        part = np.exp(log + np.log(p) @ np.array(m))
        weight += part
        number += n * part
    probability = np.zeros((draws, field.cells))
    for c in range(field.cell.shape[1]):
        for x in range(len(p[0])):
            probability[:, field.cell[x, c]] += p[:, x]
    share = weight / weight.sum()
    mean = share @ probability
    error = np.sqrt((share**2) @ (probability - mean) ** 2)
    return mean, error, float(number.sum() / weight.sum())


CASES = {
    "known rows": ([2, 2], [(0, 1)], [2.0, 0.5, -1.0, 3.0], 1.0, True, Rows(4, 4), 4),
    "normal noise": ([2, 2], [(0, 1)], [2.0, 0.5, -1.0, 3.0], 0.7, False, Rows(4, 4), 4),
    "narrow noise": ([2, 2], [(0, 1)], [2.0, 0.0, 0.0, 2.0], 0.2, True, Rows(4, 4), 4),
    "wide noise": ([2, 2], [(0, 1)], [9.0, 0.5, -8.0, 3.0], 20.0, True, Rows(4, 4), 4),
    "two cliques": (
        [2, 2, 2], [(0, 1), (1, 2)], [2.0, 0, 0, 1, 0, 1, 2, 0], 0.8, True, Rows(3, 3), 3,
    ),
    "unknown rows": ([2, 2], [(0, 1)], [1.0, 0.5, 0.0, 2.0], 0.6, False, Rows(0, np.inf), 9),
    "rows in a range": ([2, 2], [(0, 1)], [1.0, 0.5, 0.0, 2.0], 1.5, True, Rows(2, 6), 6),
    "apart": ([2, 2], [(0,), (1,)], [1.0, 3.0, 0.0, 4.0], 1.5, True, Rows(4, 4), 4),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_chain_agrees_with_enumeration(case):
    levels, cliques, value, scale, heavy, rows, most = CASES[case]
    field = Field.of(levels, cliques)
    size = field.cells
    seen = SeenCells(np.array(value), np.full(size, scale), np.ones(size), heavy)
    want, error, number = brute_force(field, seen, rows, most)
    rng = np.random.default_rng(2)
    chains = [sample_field(field, seen, rows, SD, 4000, rng) for _ in range(4)]
    means = np.array([[field.mean(t) for t in theta].copy() for theta, _ in chains])
    each = means.mean(axis=1)
    # chains vary among themselves as their means vary: 7 errors of four chains, and of the weights
    slack = 7 * np.sqrt(each.var(axis=0, ddof=1) / 4 + error**2) + 0.004
    assert np.all(np.abs(each.mean(axis=0) - want) < slack)
    assert abs(np.mean([total.mean() for _, total in chains]) - number) < 0.15


def test_known_cells_have_the_right_spread():
    """Where the prior is wide and rows are many, the probability is nearly Beta."""
    field = Field.of([2], [(0,)])
    rng = np.random.default_rng(1)
    theta = sample_from_counts(field, np.array([30.0, 70.0]), 100.0, 20.0, 4000, rng)
    p = np.array([field.mean(t)[0] for t in theta])
    assert abs(p.mean() - 0.3) < 0.01
    assert abs(p.std() / np.sqrt(0.3 * 0.7 / 100) - 1) < 0.1
