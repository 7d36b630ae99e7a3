"""What draws of a network's tables say about them. Statistical tests: false alarms 1e-6 each."""

from collections import Counter
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import chi2, ks_2samp

import tacit
from tacit.infer.from_network_draw import members
from tacit.laws.truncated_dirichlet import log_normaliser
from tacit.testing import simulated_release

ALARM = 1e-6
LEVELS = {"a": 2, "b": 3, "c": 2}
NETS = {
    "naive": tacit.NaiveBayes("a", ["b", "c"]),
    "collider": tacit.BayesNet({"a": [], "b": [], "c": ["b", "a"]}),
    "chain": tacit.BayesNet({"a": [], "b": ["a"], "c": ["b"]}),
}


def described(missing=(), **options):
    columns = [
        tacit.Categorical(
            name, [str(i) for i in range(k)], default=None if name in missing else "0"
        )
        for name, k in LEVELS.items()
    ]
    return tacit.Schema(*columns, **{"neighbours": "replace_one", **options})


def families(model):
    return (model.net if isinstance(model, tacit.NaiveBayes) else model).families


def from_prior(model, n, rng):
    """Tables from the prior, and the counts of every family in n rows."""
    tables, rows, counts = {}, {}, []
    for *parents, name in families(model):
        shape = [LEVELS[p] for p in parents]
        tables[name] = rng.dirichlet(np.ones(LEVELS[name]), size=shape)
        at = tables[name][tuple(rows[p] for p in parents)]
        at = np.broadcast_to(at, (n, LEVELS[name]))
        rows[name] = (np.cumsum(at, axis=1) < rng.random((n, 1))).sum(axis=1)
        table = np.zeros((*shape, LEVELS[name]), np.int64)
        np.add.at(table, tuple(rows[each] for each in (*parents, name)), 1)
        counts.append(table.ravel())
    return tables, np.concatenate(counts)


def released(model, schema, epsilon, counts, n, draws=1):
    query = model.draw_query(schema, truncation=0.05, draws=draws, temper_prior=False)
    return simulated_release(schema, query, tacit.queries.Exponential(epsilon), counts, n)


def ranks(model, n, epsilon, repeats, draws=1, size=19):
    """Ranks of the first entry of every vector among posterior draws."""
    rng, found = np.random.default_rng(n), []
    for seed in range(repeats):
        tables, counts = from_prior(model, n, rng)
        release = released(model, described(), epsilon, counts, n, draws)
        posterior = model.posterior(release, draws=size, chains=1, seed=seed)
        each = []
        for (*_, name), drawn in zip(families(model), posterior.draws.values(), strict=True):
            each.append((drawn[0][..., 0] < tables[name][..., 0]).sum(axis=0).ravel())
        found.append(np.concatenate(each))
    return np.array(found).T


def check_uniform(found):
    """Twenty ranks in five bins, for each vector."""
    for each in found:
        seen, expected = np.bincount(each // 4, minlength=5), len(each) / 5
        assert chi2.sf(((seen - expected) ** 2 / expected).sum(), 4) > ALARM / len(found), seen


def binary(missing=()):
    columns = [
        tacit.Categorical(name, ["0", "1"], default=None if name in missing else "0")
        for name in LEVELS
    ]
    return tacit.Schema(*columns, neighbours="replace_one")


def enumerated(model, release, n, missing):
    """The posterior mean of every first entry: over all tables of n rows, each value or missing."""
    options = [range(3) if name in missing else range(2) for name in LEVELS]
    scale, drawn = release.noise[0].scale, [release.table(b.name).value[0] for b in release.blocks]

    @cache
    def normaliser(one, zero):
        a, b = np.array([1 + one / scale]), np.array([1 + zero / scale])
        return float(log_normaliser(a, b, 0.05)[0])

    weights, means = [], []
    for rows in combinations_with_replacement(list(product(*options)), n):
        log, mean = gammaln(n + 1) - sum(gammaln(k + 1) for k in Counter(rows).values()), []
        for family, p in zip(families(model), drawn, strict=True):
            at = [list(LEVELS).index(each) for each in family]
            seen = Counter(tuple(row[j] for j in at) for row in rows)
            shapes = [range(3 if each in missing else 2) for each in family[:-1]]
            for above in product(*shapes):
                zero, one, lost = (seen[(*above, level)] for level in range(3))
                log += betaln(1 + zero, 1 + one)
                if family[-1] in missing:
                    present = zero + one
                    log += betaln(0.5 + present, 0.25 + lost) - betaln(0.5, 0.25)
                if 2 in above:
                    continue
                log += (zero * np.log(p[above][0]) + one * np.log(p[above][1])) / scale
                log -= normaliser(one, zero)
                mean.append((1 + zero) / (2 + zero + one))
        weights.append(log)
        means.append(mean)
    weight = np.exp(np.array(weights) - max(weights))
    return weight @ np.array(means) / weight.sum()


@pytest.mark.parametrize(
    ("name", "missing"), [("collider", ()), ("collider", ("b",)), ("chain", ("b", "c"))]
)
def test_few_rows_agree_with_enumeration(name, missing):
    model, schema, n = NETS[name], binary(missing), 2 if missing else 4
    counts = [n, 0, 0, n, 0, n, 0, 0, 0, 0, 0, 0]  # what the draws were made from
    if name == "chain":
        counts = [n, 0, 0, n, 0, 0, 0, 0, n, 0]
    release = released(model, schema, 100, counts, n)
    assert release.noise[0].scale == 1
    posterior = model.posterior(release, draws=2000, chains=1, seed=1)
    found = [
        each[0].reshape(2000, -1, 2)[:, :, 0] for each in posterior.draws.values() if each.ndim > 2
    ]  # not the number of rows
    found = np.concatenate(found, axis=1)
    # 200 chains, whose draws remember a little
    error = found.std(axis=0) / np.sqrt(700)
    assert np.all(np.abs(found.mean(axis=0) - enumerated(model, release, n, missing)) < 5 * error)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(("n", "epsilon", "draws"), [(30, 4, 1), (2000, 20, 1), (300, 30, 3)])
def test_ranks_are_uniform_often(name, n, epsilon, draws):
    check_uniform(ranks(NETS[name], n, epsilon, 1000, draws))


def test_a_network_of_one_column_is_that_column():
    """Against the chains of a single column, and its enumeration where it has two levels."""
    for column, counts in (("a", [70, 30]), ("b", [60, 10, 30])):
        net = tacit.BayesNet({column: []})
        release = released(net, described(), 2, counts, 100)
        single = tacit.DirichletCategorical(column)
        query = single.draw_query(described(), truncation=0.05, draws=1, temper_prior=False)
        other = simulated_release(described(), query, tacit.queries.Exponential(2), counts, 100)
        assert release.noise[0].scale == other.noise[0].scale
        other = type(other)(**{**vars(other), "integers": release.integers})
        mine = net.posterior(release, draws=1000, chains=1, seed=1).flat()[::5, 0]
        exact = single.posterior(other, draws=1000, chains=1, seed=2).flat()[:, 0]
        assert ks_2samp(mine, exact).pvalue > ALARM


def test_contexts_make_a_junction_tree():
    """Parents that no earlier family has together are counted together."""
    found = members(families(NETS["collider"]), described())
    assert [each.context for each in found] == [(), (0,), (0, 1)]
    assert [each.parents for each in found] == [(), (), (0, 1)]
    for model in NETS.values():
        columns = members(families(model), described())
        for each in columns:
            if each.context:
                last = columns[each.context[-1]]
                assert set(each.context[:-1]) <= set(last.context)


@pytest.mark.parametrize("name", NETS)
def test_missing_values_and_unknown_numbers_of_rows(name):
    rng = np.random.default_rng(1)
    rows = {c: rng.integers(0, k, 200).astype(str) for c, k in LEVELS.items()}
    rows["b"][:60] = ""
    schema = described(("b", "c"), neighbours="add_remove", max_units=300)
    home = tacit.Wall(rows, schema, budget=tacit.Budget(20), ledger=":memory:")
    how = tacit.OnePosteriorSample(9, draws=2, truncation=0.05)
    posterior = tacit.fit(NETS[name], home, how, draws=30, chains=2, seed=1)
    assert np.all(np.isfinite(posterior.summary()))
    assert posterior.noise == "aware"
    (release,) = posterior.releases
    face = NETS[name].posterior(release, noise="plugin", draws=2, chains=1)
    for block, drawn in zip(release.blocks, face.draws.values(), strict=True):
        np.testing.assert_array_equal(drawn[0], release.table(block.name).value)


def test_what_cannot_be_fitted_costs_nothing():
    names = [f"c{i}" for i in range(22)]
    columns = [tacit.Categorical(name, ["0", "1"], default="0") for name in names]
    schema = tacit.Schema(*columns, neighbours="replace_one")
    data = {name: ["0"] for name in names}
    home = tacit.Wall(data, schema, budget=tacit.Budget(1), ledger=":memory:")
    # families are small, and their junction tree is not
    graph = {"c21": names[:12], **{name: [] for name in names[:21]}}
    with pytest.raises(tacit.errors.ModelError, match="fewer parents"):
        tacit.fit(
            tacit.BayesNet({**graph, "c20": names[8:20]}), home,
            tacit.OnePosteriorSample(1, truncation=0.05),
        )  # fmt: skip
    assert home.remaining.epsilon == 1
