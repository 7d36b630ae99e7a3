"""Samplers of hidden Markov models against enumeration of all paths."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import poisson

from tacit.infer.hmm import Cells, Priors, draw_hidden_states
from tacit.infer.hmm.small_noise import sum_over_counts
from tacit.infer.noise import Law
from tacit.spec.sampling import Sampling

PRIOR, MOVES = 0.8, 1.3


def log_dirichlet_multinomial(counts, a):
    n = np.asarray(counts, float)
    return gammaln(a * n.size) - gammaln(a * n.size + n.sum()) + (gammaln(n + a) - gammaln(a)).sum()


def log_chain(z, states):
    """The probability of paths (sequence, time) with their transition probabilities integrated."""
    n = np.zeros((states + 1, states))
    for path in z:
        before = states
        for k in path:
            n[before, k] += 1
            before = k
    return sum(log_dirichlet_multinomial(row, MOVES) for row in n)


def all_paths(sequences, times, states):
    each = product(range(states), repeat=sequences * times)
    return [np.reshape(z, (sequences, times)) for z in each]


def normalised(log):
    return np.exp(np.array(log) - logsumexp(log))


def frequencies(found, states):
    flat = found.reshape(len(found), -1).astype(np.int64)
    code = flat @ states ** np.arange(flat.shape[1])[::-1]
    share = np.bincount(code, minlength=states ** flat.shape[1]) / len(found)
    return (share + share[::-1]) / 2  # of two states, neither has a name


def run(cells, states, draws, prior=PRIOR, **options):
    return draw_hidden_states(
        cells,
        states,
        Priors(prior, MOVES),
        Sampling(draws, 2, 1),
        warmup=2000,
        relabel=False,
        **options,
    )


@pytest.mark.parametrize("single_site", [False, True])
def test_paths_from_counts_agree_with_enumeration(single_site):
    """Total variation within .01, of which chance is a third."""
    states, first = 2, np.array([0, 2, 5])
    counts = np.random.default_rng(3).poisson(1.2, size=(2, 3, 5)).astype(float)
    log = []
    for z in all_paths(2, 3, states):
        log.append(log_chain(z, states))
        for k in range(states):
            total = counts[z == k].sum(axis=0)
            log[-1] += sum(
                log_dirichlet_multinomial(total[a:b], PRIOR) for a, b in ((0, 2), (2, 5))
            )
    cells = Cells(counts, first, [Law("none", 0.0)] * 2, np.ones((2, 3), bool))
    found = run(cells, states, 150_000, single_site=single_site)
    want = normalised(log)
    assert 0.5 * np.abs(want - frequencies(found.states, states)).sum() < 0.01


def grid_posterior(y, used, law, usual, states):
    """Paths of one sequence, three levels: sums over s, rates and emissions (flat) on grids."""
    u, v = np.meshgrid(*[(np.arange(70) + 0.5) / 70] * 2, indexing="ij")
    theta = np.stack([u, v, 1 - u - v], axis=-1)[u + v < 1 - 1e-9]
    rates = np.exp(np.linspace(np.log(1e-3), np.log(40 * usual + 10 * law.scale), 90))
    log_rates = 0.5 * np.log(rates) - 0.5 / usual * rates
    s = np.arange(0, 60 + int(np.max(y) + 12 * law.scale))
    means = np.exp(np.linspace(np.log(1e-7), np.log(rates[-1]), 400))
    log_like = np.zeros((len(y), len(theta)))
    for t, cell in enumerate(y):
        if not used[t]:
            continue
        terms = np.zeros((len(theta), len(rates)))
        for j, value in enumerate(cell):
            table = logsumexp(poisson.logpmf(s, means[:, None]) + law.log(value - s), axis=1)
            at = np.log(np.maximum(np.multiply.outer(theta[:, j], rates), 1e-7))
            terms += np.interp(at, np.log(means), table)
        log_like[t] = logsumexp(terms + log_rates, axis=1)
    paths = all_paths(1, len(y), states)
    log = []
    for z in paths:
        log.append(log_chain(z, states))
        for k in range(states):
            log[-1] += logsumexp(log_like[z[0] == k].sum(axis=0))
    return normalised(log)


@pytest.mark.parametrize("family", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize(("scale", "rows"), [(0.4, 4), (1.5, 6), (4.0, 12), (10.5, 40)])
def test_paths_from_noisy_counts_agree_with_enumeration(family, scale, rows):
    """True counts, rates and emissions summed out on grids; the last scale is the normal model."""
    states, law = 2, Law(family, scale)
    rng = np.random.default_rng(5)
    truth = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    y = rng.poisson(rows * truth) + np.rint(rng.normal(0, scale, (3, 3)))
    used = np.ones((1, 3), bool)
    cells = Cells(y[None], np.array([0, 3]), [law], used)
    want = grid_posterior(y, used[0], law, cells.typical_rows(), states)
    found = frequencies(run(cells, states, 150_000, prior=1.0).states, states)
    assert 0.5 * np.abs(want - found).sum() < 0.01


def test_a_held_out_cell_is_predicted_by_its_neighbours():
    law = Law("discrete_laplace", 1.5)
    y = np.array([[9.0, 1, 0], [0, 0, 30], [0, 2, 8], [1, 0, 7]])
    used = np.array([[True, False, True, True]])
    cells = Cells(y[None], np.array([0, 3]), [law], used)
    want = grid_posterior(y, used[0], law, cells.typical_rows(), 2)
    assert (
        0.5 * np.abs(want - frequencies(run(cells, 2, 150_000, prior=1.0).states, 2)).sum() < 0.01
    )


def test_rare_levels_are_not_drawn_to_zero():
    """Means far below one count under whole Laplace noise: within 5 standard errors, 1e-6 each."""
    rng, law = np.random.default_rng(2), Law("discrete_laplace", 3.5)
    p = np.array([0.6, 0.3, 0.07, 0.02, 0.01])
    once = 1 - np.exp(-1 / law.scale)
    size = (20, 50, 5)
    y = rng.poisson(20 * p, size) + rng.geometric(once, size) - rng.geometric(once, size)
    cells = Cells(y.astype(float), np.array([0, 5]), [law], np.ones((20, 50), bool))
    theta = draw_hidden_states(cells, 1, Priors(), Sampling(800, 2, 1)).theta[:, 0]
    assert np.all(np.abs(theta.mean(axis=0) - p) < 5 * theta.std(axis=0))


@pytest.mark.parametrize("heavy", [True, False])
def test_a_sum_over_counts_is_exact(heavy):
    rng = np.random.default_rng(1)
    for _ in range(300):
        mean, scale = 10 ** rng.uniform(-4, 3), 10 ** rng.uniform(-1.5, 1)
        y = rng.poisson(mean) + np.rint(5 * scale * rng.normal())
        s = np.arange(int(mean + abs(y) + 500 + 20 * np.sqrt(mean)))
        law = Law("laplace" if heavy else "gaussian", scale)
        want = poisson.logpmf(s, mean) + law.log(y - s)
        found, drawn = sum_over_counts(y, mean, scale, heavy, rng.random())
        assert found == pytest.approx(logsumexp(want), abs=1e-9)
        assert want[int(drawn)] > want.max() - 35


def test_overall_shares_are_shrunk_by_their_noise():
    rng = np.random.default_rng(5)
    truth = np.array([60.0, 30.0, 9.0, 1.0])
    counts = np.tile(truth, (10, 20, 1))
    used = np.ones((10, 20), bool)

    def shares(scale):
        seen = counts + rng.normal(0, scale, counts.shape) if scale else counts
        law = Law("discrete_gaussian", scale) if scale else Law("none", 0.0)
        return Cells(seen, np.array([0, 4]), [law], used).overall_shares()

    assert np.allclose(shares(0.0), truth / 100)
    assert np.allclose(shares(10.0), truth / 100, atol=0.05)  # sums of 20,000 +- 141
    assert np.abs(shares(1e6) - 0.25).max() < np.abs(truth / 100 - 0.25).max()
    assert shares(1e6).sum() == pytest.approx(1)
    prior = Priors(2.0, shared=True).of_levels(
        Cells(counts, np.array([0, 4]), [Law("none", 0.0)], used)
    )
    assert np.allclose(prior, 2 * (1 + 4 * truth / 100) / 2)
    assert np.all(Priors(2.0).of_levels(Cells(counts, np.array([0, 4]), [], used)) == 2)
