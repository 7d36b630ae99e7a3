"""The posterior of one parameter behind a noisy sum, against brute force and closed forms.

Likelihoods are compared without chance; draws by Kolmogorov's test, false-alarm rate 1e-6 each.
"""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma, kstest, norm

from tacit.infer.latent_sum import (
    NoisySum,
    RowsSeen,
    draw_parameter,
    log_rows_prior,
    log_seen,
)
from tacit.infer.noise import Law
from tacit.infer.one_parameter import exponential, normal, poisson
from tacit.models.gamma_rates import gamma_on_log

LAWS = [
    Law(family, scale)
    for family in ("laplace", "discrete_laplace", "gaussian")
    for scale in (0.5, 3.0, 50.0)
]
CELLS = 2000


def sums_of_counts(cap, at, n):
    """Log pmf of the sum of n capped Poisson counts, by convolution of their exact pmfs."""
    k = np.arange(cap + 1)
    log = at * k - gammaln(k + 1)
    one = np.exp(log - logsumexp(log))
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, one)
    with np.errstate(divide="ignore"):
        return np.arange(len(total)), np.log(total)


def sums_of_values(log_density, low, high, n):
    """The same for values within bounds, cut into fine cells."""
    width = (high - low) / CELLS
    x = low + (np.arange(CELLS) + 0.5) * width
    log = log_density(x)
    one = np.exp(log - logsumexp(log))
    size = n * CELLS
    total = np.maximum(np.fft.irfft(np.fft.rfft(one, size) ** n, size)[: size - n + 1], 1e-300)
    return n * low + (np.arange(len(total)) + n / 2) * width, np.log(total)


CASES = {
    "poisson": (
        poisson(6),
        np.linspace(-4, 4, 41),
        lambda at, n: sums_of_counts(6, at, n),
        2.3,
    ),
    "poisson, nearly all at the cap": (
        poisson(3),
        np.linspace(-2, 6, 41),
        lambda at, n: sums_of_counts(3, at, n),
        3.0,
    ),
    "exponential": (
        exponential(3),
        np.linspace(-5, 3, 41),
        lambda at, n: sums_of_values(lambda x: -np.exp(at) * x, 0, 3, n),
        1.2,
    ),
    "normal": (
        normal(-2, 2, 1.5),
        np.linspace(-5, 5, 41),
        lambda at, n: sums_of_values(lambda x: -0.5 * ((x - at) / 1.5) ** 2, -2, 2, n),
        0.7,
    ),
}


def distance(found, wanted):
    """Total variation of two posteriors over the same entries with a flat prior."""
    p, q = (np.exp(log - logsumexp(log)) for log in (found, wanted))
    return 0.5 * np.abs(p - q).sum()


@pytest.mark.parametrize("n", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("case", CASES)
def test_likelihoods_agree_with_brute_force(case, n):
    """Exact for one row; saddlepoints for the bounds of few rows miss half a percent at most."""
    family, ats, sums, average = CASES[case]
    tables = [sums(at, n) for at in ats]
    for law in LAWS:
        y = average * n + 0.3 * law.scale
        wanted = np.array([logsumexp(log + law.log(y - s)) for s, log in tables])
        found = log_seen(family, ats, NoisySum(y, law, 0.0, 1.0), n)
        assert distance(found, wanted) < (2e-4 if n == 1 else 0.006)


def test_without_noise_the_sum_is_sufficient():
    for family, ats, _, average in CASES.values():
        n, none = 7, Law("none", 0.0)
        found = log_seen(family, ats, NoisySum(average * n, none, 0.0, 1.0), n)
        wanted = family.natural(ats) * average * n - n * family.log_partition(family.natural(ats))
        np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-9)


@pytest.mark.parametrize("law", [Law("laplace", 0.3), Law("laplace", 30.0), Law("gaussian", 0.3)])
def test_far_from_the_data_the_likelihood_still_falls(law):
    """Where both laws have only their tails: no holes, and the order is right."""
    for family, ats, _, _ in CASES.values():
        edge = 100 * family.high + 3 * law.scale
        found = log_seen(family, ats, NoisySum(edge, law, 0.0, 1.0), 100)
        upwards = found if np.all(np.diff(family.natural(ats)) > 0) else found[::-1]
        assert np.all(np.isfinite(found))
        assert np.all(np.diff(upwards) > -1e-3)


def test_tails_that_meet_half_way():
    """Gaussian sum and noise: their convolution is known however far the sum is."""
    family, ats, n = normal(-1e3, 1e3, 1.0), np.linspace(-1, 1, 21), 25
    for y in (0.0, 60.0, 400.0):
        found = log_seen(family, ats, NoisySum(y, Law("gaussian", 4.0), 0.0, 1.0), n)
        wanted = -0.5 * (y - n * ats) ** 2 / (n + 16)
        np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-3, atol=1e-3)


def test_rates_with_few_events_beside_rates_with_many():
    """A wide table: sums of tiny rates are whole numbers, those of large ones a continuum."""
    ats, n, law = np.linspace(-18, 2.5, 21), 300, Law("laplace", 4000.0)
    found = log_seen(poisson(40), ats, NoisySum(500.0, law, 0.0, 1.0), n)
    wanted = [
        logsumexp(log + law.log(500.0 - s)) for s, log in (sums_of_counts(40, at, n) for at in ats)
    ]
    np.testing.assert_allclose(found - found[0], np.array(wanted) - wanted[0], atol=2e-3)


def drawn(family, prior, support, seen, rows, size=20_000):
    return draw_parameter(family, prior, support, seen, rows, size, np.random.default_rng(5))


@pytest.mark.parametrize("law", [Law("none", 0.0), Law("laplace", 1e-3)])
def test_much_data_meets_the_conjugate_posterior(law):
    n = 5000
    rows = RowsSeen.known(n)
    rate, _ = drawn(poisson(60), *gamma_on_log((2.0, 1.0)), NoisySum(3.0 * n, law, 0.0, 1.0), rows)
    assert kstest(np.exp(rate), gamma(2 + 3 * n, scale=1 / (n + 1)).cdf).pvalue > 1e-6
    rate, _ = drawn(
        exponential(400), *gamma_on_log((2.0, 1.0)), NoisySum(9.0 * n, law, 0.0, 1.0), rows
    )
    assert kstest(np.exp(rate), gamma(2 + n, scale=1 / (9 * n + 1)).cdf).pvalue > 1e-6


@pytest.mark.parametrize("sigma", [0.1, 100.0, 1e4])
def test_gaussian_noise_on_a_normal_mean_is_conjugate(sigma):
    n, sd, y = 400, 3.0, 520.0
    found, _ = drawn(
        normal(-90, 90, sd),
        lambda at: -0.5 * ((at - 1) / 2) ** 2,
        (1 - 16, 1 + 16),
        NoisySum(y, Law("gaussian", sigma), 0.0, 1.0),
        RowsSeen.known(n),
    )
    variance = (n * sd**2 + sigma**2) / n**2
    precision = 1 / 4 + 1 / variance
    centre = (1 / 4 + y / n / variance) / precision
    assert kstest(found, norm(centre, precision**-0.5).cdf).pvalue > 1e-6


def test_a_secret_number_of_rows_is_summed_over():
    """Rate and number of rows together, against a table over both."""
    cap, law, y, seen = 4, Law("laplace", 3.0), -5.0, 12.3
    ats, most = np.linspace(-6, 4, 101), 60
    prior, support = gamma_on_log((2.0, 1.5))
    weak = log_rows_prior(None, 1)
    log = np.empty((most + 1, len(ats)))
    for i, at in enumerate(ats):
        one = np.exp(sums_of_counts(cap, at, 1)[1])
        total = np.ones(1)
        for n in range(most + 1):
            error = 2 * n + 2 * y - np.arange(len(total))  # in units of two
            log[n, i] = np.log(total @ np.exp(law.log(error / 2)))
            total = np.convolve(total, one)
    n = np.arange(most + 1.0)
    log += prior(ats) + (weak(n) + law.log(seen - n))[:, None]
    at, rows = drawn(
        poisson(cap), prior, support, NoisySum(y, law, 2.0, 2.0),
        RowsSeen.noisy(seen, law, float(most), weak),
    )  # fmt: skip
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    for values, table, support_of in (
        (rows, weight.sum(axis=1), np.arange(most + 1)),
        (at, weight.sum(axis=0), ats),
    ):
        wanted = (table * support_of).sum()
        sd = np.sqrt((table * (support_of - wanted) ** 2).sum())
        # 5 standard errors, and what evenly spread candidates may miss
        assert abs(values.mean() - wanted) < 5 * sd / np.sqrt(len(values)) + 0.02 * sd
        assert abs(values.std() / sd - 1) < 0.04
