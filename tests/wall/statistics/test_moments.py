"""Moments: the same integers from every source; no unit moves them further than was paid for."""

import json
import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tacit
from tacit.accounting.gaussian import gaussian_delta
from tacit.public import seeded_entropy
from tacit.sources.data import open_data
from tacit.spec.queries import query_from_dict
from tacit.spec.release import Noise
from tacit.wall.answers import TIERS, Answers, calibrated, read
from tacit.wall.noise import draw, fits_bulk, refined
from tests.conftest import without_note

resolve = Answers.of(TIERS).resolve

X, Y = tacit.Real("x", -3, 5), tacit.Real("y", 0, 1e-3)
Z = tacit.Integer("z", 0, 9)
SEX = tacit.Categorical("sex", ["f", "m"])
NAMES = ["x", "y", "z", "sex"]
BOUNDS = {"x": (-3.0, 5.0), "y": (0.0, 1e-3), "z": (0.0, 9.0), "sex": (0.0, 1.0)}


def schema(*columns, neighbours="add_remove", **options) -> tacit.Schema:
    return tacit.Schema(*(columns or (X, Y, Z, SEX)), neighbours=neighbours, **options)


def number(name: str, cell: object) -> float | None:
    """What a cell is, read in plain Python; None where it is nothing."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if name == "sex":
        return {"f": 0.0, "m": 1.0}.get(str(cell).strip())
    try:
        x = float(str(cell).strip())
    except ValueError:
        return None
    low, high = BOUNDS[name]
    whole = name != "z" or (math.isfinite(x) and x == math.floor(x))
    return x if low <= x <= high and whole else None


def reference(table: dict, query: tacit.queries.Moments, defaults: dict | None = None) -> list[int]:
    """The statistic in NumPy, with the number of rows first, in steps."""
    most = 2 ** {1: 30, 2: 15}[query.degree]
    rows = []
    for cells in zip(*(table[name] for name in query.columns), strict=True):
        x = [number(name, cell) for name, cell in zip(query.columns, cells, strict=True)]
        x = [
            (defaults or {}).get(name) if v is None else v
            for name, v in zip(query.columns, x, strict=True)
        ]
        if None in x:
            continue
        row = []
        for name, v in zip(query.columns, x, strict=True):
            low, high = BOUNDS[name]
            middle, half = (low / 2 + high / 2, high / 2 - low / 2)
            if not query.centred:
                middle, half = 0.0, max(abs(low), abs(high))
            row.append(int(np.clip(np.floor((v - middle) / half * most + 0.5), -most, most)))
        pairs = combinations_with_replacement(row, 2) if query.degree == 2 else ()
        rows.append([1, *row, *(a * b for a, b in pairs)])
    width = len(query.names)
    return [sum(row[j] for row in rows) for j in range(width)]


def steps(data, described, query) -> list[int]:
    return [int(s) for s in tacit.Public(data, described).release(query, tacit.Exact()).integers]


ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, None, "", "n/a", "1e400", "7 m"]


def odd_table(n: int, seed: int) -> dict[str, list]:
    """Numbers inside and outside the bounds, at them, and all that a cell can hold."""
    rng = np.random.default_rng(seed)
    table = {
        "x": [*rng.uniform(-4, 6, n - 4).tolist(), -3.0, 5.0, math.nextafter(5, 9), 1.0],
        "y": rng.uniform(-1e-4, 1.1e-3, n).tolist(),
        "z": rng.integers(-1, 11, n).tolist(),
        "sex": rng.choice(["f", "m", " m ", "x"], n).tolist(),
    }
    for name in ("x", "y", "z"):
        for i in np.flatnonzero(rng.random(n) < 0.3):
            table[name][i] = ODD[rng.integers(len(ODD))]
    return table


def as_text(cell: object) -> str:
    return "" if cell is None else str(cell)


QUERIES = [
    tacit.queries.Moments("x"),
    tacit.queries.Moments(["x", "y"]),
    tacit.queries.Moments(NAMES),
    tacit.queries.Moments(["z", "sex"], degree=1),
    tacit.queries.Moments(["x", "z"], centred=False),
    tacit.queries.Moments(["y", "sex", "x"], degree=1, centred=False),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: f"{q.columns} {q.degree} {q.centred}")
def test_every_source_gives_the_integers_of_plain_arithmetic(query, tmp_path):
    table = odd_table(120, seed=len(query.names))
    expected = reference(table, query)
    assert expected[0] > 3  # some rows are complete
    text = {name: [as_text(cell) for cell in cells] for name, cells in table.items()}
    pd.DataFrame(text).to_csv(tmp_path / "t.csv", index=False)
    pq.write_table(pa.table(text), tmp_path / "t.parquet")
    sources = [
        table,
        text,
        pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in table.items()}),
        pd.DataFrame(text),
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
    ]
    for source in sources:
        assert steps(source, schema(), query) == expected


def test_columns_of_doubles_hold_nothing_that_hurts(tmp_path):
    odd = [cell for cell in ODD if isinstance(cell, float)]
    x = np.array([*odd, 1.0, -3.0, 5.0, 4.999999999999999, -0.0])
    table = {"x": x, "y": np.full(len(x), 2e-4), "z": np.full(len(x), 3.0), "sex": ["f"] * len(x)}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    for query in (tacit.queries.Moments("x"), tacit.queries.Moments(["x", "y", "z"])):
        expected = reference(table, query)
        for source in (table, pd.DataFrame(table), tmp_path / "t.parquet", pa.table(table)):
            assert steps(source, schema(), query) == expected


def test_all_orders_of_rows_give_the_same_integers():
    table, rng = odd_table(60, seed=2), np.random.default_rng(3)
    for unit in (None, "who"):
        described = schema(unit=unit, max_rows_per_unit=unit and 2)
        table["who"] = (np.arange(60) % 17).tolist()
        first = steps(table, described, tacit.queries.Moments(["x", "z"]))
        for _ in range(5):
            order = rng.permutation(60)
            shuffled = {name: [cells[i] for i in order] for name, cells in table.items()}
            assert steps(shuffled, described, tacit.queries.Moments(["x", "z"])) == first


def test_defaults_stand_in_for_what_is_missing():
    columns = tacit.Real("x", -3, 5, default=0.25), tacit.Integer("z", 0, 9, default=4)
    sex = tacit.Categorical("sex", ["f", "m"], default="f")
    defaults = {"x": 0.25, "z": 4.0, "sex": 0.0}
    table, query = odd_table(80, seed=4), tacit.queries.Moments(["x", "z", "sex"])
    expected = reference(table, query, defaults)
    assert expected[0] == 80
    assert steps(table, schema(*columns, sex), query) == expected
    # Here each unit has one complete row and their number is public: it is not measured.
    assert steps(table, schema(*columns, sex, neighbours="replace_one"), query) == expected[1:]


def test_an_empty_table_and_one_without_complete_rows():
    for table in ({"x": [], "z": []}, {"x": ["?", 1.0], "z": [1, None]}):
        assert steps(table, schema(X, Z), tacit.queries.Moments(["x", "z"])) == [0] * 6


def test_at_most_k_rows_of_a_unit_count():
    described = schema(X, unit="who", max_rows_per_unit=3)
    table = {"x": [5.0] * 1000 + [-3.0, 1.0], "who": ["a"] * 1000 + ["b", "c"]}
    most, query = 2**15, tacit.queries.Moments("x")
    assert steps(table, described, query) == [5, 2 * most, 4 * most**2]
    # of seven different rows three are kept, whoever else is there
    seven = {"x": list(np.linspace(-3, 5, 7)), "who": ["s"] * 7}
    alone = steps(seven, described, query)
    assert alone[0] == 3
    both = {name: seven[name] + table[name] for name in seven}
    assert np.subtract(steps(both, described, query), alone).tolist() == [5, 2 * most, 4 * most**2]
    nobody = {"x": [5.0, 5.0], "who": ["", None]}
    assert steps(nobody, described, query) == [0, 0, 0]


def test_blocks_are_named_and_the_rows_left_out_exactly_where_they_are_public():
    x, z = tacit.Real("x", -3, 5, default=0), tacit.Integer("z", 0, 9, default=1)
    query = tacit.queries.Moments(["x", "z"])
    names = ["rows", "x", "z", "x*x", "x*z", "z*z"]
    unit = {"unit": "who", "max_rows_per_unit": 1}
    for described, counted in [
        (schema(x, z, neighbours="replace_one"), False),
        (schema(x, z, neighbours="replace_one", **unit), False),
        (schema(x, z, neighbours="replace_one", unit="who", max_rows_per_unit=2), True),
        (schema(x, Z, neighbours="replace_one"), True),
        (schema(x, z, neighbours="add_remove"), True),
        (schema(x, z, neighbours="add_remove", **unit), True),
    ]:
        resolved = resolve(query, described)
        assert resolved.what.counted is counted
        assert [block.name for block in resolved.blocks] == names[not counted :]
    half = resolve(tacit.queries.Moments("x"), schema(x, Z, neighbours="replace_one"))
    assert not half.what.counted  # only the columns asked about must be total
    release = tacit.Public({"x": [5.0], "z": [9]}, schema(x, z)).release(query, tacit.Exact())
    for name in names:
        assert release.table(name).value == 1
    assert query.names == tuple(names)
    assert tacit.queries.Moments("x", degree=1).names == ("rows", "x")


# Names that look like the wall's own


def test_a_column_called_units_tells_nothing():
    """It was once mistaken for the number of units, which goes out without noise."""
    for name in ("units", "first", "complete", "x0", "q0", "s0", "c0", "owner"):
        column = tacit.Real(name, 0, 10, default=0.0)
        described = tacit.Schema(column, neighbours="replace_one")
        for cells in ([1.0, 2.0, 10.0], [1.0, 2.0, 0.0]):
            wall = tacit.Wall({name: cells}, described, budget=tacit.Budget(9), ledger=":memory:")
            assert wall.release(tacit.queries.Moments(name), tacit.Laplace(1)).n == 3
        assert steps({name: [10.0]}, described, tacit.queries.Moments(name)) == [2**15, 2**30]


@pytest.mark.parametrize("columns", [["rows"], ["a", "b", "a*b"], ["a", "b*c", "a*b", "c"]])
def test_two_moments_of_one_name_are_refused(columns):
    """They once took each other's place, and each other's noise."""
    with pytest.raises(tacit.errors.QueryError, match="names of their own"):
        tacit.queries.Moments(columns)


def test_a_column_with_a_star_is_itself():
    described = schema(tacit.Real("a*b", -1, 1), tacit.Real("a", -1, 1))
    found = steps({"a*b": [1.0], "a": [-0.5]}, described, tacit.queries.Moments(["a*b", "a"]))
    assert found == [1, 2**15, -(2**14), 2**30, -(2**29), 2**28]


# Neighbours

CELL = st.sampled_from([-3.0, 5.0, 1.0, -1.0, 0.0, None, "junk", math.inf]) | st.floats(-3, 5)
ROW = st.tuples(CELL, CELL)
UNIT = st.lists(ROW, min_size=1, max_size=4)
PAIR = [tacit.Real("a", -3, 5), tacit.Real("b", -3, 5)]
TOTAL = [tacit.Real("a", -3, 5, default=5.0), tacit.Real("b", -3, 5, default=-3.0)]


def units_table(units: list) -> dict[str, list]:
    rows = [(str(who), *row) for who, unit in enumerate(units) for row in unit]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return dict(zip(["who", "a", "b"], map(list, columns), strict=True))


def moved(old: dict, new: dict, described, query) -> list[int]:
    """By how many steps of its grid each moment moves."""
    after, before = (steps(table, described, query) for table in (old, new))
    return [a - b for a, b in zip(after, before, strict=True)]


def in_noise(gaps: list[int], described, query, mechanism) -> list[Fraction]:
    """The same as multiples of the noise, exactly."""
    resolved = resolve(query, described)
    laws = zip(gaps, resolved.exact(), calibrated(resolved, mechanism).noise, strict=True)
    return [gap * Fraction(law.grid) / Fraction(noise.scale) for gap, law, noise in laws]


@settings(deadline=None, max_examples=25)
@given(
    others=st.lists(UNIT, max_size=2),
    old=UNIT,
    new=UNIT,
    rows=st.integers(1, 3),
    columns=st.sampled_from([("a",), ("a", "b")]),
    degree=st.sampled_from([1, 2, 2]),
    total=st.booleans(),
    centred=st.booleans(),
    neighbours=st.sampled_from(["replace_one", "add_remove"]),
)
@pytest.mark.no_cover
def test_one_unit_moves_the_moments_by_at_most_their_noise_times_epsilon(
    others, old, new, rows, columns, degree, total, centred, neighbours
):
    columns_of = TOTAL if total else PAIR
    described = tacit.Schema(*columns_of, unit="who", max_rows_per_unit=rows, neighbours=neighbours)
    other = [*others, new] if neighbours == "replace_one" else others
    gaps = moved(
        units_table([*others, old]), units_table(other), described,
        tacit.queries.Moments(columns, degree, None, centred),
    )  # fmt: skip
    for split in (None, (1, 1, 1), (0.2, 1, 5), (9, 1, 0.1)):
        query = tacit.queries.Moments(columns, degree, split, centred)
        spent = in_noise(gaps, described, query, tacit.Laplace("0.7"))
        assert sum(map(abs, spent)) <= Fraction("0.7")
        mu = math.sqrt(
            sum(gap**2 for gap in in_noise(gaps, described, query, tacit.Gaussian("0.7", 1e-6)))
        )
        assert mu == 0 or gaussian_delta(mu, 0.7) <= 1e-6


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_the_worst_unit_takes_all_of_epsilon(neighbours, rows):
    """The noise is not wider than it must be: 0.1 % at most."""
    for split in ((1.0, 1.0, 1.0), (1.0, 1.0, 9.0)):
        query = tacit.queries.Moments(["a", "b"], split=split)
        described = tacit.Schema(*PAIR, unit="who", max_rows_per_unit=rows, neighbours=neighbours)
        noise = [law.scale for law in calibrated(resolve(query, described), tacit.Laplace(1)).noise]
        best = max(-1.0, -(2 / noise[1]) / (2 * 3 / noise[3]))
        worst = units_table([[(5.0, 5.0)] * rows])
        others = [units_table([])]
        if neighbours == "replace_one":
            others = [units_table([[(1 + 4 * best,) * 2] * rows]), units_table([[("", "")]])]
        spent = [
            sum(map(abs, in_noise(gaps, described, query, tacit.Laplace(1))))
            for gaps in (moved(worst, other, described, query) for other in others)
        ]
        assert Fraction("0.999") <= max(spent) <= 1


def test_the_noises_grid_holds_the_statistic():
    """What is evaluated for a release is the exact statistic, in finer steps."""
    data, described, query = odd_table(40, 8), schema(X, Z), tacit.queries.Moments(["x", "z"])
    resolved = resolve(query, described)
    exact = steps(data, described, query)
    for mechanism in (tacit.Laplace(1), tacit.Gaussian(1, 1e-6), tacit.Gaussian(300, 1e-6)):
        noise = calibrated(resolved, mechanism).noise
        found = read(open_data(data, described), resolved, noise)
        for got, law, step, own in zip(found.integers, noise, exact, resolved.exact(), strict=True):
            assert int(got) * Fraction(law.grid) == step * Fraction(own.grid)


# What is refused, and when


@pytest.mark.parametrize(
    "query",
    [
        tacit.queries.Moments("seen"),
        tacit.queries.Moments("three"),
        tacit.queries.Moments("one"),
        tacit.queries.Moments(["x", "same"]),
        tacit.queries.Moments("tiny"),
        tacit.queries.Moments("nowhere"),
        tacit.queries.Moments("who"),
    ],
)
def test_columns_without_two_numbers_are_refused_before_any_charge(query):
    described = tacit.Schema(
        X,
        tacit.Time("seen", "2004", "2005", every="year", default="2004"),
        tacit.Categorical("three", ["a", "b", "c"]),
        tacit.Categorical("one", ["a"]),
        tacit.Integer("same", 4, 4),
        tacit.Real("tiny", 0, 5e-324),
        unit="who",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    names = [column.name for column in described.columns] + ["who"]
    data = {name: [1] for name in names}
    wall = tacit.Wall(data, described, budget=tacit.Budget(1), ledger=":memory:")
    for ask in (wall.release, wall.quote):
        with pytest.raises((tacit.errors.QueryError, tacit.errors.SchemaError)):
            ask(query, tacit.Laplace(1))
    assert wall.remaining.epsilon == 1


def test_documents_have_no_moments():
    described = schema(tacit.Tokens("words", ["a", "b"], 10))
    with pytest.raises(tacit.errors.QueryError, match="two levels"):
        resolve(tacit.queries.Moments("words"), described)


@pytest.mark.parametrize("degree", [0, 3, "2", None, 1.5])
def test_degrees_other_than_one_and_two_are_refused(degree):
    with pytest.raises(tacit.errors.QueryError, match="degree"):
        tacit.queries.Moments("x", degree)


@pytest.mark.parametrize(
    "split",
    [(1, 1), (1, 1, 0), (1, -1, 1), (1, math.nan, 1), (1, math.inf, 1), (1, 1, 1e7), "abc", 1,
     (True, 1, 1), (1, None, 1)],
)  # fmt: skip
def test_splits_that_are_no_ratios_are_refused(split):
    with pytest.raises(tacit.errors.QueryError):
        tacit.queries.Moments("x", split=split)


@pytest.mark.parametrize("columns", [(), ["x", "x"], [f"c{i}" for i in range(101)]])
def test_columns_once_each_and_not_too_many(columns):
    with pytest.raises(tacit.errors.QueryError):
        tacit.queries.Moments(columns)


def test_more_noise_than_integers_hold_is_refused_before_any_charge():
    wall = tacit.Wall({"x": [1.0]}, schema(X), budget=tacit.Budget(1), ledger=":memory:")
    with pytest.raises(tacit.errors.BudgetError, match="spend more"):
        wall.release(tacit.queries.Moments("x"), tacit.Laplace("1e-9"))
    assert wall.remaining.epsilon == 1


# What is written down


@pytest.mark.parametrize("mechanism", [tacit.Laplace(1), tacit.Gaussian(1, 1e-6)])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_the_facts_of_a_release_are_the_same_for_neighbours(mechanism, neighbours, tmp_path):
    query = tacit.queries.Moments(["x", "z"])
    facts = []
    for i, cells in enumerate(([4.123456, 1.0], [4.123456, math.inf])):
        data = {"x": cells, "z": [3, 7]}
        wall = tacit.Wall(
            data, schema(X, Z, neighbours=neighbours), budget=tacit.Budget(2, 1e-5),
            ledger=tmp_path / f"{i}.ledger",
        )  # fmt: skip
        release = wall.release(query, mechanism)
        shown = {**release.to_dict(), "integers": None}
        shown["certificate"] = {**shown["certificate"], "ledger": None}
        facts.append((shown, wall.remaining, repr(wall)))
        event = tacit.Ledger(tmp_path / f"{i}.ledger").entries()[-1]["event"]
        facts[-1] += (event.pop("dominated_by", None),)  # the ledger's alone, for its filter
        assert (facts[-1][-1] is None) == isinstance(mechanism, tacit.Laplace)
        assert event == json.loads(json.dumps(release.certificate.events[0]))
        assert set(event) == {
            "noise", "scale", "grid", "rows_per_unit", "coordinates", "query"
        }  # fmt: skip
        assert b"4.1234" not in (tmp_path / f"{i}.ledger").read_bytes()
    assert facts[0] == facts[1]


def test_a_release_and_its_query_survive_json(tmp_path):
    for query in (*QUERIES, tacit.queries.Moments(["x", "z"], split=(1, 2, 3))):
        assert query_from_dict(json.loads(json.dumps(query.to_dict()))) == query
        data = odd_table(30, seed=5)
        release = tacit.Public(data, schema()).release(query, tacit.Gaussian(1, 1e-6))
        again = tacit.Release.from_json(release.to_json())
        assert again == release
        assert again.query == query
        np.testing.assert_array_equal(again.integers, release.integers)
        for name in ("r.json", "r.npz"):
            release.save(tmp_path / name)
            assert tacit.Release.load(tmp_path / name) == release


def test_a_named_release_is_replayed_at_no_cost():
    wall = tacit.Wall(odd_table(30, 6), schema(), budget=tacit.Budget(1, 1e-6), ledger=":memory:")
    query = tacit.queries.Moments(["x", "z"])
    for name, mechanism in (("a", tacit.Laplace("0.5")), ("b", tacit.Gaussian("0.4", 1e-6))):
        first = wall.release(query, mechanism, name=name)
        left = wall.remaining
        assert without_note(wall.release(query, mechanism, name=name)) == first
        assert wall.remaining == left
        with pytest.raises(tacit.errors.LedgerError):
            wall.release(tacit.queries.Moments(["x", "z"], split=(1, 1, 1)), mechanism, name=name)


# Noise


def test_refined_integers_are_exact():
    assert refined(-5, 1.0, Noise("discrete_gaussian", 1.0, 2.0**-30)) == -5 * 2**30
    assert refined(2**60, 1.0, Noise("discrete_gaussian", 1.0, 2.0**-30)) == 2**62
    with pytest.raises(ValueError, match="divides"):
        refined(1, 1.0, Noise("discrete_gaussian", 1.0, 0.75))
    with pytest.raises(ValueError, match="divides"):
        refined(1, 2.0**-15, Noise("discrete_gaussian", 1.0, 1.0))


def test_seeded_noise_can_be_repeated_however_wide_it_is():
    described = schema(X, unit="who", max_rows_per_unit=1000)
    data = {"x": [1.0], "who": ["a"]}
    for mechanism in (tacit.Gaussian("0.1", 1e-6), tacit.Laplace("0.01"), tacit.Laplace(1000)):
        a, b, c = (
            tacit.Public(data, described, seed=seed).release(tacit.queries.Moments("x"), mechanism)
            for seed in (1, 1, 2)
        )
        assert a == b
        if mechanism != tacit.Laplace(1000):
            assert a != c
    laws = tacit.Public(data, described).quote(
        tacit.queries.Moments("x"), tacit.Gaussian("0.1", 1e-6)
    )
    assert not all(fits_bulk(law) for law in laws.noise)  # so these were drawn the long way


def test_wide_seeded_noise_has_the_right_law():
    """Kolmogorov and Smirnov's test; false-alarm rate 1e-6, and the seed is fixed."""
    for bits, seed in ((31, "a"), (40, "b"), (54, "c")):
        sigma = 2**bits + 12_345
        law = Noise("discrete_gaussian", float(sigma), 1.0)
        assert not fits_bulk(law)
        drawn = draw(law, 2000, seeded_entropy(seed))
        assert stats.kstest(drawn / sigma, "norm").pvalue > 1e-6
        low = (drawn % 64).astype(int)  # no pattern in low bits
        assert stats.chisquare(np.bincount(low, minlength=64)).pvalue > 1e-6


def test_seeded_laplace_noise_that_is_no_fraction_of_the_compiled_kind_is_laplace():
    """A scale below 2^-8 once became a Gaussian."""
    b = 2.0**-9 * (1 + 2.0**-52)
    law = Noise("discrete_laplace", b * 2.0**-3, 2.0**-3)
    assert not fits_bulk(law)
    assert not draw(law, 200, seeded_entropy("x")).any()  # not 0 with chance 2 e^-512
