"""Tables of latent classes through the wall: ranges over all small data sets, laws, refusals.

Statistical tests have a false-alarm rate of 1e-6; losses are computed, not sampled.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from scipy.stats import chi2

import tacit
from tacit.audit.latent_tables import CLEAR, LIKELY, TYPES, laws_of, pairs, query_of
from tacit.draws.latent_tables import resolve_latent
from tacit.sources.data import open_data
from tacit.spec.latent_tables import WEIGHTS, LatentTables
from tacit.spec.mechanisms import Exponential
from tacit.wall.answers import read
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic

ALARM = 1e-6


def schema(neighbours="replace_one", rows=None):
    return tacit.Schema(
        tacit.Categorical("x", ["a", "b"]),
        tacit.Categorical("y", ["l", "m", "h"]),
        unit=None if rows is None else "who",
        max_rows_per_unit=rows,
        neighbours=neighbours,
    )


def texts(neighbours="replace_one", length=4, words=3):
    names = [f"w{i}" for i in range(words)]
    return tacit.Schema(tacit.Tokens("words", names, max_length=length), neighbours=neighbours)


def topics(table, *, alpha=0.5, truncation=0.3):
    weights = np.full(len(table), alpha)
    return LatentTables(("words",), weights, (table,), ("words",), truncation=truncation)


BOTH = LatentTables(
    ("x", "y"),
    [0.5, 0.3, 0.2],
    (np.tile([0.4, 0.6], (3, 1)), np.full((3, 3), 1 / 3)),
    ("x", WEIGHTS, "y"),
    truncation=0.3,
)


# What one unit can change


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [None, 3])
def test_a_row_has_a_say_in_each_table_once(relation, rows):
    width = np.log(0.85 / 0.15) + 2 * np.log(0.8 / 0.1)
    both = (rows or 1) * (2 if relation == "replace_one" else 1)
    held = schema(relation, rows)
    assert resolve_latent(BOTH, held).span == pytest.approx(both * width, rel=1e-9)
    part = LatentTables(BOTH.columns, BOTH.weights, BOTH.probabilities, ("x",), truncation=0.3)
    one = both * np.log(0.85 / 0.15)
    assert resolve_latent(part, held).span == pytest.approx(one, rel=1e-9)
    words = topics(np.full((2, 3), 1 / 3))
    each = 4 * (2 if relation == "replace_one" else 1)
    found = resolve_latent(words, texts(relation)).span
    assert found == pytest.approx(each * np.log(0.8 / 0.1), rel=1e-9)


def test_mixing_keeps_epsilon_and_renyi_divergences_but_not_the_range():
    """Over all pairs of small neighbours, on a grid of outcomes, assignments summed over.

    Given its assignments a draw has bounded range, epsilon, and so (epsilon^2 / 8)-zCDP. Over what
    is assigned divergences are averaged, and the range is not: so no more than zCDP is composed.
    """
    spreads = {}
    for relation, epsilon in product(("add_remove", "replace_one"), (1.0, 3.0)):
        held, worst = two(relation), 0.0
        for table in (CLEAR, LIKELY):
            query = query_of(table)
            law = laws(query, resolve_latent(query, held).span / epsilon)
            for a, b in pairs(held, many=table is CLEAR):
                for here, there in ((law(a), law(b)), (law(b), law(a))):
                    moved = here - there
                    worst = max(worst, np.abs(moved).max())
                    spreads[relation] = max(spreads.get(relation, 0.0), np.ptp(moved) / epsilon)
                    for order in (1.1, 2.0, 8.0):
                        divergence = logsumexp(order * here - (order - 1) * there) / (order - 1)
                        assert divergence <= order * epsilon**2 / 8 + 1e-9
        assert 0.95 * epsilon < worst <= epsilon * (1 + 1e-9)
    assert max(spreads.values()) > 1 + 1e-6


def two(relation):
    columns = [tacit.Categorical(name, ["a", "b"]) for name in "xy"]
    return tacit.Schema(*columns, neighbours=relation)


def laws(query, temperature):
    """The law on 64 points alone: an exponential mechanism, too, with the same range."""

    @cache
    def law(rows):
        at, log = laws_of(query, rows, temperature)
        points = np.log([[0.85, 0.15], [0.5, 0.5], [0.7, 0.3], [0.15, 0.85]])
        each = at @ points.T
        each -= logsumexp(each, axis=-1, keepdims=True)
        joint = each[:, 0, :, None, None] + each[:, 1, None, :, None] + each[:, 2, None, None]
        return logsumexp(log[:, None] + joint.reshape(len(log), -1), axis=0)

    return law


def test_a_document_of_one_word_against_another_attains_the_range():
    """One topic, so that nothing is latent: 900 documents of the first word, and one more."""
    from tacit.audit.draws import Simplex

    held, query = texts(words=2), topics(np.array([[0.5, 0.5]]))
    simplex, temperature = Simplex.of(2, 0.15), resolve_latent(query, held).span
    resolved = resolve_latent(query, held)
    law = []
    for last in ([4, 0], [0, 9]):  # the last one is cut to four words
        source = open_data(csr_matrix([[4, 0]] * 900 + [last]), held)
        statistic = read(source, resolved, ())
        (at,) = resolved.concentrations(statistic, temperature, half)
        law.append(simplex.log_density(at)[0])
    assert 0.95 < np.abs(law[0] - law[1]).max() <= 1 + 1e-9


def half(count):
    return np.full(count, 0.3)


def test_what_a_unit_adds_is_a_function_of_its_own_rows():
    """With the same coins for all, the counts of a table are the sums of those of its rows.

    So only the coins of a unit and its own rows matter to what it adds, and its norm is bounded.
    """
    rng = np.random.default_rng(1)
    rows = [(rng.choice(["a", "b", ""]), rng.choice(["l", "m", "h", "?"])) for _ in range(30)]
    whole = counted(BOTH, schema(), {"x": [r[0] for r in rows], "y": [r[1] for r in rows]})
    each = [counted(BOTH, schema(), {"x": [a], "y": [b]}) for a, b in rows]
    for name, bound in ((WEIGHTS, 1), ("x", 1), ("y", 1)):
        np.testing.assert_array_equal(whole[name], sum(one[name] for one in each))
        assert max(one[name].sum() for one in each) <= bound
    query = topics(np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]))
    matrix = rng.choice([0, 0, 1, 2, 9, 0.7, -3, np.nan, np.inf], size=(40, 3))
    whole = counted(query, texts(), csr_matrix(matrix))["words"]
    each = [counted(query, texts(), csr_matrix(one[None]))["words"] for one in matrix]
    np.testing.assert_array_equal(whole, sum(each))
    assert max(one.sum() for one in each) == 4


def counted(query, held, data):
    resolved = resolve_latent(query, held)
    return resolved.assigned(read(open_data(data, held), resolved, ()), half)


# The law of assignments, and what comes out


def test_rows_and_words_are_assigned_by_their_posterior():
    """Chi-square tests of 20,000 rows, and of as many documents of one and of two words."""
    many = 20_000
    row = LatentTables(
        ("x", "y"),
        [0.5, 0.3, 0.2],
        (np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]), np.array([[0.2, 0.3, 0.5]] * 3)),
        (WEIGHTS,),
        truncation=0.3,
    )
    resolved = resolve_latent(row, schema())
    for code, seen in ((0, row.probabilities[0][:, 0]), (-1, 1.0)):
        statistic = Statistic(np.tile([code, 1], many), many)
        counts = resolved.assigned(statistic, entropy_uniform)[WEIGHTS][0]
        assert fits(counts, row.weights * seen)
    table, alpha = np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]), 0.5
    resolved = resolve_latent(topics(table, alpha=alpha), texts())
    one = documents(many, [(0, 1)])
    counts = resolved.assigned(one, entropy_uniform)["words"][:, 0]
    assert fits(counts, table[:, 0])
    # Of two words 0 and 2, a priori of one topic with probability (alpha + 1) / (2 alpha + 1).
    counts = resolved.assigned(documents(many, [(0, 1), (2, 1)]), entropy_uniform)["words"]
    prior = np.array([[alpha + 1, alpha], [alpha, alpha + 1]])
    joint = prior * table[:, 0][:, None] * table[:, 2]
    assert fits(counts[:, 0], joint.sum(axis=1))
    assert fits(counts[:, 2], joint.sum(axis=0))


def entropy_uniform(count):
    return _RNG.random(count)


_RNG = np.random.default_rng(20261118)


def documents(many, words):
    triples = [(i, word, count) for i in range(many) for word, count in words]
    return Statistic(np.array(triples).ravel(), many)


def fits(counts, weights):
    expected = counts.sum() * weights / weights.sum()
    distance = ((counts - expected) ** 2 / expected).sum()
    return chi2.sf(distance, len(counts) - 1) > ALARM


def test_only_tables_leave_and_keep_their_bounds():
    held = schema()
    data = {"x": ["a", "b", ""] * 20, "y": ["l", "m", "h", ""] * 15}
    wall = tacit.Wall(data, held, budget=tacit.Budget(9), ledger=":memory:")
    release = wall.release(BOTH, Exponential(1))
    assert [block.name for block in release.blocks] == ["x", WEIGHTS, "y"]
    for name, least in (("x", 0.15), (WEIGHTS, 0.1), ("y", 0.1)):
        value = release.table(name).value
        np.testing.assert_array_equal(value.sum(axis=-1), 1.0)
        assert value.min() >= least
    assert release.noise[0].scale == pytest.approx(resolve_latent(BOTH, held).span)
    again = tacit.Release.from_dict(release.to_dict())
    assert again == release
    assert LatentTables.from_dict(BOTH.to_dict()).to_dict().keys() == BOTH.to_dict().keys()


def test_a_lease_reads_once_and_assigns_anew(monkeypatch):
    wall = tacit.Wall(
        {"x": ["a", "b"] * 50, "y": ["l", "h"] * 50}, schema(), budget=tacit.Budget(99, 1e-5),
        ledger=":memory:",
    )  # fmt: skip
    reads, original = [], wall._source.snapshot
    counted = lambda: (reads.append(1), original())[1]  # noqa: E731
    monkeypatch.setitem(wall._source.__dict__, "snapshot", counted)
    seen, sample = [], type(resolve_latent(BOTH, schema())).assigned
    kind = type(resolve_latent(BOTH, schema()))
    monkeypatch.setattr(kind, "assigned", lambda *a: seen.append(sample(*a)) or seen[-1])
    lease = wall.prepay(tacit.queries.Plan(tacit.queries.Steps(8, Exponential(1)), delta=1e-6))
    for _ in range(8):
        assert lease.release(BOTH).noise[0].scale > 1
    assert reads == [1]
    # 100 rows of which each class is uncertain: eight alike have a probability below 1e-8.
    assert len({one[WEIGHTS].tobytes() for one in seen}) > 1


# Refusals

FLAT = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LatentTables((), [1.0], (), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), 0.5, (FLAT,), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT[:1],), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT[0],), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.0], (FLAT,), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, np.nan], (FLAT,), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT * np.nan,), ("x",), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (-FLAT,), ("x",), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), (), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), "x", truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), ("x", "x"), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), ("y",), truncation=0.1),
        lambda: LatentTables((WEIGHTS,), [0.5, 0.5], (FLAT,), (WEIGHTS,), truncation=0.1),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), ("x",)),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), ("x",), truncation=1.0),
        lambda: LatentTables(("x",), [0.5, 0.5], (FLAT,), ("x",), 0.0, 0.1),
    ],
)
def test_senseless_questions_are_refused(make):
    with pytest.raises(tacit.errors.QueryError):
        make()


def test_questions_must_fit_the_columns_and_cost_nothing_if_not():
    wide = tacit.Schema(
        tacit.Integer("n", 1, 2), tacit.Categorical("m", range(600)), neighbours="replace_one"
    )
    weights = [0.5, 0.5]
    for held, query in (
        (schema(), LatentTables(("x",), weights, (np.ones((2, 3)),), ("x",), truncation=0.1)),
        (schema(), LatentTables(("z",), weights, (FLAT,), ("z",), truncation=0.1)),
        (wide, LatentTables(("n",), weights, (FLAT,), ("n",), truncation=0.1)),
        (wide, LatentTables(("m",), weights, (np.ones((2, 600)),), ("m",), truncation=0.01)),
        (texts(), LatentTables(("words",), weights, (FLAT,), ("words",), truncation=0.1)),
        (texts(length=10**5), topics(np.full((2, 3), 1 / 3))),
        (
            texts(),
            LatentTables(("words",), weights, (np.ones((2, 3)),), (WEIGHTS,), truncation=0.1),
        ),
    ):
        with pytest.raises(tacit.TacitError):
            resolve_latent(query, held)
    with pytest.raises(tacit.errors.BudgetError, match="Exponential"):
        resolve_latent(BOTH, schema()).calibrate(tacit.Laplace(1))


def test_an_empty_table_gives_the_prior():
    resolved = resolve_latent(BOTH, schema())
    nothing = read(open_data({"x": [], "y": []}, schema()), resolved, ())
    assert all((at == 1).all() for at in resolved.concentrations(nothing, 2.0, half))
    noise = resolved.at_temperature(2.0)
    assert len(resolved.sample(nothing, noise, os_entropy)) == 3 * 2 + 3 + 3 * 3


def test_the_audits_law_is_the_walls():
    """The mean of 4,000 concentrations, within five standard errors: 1e-6."""
    query, rows = query_of(LIKELY), (1, 0, 1, 1, 0, 0, 0, 1, 1)
    at, log = laws_of(query, rows, 1.0)
    codes = np.repeat(np.array(TYPES), rows, axis=0).ravel()
    resolved = resolve_latent(query, two("replace_one"))
    drawn = [resolved.assigned(Statistic(codes, 5), entropy_uniform) for _ in range(4000)]
    seen = np.array([np.concatenate([one[WEIGHTS], one["x"]]) for one in drawn])
    expected = (np.exp(log)[:, None, None] * (at - 1)).sum(axis=0)
    error = seen.std(axis=0) / 4000**0.5
    assert (np.abs(seen.mean(axis=0) - expected) <= 5 * error + 1e-12).all()
