"""Bounded sums: one unit cannot influence another, for every kind of kernel and of rows."""

import math
import warnings
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array
from scipy.special import expit

import tacit
from tacit import queries
from tacit.kernels.mixing import flush_denormals
from tacit.sources import storage
from tacit.sources.data import open_data
from tacit.sources.loaded import Loaded
from tacit.spec.sums import Bound
from tacit.wall.steps import loops
from tacit.wall.steps.sums import resolve_sum
from tests.conftest import without_note

COLUMNS = (
    tacit.Real("x", -5, 5),
    tacit.Real("y", -5, 5),
    tacit.Integer("z", 0, 9),
    tacit.Categorical("ward", ["a", "b", "c"]),
    tacit.Categorical("ill", ["no", "yes"]),
)
NAMES = ["x", "y", "z"]
STATE = np.array([0.3, -1.2, 0.7])
SCALES = np.array([0.3, -2.0, 0.1])


def of_row(row, state):
    return jnp.tile(jnp.tanh(row @ state) * row, 4) + 0.1 * jnp.arange(12)


PROGRAM = queries.trace(of_row, 3, STATE)


def schema(unit=None, rows=None, neighbours="replace_one"):
    return tacit.Schema(*COLUMNS, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


def table(n, seed=0, units=None):
    rng = np.random.default_rng(seed)
    made = {
        "x": rng.normal(size=n) * 3,
        "y": rng.normal(size=n),
        "z": rng.integers(0, 10, size=n),
        "ward": rng.choice(["a", "b", "c"], size=n),
        "ill": rng.choice(["no", "yes"], size=n),
        "who": rng.integers(0, units or max(1, n), size=n) if units else np.arange(n),
    }
    made["x"][rng.random(n) < 0.05] = np.nan
    return made


# How a row becomes a vector of five: base, positions, levels, midpoints and scales.
ENCODING = (
    np.zeros(5), np.array([0, 1, 2]), np.array([0, 0, 3]), np.zeros(3), np.array([0.1, 0.1, 0.5])
)  # fmt: skip


def values(**options):
    """The numbers of a row, shifted and scaled."""
    given = {"size": 3, "clip": 1.5, "state": (np.array([0.0, 1.0, 4.5]), SCALES)} | options
    return queries.BoundedSum(queries.Kernel("columns.values"), NAMES, **given)


def logistic(**options):
    """A gradient and a Hessian with a category in them: most of their numbers are left at 0."""
    given = {"size": 5 + 15, "clip": 0.2, "state": (np.linspace(-1, 1, 5), *ENCODING)}
    return queries.BoundedSum(
        queries.Kernel("logistic.gradient_and_hessian"),
        ["x", "y", "ward", "ill"],
        **given | options,
    )


def dense(**options):
    """A program."""
    given = {"size": 12, "clip": 1.5, "state": STATE.astype(np.float32)} | options
    return queries.BoundedSum(PROGRAM, NAMES, **given)


VOCABULARY = [f"w{i}" for i in range(40)]


def documents(n, seed=0):
    rng = np.random.default_rng(seed)
    found = random_array((n, 40), density=0.15, rng=rng, data_sampler=None)
    return csr_matrix(np.ceil(found.toarray() * 5))


def topic_state(probabilities, rounds=50):
    table = flush_denormals(probabilities)
    mask = np.ones(len(table), np.float32)
    return table, mask, np.array([0.1, 1e-3, 0.0]), np.array([rounds, 0, 0])


def topics(topics=5, vocabulary=40, clip=1.0):
    rng = np.random.default_rng(3)
    state = topic_state(rng.dirichlet(np.full(vocabulary, 0.2), size=topics).T)
    return queries.BoundedSum(
        queries.Kernel("topics.expected_counts"), "words", size=(vocabulary, topics), clip=clip,
        geometry="nonnegative", state=state,
    )  # fmt: skip


PLACES = np.full(40, -1)
PLACES[[3, 9, 20, 30, 39]] = [4, 0, 2, 1, 3]


def pairs(places=PLACES, words=5, clip=0.9):
    """Which of a few words of the vocabulary occur together."""
    return queries.BoundedSum(
        queries.Kernel("topics.cooccurrence"), "words", size=(words, words), clip=clip,
        geometry="nonnegative", state=(np.asarray(places),),
    )  # fmt: skip


def token_schema(unit=None, rows=None, neighbours="replace_one"):
    tokens = tacit.Tokens("words", VOCABULARY, max_length=100)
    return tacit.Schema(tokens, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


def owners(n):
    return np.random.default_rng(9).integers(0, n // 3, size=n)


CASES = {
    "values": lambda n, seed: (table(n, seed), schema(), values(), None),
    "values of units": lambda n, seed: (
        table(n, seed, n // 3), schema("who", 4), values(), None,
    ),
    "logistic": lambda n, seed: (table(n, seed), schema(), logistic(), None),
    "logistic of units": lambda n, seed: (
        table(n, seed, n // 3), schema("who", 4), logistic(), None,
    ),
    "program": lambda n, seed: (table(n, seed), schema(), dense(), None),
    "program of units": lambda n, seed: (table(n, seed, n // 3), schema("who", 4), dense(), None),
    "topics": lambda n, seed: (documents(n, seed), token_schema(), topics(), None),
    "topics of units": lambda n, seed: (
        documents(n, seed), token_schema("author", 3), topics(), owners(n),
    ),
    "pairs": lambda n, seed: (documents(n, seed), token_schema(), pairs(), None),
    "pairs of units": lambda n, seed: (
        documents(n, seed), token_schema("author", 3), pairs(), owners(n),
    ),
}  # fmt: skip


def loaded(kind, n, seed=0):
    data, described, query, who = CASES[kind](n, seed)
    resolved = resolve_sum(query, described)
    held = Loaded(open_data(data, described, who), described).rows(query.columns)
    return resolved, held, resolved.exact()


# One unit cannot influence another


@pytest.mark.parametrize("kind", CASES)
def test_a_batch_is_the_sum_of_its_units_bit_for_bit(kind, monkeypatch):
    """Each unit adds the same integers alone and in any company, at any place, in any thread."""
    resolved, held, noise = loaded(kind, 700)
    each = np.array([resolved.sum(held, np.array([i]), noise) for i in range(held.units)])
    assert np.abs(each).max() > 0
    for threads in (1, 2, 5):
        monkeypatch.setattr(loops, "_THREAD_WORK", 1 if threads > 1 else 10**12)
        monkeypatch.setattr(loops.os, "cpu_count", lambda threads=threads: threads)
        rng = np.random.default_rng(1)
        for size in (0, 1, 2, 17, 180, held.units - 1, held.units):
            units = np.sort(rng.choice(held.units, size=size, replace=False))
            total = resolved.sum(held, units, noise)
            np.testing.assert_array_equal(total, each[units].sum(axis=0))


@pytest.mark.parametrize("kind", CASES)
def test_rows_in_a_file_add_up_to_those_in_memory(kind, monkeypatch):
    """Looked at in pieces, whose memory is given back after each."""
    resolved, held, noise = loaded(kind, 700)
    monkeypatch.setattr(storage, "IN_MEMORY", 0)
    monkeypatch.setattr(storage, "PIECE", 2**11)
    spools = [storage.Spool(a.dtype, 0 if a.ndim == 1 else a.shape[1]) for a in held.arrays]
    for spool, array in zip(spools, held.arrays):
        spool.append(array)
    mapped = type(held)(*(spool.array() for spool in spools))
    assert mapped.pieces(mapped.units) > 1 == held.pieces(held.units)
    for units in (np.arange(held.units), np.arange(3, held.units, 7), np.arange(0)):
        expected = resolved.sum(held, units, noise)
        np.testing.assert_array_equal(resolved.sum(mapped, units, noise), expected)


def swapped(kind, place, n):
    """The data of a case with one row or document from elsewhere."""
    data, other = CASES[kind](n, 0)[0], CASES[kind](n, 77)[0]
    if isinstance(data, dict):
        changed = {name: cells.copy() for name, cells in data.items()}
        for name, cells in changed.items():
            cells[place] = other[name][place]
        return changed
    rows = data.toarray()
    rows[place] = other.toarray()[place]
    return csr_matrix(rows)


@pytest.mark.parametrize("kind", ["values", "logistic", "program", "topics", "pairs"])
def test_swapping_one_unit_leaves_the_others_alone(kind):
    resolved, held, noise = loaded(kind, 400)
    _, described, query, who = CASES[kind](400, 0)
    everyone, moved = np.arange(400), 0
    for place in (0, 123, 399):
        source = open_data(swapped(kind, place, 400), described, who)
        again = Loaded(source, described).rows(query.columns)
        change = resolved.sum(again, everyone, noise) - resolved.sum(held, everyone, noise)
        mine = np.array([place])
        own = resolved.sum(again, mine, noise) - resolved.sum(held, mine, noise)
        np.testing.assert_array_equal(change, own)
        moved += np.abs(change).sum()
    assert moved > 0


@pytest.mark.parametrize("make", [values, logistic, dense, topics, pairs])
def test_adding_a_row_moves_every_other_one_without_a_trace(make):
    """Under add_remove the others shift by one place, in memory and in their chunk."""
    query = make()
    of_words = query.columns == ("words",)
    data = documents(300) if of_words else table(300)
    described = (token_schema if of_words else schema)(neighbours="add_remove")
    resolved = resolve_sum(query, described)
    noise = resolved.exact()
    total = []
    for first in (0, 1):
        rows = data[first:] if of_words else {name: cells[first:] for name, cells in data.items()}
        held = Loaded(open_data(rows, described), described).rows(query.columns)
        total.append(resolved.sum(held, np.arange(held.units), noise))
        if first == 0:
            alone = resolved.sum(held, np.array([0]), noise)
    np.testing.assert_array_equal(total[0] - alone, total[1])


def rows_of(data, names):
    """Complete rows within their bounds, in plain Python."""
    for cells in zip(*(data[name] for name in names)):
        if all(isinstance(cell, str) or abs(cell) <= 9 for cell in cells) and abs(cells[0]) <= 5:
            yield cells


def clipped(contribution, clip):
    return contribution * min(1, clip / max(np.linalg.norm(contribution), 1e-300))


def test_all_roads_agree_with_plain_arithmetic():
    """Kernels and programs against NumPy, row by row, with the clip written down again."""
    data = table(200)
    expected = {"values": np.zeros(3), "program": np.zeros(12), "logistic": np.zeros(0)}
    for cells in rows_of(data, NAMES):
        row = np.array(cells, float)
        expected["values"] += clipped((row - [0, 1, 4.5]) * SCALES, 1.5)
        mapped = np.tile(np.tanh(row @ STATE) * row, 4) + 0.1 * np.arange(12)
        expected["program"] += clipped(mapped, 1.5)
    expected["logistic"] = sum(map(newton_parts, rows_of(data, ["x", "y", "ward", "ill"])))
    public = tacit.Public(data, schema())
    for make, kind, tolerance in (
        (values, "values", 1e-6),
        (dense, "program", 1e-3),
        (logistic, "logistic", 1e-6),
    ):
        release = public.release(make(), tacit.Exact())
        np.testing.assert_allclose(release.value, expected[kind], atol=tolerance)


def newton_parts(cells, clip=0.2):
    """One row's share of `logistic()`, by the formulas of the kernel's docstring."""
    x, y, ward, _ = cells
    vector = np.array([0.1 * x, 0.1 * y, *(0.5 * (ward == level) for level in "abc")])
    p = expit(vector @ np.linspace(-1, 1, 5))
    square = 2 * p * (1 - p) * np.outer(vector, vector)
    weights = np.where(np.eye(5, dtype=bool), 1, math.sqrt(2))
    triangle = (square * weights)[np.triu_indices(5)]
    return clipped(np.concatenate([(p - 0.5) * vector, triangle]), clip)


def test_several_blocks_come_out_with_their_names_and_shapes():
    def moments(row, state):
        return {"first": row[0], "second": jnp.outer(row, row)}

    data = {"x": [1.0, 2.0, 100.0], "y": [0.5, -1.0, 0.0], "z": [1, 2, 3]}
    data |= {"ward": ["a"] * 3, "ill": ["no"] * 3}
    query = queries.BoundedSum(
        moments,
        ["x", "y"],
        blocks={"first": Bound(1, 5), "second": Bound((2, 2), 10)},
    )
    release = tacit.Public(data, schema()).release(query, tacit.Exact())
    assert release.table("first").value == pytest.approx([3.0])
    np.testing.assert_allclose(release.table("second").value, [[5, -1.5], [-1.5, 1.25]], atol=1e-6)
    again = tacit.Release.from_json(release.to_json())
    assert again == release
    np.testing.assert_array_equal(again.table("second").value, release.table("second").value)
    assert tacit.Public(data, schema()).release(again.query, tacit.Exact()) == release


# Rows of a unit, missing values, numbers that are none


def ones(row, state):
    return jnp.ones(1)


SCORES = queries.Kernel("table.scores")
ONE = np.ones((1, 10)), np.array([0])  # as scores of z: 1 for every row
NARROW = np.ones((1, 9))
FIRST = np.array([1])
AS_IT_IS = np.zeros(1), np.ones(1)


def both_ones(**options):
    """A row counts as one, by a program of all columns and by a kernel of one."""
    return (
        queries.BoundedSum(ones, NAMES, size=1, **options),
        queries.BoundedSum(SCORES, "z", size=1, state=ONE, **options),
    )


def filled(**columns):
    """A table with these columns and nothing of interest in the others."""
    n = len(next(iter(columns.values())))
    rest = {"x": np.ones(n), "y": np.ones(n), "z": np.ones(n), "ward": ["a"] * n, "ill": ["no"] * n}
    return rest | columns


def test_a_unit_with_a_thousand_rows_moves_a_sum_by_its_clip():
    data = filled(who=[1] * 1000 + [2])
    for query in both_ones(clip=2.5, geometry="box"):
        for rows, expected in ((1000, 2.5 + 1), (2, 2 + 1)):
            public = tacit.Public(data, schema("who", rows))
            found = public.release(query, tacit.Exact()).value[0]
            assert found == pytest.approx(expected, abs=1e-8)


def test_a_row_with_a_missing_value_contributes_nothing():
    data = filled(x=[1.0, None, 99.0, 2.0], y=["1", "2", "3", "n/a"], z=[1, 2, 3, 4])
    wide = values(clip=1e3, state=(np.zeros(3), np.ones(3)))
    public = tacit.Public(data, schema())
    np.testing.assert_allclose(public.release(wide, tacit.Exact()).value, [1, 1, 1], atol=1e-5)
    for query, expected in zip(both_ones(clip=1.0), (1, 4)):  # the second looks at z alone
        assert public.release(query, tacit.Exact()).value[0] == pytest.approx(expected)


def strange(row, state):
    return jnp.where(row[2] == 1, jnp.nan, jnp.where(row[2] == 2, jnp.inf, 1.0))[None]


HUGE = np.zeros(1), np.full(1, 1e308)  # one times it is a double, five times it is not


@pytest.mark.parametrize("unit", [None, "who"])
def test_a_row_that_gives_no_number_contributes_nothing(unit):
    """Alone or among others of its unit; those are added up as ever."""
    data = filled(x=[0, 1, 5, 1, 5, -5, 1, 0], z=np.arange(8), who=[1, 1, 2, 2, 3, 3, 4, 4])
    public = tacit.Public(data, schema(unit, None if unit is None else 2))
    query = queries.BoundedSum(strange, NAMES, size=1, clip=9.0)
    assert public.release(query, tacit.Exact()).value[0] == pytest.approx(6)
    query = queries.BoundedSum(
        queries.Kernel("columns.values"), "x", size=1, clip=1.0, geometry="box", state=HUGE
    )
    assert public.release(query, tacit.Exact()).value[0] == pytest.approx(3)  # where x is 1


def test_scratch_is_cleared_between_rows():
    """Rows of other wards leave different numbers of a Hessian at zero."""
    data = filled(ward=["a", "b", "b", "c", "a", "b"], who=[1, 1, 2, 2, 3, 4])
    query = logistic(clip=9.0)
    cells = zip(data["x"], data["y"], data["ward"], data["ill"])
    expected = sum(newton_parts(each, 9.0) for each in cells)
    for described in (schema(), schema("who", 5)):
        release = tacit.Public(data, described).release(query, tacit.Exact())
        np.testing.assert_allclose(release.value, expected, atol=1e-6)


class Shared:
    """Something that is read as an array, and keeps it."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_a_state_is_copied_when_the_question_is_written_down():
    """And what the wall computes with is a copy of that, which nothing can write to."""
    array = SCALES.copy()
    query = values(state=(np.zeros(3), array))
    resolved = resolve_sum(query, schema())
    array[:] = 99
    for state in (query.state, resolved.state):
        np.testing.assert_array_equal(state[1], SCALES)
        with pytest.raises(ValueError, match="read-only"):
            state[1][:] = 0
    assert resolved.state[1] is not query.state[1]
    lent = SCALES.copy()
    resolved = resolve_sum(values(state=(np.zeros(3), Shared(lent))), schema())
    assert not np.shares_memory(resolved.state[1], lent)


# Questions


def test_large_numbers_make_no_warning(recwarn):
    wide = tacit.Schema(tacit.Real("x", -1e100, 1e100), neighbours="replace_one")
    several = (
        queries.BoundedSum(lambda row, state: jnp.tanh(row), "x", size=1, clip=1.0),
        queries.BoundedSum(queries.Kernel("columns.values"), "x", size=1, clip=1.0, state=HUGE),
    )
    warnings.simplefilter("always")
    for query in several:
        for cells in ([1.0, 2.0], [1.0, 1e50]):
            wall = tacit.Wall({"x": cells}, wide, budget=tacit.Budget(1), ledger=":memory:")
            wall.release(query, tacit.Laplace(0.5))
    assert not [w for w in recwarn if "overflow" in str(w.message)]


def test_another_constant_or_state_is_another_question():
    def scaled(factor):
        return queries.BoundedSum(lambda row, state: row * factor, "x", size=1, clip=1.0)

    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    wall.release(scaled(2.0), tacit.Laplace(0.25), name="once")
    wall.release(scaled(2.0), tacit.Laplace(0.25), name="once")
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        wall.release(scaled(3.0), tacit.Laplace(0.25), name="once")
    wall.release(values(), tacit.Laplace(0.25), name="kernel")
    other = (np.array([0.0, 1.0, 4.5]), SCALES * (1 + 2.0**-50))
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        wall.release(values(state=other), tacit.Laplace(0.25), name="kernel")
    assert str(wall.remaining.epsilon) == "0.50"


def calls_back(row, state):
    seen = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), jnp.float32), row[0])
    return seen[None]


def test_a_program_that_calls_back_is_refused_before_any_charge():
    """The other ways are in tests/spec/test_program_refusals.py."""
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    with pytest.raises(tacit.errors.QueryError, match="one row alone"):
        wall.release(queries.BoundedSum(calls_back, NAMES, size=1, clip=1.0), tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "1"


def test_what_was_traced_is_what_runs():
    """A function that shows another face when it is called again is not called again."""
    seen, calls = [], []

    def two_faced(row, state):
        calls.append(1)
        if len(calls) > 1:
            jax.debug.callback(seen.append, row[0])
        return row[:1]

    query = queries.BoundedSum(two_faced, NAMES, size=1, clip=1.0)
    assert calls == [1]
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(9, 1e-3), ledger=":memory:")
    wall.quote(query, tacit.Laplace(0.5))
    wall.release(query, tacit.Laplace(0.5))
    wall.release(query, tacit.Laplace(0.5), name="again")
    wall.release(query, tacit.Laplace(0.5), name="again")
    plan = queries.Plan(queries.Steps(2, tacit.Gaussian(noise_multiplier=9.0)), delta=1e-6)
    lease = wall.prepay(plan, name="loop")
    for _ in range(2):
        lease.release(query.at(None))
    assert (calls, seen) == ([1], [])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: queries.BoundedSum(of_row, NAMES, size=5, clip=1.0, state=STATE), "5 numbers"),
        (lambda: dense(size=5), "gives 5 numbers, got one of 3 that gives 12"),
        (lambda: queries.BoundedSum(PROGRAM, ["x"], size=12, clip=1.0, state=STATE), "1 columns"),
        (lambda: dense(state=np.zeros(4)), "like the one that was traced"),
        (lambda: dense(state=(STATE, STATE)), "like the one that was traced"),
        (lambda: values(size=5), "blocks of 3 numbers instead of 5"),
        (lambda: values(state=(np.zeros(2), np.zeros(2))), "2 columns instead of 3"),
        (lambda: values(state=None), "state of 2 arrays"),
        (lambda: values(state=(np.zeros(3), np.full(3, np.nan))), "finite numbers in scale"),
        (lambda: values(state=(np.zeros(3), np.zeros(3, complex))), "numbers of type f8"),
        (lambda: queries.BoundedSum(SCORES, "z", size=1, clip=1, state=(ONE[0], FIRST)), "first=0"),
        (lambda: queries.BoundedSum(SCORES, "z", size=1, clip=1, state=(NARROW, ONE[1])), "10 l"),
        (lambda: queries.BoundedSum(SCORES, "x", size=1, clip=1, state=ONE), "labels of 'x'"),
        (lambda: queries.BoundedSum(queries.Kernel("mine"), "x", size=1, clip=1), "kernel 'mine'"),
        (lambda: queries.BoundedSum(queries.Kernel("os.system"), "x", size=1, clip=1), "No kernel"),
        (lambda: queries.BoundedSum("columns.values", "x", size=1, clip=1), "Kernel or a Program"),
        (pairs, "words"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_the_charge(make, says):
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    with pytest.raises((tacit.errors.QueryError, tacit.errors.SchemaError), match=says):
        wall.release(make(), tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "1"


def test_a_program_may_return_blocks_by_name():
    def both(row, state):
        return {"b": row[:2] * 2, "a": row[2:]}

    query = queries.BoundedSum(both, NAMES, blocks={"a": Bound(1, 9), "b": Bound(2, 9)})
    data = filled(x=[1.0], y=[2.0], z=[3])
    release = tacit.Public(data, schema()).release(query, tacit.Exact())
    np.testing.assert_allclose(release.value, [3, 2, 4], atol=1e-6)


def test_a_named_tuple_is_a_state():
    State = namedtuple("State", ["weight", "shift"])

    def shifted(row, state):
        return row * state.weight + state.shift

    state = State(np.array([2.0]), np.array([1.0]))
    query = queries.BoundedSum(shifted, "x", size=1, clip=9, state=state)
    for asked in (query, query.at(state), query.at(tuple(state))):
        found = tacit.Public(filled(x=[1.0]), schema()).release(asked, tacit.Exact())
        assert found.value[0] == pytest.approx(3)


# Documents


def weighed(vocabulary, clip=1e3):
    """The weight of each word: expected counts where there is one topic."""
    return queries.BoundedSum(
        queries.Kernel("topics.expected_counts"), "words", size=(vocabulary, 1), clip=clip,
        geometry="nonnegative", state=topic_state(np.ones((vocabulary, 1))),
    )  # fmt: skip


def test_documents_are_cleaned_and_weighted_to_their_longest():
    tokens = tacit.Tokens("words", ["a", "b", "c"], max_length=10)
    described = tacit.Schema(tokens, neighbours="replace_one")
    matrix = csr_matrix(np.array([[1, 2, 0], [40, 0, 60], [np.nan, -3, 1.9], [0, 0, np.inf]]))
    release = tacit.Public(matrix, described).release(weighed(3), tacit.Exact())
    assert release.n == 4
    # 40 and 60 are first cut to 10 each and then weighted down to 10 together
    np.testing.assert_allclose(release.value, [1 + 5, 2, 5 + 1], atol=1e-5)
    broken = matrix.copy()
    broken.indices[0] = 77
    release = tacit.Public(broken, described).release(weighed(3), tacit.Exact())
    np.testing.assert_allclose(release.value, [5, 2, 6], atol=1e-5)


def test_an_authors_documents_are_summed_before_the_clip():
    matrix = csr_matrix(np.eye(40)[[0, 1, 0, 2, 5]] * 3)
    authors = ["ann", "ann", "bob", "ann", None]
    public = tacit.Public(matrix, token_schema("author", 2), owners=authors)
    release = public.release(topics(topics=3, clip=1.0), tacit.Exact())
    assert release.n == 2
    rows = release.table("sum").value
    assert np.linalg.norm(rows) <= 2
    assert not rows[[5, *range(6, 40)]].any()  # nobody's, and words that nobody wrote
    shares = np.linalg.norm(rows[:3], axis=1) - [1, 0, 0]  # bob's one word has his whole bound
    # two of ann's three documents are kept, and share her bound: norm 1 together
    np.testing.assert_allclose(np.sort(shares), [0, 0.5**0.5, 0.5**0.5], atol=1e-3)


def test_documents_need_a_fitting_schema_and_question():
    matrix = documents(4)
    with pytest.raises(tacit.errors.SourceError, match="40 words"):
        tacit.Public(matrix[:, :7], token_schema())
    with pytest.raises(tacit.errors.SourceError, match="owners="):
        tacit.Public(matrix, token_schema("author", 2))
    with pytest.raises(tacit.errors.SourceError, match="single Tokens"):
        tacit.Public(matrix, schema())
    for query, says in (
        (queries.BoundedSum(ones, "words", size=1, clip=1), "no Tokens"),
        (
            queries.BoundedSum(
                queries.Kernel("columns.values"), "words", size=1, clip=1, state=AS_IT_IS
            ),
            "a number in each row",
        ),
        (weighed(39), "40 words, not 39"),
        (topics(vocabulary=39), "40 words, not 39"),
        (
            queries.BoundedSum(
                queries.Kernel("topics.root_frequencies"), "words", size=(40, 1), clip=1,
                geometry="box",
            ),
            "another geometry",
        ),
    ):  # fmt: skip
        with pytest.raises(tacit.errors.QueryError, match=says):
            tacit.Public(matrix, token_schema()).release(query, tacit.Exact())


# Releases through the wall


@pytest.mark.parametrize("make", [values, dense])
def test_a_sum_is_charged_and_noisy(make):
    wall = tacit.Wall(table(50), schema(), budget=tacit.Budget(3, 1e-5), ledger=":memory:")
    query = make(clip=1.0)
    one = wall.release(query, tacit.Laplace(0.5), name="mine")
    assert without_note(wall.release(query, tacit.Laplace(0.5), name="mine")) == one
    two = wall.release(query, tacit.Gaussian(0.5, 1e-6))
    assert wall.remaining.epsilon == 2
    assert not np.array_equal(one.value, two.value)
    assert one.n == 50
    event = two.certificate.events[0]
    assert event["query"]["type"] == "BoundedSum"
    assert all(text.startswith("sha256:") for text in event["query"]["state"])
    assert any("XLA" in text for text in two.certificate.assumptions) == (make is dense)
    state = tuple(leaf * 2 for leaf in query.state)
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        wall.release(query.at(state), tacit.Laplace(0.5), name="mine")


# Some words of a vocabulary


@pytest.mark.parametrize("who", [None, np.arange(60) // 2])
def test_words_that_are_left_out_add_nothing_and_others_have_their_places(who):
    described = token_schema("author", 2) if who is not None else token_schema()
    matrix = documents(60)
    source = tacit.Public(matrix, described, owners=who)
    found = source.release(pairs(clip=1e3), tacit.Exact()).value.reshape(5, 5)
    expected = np.zeros((5, 5))
    for counts in matrix.toarray()[:, [9, 30, 20, 39, 3]]:  # the words of places 0 to 4
        both = np.triu(np.outer(counts, counts), 1)
        expected += np.sqrt(both / max(both.sum(), 1))
    assert expected.sum() > 5
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (np.zeros(40, int), "injective"),  # two words at one place: more than the clip
        (np.full(40, 5), "positions from -1 to 4"),
        (np.full(40, -2), "positions from -1 to 4"),
        (np.arange(39), "each of 40 words"),
        (np.arange(40.0), "numbers of type i8"),
        (np.zeros((40, 1), int), "positions i8"),
    ],
)
def test_places_outside_the_sum_or_taken_twice_are_refused(places, says):
    public = tacit.Public(documents(10), token_schema())
    with pytest.raises(tacit.errors.QueryError, match=says):
        public.release(pairs(places), tacit.Exact())
    lease = public.prepay(queries.Plan(queries.Steps(2, tacit.Exact(), numbers=25), delta=1e-6))
    good = pairs()
    lease.release(good)
    for wrong in (pairs(places), good.at((places,))):  # checked in every step
        with pytest.raises(tacit.errors.QueryError, match=says):
            lease.release(wrong)
    assert lease.steps_left == 1


def _broken(kind):
    matrix = csr_matrix(np.eye(6, 40))
    if kind == "csr":
        matrix.indptr[1] = 10**8
    elif kind == "csr negative":
        matrix.indptr[2] = -5
    elif kind == "csc":
        matrix = matrix.tocsc()
        matrix.indices[0] = 10**8
    else:
        matrix = matrix.tocoo()
        matrix.row[1], matrix.col[2] = -3, 10**8
    return matrix


@pytest.mark.parametrize("kind", ["csr", "csr negative", "csc", "coo"])
def test_a_matrix_whose_arrays_are_wrong_does_not_end_the_process(kind):
    data = open_data(_broken(kind), token_schema(), None).read()
    assert data.units == 6
    assert np.all((data.words >= 0) & (data.words < 40))
    assert np.all(np.diff(data.offsets) >= 0)


def test_other_kinds_of_matrices_are_refused():
    with pytest.raises(tacit.errors.SourceError, match="tocsr"):
        tacit.Public(csr_matrix(np.eye(6, 40)).tolil(), token_schema())
