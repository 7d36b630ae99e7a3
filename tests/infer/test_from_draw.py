"""Inference from draws against brute force. Statistical tests: false-alarm rate 1e-6 each."""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import chi2

import tacit
from tacit.audit.draws import Simplex
from tacit.infer.from_draw import (
    Tempered,
    Totals,
    enumerated,
    log_posterior,
    possible_rows,
    sample_counts_by_exchange,
)
from tacit.testing import simulated_release

ALARM = 1e-6
SIGMAS = 4.9


def dirichlet_multinomial(counts, prior):
    counts, prior = np.asarray(counts, float), np.asarray(prior, float)
    n, total = counts.sum(), prior.sum()
    log = gammaln(n + 1) + gammaln(total) - gammaln(n + total)
    return log + (gammaln(counts + prior) - gammaln(prior) - gammaln(counts + 1)).sum()


def beta_kernel(at):
    return lambda x: (1 - x) ** (at[0] - 1) * x ** (at[1] - 1)


@pytest.mark.parametrize("temperature", [1.0, 6.0])
def test_two_levels_are_enumerated_exactly(temperature):
    """Against quadrature of the density for each count, one by one."""
    draws = np.array([[0.7, 0.3], [0.9, 0.1]])
    law, prior = Tempered(draws, np.array([2.0, 0.5]), temperature, 0.05), np.array([1.0, 3.0])
    log = []
    for s in range(21):
        at = law.base + np.array([20 - s, s]) / temperature
        kernel = beta_kernel(at)
        mass = quad(kernel, 0.05, 0.95, epsabs=0)[0]
        log.append(dirichlet_multinomial((20 - s, s), prior))
        log[-1] += sum(np.log(kernel(draw[1]) / mass) for draw in draws)
    found = log_posterior(law, prior, 20, np.arange(21))
    np.testing.assert_allclose(found - found[0], np.array(log) - log[0], atol=1e-8)


def test_many_rows_go_through_a_spline():
    law = Tempered(np.array([[0.93, 0.07]]), np.ones(2), 3.0, 0.05)
    s = np.arange(100_001)
    through = log_posterior(law, np.ones(2), 100_000, s)
    some = np.linspace(0, 100_000, 1001).astype(int)
    exact = log_posterior(law, np.ones(2), 100_000, some)
    np.testing.assert_allclose(through[some] - through.max(), exact - through.max(), atol=1e-4)
    rng = np.random.default_rng(0)
    counts = enumerated(law, np.ones(2), 5_000_000, 1000, rng)
    assert np.all(counts.sum(axis=1) == 5_000_000)
    assert abs(counts[:, 1].mean() / 5_000_000 - 0.07) < 0.001


def chi_square_p(drawn, cells, probability):
    """How well independent draws of cells fit; cells with few expected are taken together."""
    index = {cell: i for i, cell in enumerate(cells)}
    seen = np.bincount([index[tuple(d)] for d in drawn], minlength=len(cells))
    expected = probability * len(drawn)
    large = expected >= 8
    seen = np.append(seen[large], seen[~large].sum())
    expected = np.append(expected[large], expected[~large].sum())
    if expected[-1] < 8:
        seen, expected = seen[:-1], expected[:-1]
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)


@pytest.mark.parametrize("draws", [((0.6, 0.3, 0.1),), ((0.12, 0.15, 0.73), (0.2, 0.2, 0.6))])
def test_exchange_chains_find_the_enumerated_law(draws):
    """Three levels, six rows, the normaliser by quadrature. Draws are thinned to be independent."""
    prior, n = np.array([1.0, 2.0, 0.5]), 6
    law = Tempered(np.array(draws), np.array([1.0, 1.0, 0.7]), 2.0, 0.1)
    cells = [c for c in product(range(n + 1), repeat=3) if sum(c) == n]
    simplex = Simplex.of(3, 0.1)
    log = np.empty(len(cells))
    for i, cell in enumerate(cells):
        at = law.base + np.array(cell) / law.temperature
        each = (np.log(law.draws) * (at - 1)).sum() - len(draws) * simplex.log_integral(at)
        log[i] = dirichlet_multinomial(cell, prior) + each
    probability = np.exp(log - log.max())
    probability /= probability.sum()
    rng = np.random.default_rng(1)
    known = Totals(np.array([n]), np.ones(1))
    # the last state of each chain: independent of the others
    drawn = [sample_counts_by_exchange(law, prior, known, 400, rng)[-100:] for _ in range(30)]
    assert chi_square_p(np.concatenate(drawn), cells, probability) > ALARM


def test_exchange_chains_move_between_numbers_of_rows():
    prior = np.array([1.0, 1.0])
    law = Tempered(np.array([[0.8, 0.2]]), np.ones(2), 1.5, 0.05)
    totals = Totals(np.arange(0, 9), np.linspace(1, 2, 9))
    cells = [c for c in product(range(9), repeat=2) if sum(c) <= 8]
    log = np.empty(len(cells))
    for i, cell in enumerate(cells):
        at = law.base + np.array(cell) / law.temperature
        kernel = beta_kernel(at[::-1])
        log[i] = dirichlet_multinomial(cell, prior) + np.log(totals.weight[sum(cell)])
        log[i] += np.log(kernel(0.8) / quad(kernel, 0.05, 0.95, epsabs=0)[0])
    probability = np.exp(log - log.max())
    rng = np.random.default_rng(2)
    drawn = [sample_counts_by_exchange(law, prior, totals, 400, rng)[-100:] for _ in range(30)]
    assert chi_square_p(np.concatenate(drawn), cells, probability / probability.sum()) > ALARM


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("default", ["a", None])
@pytest.mark.parametrize("each", [1, 2])
def test_the_number_of_rows_has_the_weights_of_noisy_counts(neighbours, default, each):
    """The sum over missing rows, one term at a time."""
    column = tacit.Categorical("x", ["a", "b"], default=default)
    schema = tacit.Schema(
        column, neighbours=neighbours, max_units=12, unit="who", max_rows_per_unit=each
    )
    query = tacit.BetaBernoulli("x", success="b").draw_query(
        schema, truncation=0.1, draws=1, temper_prior=False
    )
    n = 9
    totals = possible_rows(
        simulated_release(schema, query, tacit.queries.Exponential(1), [n, 0], n)
    )
    least, most = (n, n * each) if neighbours == "replace_one" else (0, 12 * each)
    expected = {}
    for rows in range(most + 1):
        terms = []
        for missing in range(most - rows + 1) if default is None else [0]:
            everyone = rows + missing
            if least <= everyone <= most:
                log = gammaln(everyone + 0.5) - gammaln(everyone + 1)
                if default is None:
                    log += gammaln(everyone + 1) - gammaln(everyone + 0.75)
                    log += gammaln(missing + 0.25) - gammaln(missing + 1)
                    log += gammaln(rows + 0.5) - gammaln(rows + 1)
                terms.append(np.exp(log))
        if terms:
            expected[rows] = sum(terms)
    assert list(totals.rows) == list(expected)
    weights = np.array(list(expected.values()))
    np.testing.assert_allclose(
        totals.weight / totals.weight.sum(), weights / weights.sum(), atol=1e-10
    )


def ranks(levels, n, mechanism, repeats, draws, size):
    """Ranks of truths from the prior among posterior draws of the first level."""
    rng = np.random.default_rng(levels)
    names = [str(i) for i in range(levels)]
    column = tacit.Categorical("x", names, default="0")
    schema = tacit.Schema(column, neighbours="replace_one")
    model = tacit.DirichletCategorical("x", prior=1.0)
    found = []
    query = model.draw_query(schema, truncation=0.05, draws=draws, temper_prior=False)
    for seed in range(repeats):
        truth = rng.dirichlet(np.ones(levels))
        counts = rng.multinomial(n, truth)
        release = simulated_release(schema, query, mechanism, counts, n)
        posterior = model.posterior(release, draws=size, chains=1, seed=seed)
        found.append((posterior.draws["p"][0, :, 0] < truth[0]).sum())
    return np.array(found)


@pytest.mark.parametrize(("levels", "repeats", "draws"), [(2, 1000, 1), (2, 600, 3), (3, 50, 1)])
def test_ranks_are_uniform(levels, repeats, draws):
    """Simulation-based calibration, ten bins of ranks, or five that have four ranks each."""
    bins, size = (10, 99) if repeats >= 100 else (5, 19)
    found = ranks(levels, 60, tacit.queries.Exponential(1), repeats, draws, size)
    seen = np.bincount(found // ((size + 1) // bins), minlength=bins)
    statistic = ((seen - repeats / bins) ** 2 / (repeats / bins)).sum()
    assert chi2.sf(statistic, bins - 1) > ALARM


@pytest.mark.slow
def test_intervals_cover_and_face_value_does_not():
    """90% intervals at n = 100, epsilon 1; face value is the draw give or take the posterior sd."""
    rng, repeats, n = np.random.default_rng(5), 1500, 100
    column = tacit.Categorical("x", ["no", "yes"], default="no")
    schema = tacit.Schema(column, neighbours="replace_one")
    model = tacit.BetaBernoulli("x", success="yes")
    query = model.draw_query(schema, truncation=0.05, draws=1, temper_prior=False)
    hits = face = 0
    for seed, truth in enumerate(rng.random(repeats)):
        yes = rng.binomial(n, truth)
        release = simulated_release(schema, query, tacit.queries.Exponential(1), [n - yes, yes], n)
        low, high = model.posterior(release, draws=1000, chains=1, seed=seed).interval(0.9)
        hits += low <= truth <= high
        seen = release.table("p").value[0, 1]
        face += abs(truth - seen) < 1.645 * np.sqrt(seen * (1 - seen) / (n + 3))
    assert abs(hits / repeats - 0.9) < 0.005 + SIGMAS * np.sqrt(0.09 / repeats)
    assert abs(face / repeats - 0.45) < 0.02 + SIGMAS * 0.5 / np.sqrt(repeats)
