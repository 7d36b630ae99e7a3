"""Trees of counts against enumeration of every table; chi-square tests, false alarms 1e-6 each."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2

from tacit.infer.count_tree import Alike, Cell, Divided, log_ways, sample_tree
from tacit.infer.latent_counts import ROWS, Rows, log_cell
from tacit.infer.noise import Law

LAPLACE, GAUSSIAN = Law("discrete_laplace", 2.0), Law("discrete_gaussian", 1.7)
LAPLACE_4 = Law("discrete_laplace", 4.0)


def star(seen, law, prior, hub_prior):
    """Tables (class, feature) with common classes; `seen[d][c]` are noisy cells."""
    place = iter(range(1000))
    features = [
        [
            Divided(np.full(len(cells), prior), tuple(Cell(y, law, next(place)) for y in cells))
            for cells in table
        ]
        for table in seen
    ]
    classes = tuple(Alike(tuple(way)) for way in zip(*features, strict=True))
    return Divided(np.full(len(classes), hub_prior), classes)


def log_division(parts, a):
    n, total = sum(parts), a * len(parts)
    return (
        gammaln(n + 1) + gammaln(total) - gammaln(n + total)
        + sum(gammaln(k + a) - gammaln(k + 1) - gammaln(a) for k in parts)
    )  # fmt: skip


def enumerate_star(seen, law, prior, hub_prior, rows, most):
    """p(all cells | y), straight from the definition."""
    log = {}
    classes = len(seen[0])
    for totals in product(range(most + 1), repeat=classes):
        n = sum(totals)
        if n < rows.least or n > most:
            continue
        top = gammaln(n + ROWS) - gammaln(n + 1) + log_division(totals, hub_prior)
        ways = []
        for table in seen:
            for cells, m in zip(table, totals, strict=True):
                parts = [s for s in product(range(m + 1), repeat=len(cells)) if sum(s) == m]
                noise = [float(law.log(np.array(cells) - np.array(s)).sum()) for s in parts]
                ways.append([(s, log_division(s, prior) + w) for s, w in zip(parts, noise)])
        for chosen in product(*ways):
            log[tuple(k for s, _ in chosen for k in s)] = top + sum(w for _, w in chosen)
    top = max(log.values())
    mass = sum(np.exp(w - top) for w in log.values())
    return {s: np.exp(w - top) / mass for s, w in log.items()}


def agrees(exact, drawn):
    size = len(drawn)
    found = {}
    for row in map(tuple, drawn.tolist()):
        found[row] = found.get(row, 0) + 1
    assert set(found) <= set(exact)
    keys = [s for s, p in exact.items() if p * size >= 10]
    expected = np.array([exact[s] * size for s in keys])
    observed = np.array([found.get(s, 0) for s in keys])
    left = size - expected.sum()
    statistic = ((observed - expected) ** 2 / expected).sum()
    if left > 5:
        statistic += (size - observed.sum() - left) ** 2 / left
    assert chi2.sf(statistic, max(len(keys) - 1 + (left > 5), 1)) > 1e-6


CASES = {
    "one feature": ([[[3.0, 1], [0.0, 2]]], LAPLACE, 1.0, 1.0, Rows(5, 5), 5),
    "two features": (
        [[[3.0, 1], [0.0, 2]], [[1.0, 1], [3.0, -1]]],
        LAPLACE,
        1.0,
        1.0,
        Rows(5, 5),
        5,
    ),
    "they disagree": (
        [[[6.0, 1], [-2.0, -1]], [[-1.0, 1], [3.0, 3]]],
        LAPLACE,
        0.5,
        2.0,
        Rows(5, 5),
        5,
    ),
    "normal noise": (
        [[[2.2, 1.3], [0.4, 2]], [[1, 0.3], [3, -1.5]]],
        GAUSSIAN,
        0.3,
        1.0,
        Rows(4, 4),
        4,
    ),
    "rows in a range": (
        [[[1.0, 1], [0.0, 2]], [[1.0, 0], [2.0, -1]]],
        GAUSSIAN,
        1.0,
        1.0,
        Rows(2, 5),
        5,
    ),
    "a strong prior": ([[[6.0, 0], [0.0, 0]]], LAPLACE, 300.0, 400.0, Rows(6, 6), 6),
    "three levels": ([[[3.0, 1, 0], [0.0, 2, 1]]], LAPLACE, 1.0, 0.2, Rows(5, 5), 5),
    "nobody": ([[[3.0, 1], [0.0, 2]]], LAPLACE, 1.0, 1.0, Rows(0, 0), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_draws_have_the_exact_law(case):
    seen, law, prior, hub_prior, rows, most = CASES[case]
    exact = enumerate_star(seen, law, prior, hub_prior, rows, most)
    drawn = sample_tree(star(seen, law, prior, hub_prior), rows, 40_000, np.random.default_rng(3))
    agrees(exact, drawn)


def test_an_unknown_number_of_rows_has_its_law():
    law = Law("discrete_gaussian", 0.8)
    seen = [[[1.0, 1], [0.0, 2]], [[1.5, 0], [2.0, 0]]]
    exact = enumerate_star(seen, law, 1.0, 1.0, Rows(0, np.inf), 10)
    drawn = sample_tree(
        star(seen, law, 1.0, 1.0), Rows(0, np.inf), 40_000, np.random.default_rng(3)
    )
    agrees(exact, drawn)


def test_tables_of_the_same_rows_agree_and_draws_are_right_on_average():
    rng = np.random.default_rng(1)
    n, scale = 20_000, 30.0
    classes = rng.multinomial(n, [0.2, 0.5, 0.3])
    tables = [[rng.multinomial(m, rng.dirichlet(np.ones(k))) for m in classes] for k in (2, 5, 9)]
    seen = [
        [cells + rng.laplace(scale=scale, size=len(cells)).round() for cells in t] for t in tables
    ]
    tree = star(seen, Law("discrete_laplace", scale), 1.0, 1.0)
    drawn = sample_tree(tree, Rows(n, n), 1000, rng)
    start, totals = 0, []
    for table in tables:
        size = sum(map(len, table))
        part = drawn[:, start : start + size]
        ends = np.cumsum([len(cells) for cells in table])[:-1]
        totals.append(np.stack([p.sum(axis=1) for p in np.split(part, ends, axis=1)], axis=1))
        # noise of scale 30 has an sd of 42; the largest of 48 errors stays below 8 of them
        assert np.abs(part.mean(axis=0) - np.concatenate(table)).max() < 8 * 42
        start += size
    assert np.all(totals[0] == totals[1])
    assert np.all(totals[0] == totals[2])
    assert np.all(totals[0].sum(axis=1) == n)


def test_a_group_of_many_empty_cells_leaves_the_others_as_they_are():
    """Its weights fall faster and faster towards 0 rows, where they are extrapolated."""
    rng = np.random.default_rng(5)
    cells = np.vstack([rng.multinomial(1500, rng.dirichlet(np.full(31, 3)), 4), np.zeros((1, 31))])
    seen = cells + rng.laplace(scale=4.0, size=cells.shape).round()
    groups = [
        Divided(np.ones(31), tuple(Cell(y, LAPLACE_4, 31 * g + j) for j, y in enumerate(group)))
        for g, group in enumerate(seen)
    ]
    valued = Divided(np.ones(4), tuple(groups[:4]))
    tree = Divided(np.array([0.5, 0.25]), (valued, groups[4]))
    drawn = sample_tree(tree, Rows(6000, 6000), 200, rng)
    assert np.all(drawn.sum(axis=1) == 6000)
    # noise of scale 4 exceeds 80 with probability e^-20 in each of 155 cells
    assert np.abs(drawn.mean(axis=0) - cells.ravel()).max() < 80


@pytest.mark.parametrize("rows", [Rows(900, 900), Rows(500, 1000), Rows(0, np.inf), Rows(0, 3000)])
@pytest.mark.parametrize("prior", [0.1, 1.0])
def test_blocks_change_nothing_that_matters(rows, prior, monkeypatch):
    law = Law("discrete_laplace", 60.0)
    seen = [[[30.0, 430], [300, -20]], [[250, 120.0], [100, 330]]]
    found = []
    for widest in (2**14, 2**9):
        monkeypatch.setattr("tacit.infer.count_tree._WIDEST", widest)
        drawn = sample_tree(star(seen, law, prior, 1.0), rows, 40_000, np.random.default_rng(4))
        found.append(np.quantile(drawn, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0))
    # two samples of 40,000: quantiles agree to a few per cent of the noise
    np.testing.assert_allclose(found[0], found[1], atol=6)


@pytest.mark.parametrize("block", [1, 3, 101])
def test_the_constant_is_what_the_weights_add_up_to(block):
    prior = np.array([0.3, 1.0, 4.0])
    q = np.arange(400.0)
    cells = [np.exp(log_cell(q, a, block)) for a in prior]
    direct = np.convolve(np.convolve(cells[0], cells[1])[:400], cells[2])[:400]
    np.testing.assert_allclose(log_ways(q, prior, block), np.log(direct), atol=3e-3)


@pytest.mark.parametrize("law", [Law("discrete_laplace", 1e6), Law("discrete_gaussian", 1e5)])
@pytest.mark.parametrize("prior", [1e-6, 1.0, 1e6])
def test_noise_that_swamps_the_data_is_no_error(law, prior):
    rng = np.random.default_rng(2)
    seen = [[[-3e5, 4e5], [1e5, 0]], [[9e5, 1e5], [-2e5, -2e5]]]
    for rows in (Rows(5, 5), Rows(0, 100), Rows(0, np.inf), Rows(40_000, 40_000), Rows(5, 15)):
        drawn = sample_tree(star(seen, law, prior, prior), rows, 300, rng)
        assert np.all(drawn >= 0)


@pytest.mark.parametrize("family", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("scale", [1e-4, 0.01, 0.05, 0.2, 1.0])
def test_narrow_noise_leaves_the_counts_as_they_are(family, scale):
    """Tables without error, a few rows missing: all draws are near them, and tables agree."""
    tables = [[[205.0, 31], [7, 40]], [[100, 136], [0, 47]]]

    def tree():
        (valued,) = [star(tables, Law(family, scale), 1.0, 1.0)]
        gap = Cell(3.0, Law(family, scale), 8)
        return Divided(np.array([0.5, 0.25]), (valued, gap))

    for rows in (Rows(286, 286), Rows(150, 450), Rows(0, np.inf)):
        drawn = sample_tree(tree(), rows, 500, np.random.default_rng(1))
        wrong = np.abs(drawn - np.array([205, 31, 7, 40, 100, 136, 0, 47, 3]))
        assert wrong.max() <= 25 * scale
        assert np.all(drawn[:, :4].sum(axis=1) == drawn[:, 4:8].sum(axis=1))
