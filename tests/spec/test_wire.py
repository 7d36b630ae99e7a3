"""Questions and answers as text: they come back as they were, and anything else is refused."""

import base64
import copy
import json
import random
import time
from decimal import Decimal

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit import queries
from tacit.spec.density import Points
from tacit.spec.errors import TacitError
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.latent_tables import LatentTables
from tacit.spec.mechanisms import MECHANISMS, mechanism_from_dict, mechanism_to_dict
from tacit.spec.queries import QUERIES, query_from_dict
from tacit.spec.sums import Bound
from tacit.spec.wire import described, digest, from_json, to_json
from tacit.wall.answers import TIERS, Answers

SCHEMA = tacit.Schema(
    tacit.Real("x", -1, 1),
    tacit.Integer("z", 0, 9),
    tacit.Categorical("ill", ["no", "yes"]),
    tacit.Categorical("ward", ["a", "b", "c"]),
    neighbours="replace_one",
)
PANEL = Panel("ward", "z", ("ill",))
PROGRAM = queries.trace(lambda row, theta: jnp.tanh(row[0] * theta[0])[None], 1, np.zeros(1))
PRIOR = queries.trace(lambda theta, _: -jnp.abs(theta[0]), 1, None)

# One of every kind, and of every kind of its parts


def votes(clip=1.0, table=None):
    state = np.eye(3) if table is None else table, np.array([0])
    kernel = queries.Kernel("table.scores")
    return queries.BoundedSum(kernel, "ward", size=3, clip=clip, geometry="box", state=state)


def several(theta):
    kernel = queries.Kernel("columns.values")
    blocks = {"one": Bound(1, 2.0, "l1"), "two": Bound((1, 1), 0.5, geometry="nonnegative")}
    state = np.array([0.0, theta]), np.array([1.0, -theta])
    return queries.BoundedSum(kernel, ["x", "z"], blocks=blocks, state=state)


NUMBER = st.floats(-1e3, 1e3, allow_nan=False)
POSITIVE = st.floats(1e-3, 1e3)
KEY = st.sampled_from(["ill", "ward", queries.Is("ward", ("a", "c")), queries.Is("z", (1, 2))])
DIRICHLET = st.builds(
    queries.TruncatedDirichlet, KEY, st.tuples(POSITIVE, POSITIVE), st.floats(1e-3, 0.4)
)
TABLES = st.builds(
    queries.TruncatedTables,
    st.sampled_from([(("ward",),), (("ward",), ("ward", "ill"))]),
    POSITIVE,
    st.floats(1e-3, 0.4),
)
NORMAL = st.builds(
    queries.BoundedNormal, st.just("x"), POSITIVE, st.tuples(NUMBER, POSITIVE), NUMBER,
    st.just(2e3),
) | st.just(queries.BoundedNormal("x", 1.0, (0.0, 1.0), -np.inf, np.inf))  # fmt: skip
RATE = st.builds(
    queries.BoundedRate,
    st.just("x"),
    st.sampled_from(["poisson", "exponential"]),
    st.tuples(POSITIVE, POSITIVE),
    POSITIVE,
    st.just(2e3),
)
MEAN_SD = st.builds(
    queries.BoundedMeanSd,
    st.just("x"),
    st.tuples(NUMBER, POSITIVE, POSITIVE, POSITIVE),
    st.tuples(st.floats(-5, 0), st.floats(1, 5)),
    st.tuples(st.floats(0.1, 1), st.floats(2, 5)),
)
BALL = st.builds(
    queries.BallRegression,
    st.just("x"),
    st.just(("z", "ill")),
    st.floats(0.5, 9),
    POSITIVE,
    POSITIVE,
)
LAW = st.builds(
    queries.Logistic,
    st.just("ill"),
    st.sampled_from([("x",), ("x", "ward")]),
    st.floats(0.1, 9),
)
QUERY = {
    "Counts": st.builds(
        queries.Counts,
        st.sampled_from(["ill", ("ill", "z"), (("ill", "z"), "z"), (queries.Is("z", (0, 2)),)]),
        st.sampled_from([(), ("ward",)]),
    ),
    "Moments": st.builds(
        queries.Moments,
        st.sampled_from([("x",), ("x", "z", "ill")]),
        st.sampled_from([1, 2]),
        st.none() | st.tuples(POSITIVE, POSITIVE, POSITIVE),
        st.booleans(),
    ),
    "BoundedSum": st.builds(votes, POSITIVE)
    | st.builds(several, NUMBER)
    | NUMBER.map(lambda t: queries.BoundedSum(PROGRAM, "x", size=1, clip=1, state=np.array([t]))),
    "ConjugateDraw": st.builds(
        queries.ConjugateDraw,
        DIRICHLET | TABLES | NORMAL | RATE | MEAN_SD | BALL,
        st.integers(1, 1000),
        st.booleans(),
    ),
    "LogisticDraw": st.builds(queries.LogisticDraw, LAW, st.integers(1, 9), st.booleans()),
    "LogisticMinimum": st.builds(
        queries.LogisticMinimum, LAW, st.sampled_from(["objective", "output"]), st.none() | POSITIVE
    ),
    "Choice": st.builds(
        queries.Choice, st.builds(votes), st.none() | st.tuples(NUMBER, NUMBER, NUMBER)
    ),
    "DensityDraw": st.builds(
        lambda region, width, draws, prior, steered: queries.DensityDraw(
            PROGRAM, "x", region, width=width, draws=draws,
            prior=None if isinstance(region, Points) else prior,
            gradient=queries.BoundedSum(PROGRAM, "x", size=1, clip=1, state=np.zeros(1))
            if steered else None,
        ),
        st.sampled_from(
            [
                queries.Points([0.0, 0.5], [0.0, 1.0]),
                queries.Points([[1.0]]),
                queries.Box((-1,), (2,)),
                queries.Ball(1, 3.0),
            ]
        ),
        POSITIVE,
        st.integers(1, 20),
        st.sampled_from([None, 2.0, PRIOR]),
        st.booleans(),
    ),
    "StatePaths": st.builds(
        lambda p: StatePaths(PANEL, [p, 1 - p], [[p, 1 - p], [0.5, 0.5]], ([[p, 1 - p]] * 2,)),
        st.floats(0.01, 0.99),
    ),
    "StateProfiles": st.builds(
        lambda cells, prior: StateProfiles(PANEL, np.array(cells), 3, prior, 0.1),
        st.lists(st.lists(st.integers(0, 2), min_size=10, max_size=10), min_size=3, max_size=3),
        POSITIVE,
    ),
    "LatentTables": st.builds(
        lambda x, prior: LatentTables(
            ("x",), [0.5, 0.5], (np.array([[x, 1 - x]] * 2),), ("x", "(weights)"), prior, 0.1
        ),
        st.floats(0.01, 0.99),
        POSITIVE,
    ),
    "StateChain": st.builds(
        lambda states, sweeps: StateChain(PANEL, states, truncation=0.2, sweeps=sweeps),
        st.integers(1, 9),
        st.integers(1, 50),
    ),
}  # fmt: skip
DECIMAL = st.decimals("0.0001", "9", places=4)
MECHANISM = {
    "Laplace": st.builds(tacit.Laplace, DECIMAL),
    "Gaussian": st.builds(tacit.Gaussian, DECIMAL, st.sampled_from(["1e-6", "0.01"]))
    | POSITIVE.map(lambda z: tacit.Gaussian(noise_multiplier=z))
    | POSITIVE.map(lambda z: tacit.Gaussian(noise_multiplier=z, delta="1e-5")),
    "Exponential": st.builds(queries.Exponential, DECIMAL, st.sampled_from(["0", "1e-6"])),
    "Exact": st.just(tacit.Exact()),
}
SAMPLING = (
    st.just(tacit.subsampling.Everyone())
    | st.floats(1e-6, 1).map(tacit.subsampling.Poisson)
    | st.integers(1, 10**6).map(lambda n: tacit.subsampling.WithoutReplacement((n + 1) // 2, n))
)
STEPS = st.builds(
    queries.Steps,
    st.integers(1, 1000),
    POSITIVE.map(lambda z: tacit.Gaussian(noise_multiplier=z)),
    SAMPLING,
    st.sampled_from(["free", "nonnegative", "box", "simplex"]),
    st.integers(1, 10**6),
) | st.builds(
    queries.Steps,
    st.integers(1, 9),
    MECHANISM["Laplace"] | st.just(queries.Exponential(1)),
)
PLAN = st.lists(STEPS, min_size=1, max_size=4).map(lambda steps: queries.Plan(*steps, delta="1e-6"))


def test_every_kind_has_a_case():
    assert set(QUERY) == set(QUERIES)
    assert set(MECHANISM) == set(MECHANISMS)


def same(value, to_dict, from_dict):
    """It comes back from its facts and from text, and is recognised by its digest."""
    facts = to_dict(value)
    text = to_json(facts)
    json.loads(text, parse_constant=pytest.fail)  # no NaN or Infinity, which JSON has not
    for given_ in (facts, from_json(text), from_json(text.encode())):
        again = from_dict(given_)
        assert type(again) is type(value)
        assert digest(to_dict(again)) == digest(facts)
        assert to_json(to_dict(again)) == text
    assert digest(from_json(text)) == digest(facts)
    assert json.loads(json.dumps(described(facts))) == described(from_json(text))


def of_dict(value):
    return value.to_dict()


@pytest.mark.parametrize("kind", QUERY)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_queries_come_back(kind, data):
    query = data.draw(QUERY[kind])
    same(query, of_dict, query_from_dict)
    same(query, of_dict, QUERIES[kind].from_dict)


@pytest.mark.parametrize("kind", MECHANISM)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_mechanisms_come_back(kind, data):
    mechanism = data.draw(MECHANISM[kind])
    same(mechanism, mechanism_to_dict, mechanism_from_dict)
    assert mechanism_from_dict(mechanism_to_dict(mechanism)) == mechanism


@settings(deadline=None, max_examples=100)
@given(PLAN)
def test_plans_come_back(plan):
    same(plan, of_dict, tacit.queries.Plan.from_dict)
    assert tacit.queries.Plan.from_dict(from_json(to_json(plan.to_dict()))) == plan


DATA = {"x": [0.1, 0.5], "z": [1, 9], "ill": ["no", "yes"], "ward": ["a", ""]}
RELEASES = {
    "Counts": (queries.Counts(("ill", "ward"), by="z"), tacit.Laplace(1)),
    "Moments": (queries.Moments(("x", "z")), tacit.Gaussian(1, 1e-6)),
    "BoundedSum": (several(0.5), tacit.Gaussian(1, 1e-6)),
    "Choice": (queries.Choice(votes()), queries.Exponential(1)),
    "StateChain": (StateChain(PANEL, 2, truncation=0.2, sweeps=2), queries.Exponential(1)),
}


def release_of(kind):
    home = tacit.Wall(DATA, SCHEMA, budget=tacit.Budget(9, 1e-3), ledger=":memory:")
    return home.release(*RELEASES[kind])


@pytest.mark.parametrize("kind", RELEASES)
def test_releases_come_back(kind):
    release = release_of(kind)
    same(release, of_dict, tacit.Release.from_dict)
    assert tacit.Release.from_json(release.to_json()) == release
    assert release.suggesting({"model": "x"}) != release


# Digests


ARRAYS = [
    np.zeros(0), np.zeros((0, 3)), np.float64(3), np.arange(6), np.arange(6.0), np.arange(6.0)[::2],
    np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.arange(6, dtype=">f8"),
    np.arange(6, dtype=np.float32), np.array([True, False]), np.array([1j]), np.array([-0.0]),
    np.array([0.0]), np.array([np.nan, np.inf]),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_arrays_come_back_bit_for_bit(array):
    again = from_json(to_json({"a": array}))["a"]
    if isinstance(array, np.ndarray):
        assert (again.dtype.newbyteorder("="), again.shape) == (
            array.dtype.newbyteorder("="),
            array.shape,
        )
        assert again.tobytes() == array.astype(again.dtype).tobytes()
    assert digest(again) == digest(array)


def test_different_facts_have_different_digests():
    """Also those whose plain texts, one after the other, are the same."""
    facts = [
        *[a for a in ARRAYS if isinstance(a, np.ndarray) and a.dtype.byteorder != ">"],
        [], {}, None, "", "null", 0, "0", 0.5, True, [1, 2], [12], [[1], 2], [1, [2]], ["1", "2"],
        ["12"], {"1": 2}, [["1", 2]], {"a": {"b": 1}}, {"a": 1, "b": 1}, {"a": [1], "b": 1},
        [np.zeros(2), np.zeros(1)], [np.zeros(1), np.zeros(2)], "a<f8(1,)", [0.0], [[0.0]],
    ]  # fmt: skip
    found = [digest(each) for each in facts]
    for i, one in enumerate(found):
        for j in range(i):
            assert one != found[j], (facts[i], facts[j])
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest((1, 2)) == digest([1, 2])


def fastest(run, times=5):
    took = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return min(took)


def test_a_state_is_digested_by_its_bytes():
    """As a step of a lease does with 400,000 numbers: a ratio, as machines differ."""
    state = np.random.default_rng(0).normal(size=400_000)
    query = queries.BoundedSum(PROGRAM, "x", size=1, clip=1, state=(state,))
    plain = state.tolist()
    as_text = fastest(lambda: json.dumps(plain), 3)
    assert fastest(lambda: digest(query.to_dict())) < as_text / 10


# What others wrote

STRANGE = [
    None, True, False, -1, 0, 1, 2, 1e308, 2**70, -(2**70), 0.5, float("inf"), float("nan"), "",
    "x", "ill", "z" * 300, "\x00", "1e-6", "nan", "Infinity", [], [1], ["x"], [[]], {}, {"a": 1},
    {"type": "Counts"}, {"type": []}, [None] * 3, np.zeros(3), np.zeros(0), np.zeros((2, 2)),
    np.array(1), np.full(1, np.nan), np.array([1j]), np.array([True]), np.arange(3),
]  # fmt: skip


def places(facts, path=()):
    """Where a value can be changed."""
    if path:
        yield path
    if isinstance(facts, dict):
        for name, value in facts.items():
            yield from places(value, (*path, name))
    elif isinstance(facts, list):
        for i, value in enumerate(facts):
            yield from places(value, (*path, i))


def odd(rng):
    return copy.deepcopy(rng.choice(STRANGE))


PROGRAM_PARTS = {"format", "inputs", "constants", "equations", "outputs"}


def mutated(facts, rng):
    """The same facts, with one to three things wrong."""
    facts = from_json(to_json(facts))
    for _ in range(rng.choice([1, 1, 2, 3])):
        found = [path for path in places(facts) if not set(path) & PROGRAM_PARTS]
        if not found:
            return odd(rng)
        path = rng.choice(found)
        inside = facts
        for step in path[:-1]:
            inside = inside[step]
        what = rng.choice(["value", "value", "value", "gone", "more", "twice"])
        if what == "value":
            inside[path[-1]] = odd(rng)
        elif what == "gone":
            del inside[path[-1]]
        elif isinstance(inside, dict):
            inside["more"] = odd(rng)
        else:
            inside.append(rng.choice([inside[path[-1]], odd(rng)]))
    return facts


def example(strategy, seed):
    """A few values of a strategy, always the same ones."""
    kept = []

    @settings(database=None, derandomize=True, deadline=None, max_examples=8)
    @given(strategy)
    def collect(value):
        kept.append(value)

    collect()
    return kept[seed % len(kept)]


def refused_or(value, from_dict, use):
    """Refused by an error of Tacit's, or taken and used; never anything else."""
    try:
        taken = from_dict(value)
        use(taken)
    except TacitError as error:
        return str(error)
    return None


def reads(value, from_dict, to_dict):
    def use(taken):
        text = to_json(to_dict(taken))
        assert digest(to_dict(from_dict(from_json(text)))) == digest(to_dict(taken))

    return refused_or(value, from_dict, use)


RESOLVE = Answers.of(TIERS).resolve


def asked(query):
    """What a server does with it before it charges."""
    assert digest(query.to_dict()) == digest(from_json(to_json(query.to_dict())))
    if "tacit-program/1" not in str(query.to_dict()):  # which would be compiled
        RESOLVE(query, SCHEMA)


def test_malformed_queries_are_refused_in_words():
    """And what is not refused can be asked, or is refused by the wall before it reads."""
    for kind, strategy in QUERY.items():
        rng = random.Random(kind)
        facts = [of_dict(example(strategy, i)) for i in range(4)]
        refusals = 0
        for _ in range(400):
            value = mutated(rng.choice(facts), rng)
            refusals += refused_or(value, query_from_dict, asked) is not None
        assert refusals > 100, kind


def test_what_is_no_query_mechanism_plan_or_release_is_refused():
    for value in STRANGE:
        for from_dict in (
            query_from_dict,
            mechanism_from_dict,
            tacit.queries.Plan.from_dict,
            tacit.Release.from_dict,
        ):
            assert refused_or(value, from_dict, pytest.fail), value


def test_malformed_mechanisms_are_refused_in_words():
    for kind, strategy in MECHANISM.items():
        rng = random.Random(kind)
        facts = [mechanism_to_dict(example(strategy, i)) for i in range(4)]
        for _ in range(300):
            reads(mutated(rng.choice(facts), rng), mechanism_from_dict, mechanism_to_dict)


def test_malformed_plans_are_refused_in_words():
    rng = random.Random(1)
    facts = [of_dict(example(PLAN, i)) for i in range(8)]
    for _ in range(1000):
        reads(mutated(rng.choice(facts), rng), tacit.queries.Plan.from_dict, of_dict)


@pytest.mark.parametrize("kind", RELEASES)
def test_malformed_releases_are_refused_in_words(kind):
    rng = random.Random(kind)
    facts = of_dict(release_of(kind))
    for _ in range(400):
        reads(mutated(facts, rng), tacit.Release.from_dict, of_dict)


@pytest.mark.parametrize("part", ["name", "axis", "label", "omitted"])
def test_names_and_labels_of_a_release_are_texts_or_numbers(part):
    facts = from_json(release_of("Counts").to_json())
    block = facts["blocks"][0]
    match part:
        case "name":
            block["name"] = {"a": 1}
        case "axis":
            block["axes"][0][0] = 3
        case "label":
            block["axes"][0][1][0] = ["no"]
        case "omitted":
            block["omitted"] = [{}]
    with pytest.raises(tacit.errors.FileError, match="names and labels"):
        tacit.Release.from_dict(facts)


@pytest.mark.parametrize("kind", RELEASES)
def test_damaged_text_is_refused_in_words(kind):
    rng = random.Random(kind)
    text = release_of(kind).to_json()
    for _ in range(300):
        at, size = rng.randrange(len(text)), rng.choice([0, 1, 5, 1000])
        noise = rng.choice(["", "0", '"', "[", "}", "\\ud800", "1e999", "NaN", "{}", "[" * 5000])
        damaged = text[:at] + noise + text[at + size :]
        refused_or(damaged, tacit.Release.from_json, str)
        refused_or(damaged.encode("utf-8", "surrogatepass"), tacit.Release.from_json, str)


@pytest.mark.parametrize(
    "array",
    [
        {"array": "AAAA", "dtype": "<f8", "shape": [1]},
        {"array": "####", "dtype": "<f8", "shape": [1]},
        {"array": "", "dtype": "O", "shape": [0]},
        {"array": "", "dtype": "<U9", "shape": [0]},
        {"array": "", "dtype": "V8", "shape": [0]},
        {"array": "", "dtype": "M8[s]", "shape": [0]},
        {"array": "", "dtype": "f8,f8", "shape": [0]},
        {"array": "", "dtype": "nonsense", "shape": [0]},
        {"array": "", "dtype": "<f8", "shape": [-1]},
        {"array": "", "dtype": "<f8", "shape": ["1"]},
        {"array": "", "dtype": "<f8", "shape": [2**40, 0, 2**40]},
        {"array": "", "dtype": "<f8", "shape": 3},
        {"array": "", "dtype": "<f8", "shape": [1.0]},
        {"array": "", "dtype": "<f8", "shape": [[]]},
        {"array": "", "dtype": "<f8"},
        {"array": 3, "dtype": "<f8", "shape": []},
        {"array": None, "dtype": None, "shape": None},
        {"array": base64.b64encode(bytes(8)).decode(), "dtype": "<f8", "shape": [10**9]},
    ],
    ids=str,
)
def test_arrays_that_are_none_are_refused(array):
    with pytest.raises(tacit.errors.FileError, match="Expected an array"):
        from_json(json.dumps({"a": array}))


def test_no_text_is_quoted_at_length():
    """What is refused may be large: the sentence about it is not."""
    for facts in (
        {"type": "x" * 10**6},
        {**votes().to_dict(), "kernel": "x" * 10**6},
        {**votes().to_dict(), "kernel": {"type": "Kernel", "name": "x" * 10**6}},
        {**votes().to_dict(), "columns": "x" * 10**6},
        {**queries.Counts("ill").to_dict(), "columns": ["x" * 10**6]},
    ):
        said = refused_or(facts, query_from_dict, lambda query: RESOLVE(query, SCHEMA))
        assert said is not None


def test_decimals_are_texts_and_keep_their_digits():
    fine = Decimal("0.123456789012345678901")
    facts = mechanism_to_dict(tacit.Laplace(fine))
    assert facts["epsilon"] == str(tacit.Laplace(fine).epsilon)
    assert mechanism_from_dict(from_json(to_json(facts))) == tacit.Laplace(fine)
