"""Programs over rows in chunks: shapes by public sizes alone, and a row alike at every place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.sources.data import open_data
from tacit.sources.loaded import Loaded
from tacit.wall.steps import programs, sums
from tacit.wall.steps.sums import resolve_sum
from tests.wall.steps.test_sums import dense, schema, table


def sums_of(query, described, n, parts):
    """The sum over each of some lists of units, of n rows of a table."""
    resolved = resolve_sum(query, described)
    held = Loaded(open_data(table(n), described), described).rows(query.columns)
    return [resolved.sum(held, units, resolved.exact()) for units in parts]


@pytest.fixture
def shapes(monkeypatch):
    """The lengths of chunks that are given to XLA."""
    used = []

    class Recording:
        def __init__(self, compiled):
            self._compiled = compiled

        def __getattr__(self, name):
            return getattr(self._compiled, name)

        def run(self, rows, state):
            used.append(len(rows))
            return self._compiled.run(rows, state)

    started = sums.started
    monkeypatch.setattr(sums, "started", lambda c, *a, **k: started(Recording(c), *a, **k))
    return used


@pytest.mark.parametrize(
    ("neighbours", "chunks"), [("replace_one", {512, 2048}), ("add_remove", {512})]
)
def test_longer_chunks_are_for_batches_of_public_size(neighbours, chunks, shapes, monkeypatch):
    """Under add_remove the size is secret: a unit more must not change how the others are added."""
    monkeypatch.setattr(sums, "MANY", 300)
    parts = np.arange(400), np.arange(250), np.arange(250, 400)
    total, *rest = sums_of(dense(), schema(neighbours=neighbours), 400, parts)
    assert set(shapes) == chunks
    np.testing.assert_array_equal(total, sum(rest))


def test_a_chunk_is_as_long_for_one_row_as_for_all(shapes):
    sums_of(dense(), schema(neighbours="add_remove"), 1300, [[0], np.arange(700), np.arange(1300)])
    assert set(shapes) == {512}


def test_a_wide_program_has_shorter_chunks():
    """By the numbers that it computes for a row, which are public."""
    wide = tacit.queries.trace(lambda row, state: jnp.tile(row, 40_000), 3, None)
    narrow = programs.compiled(dense().kernel)
    assert (programs.compiled(wide).chunk, narrow.chunk, narrow.wide) == (32, 512, 2048)


def failing(*given):
    raise RuntimeError("out of memory")


@pytest.mark.parametrize("trial", [lambda *given: False, failing])
def test_chunks_stay_short_where_longer_ones_fail(trial, monkeypatch):
    """They are tried when they are needed, which is too late to refuse: budget may be spent."""
    lengths, alike = [], programs._alike
    monkeypatch.setattr(
        programs, "_alike", lambda *given: lengths.append(given[2]) or alike(*given)
    )
    made = programs.compiled.__wrapped__(dense().kernel)
    assert lengths == [512]
    monkeypatch.setattr(programs, "_alike", trial)
    assert made.wide == 512


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
    query = tacit.queries.BoundedSum(newton_rounds, list("abc"), size=1, clip=10.0)
    quiet = np.tile([50.65386199951172, 23.544279098510742, 29.58138084411621], (250, 1))
    busy = quiet.copy()
    busy[0] = np.random.default_rng(0).normal(size=(256, 3))[4].astype(np.float32) * 30
    sums = [
        tacit.Public(dict(zip("abc", rows.T)), described).release(query, tacit.Exact()).value[0]
        for rows in (quiet, busy)
    ]
    assert abs(sums[1] - sums[0]) <= 20


PLAIN = tacit.queries.trace(lambda row, state: row[:1] * 2, 3, None)


@pytest.mark.parametrize(
    "broken",
    [
        lambda rows, state: np.arange(len(rows), dtype=np.float32)[:, None] + rows[:, :1],
        lambda rows, state: rows[:, :1] + rows.max(),
        lambda rows, state: np.where(np.isfinite(rows).all(), rows[:, :1], 0),
        lambda rows, state: np.where(np.abs(rows).max() < 1e5, rows[:, :1], 0),
    ],
)
def test_a_position_or_company_that_matters_is_noticed(broken):
    """The broken twins of what XLA should do."""
    assert not programs._alike(PLAIN, broken, 256)


def test_a_row_that_stands_for_itself_passes():
    assert programs._alike(PLAIN, lambda rows, state: rows[:, :1] * 2, 256)


def test_what_matters_at_some_states_only_is_noticed():
    program = tacit.queries.trace(lambda row, state: row[:1] * state, 3, np.float32(0))

    def broken(rows, state):
        return rows[:, :1] + (rows.max() if state[0] else 0)

    zeros = programs._states(program)[0]
    rows = np.sin(np.arange(768, dtype=np.float32)).reshape(256, 3)
    assert programs._alike_at(broken, rows, zeros)
    assert not programs._alike(program, broken, 256)


@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_debug_infs"])
def test_searches_for_nan_are_refused_before_any_charge(setting):
    """They would say of a row that it has one."""
    wall = tacit.Wall(table(5), schema(), budget=tacit.Budget(1), ledger=":memory:")
    jax.config.update(setting, True)
    try:
        with pytest.raises(tacit.errors.QueryError, match="look at rows"):
            wall.release(dense(), tacit.Laplace(0.5))
    finally:
        jax.config.update(setting, False)
    assert wall.remaining.epsilon == 1
    wall.release(dense(), tacit.Laplace(0.5))


def test_a_program_is_compiled_once_for_all_its_states_and_bounds():
    before = programs.compiled(dense().kernel)
    again = tacit.queries.Program.from_dict(dense().kernel.to_dict())
    assert programs.compiled(again) is before
    assert programs.compiled(dense(clip=7.0, state=np.ones(3)).kernel) is before


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("loops", [False, True])
def test_narrow_indices_stay_within_their_row(kind, loops):
    """XLA merged a row's index of 8 bits with the loop's over rows, which came to other rows."""
    jax = pytest.importorskip("jax")

    def of_row(row, _):
        start = row[0].astype(kind)
        found = jax.lax.dynamic_slice(row, (start,), (1,))
        if loops:
            found = jax.lax.while_loop(lambda x: x[0] < -5, lambda x: x + 1, found)
        return found + row[start]

    program = tacit.queries.trace(of_row, 3, None)
    compiled = programs.compiled(program)
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 3, 512), rng.random((512, 2))]).astype(np.float32)
    found = np.asarray(compiled.run(rows, ()))[:, 0]
    np.testing.assert_array_equal(found, 2 * rows[np.arange(512), rows[:, 0].astype(int)])
