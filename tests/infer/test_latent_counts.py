"""The convolution sampler against enumeration of every table of counts.

Chi-square tests with fixed seeds; false-alarm rate of each 1e-6.
"""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2

from tacit.infer.categorical import dirichlet
from tacit.infer.latent_counts import MISSING, PRESENT, ROWS, Rows, sample_counts
from tacit.infer.noise import Law

LAPLACE, GAUSSIAN = Law("discrete_laplace", 2.0), Law("discrete_gaussian", 1.7)


def enumerate_posterior(seen, prior, law, rows, most, power=1.0) -> dict[tuple, float]:
    """p(s | y) by brute force, straight from the model's definition."""
    log = {}
    for s in product(range(most + 1), repeat=len(seen)):
        total, a = sum(s), sum(prior)
        inner = gammaln(total + 1) - gammaln(total + a)  # Dirichlet-multinomial given total
        inner += sum(gammaln(k + b) - gammaln(k + 1) for k, b in zip(s, prior, strict=True))
        inner += sum(power * float(law.log(np.array(y - k))) for y, k in zip(seen, s, strict=True))
        options = [0] if rows.missing is None else range(most + 1)
        parts = []
        for m in options:
            n = total + m
            if n < rows.least or n > rows.most:
                continue
            part = gammaln(n + ROWS) - gammaln(n + 1)
            if rows.missing is not None:  # Beta-binomial number of missing values among n rows
                part += gammaln(n + 1) - gammaln(m + 1) - gammaln(total + 1)
                part += gammaln(m + MISSING) + gammaln(total + PRESENT)
                part -= gammaln(n + MISSING + PRESENT)
                part += float(law.log(np.array(rows.missing - m)))
            parts.append(part)
        if parts:
            log[s] = inner + np.logaddexp.reduce(parts)
    top = max(log.values())
    weight = {s: np.exp(value - top) for s, value in log.items()}
    mass = sum(weight.values())
    return {s: w / mass for s, w in weight.items()}


CASES = {
    "known total": ([3.0, -1, 4], [1.0, 1, 1], LAPLACE, Rows(7, 7), 7),
    "known total, sparse prior": ([3.0, -1, 4], [0.1, 0.2, 0.05], LAPLACE, Rows(7, 7), 7),
    "known total far from the measured sum": ([9.0, 9, 9], [1.0, 1, 1], LAPLACE, Rows(4, 4), 4),
    "one cell": ([3.0], [1.0], LAPLACE, Rows(0, 20), 20),
    "nobody": ([3.0, 2.0], [1.0, 1.0], LAPLACE, Rows(0, 0), 0),
    "missing": ([3.0, 2.0], [1.0, 1.0], LAPLACE, Rows(7, 7, 1.0), 7),
    "missing, absurd": ([3.0, 2.0], [1.0, 1.0], LAPLACE, Rows(7, 7, -9.0), 7),
    "rows in a range, missing": ([3.0, 2.0], [2.0, 0.5], GAUSSIAN, Rows(5, 10, 1.3), 10),
    "rows in a range": ([3.2, 2.7], [2.0, 0.5], GAUSSIAN, Rows(5, 10), 10),
    "rows unknown": ([3.0, 1.0], [1.0, 1.0], GAUSSIAN, Rows(0, np.inf), 25),
    "rows capped": ([6.0, 1.0], [1.0, 1.0], LAPLACE, Rows(0, 8), 8),
    "prior against the data": ([9.0, 0.0], [1.0, 400.0], LAPLACE, Rows(9, 9), 9),
    "strong prior, rows unknown": ([6.0, 3.0], [300.0, 300.0], GAUSSIAN, Rows(0, np.inf), 25),
}


@pytest.mark.parametrize("case", CASES)
def test_draws_have_the_exact_law(case):
    seen, prior, law, rows, most = CASES[case]
    exact = enumerate_posterior(seen, prior, law, rows, most)
    size = 40_000
    rng = np.random.default_rng(3)
    drawn = sample_counts(np.array(seen), np.array(prior), law, rows, size, rng)
    keys = [s for s, p in exact.items() if p * size >= 10]
    found: dict[tuple, int] = {}
    for row in map(tuple, drawn.tolist()):
        found[row] = found.get(row, 0) + 1
    assert set(found) <= set(exact)
    expected = np.array([exact[s] * size for s in keys])
    observed = np.array([found.get(s, 0) for s in keys])
    left = size - expected.sum()
    statistic = ((observed - expected) ** 2 / expected).sum()
    if left > 5:
        statistic += (size - observed.sum() - left) ** 2 / left
    freedom = len(keys) - 1 + (left > 5)
    assert freedom == 0 or chi2.sf(statistic, freedom) > 1e-6


def test_one_measurement_for_two_cells():
    """y and n - y at half power are the same as y alone."""
    n, y = 9, 6.0
    whole = enumerate_posterior([n - y, y], [1.0, 2.0], LAPLACE, Rows(n, n), n, power=0.5)
    # the first cell's prior is flat
    log = {s: gammaln(s + 2) - gammaln(s + 1) - abs(y - s) / 2 for s in range(n + 1)}
    mass = np.logaddexp.reduce(list(log.values()))
    for (_, s), probability in whole.items():
        assert probability == pytest.approx(np.exp(log[s] - mass), rel=1e-9)
    rng = np.random.default_rng(0)
    drawn = sample_counts(
        np.array([n - y, y]), np.array([1.0, 2.0]), LAPLACE, Rows(n, n), 40_000, rng, power=0.5
    )
    assert np.all(drawn.sum(axis=1) == n)
    mean = sum(s * p for (_, s), p in whole.items())
    assert drawn[:, 1].mean() == pytest.approx(mean, abs=0.06)


@pytest.mark.parametrize("prior", [[1.0, 1.0], [0.1, 3.0]])
@pytest.mark.parametrize(
    "rows", [Rows(900, 900), Rows(900, 900, 40.0), Rows(500, 1000, 40.0), Rows(0, np.inf)]
)
def test_blocks_change_nothing_that_matters(prior, rows, monkeypatch):
    """Counts in blocks against single counts: quantiles of the counts and of the probability."""
    law = Law("discrete_laplace", 60.0)
    seen = np.array([30.0, 830.0])
    found = []
    for widest in (2**15, 2**11):
        monkeypatch.setattr("tacit.infer.latent_counts._WIDEST", widest)
        rng = np.random.default_rng(4)
        counts = sample_counts(seen, np.array(prior), law, rows, 40_000, rng)
        levels = [0.05, 0.25, 0.5, 0.75, 0.95]
        shares = dirichlet(counts + np.array(prior), rng)[:, 1]
        found.append((np.quantile(counts, levels, axis=0), np.quantile(shares, levels)))
    # both are samples of 40,000: quantiles agree to about one per cent of the noise
    np.testing.assert_allclose(found[0][0], found[1][0], atol=5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=0.006)


def test_large_tables_are_finite_and_right_on_average():
    rng = np.random.default_rng(1)
    n, levels, scale = 1_000_000, 30, 200.0
    truth = rng.multinomial(n, rng.dirichlet(np.ones(levels)))
    seen = truth + rng.laplace(scale=scale, size=levels).round()
    law = Law("discrete_laplace", scale)
    drawn = sample_counts(seen, np.ones(levels), law, Rows(n, n), 2000, rng)
    assert np.all(drawn.sum(axis=1) == n)
    assert np.all(drawn >= 0)
    # one standard deviation is about 280; the largest of 30 errors stays below 8 of them
    assert np.abs(drawn.mean(axis=0) - truth).max() < 8 * 1.42 * scale


@pytest.mark.parametrize("law", [Law("discrete_laplace", 1e6), Law("discrete_gaussian", 1e5)])
@pytest.mark.parametrize("prior", [[1e-6, 1e-6], [1.0, 1.0], [1e6, 1e-3]])
def test_noise_that_swamps_the_data_gives_the_prior_back(law, prior):
    rng = np.random.default_rng(2)
    for rows in (Rows(5, 5), Rows(0, 100), Rows(5, 5, 3e5), Rows(5, 15, -2e5)):
        drawn = sample_counts(np.array([-3e5, 4e5]), np.array(prior), law, rows, 500, rng)
        assert np.all(drawn >= 0)
        assert np.all(drawn.sum(axis=1) <= (rows.most or 0))
        assert np.all(np.isfinite(dirichlet(drawn + np.array(prior), rng)))


def test_tiny_concentrations_still_sum_to_one():
    rng = np.random.default_rng(0)
    drawn = dirichlet(np.full((1000, 3), 1e-6), rng)
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    assert drawn.max(axis=1).min() > 0.99
