"""Networks: what they ask for, what they predict, and how often their intervals hold the truth."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import tacit
from tacit.infer.networks import seen_tables
from tacit.spec.elsewhere import release_from_table


def schema(neighbours="replace_one", default=True, **options):
    return tacit.Schema(
        tacit.Categorical("y", ["n", "p"], default="n" if default else None),
        tacit.Categorical("a", ["u", "v", "w"], default="u" if default else None),
        tacit.Integer("b", 0, 1, default=0 if default else None),
        neighbours=neighbours,
        **options,
    )


P_Y = np.array([0.35, 0.65])
P_A = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
P_B = np.array([[0.8, 0.2], [0.3, 0.7]])


def people(n, rng):
    y = rng.choice(2, n, p=P_Y)
    a = (P_A[y].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    b = (rng.random(n) < P_B[y, 1]).astype(int)
    return {"y": np.array(["n", "p"])[y], "a": np.array(["u", "v", "w"])[a], "b": b}


MODEL = tacit.NaiveBayes("y", ["a", "b"])


def test_the_tables_that_are_asked_for():
    assert MODEL.query() == tacit.queries.Counts([("y", "a"), ("y", "b")])
    # a family inside another one is its margin; a mere parent is a root
    assert tacit.BayesNet({"b": ["y", "a"], "a": ["y"]}).query() == tacit.queries.Counts(
        [("y", "a", "b")]
    )
    assert tacit.BayesNet({"a": ["b"], "b": ["y"]}).query() == tacit.queries.Counts(
        [("y", "b"), ("b", "a")]
    )
    assert tacit.BayesNet({"a": [], "b": []}).query() == tacit.queries.Counts(["a", "b"])
    assert tuple(tacit.BayesNet({"c": ["b"], "b": ["a"]}).graph) == ("a", "b", "c")


def test_a_column_that_is_not_there_is_named():
    wall = tacit.Wall(
        people(5, np.random.default_rng(0)), schema(), budget=tacit.Budget(1), ledger=":memory:"
    )
    for model in (
        tacit.NaiveBayes("y", ["z"]),
        tacit.BayesNet({"z": ["y"]}),
        tacit.MarkovRandomField([("y", "z")]),
    ):
        with pytest.raises(tacit.errors.SchemaError, match="'z'"):
            tacit.fit(model, wall, tacit.Laplace(1))
    assert wall.remaining.epsilon == 1


def by_hand(data, rows, prior=1.0):
    """Categorical naive Bayes with smoothing, as scikit-learn's CategoricalNB(alpha=prior)."""
    score = np.zeros((len(rows["b"]), 2))
    for k, y in enumerate(("n", "p")):
        mine = data["y"] == y
        score[:, k] = np.log((mine.sum() + prior) / (len(mine) + 2 * prior))
        for name, levels in (("a", ["u", "v", "w"]), ("b", [0, 1])):
            count = np.array([(data[name][mine] == level).sum() for level in levels])
            p = (count + prior) / (count.sum() + prior * len(levels))
            score[:, k] += np.log([p[levels.index(value)] for value in rows[name]])
    weight = np.exp(score)
    return weight / weight.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_with_much_budget_it_is_categorical_naive_bayes(neighbours):
    data = people(3000, np.random.default_rng(1))
    wall = tacit.Wall(data, schema(neighbours), budget=tacit.Budget(10**4), ledger=":memory:")
    posterior = tacit.fit(MODEL, wall, tacit.Laplace(1000), seed=1)
    cells = list(product("uvw", [0, 1]))
    rows = {"a": [c[0] for c in cells], "b": [c[1] for c in cells]}
    want = by_hand(data, rows)
    np.testing.assert_allclose(posterior.predict_proba(rows), want, atol=0.004)
    assert list(posterior.predict(rows)) == list(np.array(["n", "p"])[want.argmax(axis=1)])
    net = MODEL.net.posterior(posterior.releases[0], seed=1)  # the same tables, the same model
    np.testing.assert_allclose(net.predict_proba(rows, "y"), want, atol=0.004)
    # p(a, b | y) p(y) of whole rows
    y, a, b = (np.unique(data[k], return_inverse=True)[1] for k in "yab")
    joint = np.log(P_Y[y[:50]] * P_A[y[:50], a[:50]] * P_B[y[:50], b[:50]])
    some = {k: v[:50] for k, v in data.items()}
    np.testing.assert_allclose(posterior.log_likelihood(some), joint, atol=0.35)


def test_what_is_missing_is_summed_over_or_refused():
    data = people(500, np.random.default_rng(2))
    public = tacit.Public(data, schema(default=False))
    posterior = tacit.fit(MODEL, public, tacit.Exact(), seed=1)
    both = posterior.predict_proba({"a": ["u", None, "zzz", np.nan], "b": [1, 1, 1, 1]})
    np.testing.assert_allclose(both[1], both[2])
    np.testing.assert_allclose(both[1], both[3])
    joint = np.exp(posterior.log_likelihood({"y": ["p"], "a": [None], "b": [1]}))
    whole = np.exp(posterior.log_likelihood({"y": ["p"] * 3, "a": ["u", "v", "w"], "b": [1] * 3}))
    np.testing.assert_allclose(whole.sum(), joint)
    nothing = posterior.predict_proba({"a": [None], "b": [None]})
    np.testing.assert_allclose(nothing[0], posterior.mean("p(y)"), atol=1e-6)
    with pytest.raises(tacit.errors.ModelError, match="'y'"):
        posterior.log_likelihood({"y": [None], "a": ["u"], "b": [1]})
    assert posterior.predict_proba({"a": [], "b": []}).shape == (0, 2)
    with pytest.raises(tacit.errors.ModelError, match="behind a wall"):
        posterior.predict_proba(public)
    field = tacit.MarkovRandomField([("y", "a"), ("y", "b")])
    posterior = tacit.fit(field, public, tacit.Exact(), draws=50, seed=1)
    with pytest.raises(tacit.errors.ModelError, match="'a'"):
        posterior.predict({"a": [None], "b": [1]}, "y")
    with pytest.raises(tacit.errors.ModelError, match="target"):
        posterior.predict({"a": ["u"], "b": [1]})
    default = tacit.fit(MODEL, tacit.Public(data, schema()), tacit.Exact(), seed=1)
    read = default.predict_proba({"a": ["zzz", "u"], "b": ["1", 1.0]})  # as the wall would
    np.testing.assert_allclose(read[0], read[1])


def test_a_field_of_one_clique_is_a_saturated_table():
    data = people(2000, np.random.default_rng(3))
    public = tacit.Public(data, schema())
    net = tacit.fit(tacit.BayesNet({"y": [], "a": ["y"]}), public, tacit.Exact(), seed=1)
    model = tacit.MarkovRandomField([("y", "a")], prior_scale=5)
    field = tacit.fit(model, public, tacit.Exact(), seed=1)
    joint = net.mean("p(y)")[:, None] * net.mean("p(a|y)")
    np.testing.assert_allclose(field.mean("p(y,a)"), joint, atol=0.004)
    rows = {"a": ["u", "v", "w"]}
    np.testing.assert_allclose(
        field.predict_proba(rows, "y"), net.predict_proba(rows, "y"), atol=0.02
    )
    every = {"y": list("nnnppp"), "a": list("uvwuvw")}
    assert np.exp(field.log_likelihood(every)).sum() == pytest.approx(1)


def test_too_many_states_are_refused():
    many = tacit.Schema(
        *(tacit.Integer(f"c{i}", 0, 9, default=0) for i in range(5)), neighbours="replace_one"
    )
    data = {f"c{i}": [0, 1] for i in range(5)}
    model = tacit.MarkovRandomField([(f"c{i}", f"c{i + 1}") for i in range(4)])
    with pytest.raises(tacit.errors.ModelError, match="20000"):
        tacit.fit(model, tacit.Public(data, many), tacit.Exact())


def test_tables_released_elsewhere_serve():
    counts = [30, 14, 6, 21, 18, 61]
    cells = dict(zip(product("np", "uvw"), counts, strict=True))
    other = {("n", 0): 40, ("n", 1): 11, ("p", 0): 29, ("p", 1): 72}
    release = release_from_table(
        {("y", "a"): cells, ("y", "b"): other},
        schema=schema("add_remove", default=False),
        query=MODEL.query(),
        noise="geometric",
        scale=2.0,
    )
    for model in (MODEL, MODEL.net, tacit.MarkovRandomField([("y", "a"), ("y", "b")])):
        posterior = model.posterior(release, draws=100, seed=1)
        assert np.all(np.isfinite(posterior.summary()))
        assert list(posterior.predict({"a": ["u", "w"], "b": [0, 1]}, "y")) == ["n", "p"]
    with pytest.raises(tacit.errors.ModelError, match="together"):
        tacit.BayesNet({"a": ["b"]}).posterior(release)
    with pytest.raises(tacit.errors.ModelError, match="no table"):
        tacit.MarkovRandomField([("a", "b")]).posterior(release)


def test_one_number_for_two_cells_is_two_cells():
    data = people(100, np.random.default_rng(0))
    release = tacit.Public(data, schema()).release(tacit.queries.Counts(["y", "b"]), tacit.Exact())
    (first, _) = seen_tables(release)
    assert first.value.sum() == 100
    assert first.power == 0.5
    posterior = tacit.BayesNet({"y": [], "b": []}).posterior(release, seed=1)
    assert abs(posterior.mean("p(y)")[1] - np.mean(data["y"] == "p")) < 0.02


def test_columns_whose_names_look_like_tables_are_told_apart():
    described = tacit.Schema(
        tacit.Categorical("b & a", ["x", "y"]),
        *(tacit.Categorical(name, ["x", "y"]) for name in "abc"),
        neighbours="add_remove",
    )
    data = {"b & a": list("xxxx"), "a": list("yyyy"), "b": list("yyxx"), "c": list("xyxy")}
    public = tacit.Public(data, described)
    with pytest.raises(tacit.errors.QueryError, match="different names"):
        tacit.fit(tacit.BayesNet({"b & a": [], "a": ["b"]}), public, tacit.Exact())
    net = tacit.BayesNet({"a": ["b"], "c": ["b & a"]})
    posterior = tacit.fit(net, public, tacit.Exact(), seed=1)
    assert posterior.mean("p(a|b)")[:, 1].min() > 0.6


@pytest.mark.parametrize(
    ("neighbours", "default", "epsilon"),
    [("replace_one", True, 0.5), ("add_remove", True, 0.5), ("replace_one", False, 1.0)],
)
@pytest.mark.no_cover
def test_intervals_hold_the_truth_as_often_as_they_say(neighbours, default, epsilon):
    """90% intervals of 40 fits with tables from the prior: false-alarm rate 1e-6 each side."""
    rng = np.random.default_rng(7)
    fits, n, hits, tried = 40, 150, 0, 0
    for _ in range(fits):
        share, rates = rng.dirichlet([1, 1]), rng.dirichlet([1, 1, 1], 2)
        y = rng.choice(2, n, p=share)
        a = (rates[y].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        data = {"y": np.array(["n", "p"])[y], "a": np.array(list("uvw"))[np.minimum(a, 2)]}
        data["b"] = rng.integers(0, 2, n)
        public = tacit.Public(data, schema(neighbours, default), seed=int(rng.integers(2**31)))
        posterior = tacit.fit(MODEL, public, tacit.Laplace(epsilon), draws=250, chains=1, seed=1)
        low, high = posterior.interval(0.9, "p(y)")
        hits += low[0] < share[0] < high[0]
        low, high = posterior.interval(0.9, "p(a|y)")
        hits += low[0, 0] < rates[0, 0] < high[0, 0]
        tried += 2
    slack = 0.02  # quantiles of 250 draws, and weak priors on what no one asked
    assert binom.cdf(hits, tried, 0.9 - slack) > 1e-6
    assert binom.sf(hits - 1, tried, 0.9 + slack) > 1e-6


def test_a_level_that_is_none_is_said_in_predictions():
    described = tacit.Schema(
        tacit.Categorical("x", ["a", "b"]),
        tacit.Categorical("y", ["no", "yes"]),
        neighbours="replace_one",
    )
    rows = tacit.Public({"x": ["a", "b"] * 20, "y": ["no", "yes"] * 20}, described, seed=1)
    fitted = tacit.fit(tacit.NaiveBayes("y", ["x"]), rows, tacit.Laplace(1), draws=20, chains=1)
    with pytest.warns(tacit.errors.InferenceWarning, match="1 cells of 'x' .* 'z': .* as missing"):
        fitted.predict({"x": ["z", None, "a"]})
