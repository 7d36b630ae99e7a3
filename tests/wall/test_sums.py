"""Bounded sums: what one unit can do, for every kind of map, relation and geometry."""

import math
import warnings
from collections import namedtuple

import ibis
import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
import scipy.special as np_special
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import empty as alloc
from numpy.random import gamma
from scipy.sparse import csr_matrix, random_array

import tacit
from tacit.accounting.sums import calibrate_sum, exact_noise, multiplied_noise, steps_of
from tacit.infer import topics as topic_maps
from tacit.laws.mixing import cleared
from tacit.spec.sums import Bound
from tacit.wall._evaluate import open_data
from tacit.wall.sums import _clip, _guard, _jax, _maps, _sums
from tacit.wall.sums._clip import add_unit, limits_of
from tacit.wall.sums._sums import load, resolve_sum

COLUMNS = (tacit.Real("x", -5, 5), tacit.Real("y", -5, 5), tacit.Integer("z", 0, 9))
NAMES = ["x", "y", "z"]
STATE = np.array([0.3, -1.2, 0.7])
GEOMETRIES = ["free", "nonnegative", "box", "simplex"]


def numba_map(row, state, out):
    total = 0.0
    for i in range(row.size):
        total += row[i] * state[i]
    weight = math.tanh(total)
    for i in range(out.size):
        out[i] = weight * row[i % row.size] + 0.1 * i


def jax_map(row, state):
    return jnp.tile(jnp.tanh(row @ state) * row, 4) + 0.1 * jnp.arange(12)


def sparse_map(words, weights, state, out):
    for j in range(words.size):
        for k in range(out.shape[1]):
            out[j, k] = weights[j] * state[k] / (1.0 + words[j] % 3)


def schema(unit=None, rows=None, neighbours="replace_one"):
    return tacit.Schema(*COLUMNS, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


def table(n, seed=0, units=None):
    rng = np.random.default_rng(seed)
    made = {
        "x": rng.normal(size=n) * 3,
        "y": rng.normal(size=n),
        "z": rng.integers(0, 10, size=n),
        "who": rng.integers(0, units or max(1, n), size=n) if units else np.arange(n),
    }
    made["x"][rng.random(n) < 0.05] = np.nan
    return made


def dense(kind, **bound):
    options = {"size": 12, "clip": 1.5, **bound}
    function = {"numba": tacit.NumbaMap(numba_map), "jax": tacit.JaxMap(jax_map)}[kind]
    state = STATE if kind == "numba" else STATE.astype(np.float32)
    return tacit.BoundedSum(function, NAMES, state=state, **options)


VOCABULARY = [f"w{i}" for i in range(40)]


def documents(n, seed=0):
    rng = np.random.default_rng(seed)
    found = random_array((n, 40), density=0.15, rng=rng, data_sampler=None)
    return csr_matrix(np.ceil(found.toarray() * 5))


def sparse(**bound):
    options = {"size": (40, 3), "clip": 2.0, "geometry": "nonnegative", **bound}
    return tacit.BoundedSum(
        tacit.SparseMap(sparse_map, width=3), "words", state=np.array([1.0, 0.2, 3.0]), **options
    )


def topics():
    rng = np.random.default_rng(3)
    rows = cleared(rng.dirichlet(np.full(40, 0.2), size=5).T)
    state = rows, np.ones(40, np.float32), np.array([0.1, 1e-3, 50, 0.0, 1.0])
    return tacit.BoundedSum(
        tacit.SparseMap(topic_maps.expected, width=5), "words", size=(40, 5), clip=1.0,
        geometry="nonnegative", state=state,
    )  # fmt: skip


def token_schema(unit=None, rows=None, neighbours="replace_one"):
    tokens = tacit.Tokens("words", VOCABULARY, max_length=100)
    return tacit.Schema(tokens, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


CASES = {
    "numba": lambda n, seed: (table(n, seed), schema(), dense("numba"), None),
    "numba units": lambda n, seed: (
        table(n, seed, n // 3), schema("who", 4), dense("numba"), None,
    ),
    "jax": lambda n, seed: (table(n, seed), schema(), dense("jax"), None),
    "jax units": lambda n, seed: (table(n, seed, n // 3), schema("who", 4), dense("jax"), None),
    "sparse": lambda n, seed: (documents(n, seed), token_schema(), sparse(), None),
    "topics": lambda n, seed: (documents(n, seed), token_schema(), topics(), None),
    "sparse units": lambda n, seed: (
        documents(n, seed), token_schema("author", 3), sparse(),
        np.random.default_rng(9).integers(0, n // 3, size=n),
    ),
}  # fmt: skip


def loaded(kind, n, seed=0):
    data, described, query, owners = CASES[kind](n, seed)
    resolved = resolve_sum(query, described)
    held = load(open_data(data, described, owners), described, query.columns)
    return resolved, held, resolved.exact()


# One unit cannot influence another


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_batch_is_the_sum_of_its_units_bit_for_bit(kind, threads, monkeypatch):
    """Each unit adds the same integers alone and in any company, at any place, in any thread."""
    monkeypatch.setattr(_maps, "_THREAD_WORK", 1 if threads > 1 else 10**12)
    monkeypatch.setattr(_maps.os, "cpu_count", lambda: threads)
    resolved, held, noise = loaded(kind, 700)
    each = np.array([resolved.sum(held, np.array([i]), noise) for i in range(held.units)])
    assert np.abs(each).max() > 0
    rng = np.random.default_rng(1)
    for size in (0, 1, 2, 17, 180, held.units - 1, held.units):
        units = np.sort(rng.choice(held.units, size=size, replace=False))
        total = resolved.sum(held, units, noise)
        np.testing.assert_array_equal(total, each[units].sum(axis=0))


@pytest.mark.parametrize("kind", ["numba", "jax", "sparse"])
def test_swapping_one_unit_leaves_the_others_alone(kind):
    resolved, held, noise = loaded(kind, 400)
    for place in (0, 123, 399):
        data, described, query, owners = CASES[kind](400, 0)
        other = CASES[kind](400, 77)[0]
        if kind == "sparse":
            dense_rows = data.toarray()
            dense_rows[place] = other.toarray()[place]
            swapped = csr_matrix(dense_rows)
        else:
            swapped = {name: cells.copy() for name, cells in data.items()}
            for name in swapped:
                swapped[name][place] = other[name][place]
        again = load(open_data(swapped, described, owners), described, query.columns)
        everyone = np.arange(400)
        change = resolved.sum(again, everyone, noise) - resolved.sum(held, everyone, noise)
        mine = np.array([place])
        own = resolved.sum(again, mine, noise) - resolved.sum(held, mine, noise)
        np.testing.assert_array_equal(change, own)


def test_adding_a_row_moves_every_other_one_without_a_trace():
    """Under add_remove the others shift by one place in their chunk."""
    for kind in ("numba", "jax"):
        data = table(300)
        described, query = schema(), dense(kind)
        resolved = resolve_sum(query, described)
        noise = resolved.exact()
        total = []
        for first in (0, 1):
            rows = {name: cells[first:] for name, cells in data.items()}
            held = load(open_data(rows, described), described, query.columns)
            total.append(resolved.sum(held, np.arange(held.units), noise))
            if first == 0:
                alone = resolved.sum(held, np.array([0]), noise)
        np.testing.assert_array_equal(total[0] - alone, total[1])


@pytest.mark.parametrize(
    ("neighbours", "chunks"), [("replace_one", {512, 2048}), ("add_remove", {512})]
)
def test_longer_chunks_are_for_batches_of_public_size(neighbours, chunks, monkeypatch):
    """Under add_remove the size is secret: a unit more must not change how the others are added."""
    monkeypatch.setattr(_sums, "_MANY", 300)
    used = set()
    begin = _jax.JaxKernel.start

    def start(kernel, *arguments):
        used.add(kernel.chunk)
        return begin(kernel, *arguments)

    monkeypatch.setattr(_jax.JaxKernel, "start", start)
    data, query, described = table(400), dense("jax"), schema(neighbours=neighbours)
    resolved = resolve_sum(query, described)
    held = load(open_data(data, described), described, query.columns)
    some, others = np.arange(250), np.arange(250, 400)
    total, *parts = (
        resolved.sum(held, units, resolved.exact()) for units in (np.arange(400), some, others)
    )
    assert used == chunks
    np.testing.assert_array_equal(total, sum(parts))


def test_all_roads_agree_with_plain_arithmetic():
    """Numba and JAX against NumPy, row by row, with the clip written down again."""
    data, described = table(200), schema()
    expected = np.zeros(12)
    for i in range(200):
        row = np.array([data[name][i] for name in NAMES], float)
        if not np.all(np.abs(row[:2]) <= 5):
            continue
        contribution = np.tile(np.tanh(row @ STATE) * row, 4) + 0.1 * np.arange(12)
        expected += contribution * min(1, 1.5 / np.linalg.norm(contribution))
    public = tacit.Public(data, described)
    for kind, tolerance in (("numba", 1e-6), ("jax", 1e-3)):
        release = public.release(dense(kind), tacit.Exact())
        np.testing.assert_allclose(release.value, expected, atol=tolerance)


# The bound of one unit, in integers

STRANGE = [0.0, -0.0, 5e-324, 1e-300, 1.0, -1.0, 3.0, 1e8, 1e154, 1e200, 1e308, -1e308]


@settings(deadline=None, max_examples=400)
@given(
    values=st.lists(st.sampled_from(STRANGE) | st.floats(-1e6, 1e6), min_size=1, max_size=9),
    clip=st.floats(1e-6, 1e6),
    geometry=st.sampled_from(GEOMETRIES),
    norm=st.sampled_from(["l1", "l2"]),
    multiplier=st.one_of(st.none(), st.floats(1e-3, 1e4)),
)  # fmt: skip
def test_no_contribution_exceeds_its_bound(values, clip, geometry, norm, multiplier):
    bound = Bound(len(values), clip, norm, geometry)
    noise = exact_noise((bound,)) if multiplier is None else multiplied_noise(multiplier, (bound,))
    total = np.zeros(len(values), np.int64)
    add_unit(np.array(values), np.zeros(len(values), np.int32), limits_of((bound,), noise), total)
    steps, most = [int(s) for s in total], steps_of(clip, noise[0].grid)
    assert most <= 2**30
    if geometry != "free":
        assert min(steps) >= 0
    if geometry == "box":
        assert max(steps) <= most
    elif norm == "l1" or geometry == "simplex":
        assert sum(map(abs, steps)) <= most
    else:
        assert sum(s * s for s in steps) <= most**2
    exact = np.clip(values, -1e150, 1e150)
    if geometry != "free":
        exact = np.maximum(exact, 0)
    if geometry == "box":
        exact = np.minimum(exact, clip)
    else:
        size = np.abs(exact).sum() if bound.norm == "l1" else np.linalg.norm(exact)
        exact = exact * min(1.0, clip / max(size, 1e-300))
    if np.abs(values).max() < 1e150:  # the bound is used up, not just kept
        assert np.all(np.abs(total * noise[0].grid - exact) <= 2.01 * noise[0].grid + 1e-9 * clip)
        assert np.all(np.abs(total * noise[0].grid) <= np.abs(exact) * (1 + 1e-9))  # towards zero


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_sensitivity_is_that_of_the_worst_units(geometry, neighbours, norm):
    """A search over extreme units never moves the sum further than the noise is for."""
    bound = Bound(4, 1.0, norm, geometry)
    corners = [np.zeros(4)] + [s * np.eye(4)[i] * 10 for i in range(4) for s in (1, -1)]
    rng = np.random.default_rng(0)
    corners += [*rng.normal(size=(60, 4)) * 3, np.full(4, 9.0), np.full(4, -9.0)]
    laplace = calibrate_sum(tacit.Laplace(1), (bound,), neighbours)
    gaussian = calibrate_sum(tacit.Gaussian(1, 1e-6), (bound,), neighbours)
    for calibration, order in ((laplace, 1), (gaussian, 2)):
        limits = limits_of((bound,), calibration.noise)
        found = []
        for corner in corners:
            total = np.zeros(4, np.int64)
            add_unit(corner.copy(), np.zeros(4, np.int32), limits, total)
            found.append(total.astype(float))
        pairs = found if neighbours == "add_remove" else [a - b for a in found for b in found]
        worst = max(np.linalg.norm(d, order) for d in pairs)
        law = calibration.noise[0]
        sensitivity = (
            law.scale / law.grid  # b = sensitivity at epsilon 1
            if order == 1
            else law.scale / law.grid * tacit.accounting.gaussian_mu(1, 1e-6)
        )
        assert worst <= sensitivity * (1 + 1e-9)
        tight = order == 2 or norm == "l1" or geometry in ("box", "simplex")
        if tight and not (norm == "l1" and order == 2 and geometry == "free"):
            assert worst >= sensitivity * 0.999  # and the search comes up to it


def test_blocks_of_different_sensitivity_share_one_cost():
    """k blocks, each scaled by its bound, form a vector whose norm is sqrt(k) of one."""
    small, large = Bound(3, 1.0), Bound((2, 2), 100.0)
    one = calibrate_sum(tacit.Gaussian(1, 1e-6), (small,), "replace_one")
    both = calibrate_sum(tacit.Gaussian(1, 1e-6), (small, large), "replace_one")
    assert both.noise[0].scale == pytest.approx(one.noise[0].scale * math.sqrt(2), rel=1e-6)
    assert both.noise[1].scale == pytest.approx(both.noise[0].scale * 100, rel=1e-6)
    mixed = calibrate_sum(
        tacit.Gaussian(1, 1e-6), (small, Bound(3, 1.0, geometry="box")), "replace_one"
    )
    # free moves by 2, a box by sqrt(3) of side 1: squares over squares of the noise add up to mu^2
    mu = tacit.accounting.gaussian_mu(1, 1e-6)
    spent = (2 / mixed.noise[0].scale) ** 2 + (math.sqrt(3) / mixed.noise[1].scale) ** 2
    assert math.sqrt(spent) == pytest.approx(mu, rel=1e-6)
    laplace = calibrate_sum(tacit.Laplace(1), (small, large), "add_remove")
    assert laplace.noise[1].scale == pytest.approx(100 * laplace.noise[0].scale * 2 / 2, rel=0.5)


def test_several_blocks_come_out_with_their_names_and_shapes():
    def moments(row, state, out):
        out[0] = row[0]
        for i in range(2):
            for j in range(2):
                out[1 + 2 * i + j] = row[i] * row[j]

    data = {"x": [1.0, 2.0, 100.0], "y": [0.5, -1.0, 0.0], "z": [1, 2, 3]}
    query = tacit.BoundedSum(
        tacit.NumbaMap(moments),
        ["x", "y"],
        blocks={"first": Bound(1, 5), "second": Bound((2, 2), 10)},
    )
    release = tacit.Public(data, schema()).release(query, tacit.Exact())
    assert release.table("first").value == pytest.approx([3.0])
    np.testing.assert_allclose(release.table("second").value, [[5, -1.5], [-1.5, 1.25]], atol=1e-6)
    again = tacit.Release.from_json(release.to_json())
    assert again == release
    np.testing.assert_array_equal(again.table("second").value, release.table("second").value)
    with pytest.raises(tacit.QueryError, match="itself"):
        tacit.Public(data, schema()).release(again.query, tacit.Exact())


# Rows of a unit, missing values, failing maps


def ones(row, state, out):
    out[0] = 1.0


def test_a_unit_with_a_thousand_rows_moves_a_sum_by_its_clip():
    data = {"x": np.ones(1001), "y": np.ones(1001), "z": np.ones(1001), "who": [1] * 1000 + [2]}
    query = tacit.BoundedSum(tacit.NumbaMap(ones), NAMES, size=1, clip=2.5, geometry="box")
    for rows, expected in ((1000, 2.5 + 1), (2, 2 + 1)):
        public = tacit.Public(data, schema("who", rows))
        assert public.release(query, tacit.Exact()).value[0] == pytest.approx(expected, abs=1e-8)


def test_a_row_with_a_missing_value_contributes_nothing():
    data = {"x": [1.0, None, 99.0, 2.0], "y": ["1", "2", "3", "n/a"], "z": [1, 2, 3, 4]}
    query = tacit.BoundedSum(tacit.NumbaMap(ones), NAMES, size=1, clip=1.0)
    assert tacit.Public(data, schema()).release(query, tacit.Exact()).value[0] == pytest.approx(1)


def test_a_map_that_fails_for_a_row_contributes_nothing_for_it():
    def partial(row, state, out):
        if row[2] == 1:
            out[0] = math.nan
        elif row[2] == 2:
            out[0] = math.inf
        elif row[2] == 3:
            raise ValueError("no")
        elif row[2] == 4:
            out[5] = 1.0  # beyond the end
        elif row[2] == 5:
            out[0] = 1.0 / (row[2] - 5)
        else:
            out[0] = 1.0

    def same(row, state):
        return jnp.where(row[2] == 1, jnp.nan, jnp.where(row[2] == 2, jnp.inf, 1.0))[None]

    data = {"x": np.zeros(8), "y": np.zeros(8), "z": np.arange(8)}
    public = tacit.Public(data, schema())
    for function, expected in ((tacit.NumbaMap(partial), 3), (tacit.JaxMap(same), 6)):
        query = tacit.BoundedSum(function, NAMES, size=1, clip=1.0)
        assert public.release(query, tacit.Exact()).value[0] == pytest.approx(expected)


def test_scratch_is_cleared_between_rows():
    def adds(row, state, out):
        if row[2] == 0:
            out[0] += 1.0
        out[1] += 1.0

    data = {"x": np.zeros(6), "y": np.zeros(6), "z": [0, 1, 1, 1, 0, 1], "who": [1, 1, 2, 2, 3, 4]}
    query = tacit.BoundedSum(tacit.NumbaMap(adds), NAMES, size=2, clip=9.0)
    for described in (schema(), schema("who", 5)):
        release = tacit.Public(data, described).release(query, tacit.Exact())
        np.testing.assert_allclose(release.value, [2, 6], atol=1e-6)


# What a map may not do


def writes_state(row, state, out):
    state[0] = row[0]


def writes_state_by_an_alias(row, state, out):
    best = np.ascontiguousarray(state)
    best[0] = max(best[0], row[0])
    out[0] = best[0]


def writes_state_by_its_iterator(row, state, out):
    state.flat[0] = row[0]
    out[0] = state[0]


def writes_state_by_a_product(row, state, out):
    np.dot(np.ones((1, 1)), row[:1].copy().reshape(1, 1), state[:1].reshape(1, 1))
    out[0] = state[0]


def uses_random(row, state, out):
    out[0] = np.random.random()


def uses_random_by_name(row, state, out):
    out[0] = gamma(1.0 + abs(row[0]), 1.0)


def leaves_memory(row, state, out):
    scratch = np.empty(3)
    out[0] = scratch[0]


def leaves_memory_by_another_name(row, state, out):
    out[0] = alloc(3)[0]


def speaks(row, state, out):
    print(row[0])  # noqa: T201


def helper_with_random(x):
    return x + np.random.random()


def hides_random(row, state, out):
    out[0] = helper_with_random(row[0])


def uses_a_module(row, state, out):
    out[0] = np_special.gammaln(row[0])


def calls_itself(row, state, out):
    if row[0] > 0:
        calls_itself(row - 1, state, out)


def writes_state_by_visiting_it(row, state, out):
    if row[0] == 777:  # no row that is made up has it
        for x in np.nditer(state):
            x[()] = 1.0
    out[0] = state[0]


def writes_state_by_cleaning_it(row, state, out):
    if row[0] == 777:
        np.nan_to_num(state, copy=False)
    out[0] = state[0]


def writes_state_if_asked(row, state, out):
    if row[0] == 777:
        np.dot(np.ones((1, 1)), np.ones(1), state[:1])
    out[0] = state[0]


def sets_a_setting(row, state, out):
    if row[0] == 777:
        numba.set_num_threads(1)
    out[0] = numba.get_num_threads()


LARGE = np.zeros(200_000)


def uses_a_large_array(row, state, out):
    out[0] = LARGE[0]


MEMORY = np.zeros(3)


@numba.njit
def remembers(row, memory=MEMORY):
    memory[0] += 1
    return memory[0]


def calls_one_that_remembers(row, state, out):
    out[0] = remembers(row)


def impostor(row, state, out):
    out[0] = np.random.random()


impostor.__module__ = "numpy.evil"


def calls_an_impostor(row, state, out):
    impostor(row, state, out)


BOX = [0.0]


def uses_a_list(row, state, out):
    out[0] = BOX[0]


def does_not_compile(row, state, out):
    out[0] = row.nonsense()


@pytest.mark.parametrize(
    "function",
    [
        writes_state,
        writes_state_by_an_alias,
        writes_state_by_its_iterator,
        writes_state_by_a_product,
        uses_random,
        uses_random_by_name,
        leaves_memory,
        leaves_memory_by_another_name,
        speaks,
        hides_random,
        uses_a_module,
        calls_itself,
        writes_state_by_visiting_it,
        writes_state_by_cleaning_it,
        writes_state_if_asked,
        sets_a_setting,
        uses_a_large_array,
        calls_one_that_remembers,
        calls_an_impostor,
        uses_a_list,
        does_not_compile,
    ],
)
def test_a_numba_map_that_could_carry_something_over_is_refused(function):
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    query = tacit.BoundedSum(tacit.NumbaMap(function), NAMES, size=1, clip=1.0, state=STATE)
    with pytest.raises(tacit.QueryError):
        wall.release(query, tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "1"


def test_a_map_may_change_its_copy_of_a_row():
    def halves(row, state, out):
        row[0] = row[0] / 2
        out[0] = row[0]

    data = {"x": [1.0, 1.0], "y": [0.0, 0.0], "z": [0, 0]}
    exact = tacit.Plan(tacit.Steps(3, tacit.Exact()), delta=1e-5)
    lease = tacit.Public(data, schema()).prepay(exact)
    query = tacit.BoundedSum(tacit.NumbaMap(halves), NAMES, size=1, clip=1.0)
    assert [lease.release(query).value[0] for _ in range(3)] == pytest.approx([1, 1, 1])


@numba.njit
def look(values, place):
    return values[place]


def reads_past_the_end(row, state, out):
    out[0] = 0.5
    out[1] = look(out, int(row[2]) * 1000)


def test_indices_are_checked_in_helpers_too():
    data = {"x": np.zeros(4), "y": np.zeros(4), "z": [0, 1, 5, 9]}
    query = tacit.BoundedSum(tacit.NumbaMap(reads_past_the_end), NAMES, size=2, clip=9.0)
    release = tacit.Public(data, schema()).release(query, tacit.Exact())
    np.testing.assert_allclose(release.value, [0.5, 0.5], atol=1e-6)  # the first row alone


def newton_rounds(row, state):
    """How many rounds square roots take: a loop that ends when the row says so."""

    def going(carry):
        guess, rounds = carry
        return (jnp.abs(guess**2 - jnp.abs(row) - 1) > 3e-6).any() & (rounds < 100)

    def better(carry):
        guess, rounds = carry
        return 0.5 * (guess + (jnp.abs(row) + 1) / guess), rounds + 1

    return jax.lax.while_loop(going, better, (jnp.ones_like(row), 0))[1][None]


def test_a_loop_that_ends_with_the_data_runs_one_row_at_a_time():
    """Side by side this row goes on for as long as another one does: XLA rounds twice."""
    described = tacit.Schema(*(tacit.Real(c, -1e3, 1e3) for c in "abc"), neighbours="replace_one")
    query = tacit.BoundedSum(tacit.JaxMap(newton_rounds), list("abc"), size=1, clip=10.0)
    quiet = np.tile([50.65386199951172, 23.544279098510742, 29.58138084411621], (250, 1))
    busy = quiet.copy()
    busy[0] = np.random.default_rng(0).normal(size=(256, 3))[4].astype(np.float32) * 30
    sums = [
        tacit.Public(dict(zip("abc", rows.T)), described).release(query, tacit.Exact()).value[0]
        for rows in (quiet, busy)
    ]
    assert abs(sums[1] - sums[0]) <= 20


def test_a_position_that_matters_is_noticed():
    """The broken twin of the check on made-up rows."""
    for broken in (
        lambda rows, state: np.arange(len(rows), dtype=np.float32)[:, None] + rows[:, :1],
        lambda rows, state: rows[:, :1] + rows.max(),
        lambda rows, state: np.where(np.isfinite(rows).all(), rows[:, :1], 0),
    ):
        assert not _jax._alike(broken, None, 256, 3, np.float32)
    assert _jax._alike(lambda rows, state: rows[:, :1] * 2, None, 256, 3, np.float32)


def test_large_numbers_make_no_warning(recwarn):
    wide = tacit.Schema(tacit.Real("x", -1e100, 1e100), neighbours="replace_one")
    query = tacit.BoundedSum(tacit.JaxMap(lambda row, state: jnp.tanh(row)), "x", size=1, clip=1.0)
    warnings.simplefilter("always")
    for cells in ([1.0, 2.0], [1.0, 1e50]):
        wall = tacit.Wall({"x": cells}, wide, budget=tacit.Budget(1), ledger=":memory:")
        wall.release(query, tacit.Laplace(0.5))
    assert not [w for w in recwarn if "overflow" in str(w.message)]


def test_another_constant_is_another_question():
    def scaled(factor):
        def by(row, state, out):
            out[0] = row[0] * factor

        return tacit.BoundedSum(tacit.NumbaMap(by), "x", size=1, clip=1.0)

    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    wall.release(scaled(2.0), tacit.Laplace(0.5), name="once")
    wall.release(scaled(2.0), tacit.Laplace(0.5), name="once")
    with pytest.raises(tacit.LedgerError, match="different question"):
        wall.release(scaled(3.0), tacit.Laplace(0.5), name="once")


def calls_back(row, state):
    seen = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), jnp.float32), row[0])
    return seen[None]


def calls_back_in_a_loop(row, state):
    def body(_, x):
        jax.debug.print("{}", x)
        return x + 1

    return jax.lax.fori_loop(0, 3, body, row[0])[None]


def io_calls_back(row, state):
    jax.experimental.io_callback(lambda x: None, None, row[0])
    return row[:1]


def in_a_branch(row, state):
    return jax.lax.cond(row[0] > 0, lambda: calls_back(row, state), lambda: row[:1])


@pytest.mark.parametrize(
    "function", [calls_back, calls_back_in_a_loop, io_calls_back, in_a_branch, jax.jit(calls_back)]
)
def test_a_jax_map_that_calls_back_is_refused(function):
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    query = tacit.BoundedSum(tacit.JaxMap(function), NAMES, size=1, clip=1.0)
    with pytest.raises(tacit.QueryError, match="call back"):
        wall.release(query, tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "1"


def test_what_was_checked_is_what_runs():
    """A function that shows another face when it is traced again is not traced again."""
    seen, calls = [], []

    def two_faced(row, state):
        calls.append(1)
        if len(calls) > 1:
            jax.debug.callback(seen.append, row[0])
        return row[:1]

    query = tacit.BoundedSum(tacit.JaxMap(two_faced), NAMES, size=1, clip=1.0)
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    wall.release(query, tacit.Laplace(0.5))
    assert (len(calls), seen) == (1, [])


def test_a_map_of_the_wrong_size_is_refused_before_the_charge():
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    wrong = tacit.BoundedSum(tacit.JaxMap(jax_map), NAMES, size=5, clip=1.0, state=STATE)
    with pytest.raises(tacit.QueryError, match="5 numbers, got 12"):
        wall.release(wrong, tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "1"


def test_a_jax_map_may_return_blocks_by_name():
    def both(row, state):
        return {"b": row[:2] * 2, "a": row[2:]}

    query = tacit.BoundedSum(tacit.JaxMap(both), NAMES, blocks={"a": Bound(1, 9), "b": Bound(2, 9)})
    data = {"x": [1.0], "y": [2.0], "z": [3]}
    release = tacit.Public(data, schema()).release(query, tacit.Exact())
    np.testing.assert_allclose(release.value, [3, 2, 4], atol=1e-6)


def test_a_named_tuple_is_a_state():
    State = namedtuple("State", ["weight", "shift"])

    def shifted(row, state, out):
        out[0] = row[0] * state.weight[0] + state.shift[0]

    query = tacit.BoundedSum(
        tacit.NumbaMap(shifted), "x", size=1, clip=9, state=State(np.array([2.0]), np.array([1.0]))
    )
    data = {"x": [1.0], "y": [0], "z": [0]}
    assert tacit.Public(data, schema()).release(query, tacit.Exact()).value[0] == pytest.approx(3)


# Documents


def test_documents_are_cleaned_and_weighted_to_their_longest():
    def weigh(words, weights, state, out):
        for j in range(words.size):
            out[j, 0] = weights[j]

    tokens = tacit.Tokens("words", ["a", "b", "c"], max_length=10)
    described = tacit.Schema(tokens, neighbours="replace_one")
    matrix = csr_matrix(np.array([[1, 2, 0], [40, 0, 60], [np.nan, -3, 1.9], [0, 0, np.inf]]))
    query = tacit.BoundedSum(
        tacit.SparseMap(weigh, width=1), "words", size=(3, 1), clip=1e3, geometry="nonnegative"
    )
    release = tacit.Public(matrix, described).release(query, tacit.Exact())
    assert release.n == 4
    # 40 and 60 are first cut to 10 each and then weighted down to 10 together
    np.testing.assert_allclose(release.value, [1 + 5, 2, 5 + 1], atol=1e-5)
    broken = matrix.copy()
    broken.indices[0] = 77
    release = tacit.Public(broken, described).release(query, tacit.Exact())
    np.testing.assert_allclose(release.value, [5, 2, 6], atol=1e-5)


def test_an_authors_documents_are_summed_before_the_clip():
    matrix = csr_matrix(np.eye(40)[[0, 1, 0, 2, 5]] * 3)
    owners = ["ann", "ann", "bob", "ann", None]
    query = sparse(clip=1.0)
    public = tacit.Public(matrix, token_schema("author", 2), units=owners)
    release = public.release(query, tacit.Exact())
    assert release.n == 2
    rows = release.table("sum").value
    assert np.linalg.norm(rows) <= 2
    assert rows[2].sum() == 0  # ann's third document
    assert rows[5].sum() == 0  # nobody's
    assert np.linalg.norm(rows[1]) < 1 - 1e-3  # shares ann's bound with her other word


def test_documents_need_a_fitting_schema():
    matrix = documents(4)
    with pytest.raises(tacit.SourceError, match="40 words"):
        tacit.Public(matrix[:, :7], token_schema())
    with pytest.raises(tacit.SourceError, match="units="):
        tacit.Public(matrix, token_schema("author", 2))
    with pytest.raises(tacit.SourceError, match="single Tokens"):
        tacit.Public(matrix, schema())
    with pytest.raises(tacit.QueryError, match="SparseMap"):
        tacit.Public(matrix, token_schema()).release(
            tacit.BoundedSum(tacit.NumbaMap(ones), "words", size=1, clip=1), tacit.Exact()
        )


# Expressions in the engine

SQL = tacit.SqlMap(lambda row: [row.x, row.x * row.x, row.z > 4])


OTHER = ibis.table({"x": "float64"}, name="other")


def test_sql_moments_are_those_of_the_rows():
    data = table(500)
    query = tacit.BoundedSum(SQL, NAMES, size=3, clip=30.0)
    release = tacit.Public(data, schema()).release(query, tacit.Exact())
    ok = np.abs(data["x"]) <= 5
    rows = np.column_stack([data["x"], data["x"] ** 2, data["z"] > 4])[ok].astype(float)
    np.testing.assert_allclose(release.value, rows.sum(axis=0), atol=500 * 30 * 2**-23)
    assert release.n == 500


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_sql_and_numba_clip_alike(geometry, norm):
    def same(row, state, out):
        out[0] = row[0]
        out[1] = row[0] * row[0]
        out[2] = 1.0 if row[2] > 4 else 0.0

    data = table(300)
    bound = {"size": 3, "clip": 0.7, "norm": norm, "geometry": geometry}
    public = tacit.Public(data, schema())
    there = public.release(tacit.BoundedSum(SQL, NAMES, **bound), tacit.Exact())
    here = public.release(tacit.BoundedSum(tacit.NumbaMap(same), NAMES, **bound), tacit.Exact())
    np.testing.assert_allclose(there.value, here.value, atol=300 * 0.7 * 2**-22)


def test_sql_bounds_rows_and_pays_for_all_of_a_units():
    data = {"x": np.full(9, 5.0), "y": np.zeros(9), "z": np.full(9, 9), "who": [1] * 9}
    query = tacit.BoundedSum(SQL, NAMES, size=3, clip=1.0)
    public = tacit.Public(data, schema("who", 3))
    assert np.linalg.norm(public.release(query, tacit.Exact()).value) == pytest.approx(3, abs=1e-5)
    wall = tacit.Wall(data, schema("who", 3), budget=tacit.Budget(9), ledger=":memory:")
    one = tacit.Wall(data, schema("who", 1), budget=tacit.Budget(9), ledger=":memory:")
    scale = [w.quote(query, tacit.Laplace(1)).noise[0].scale for w in (wall, one)]
    assert scale[0] == pytest.approx(3 * scale[1], rel=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda row: [row.x.sum()],
        lambda row: [OTHER.x],
        lambda row: [(row.x > 0) + (row.y > 0)],
        lambda row: [row.x.mean().over()],
        lambda row: [row.x.lag().over()],
        lambda row: [row.x / row.y],
        lambda row: [row.x.sqrt()],
        lambda row: [row.x.log()],
        lambda row: [row.count()],
        lambda row: [row.nonsense],
        lambda row: [row.x, row.y],
    ],
)
def test_an_expression_that_leaves_its_row_or_may_fail_is_refused(function):
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    query = tacit.BoundedSum(tacit.SqlMap(function), NAMES, size=1, clip=1.0)
    with pytest.raises(tacit.QueryError):
        wall.release(query, tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "1"


def test_strange_values_do_not_raise_in_the_engine():
    wide = tacit.Schema(tacit.Real("x", -1e100, 1e100), neighbours="replace_one")
    data = {"x": [1e100, -1e100, 5e-324, -0.0, "nan", "inf", None, "1e400"]}
    query = tacit.BoundedSum(
        tacit.SqlMap(lambda row: [row.x * row.x * row.x * row.x, row.x]), "x", size=2, clip=1.0
    )
    release = tacit.Public(data, wide).release(query, tacit.Exact())
    assert np.all(np.abs(release.value) <= 8)


# Releases through the wall


@pytest.mark.parametrize("kind", ["numba", "jax", "sql"])
def test_a_sum_is_charged_and_noisy(kind):
    wall = tacit.Wall(table(50), schema(), budget=tacit.Budget(3, 1e-5), ledger=":memory:")
    bound = {"size": 3, "clip": 1.0}
    query = tacit.BoundedSum(SQL, NAMES, **bound) if kind == "sql" else dense(kind, clip=1.0)
    one = wall.release(query, tacit.Laplace(0.5), name="mine")
    assert wall.release(query, tacit.Laplace(0.5), name="mine") == one
    two = wall.release(query, tacit.Gaussian(0.5, 1e-6))
    assert wall.remaining.epsilon == 2
    assert not np.array_equal(one.value, two.value)
    assert one.n == 50
    assert two.certificate.events[0]["query"]["type"] == "BoundedSum"
    with pytest.raises(tacit.LedgerError, match="different question"):
        wall.release(query.at(STATE * 2), tacit.Laplace(0.5), name="mine")


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20),
    st.integers(-2, 2),
    st.booleans(),
)
def test_norms_are_compared_exactly_in_integers(steps, nudge, by_l1):
    """The check that rounding never has to fail: right at, above and below the very bound."""
    size = sum(map(abs, steps)) if by_l1 else math.isqrt(sum(s * s for s in steps))
    most = min(max(size + nudge, 0), 2**30)
    expected = size <= most if by_l1 else sum(s * s for s in steps) <= most**2
    assert _clip._fits(np.array(steps, np.int32), most, by_l1) == expected


# Some words of a vocabulary


def in_place(words, weights, state, out):
    for i in range(words.size):
        out[i, 0] = weights[i]
        out[i, 1] = words[i]


def chosen(places, rows=5, clip=1e6):
    return tacit.BoundedSum(
        tacit.SparseMap(in_place, width=2, some=True), "words", size=(rows, 2), clip=clip,
        geometry="nonnegative", state=(np.asarray(places),),
    )  # fmt: skip


@pytest.mark.parametrize("owners", [None, np.arange(60) // 2])
def test_words_that_are_left_out_add_nothing_and_others_have_their_places(owners):
    places = np.full(40, -1)
    places[[3, 9, 20, 30, 39]] = [4, 0, 2, 1, 3]
    described = token_schema("author", 2) if owners is not None else token_schema()
    matrix = documents(60)
    source = tacit.Public(matrix, described, units=owners)
    found = source.release(chosen(places), tacit.Exact()).value.reshape(5, 2)
    counts = matrix.toarray()
    expected = counts[:, [9, 30, 20, 39, 3]].sum(axis=0)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-3)
    seen = (counts[:, [9, 30, 20, 39, 3]] > 0).sum(axis=0)
    np.testing.assert_allclose(found[:, 1], np.arange(5) * seen, atol=1e-3)


@pytest.mark.parametrize(
    "places",
    [
        np.zeros(40, int),  # two words at one place would add up to more than the clip
        np.full(40, 5),
        np.full(40, -2),
        np.arange(39),
        np.arange(40.0),
        np.zeros((40, 1), int),
    ],
)
def test_places_outside_the_sum_or_taken_twice_are_refused(places):
    public = tacit.Public(documents(10), token_schema())
    with pytest.raises(tacit.QueryError, match="none but -1 twice"):
        public.release(chosen(places), tacit.Exact())
    good = np.where(np.arange(40) < 5, np.arange(40), -1)
    lease = public.prepay(tacit.Plan(tacit.Steps(2, tacit.Exact(), numbers=10), delta=1e-6))
    lease.release(chosen(good))
    with pytest.raises(tacit.QueryError, match="none but -1 twice"):
        lease.release(chosen(places))


def short(words, weights, state, out):
    top = np.zeros(8)
    top += weights
    out[0, 0] = top[7]


def short_output(words, weights, state, out):
    top = np.zeros(8)
    np.sqrt(weights, top)
    out[0, 0] = top[7]


def short_named_output(words, weights, state, out):
    top = np.zeros(8)
    np.multiply(weights, weights, out=top)
    out[0, 0] = top[7]


def far(words, weights, state, out):
    out[0, 0] = np.take_along_axis(weights, np.array([7]), 0)[0]


def remainders(words, weights, state, out):
    out[0, 0] = (weights.astype(np.int64) % np.full(weights.size, -1))[0]


def remainder_function(words, weights, state, out):
    out[0, 0] = np.mod(weights.astype(np.int64), np.full(weights.size, -1))[0]


def helped(words, weights, state, out):
    short(words, weights, state, out)


def rounded_output(words, weights, state, out):
    top = np.zeros(8)
    np.round(weights, 2, top)
    out[0, 0] = top[0]


def taken(words, weights, state, out):
    out[0, 0] = np.take(weights, np.full(1, 7), axis=0)[0]


def deleted(words, weights, state, out):
    out[0, 0] = np.delete(weights, np.full(1, 10**12))[0]


def reshaped(words, weights, state, out):
    out[0, 0] = np.zeros(0).reshape(2**32, 2**32)[5, 5]


def unset(words, weights, state, out):
    if weights[0] < 5:
        kept = [w for w in words]  # noqa: C416
    elif weights[0] > 1e6:
        kept = [words[0]]
    for word in kept:
        out[0, 0] += word


UNCHECKED = [
    taken, deleted, reshaped, unset,
    short, short_output, short_named_output, far, remainders, remainder_function, helped,
    rounded_output,
]  # fmt: skip


@pytest.mark.parametrize("function", UNCHECKED, ids=lambda f: f.__name__)
def test_what_numba_does_not_check_is_refused_before_any_charge(function):
    query = tacit.BoundedSum(
        tacit.SparseMap(function, width=1), "words", size=(40, 1), clip=1.0, geometry="nonnegative"
    )
    home = tacit.Wall(
        csr_matrix(np.ones((5, 40))),
        token_schema(),
        budget=tacit.Budget(9, 1e-5),
        ledger=":memory:",
    )
    with pytest.raises(tacit.QueryError, match=r"A map may not .*\nNothing was charged"):
        home.release(query, tacit.Gaussian(1, 1e-6))
    assert home.remaining.epsilon == 9


def halved(words, weights, state, out):
    scaled = weights.copy()
    scaled /= 2
    out[:, 0] = np.sqrt(scaled) * (int(words[0]) % 7)


def test_arrays_and_numbers_may_still_be_combined_in_place():
    query = tacit.BoundedSum(
        tacit.SparseMap(halved, width=1), "words", size=(40, 1), clip=1.0, geometry="nonnegative"
    )
    public = tacit.Public(csr_matrix(np.eye(5, 40)), token_schema())
    assert public.release(query, tacit.Exact()).value.shape == (40,)


@pytest.mark.parametrize("name", ["BOUNDSCHECK", "DISABLE_JIT"])
def test_numba_must_check(monkeypatch, name):
    monkeypatch.setattr(numba.config, name, 0 if name == "BOUNDSCHECK" else 1)
    with pytest.raises(tacit.QueryError, match="not to be set"):
        _guard.guarded(lambda row, state, out: None)


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
    with pytest.raises(tacit.SourceError, match="tocsr"):
        tacit.Public(csr_matrix(np.eye(6, 40)).tolil(), token_schema())
