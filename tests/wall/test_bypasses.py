"""Ways around the wall that were found once: each is refused before anything is charged.

Every one of them was accepted, and made a release tell another unit's number, add more than its
bound or end the process.
"""

import math
import os
import signal
from collections import namedtuple

import numba
import numpy as np
import pytest
from numba.extending import overload, overload_method
from scipy.sparse import csr_matrix

import tacit
from tacit.wall.data._rows import Rows
from tacit.wall.sums._sums import resolve_sum

SCHEMA = tacit.Schema(
    tacit.Real("x", -100, 100), tacit.Real("y", -100, 100), neighbours="add_remove"
)


def wall():
    data = {"x": [50.0, 60.0, 3.0], "y": [77.0, 0.0, 4.0]}
    return tacit.Wall(data, SCHEMA, budget=tacit.Budget(9, 1e-5), ledger=":memory:")


def asked(map_, **options):
    return tacit.BoundedSum(map_, ("x", "y"), **{"size": 1, "clip": 1e6, **options})


def exact(query, rows):
    """The sum before noise."""
    resolved, data = resolve_sum(query, SCHEMA), np.array(rows, float)
    noise, n = resolved.exact(), len(rows)
    units = Rows(data, np.ones(n, bool), np.arange(n + 1))
    return resolved.sum(units, np.arange(n), noise) * noise[0].grid


def axis_twice(row, state, out):
    out[0] = row[:, None].transpose((0, -2))[1, 1]


def axis_twice_in_a_function(row, state, out):
    out[0] = np.transpose(row[:, None], (0, -2))[1, 1]


def module_behind_numpy(row, state, out):
    np._core._internal.ctypes.memmove(state.ctypes, row.ctypes, 16)


def operator_behind_numpy(row, state, out):
    a, b = np.zeros(6), np.arange(10.0)[:2]
    np._core.numeric.operator.iadd(a, b)
    out[0] = a[5]


def address(row, state, out):
    out[0] = row.ctypes.data % 1000


def iterator_never_made(row, state, out):
    if row[0] != 99.5:
        it = iter(row)
    out[0] = next(it)


def pairs_never_made(row, state, out):
    if row[0] != 99.5:
        both = zip(row, row)
    for a, b in both:
        out[0] += a * b


def number_never_set(row, state, out):
    if row[0] > 5:
        kept = row[1]
    out[0] = kept


def long_text(row, state, out):
    out[0] = len("a" * int(row[0]))


class Told(int):
    """A number's type, of someone's own."""


@overload(Told)
def _told(x):
    return lambda x: x


@overload_method(numba.types.Array, "told")
def _array_told(array):
    return lambda array: array[0]


def number_of_ones_own(row, state, out):
    out[0] = Told(row[0])


def method_of_ones_own(row, state, out):
    out[0] = row.told()


def name_among_builtins(row, state, out):
    out[0] = tacit_told(row)  # noqa: F821


def function_put_into_numpy(row, state, out):
    out[0] = np.tacit_told(row)


NUMBA = [
    axis_twice, axis_twice_in_a_function, module_behind_numpy, operator_behind_numpy, address,
    iterator_never_made, pairs_never_made, number_never_set, long_text, number_of_ones_own,
    method_of_ones_own, name_among_builtins, function_put_into_numpy,
]  # fmt: skip


@pytest.mark.parametrize("function", NUMBA, ids=lambda f: f.__name__)
def test_maps_in_numba(function, monkeypatch):
    unchecked = numba.njit(boundscheck=False)(lambda array: array[5])
    monkeypatch.setattr(np, "tacit_told", unchecked, raising=False)
    monkeypatch.setattr("builtins.tacit_told", unchecked, raising=False)
    home = wall()
    query = asked(tacit.NumbaMap(function), state=np.zeros(2))
    with pytest.raises(tacit.QueryError, match="A map may"):
        home.release(query, tacit.Gaussian(1, 1e-6))
    assert home.remaining.epsilon == 9


def plain(row, state, out):
    """What people write."""
    best, total = -np.inf, 0.0
    for i, x in enumerate(row):
        for a, b in zip(row, row.T):
            total += a * b
        best = max(best, x) if x > 0 else best
        total += i * math_of(x)
    tail = (row - row.mean()).copy()
    out[0] = total + (best if best > 0 else 0) + tail.sum() + len(row) + np.float32(state.a[0])


def math_of(x):
    return abs(x) ** 0.5


def test_what_people_write_is_still_allowed():
    state = namedtuple("State", "a")(np.ones(1))
    found = exact(asked(tacit.NumbaMap(plain), state=state), [[4.0, 1.0]])
    assert found == pytest.approx(34 + 1 + 4 + 2 + 1, abs=1e-3)  # 2 (16 + 1), 1 * 1, 4, len, 1


def remembers(row, state, out):
    if row[0] == 50.0:
        state.a[0] = row[1]
    out[0] = state.a[0]


def test_a_kind_of_tuple_of_ones_own_keeps_nothing():
    """Its constructor put an array into the state that could be written to."""
    theirs, base = np.zeros(2), namedtuple("Base", "a")

    class Mine(base):
        def __new__(cls, *parts):
            return base.__new__(cls, theirs)

    with pytest.raises(tacit.QueryError):
        exact(asked(tacit.NumbaMap(remembers), state=Mine(theirs)), [[50.0, 7.0], [3.0, 4.0]])


def far(row, state, out):
    if row[0] == 60.0:
        out[0] = row[2]


def test_checks_of_indices_cannot_be_turned_off_for_another_kind_of_state(monkeypatch):
    map_ = tacit.NumbaMap(far)
    assert exact(asked(map_, state=np.zeros(4)), [[60.0, 0.0]]) == 0
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 0)
    with pytest.raises(tacit.QueryError, match="BOUNDSCHECK"):
        exact(asked(map_, state=np.zeros(4, np.float32)), [[60.0, 0.0]])


def test_a_map_in_sql_never_meets_the_rows():
    met = []

    def curious(row):
        met.append(row.count().execute())
        return row.x

    home = wall()
    with pytest.raises(tacit.QueryError, match="expressions of a row"):
        home.release(asked(tacit.SqlMap(curious)), tacit.Laplace(1))
    calls = []
    query = asked(tacit.SqlMap(lambda row: calls.append(1) or row.x + 2 * row.y))
    public = tacit.Public({"x": [1.0, 2.0], "y": [3.0, 4.0]}, SCHEMA)
    assert public.release(query, tacit.Exact()).value == pytest.approx(17)
    assert met == []
    assert calls == [1]


def test_batching_rules_and_operations_of_ones_own_in_jax():
    jax = pytest.importorskip("jax")
    from jax.custom_batching import custom_vmap
    from jax.extend.core import Primitive

    @custom_vmap
    def company(row):
        return row

    @company.def_vmap
    def _rule(size, batched, rows):
        return rows + rows.max(), True

    gentle = Primitive("add")
    gentle.def_abstract_eval(lambda x: x)
    home = wall()
    for function in (
        lambda row, state: company(row)[:1],
        lambda row, state: gentle.bind(row)[:1],
        lambda row, state: row[:1] + jax.lax.rng_uniform(0.0, 1.0, (1,)),
    ):
        with pytest.raises(tacit.QueryError, match="A map may not call back"):
            home.release(asked(tacit.JaxMap(function)), tacit.Gaussian(1, 1e-6))
    assert home.remaining.epsilon == 9


def test_a_state_of_ones_own_kind_in_jax_is_taken_apart_once():
    """It was asked for its numbers again at every chunk, and could give others."""
    jax = pytest.importorskip("jax")
    calls = []

    class State:
        def __init__(self, x):
            self.x = x

    def flat(state):
        if isinstance(state.x, float):
            calls.append(1)
            return (np.float32(-1.0 if len(calls) % 2 else 1.0),), None
        return (state.x,), None

    jax.tree_util.register_pytree_node(State, flat, lambda _, parts: State(parts[0]))
    map_ = tacit.JaxMap(lambda row, state: row[:1] * state.x)
    rows = np.ones((1024, 2))
    found = exact(asked(map_, state=State(1.0), clip=1.0), rows)
    assert abs(found[0]) == 1024
    array = np.ones(1, np.float32)
    resolved = resolve_sum(asked(map_, state=State(array), clip=1.0), SCHEMA)
    array[0] = -1  # after it was asked
    noise, units = resolved.exact(), Rows(rows, np.ones(1024, bool), np.arange(1025))
    assert resolved.sum(units, np.arange(1024), noise) * noise[0].grid == 1024


def first(row, state, out):
    out[0] = row[0]


class Loud(tacit.Bound):
    """Says that its noise may be small."""

    @property
    def unit_norm(self):
        return 1e-6


class Cheap(tacit.Gaussian):
    """Costs little, and has less noise than it said."""


class Few(tacit.BoundedSum):
    """Says that it is one number."""

    numbers = 1


def test_kinds_of_ones_own_are_refused_whatever_they_say():
    home, map_ = wall(), tacit.NumbaMap(first)
    loud = tacit.BoundedSum(map_, ("x", "y"), blocks={"a": Loud(1, 10.0)})
    query = asked(map_, clip=10.0)
    few = Few(map_, ("x", "y"), size=3, clip=10.0)
    for call in (
        lambda: home.release(loud, tacit.Gaussian(1, 1e-6)),
        lambda: home.release(query, Cheap(1, 1e-6)),
        lambda: home.quote(few, tacit.Gaussian(1, 1e-6)),
        lambda: home.prepay(tacit.Plan(tacit.Steps(3, Cheap(noise_multiplier=9.0)), delta=1e-6)),
    ):
        with pytest.raises(tacit.QueryError, match="Tacit's own"):
            call()
    assert home.remaining.epsilon == 9
    steps = tacit.Steps(3, tacit.Gaussian(noise_multiplier=9.0))
    lease = home.prepay(tacit.Plan(steps, delta=1e-6))
    for other in (few, loud):
        with pytest.raises(tacit.QueryError, match="Tacit's own"):
            lease.release(other)
    assert lease.steps_left == 3


def test_what_was_asked_cannot_be_changed_afterwards():
    plan = tacit.Plan(tacit.Steps(3, tacit.Gaussian(noise_multiplier=4.0)), delta=1e-6)
    lease = wall().prepay(plan)
    query = asked(tacit.NumbaMap(first), clip=1.0)
    object.__setattr__(plan.steps[0].mechanism, "noise_multiplier", 1e-9)
    before = lease.release(query)
    object.__setattr__(query.blocks[0][1], "clip", 1e9)
    after = lease.release(query)
    assert after.query.bounds[0].clip == before.query.bounds[0].clip == 1
    assert after.noise == before.noise
    assert before.noise[0].scale == pytest.approx(4, rel=1e-3)


def test_what_comes_out_cannot_change_what_stays():
    """A plan, a schema and a release are copies: nothing but what was paid for is answered."""
    home = wall()
    lease = home.prepay(
        tacit.Plan(tacit.Steps(3, tacit.Gaussian(noise_multiplier=4.0)), delta=1e-6)
    )
    query = asked(tacit.NumbaMap(first), clip=1.0)
    before = lease.release(query)
    object.__setattr__(lease.plan.steps[0].mechanism, "noise_multiplier", 1e-3)
    object.__setattr__(lease.plan.steps[0], "count", 10**6)
    object.__setattr__(before.noise[0], "scale", 1e-9)
    object.__setattr__(before.query.blocks[0][1], "clip", 1e9)
    object.__setattr__(before.schema, "neighbours", "replace_one")
    object.__setattr__(home.schema, "neighbours", "replace_one")
    assert lease.steps_left == 2
    again = asked(tacit.NumbaMap(first), clip=1.0)
    for other in (query, again):
        after = lease.release(other)
        assert after.n is None
        assert 1e-6 < abs(after.value[0] - 3) < 100  # once in 5e6 by chance, at a noise of 4
    release = home.release(query, tacit.Gaussian(1, 1e-6))
    quoted = home.quote(query, tacit.Gaussian(1, 1e-6))
    scale = release.noise[0].scale
    for noise in (release.noise, quoted.noise):
        object.__setattr__(noise[0], "scale", 1e-9)
    assert home.quote(query, tacit.Gaussian(1, 1e-6)).noise[0].scale == scale
    assert home.release(query, tacit.Gaussian(1, 1e-6)).noise[0].scale == scale


class Sometimes:
    """Says one thing when places are checked, and another when they are used."""

    calls = 0

    def __bool__(self):
        self.calls += 1
        return self.calls != 2


def count_words(words, weights, state, out):
    for i in range(words.size):
        out[i, 0] = 1.0


def test_whether_words_are_left_out_is_said_once():
    with pytest.raises(tacit.QueryError, match="True or False"):
        tacit.SparseMap(count_words, width=1, some=Sometimes())
    map_ = tacit.SparseMap(count_words, width=1, some=True)
    object.__setattr__(map_, "some", Sometimes())
    schema = tacit.Schema(
        tacit.Tokens("words", [f"w{i}" for i in range(9)], 50), neighbours="add_remove"
    )
    home = tacit.Wall(
        csr_matrix(np.ones((1, 9))), schema, budget=tacit.Budget(9, 1e-5), ledger=":memory:"
    )
    query = tacit.BoundedSum(
        map_, "words", size=(9, 1), clip=1.0, geometry="nonnegative", state=(np.zeros(9, int),)
    )
    with pytest.raises(tacit.QueryError, match="Tacit's own"):
        home.release(query, tacit.Gaussian(5, 1e-6))
    assert home.remaining.epsilon == 9


class Rate(float):
    """Is one number when it is compared and another when it is kept."""

    def __float__(self):
        return -1.0


def test_a_rate_is_the_one_that_was_checked():
    with pytest.raises(tacit.BudgetError, match="sampling rate"):
        tacit.Poisson(Rate(0.5))
    rate = tacit.Poisson(0.5)
    object.__setattr__(rate, "rate", 7.0)
    steps = tacit.Steps(3, tacit.Gaussian(noise_multiplier=4.0), rate)
    home = wall()
    with pytest.raises(tacit.BudgetError, match="sampling rate"):
        home.prepay(tacit.Plan(steps, delta=1e-6))
    assert home.remaining.epsilon == 9


def output_of_outer(row, state, out):
    found = np.zeros((1, 9))
    np.outer(np.ones(1), np.zeros(2), found)
    out[0] = found[0, 8]


def stride_of_data(row, state, out):
    for i in range(0, int(row[0]), int(row[1])):
        out[0] += i


def place_before_the_first(row, state, out):
    out[0] = np.bincount(np.array((int(row[0]), 3)), np.ones(2))[0]


def more_than_there_is(row, state, out):
    out[0] = np.repeat(row, int(row[0])).size


def as_many_as_no_number_says(row, state, out):
    out[0] = np.arange(0.0, row[0], 1e-300).size


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (output_of_outer, "output"),
        (stride_of_data, "stride"),
        (place_before_the_first, "bincount"),
        (more_than_there_is, "repeat"),
        (as_many_as_no_number_says, "arange"),
    ],
)
def test_siblings_of_what_was_found(function, match):
    home = wall()
    with pytest.raises(tacit.QueryError, match=match):
        home.release(asked(tacit.NumbaMap(function)), tacit.Gaussian(1, 1e-6))
    assert home.remaining.epsilon == 9


def by_twos(row, state, out):
    for i in range(0, 10, 2):
        out[0] += i
    for i in range(3, -1, -1):
        out[0] += i


def test_strides_that_are_written_out_are_fine():
    assert exact(asked(tacit.NumbaMap(by_twos)), [[0.0, 0.0]])[0] == 20 + 6


def gcd(row, state, out):
    out[0] = math.gcd(6, 9)


def test_a_name_of_ones_own_is_no_attribute():
    assert exact(asked(tacit.NumbaMap(gcd)), [[0.0, 0.0]])[0] == 3


class LikeAFloat(type):
    """Of which each kind says that it is a float."""

    def __hash__(cls):
        return hash(float)

    def __eq__(cls, other):
        return other is cls or other is float


class Quiet(tacit.Bound, metaclass=LikeAFloat):
    unit_norm = 1e-3


class Told(metaclass=LikeAFloat):
    pass


@overload(Told)
def _told(x):
    return lambda x: x


def say(row, state, out):
    out[0] = Told(row[0])


class Box(str):
    """A text that equals another only for some who ask."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __str__(self):
        return self

    def __eq__(self, other):
        return False


class Other(np.float64):
    """A number that is something else when it is taken for a plain one."""

    def item(self):
        return tacit.Bound(1, 1000.0)


def test_nothing_is_asked_whether_it_equals_something():
    home, map_ = wall(), tacit.NumbaMap(first)
    quiet = tacit.BoundedSum(map_, ("x", "y"), blocks={"a": Quiet(1, 10.0)})
    other = asked(map_, clip=10.0)
    object.__setattr__(other, "blocks", (("a", Other(1.0)),))
    for query in (quiet, other, asked(tacit.NumbaMap(say))):
        with pytest.raises((tacit.QueryError, AttributeError)):
            home.release(query, tacit.Gaussian(1, 1e-6))
    assert home.remaining.epsilon == 9
    box = asked(map_, size=100, clip=10.0, geometry="box")
    honest = home.quote(box, tacit.Gaussian(1, 1e-6)).noise
    object.__setattr__(box.blocks[0][1], "geometry", Box("box"))
    assert home.quote(box, tacit.Gaussian(1, 1e-6)).noise == honest


APART = np.ones(4)[::2]


def times_apart(row, state, out):
    out[0] = APART[0]


def test_arrays_of_a_map_are_its_own():
    query = asked(tacit.NumbaMap(times_apart))
    resolved = resolve_sum(query, SCHEMA)
    units = Rows(np.zeros((2, 2)), np.ones(2, bool), np.arange(3))
    noise = resolved.exact()
    APART[0] = -5.0
    try:
        assert resolved.sum(units, np.arange(2), noise) * noise[0].grid == 2
    finally:
        APART[0] = 1.0


class Forks:
    """A state that is taken apart in two processes."""

    child = None

    def __array__(self, dtype=None, copy=None):
        if self.child is None:
            self.child = os.fork()
        return np.zeros(1)


def test_a_step_is_answered_in_one_process():
    lease = wall().prepay(
        tacit.Plan(tacit.Steps(2, tacit.Gaussian(noise_multiplier=4.0)), delta=1e-6)
    )
    query, state, parent = asked(tacit.NumbaMap(first), state=np.zeros(1)), Forks(), os.getpid()
    lease.release(query)
    object.__setattr__(query, "state", state)
    try:
        lease.release(query)
        answered = True
    except tacit.BudgetError:
        answered = False
    finally:
        if os.getpid() != parent:  # whatever happened: no second run of the tests
            os._exit(int(answered))
    assert answered
    assert os.waitstatus_to_exitcode(os.waitpid(state.child, 0)[1]) == 0


@pytest.mark.parametrize("ask", ["release", "prepay"])
def test_a_charge_is_answered_in_one_process(ask):
    """A signal may fork between the charge and the answer."""
    home, parent, children = wall(), os.getpid(), []
    charge = home._ledger.charge

    def forking(*given):
        found = charge(*given)
        children.append(os.fork())
        if os.getpid() != parent:
            signal.alarm(30)  # should it go on, and wait for what the fork has not got
        return found

    home._ledger.charge = forking
    plan = tacit.Plan(tacit.Steps(2, tacit.Gaussian(noise_multiplier=4.0)), delta=1e-6)
    query = asked(tacit.NumbaMap(first))
    answered = True
    try:
        if ask == "release":
            home.release(query, tacit.Gaussian(1, 1e-6))
        else:
            home.prepay(plan)
    except tacit.BudgetError:
        answered = False
    finally:
        if os.getpid() != parent:
            os._exit(int(answered))
    assert answered
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
