"""One cell says nothing of how other cells are read: statistic(D + u) - statistic(D) is of u alone.

For every kind of source, every declared column and every kind of cell: the cell is put among
different companies, and what it adds to counts, moments and rows must be the same each time. A
statistic that moves by more would break every sensitivity of the wall.
"""

import datetime as dt
import itertools
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.sources import cells
from tacit.sources.columns import Decoder, decoded
from tacit.sources.opening import open_source
from tacit.sources.tables import folded

BERLIN = ZoneInfo("Europe/Berlin")
MIDNIGHT = dt.datetime(2004, 12, 31, 23, 30)
LOCAL = MIDNIGHT.replace(tzinfo=BERLIN)

# What a column may be declared as, and a company of ordinary cells of each kind.
DECLARED = [
    tacit.Integer("x", 0, 1),
    tacit.Integer("x", 0, 9, default=3),
    tacit.Categorical("x", [0, 1]),
    tacit.Categorical("x", ["0", "1"]),
    tacit.Categorical("x", ["False", "True"]),
    tacit.Categorical("x", [False, True]),
    tacit.Categorical("x", ["2004-12-31", "2005-01-01", "a", "b"], default="a"),
    tacit.Real("x", 0, 1),
    tacit.Time("x", "2004-12-30", "2005-01-02", every="day"),
    tacit.Time("x", "2003", "2006", every="year"),
    tacit.Categorical("x", codes={"1": "yes", "b": "no", "2004-12-31": "no"}),
    tacit.Time("x", "2004-12-31", "2005-01-01", every="hour", format="%Y-%m-%d %H:%M:%S"),
]
# Each cell alone, and each column as its cells, but not in every company.
MORE_DECLARED = [
    tacit.Categorical("x", codes={1: True, 0: False}, default=False),
    tacit.Time("x", "2004", "2006", every="week", format="%Y-%m-%d"),
    tacit.Time("x", "2004", "2006", every="quarter"),
]
COMPANIES = {
    "bool": [True, False, True, True],
    "int": [1, 0, 1, 5],
    "long int": [2**62 + 1, 2**53 + 1, 1, 0],
    "float": [1.0, 0.0, 0.5, 0.25],
    "text": ["1", "0", "True", "b"],
    "words": ["a", "b", "true", "yes"],
    "naive": [MIDNIGHT, MIDNIGHT + dt.timedelta(hours=1), MIDNIGHT, MIDNIGHT],
    "zoned": [LOCAL, LOCAL + dt.timedelta(hours=1)] * 2,
    "utc": [MIDNIGHT.replace(tzinfo=dt.UTC)] * 4,
    "dates": [dt.date(2004, 12, 31), dt.date(2005, 1, 1)] * 2,
    "date texts": ["2004-12-31", "2005-01-01 00:10:00+01:00", "2005", "2004-12"],
    "decimal": [Decimal("1"), Decimal("0.50"), Decimal("1.000"), Decimal("0")],
}  # fmt: skip
# The cells that are put among them: of every kind, and missing in every way.
STRANGERS = [
    None, float("nan"), pd.NA, pd.NaT, "n/a", "", 7, 1, 0, 1.0, True, False, "1", "True", b"\xff",
    2**63, 2**70, -0.0, 1e308, float("inf"), MIDNIGHT, MIDNIGHT.replace(tzinfo=BERLIN),
    MIDNIGHT.replace(tzinfo=dt.UTC), dt.date(2005, 1, 1), np.datetime64("2004-12-31T23:59"),
    Decimal("1.23456"), Decimal("NaN"), uuid.UUID(int=1), "\ud800", "1_0", [1], object(), np.True_,
    np.float32(0.1), pd.Timestamp("2005-01-01", tz="Asia/Tokyo"), "2005-01-01T00:00:00Z",
]  # fmt: skip


def shapes(column: list):
    """The column as every kind of table that can hold it; some kinds cannot."""
    makers = {
        "list": list,
        "object array": _objects,
        "numpy": np.array,
        "pandas": pd.Series,
        "pandas object": lambda c: pd.Series(_objects(c)),
        "pandas category": lambda c: pd.Series(c).astype("category"),
        "pandas converted": lambda c: pd.Series(_objects(c)).convert_dtypes(),
        "pandas nullable": pd.array,
        "pandas string": lambda c: pd.Series(c, dtype="string"),
        "pandas arrow": _backed_by_arrow,
        "polars": pl.Series,
        "polars object": lambda c: pl.Series(c, dtype=pl.Object),
        "arrow": pa.array,
        "arrow dictionary": lambda c: pa.array(c).dictionary_encode(),
    }
    for kind, make in makers.items():
        try:
            found = make(list(column))
        except BaseException:  # noqa: BLE001 - a library that refuses (polars: panics)
            continue
        if len(found) == len(column) and getattr(found, "ndim", 1) == 1:
            yield kind, found


def _backed_by_arrow(column: list) -> pd.Series:
    values = pa.array(column)
    return pd.Series(pd.array(values, dtype=pd.ArrowDtype(values.type)))


def _objects(column: list) -> np.ndarray:
    found = np.empty(len(column), object)
    found[:] = column
    return found


def read(values, spec):
    """What the wall sees of a column's cells; None where its type is refused before any charge."""
    schema = tacit.Schema(spec, neighbours="add_remove")
    try:
        source = open_source({"x": values}, schema)
    except tacit.errors.SourceError:
        return None
    with source.snapshot() as snapshot:
        return np.concatenate([decoded(spec, raw) for (raw,) in snapshot.batches(["x"])])


@pytest.mark.parametrize("company", COMPANIES)
def test_no_cell_changes_how_another_is_read(company):
    """At every kind of table: the company reads alike whoever stands beside it."""
    ordinary = COMPANIES[company]
    alone = dict(shapes(ordinary))
    expected = {(k, str(s)): read(alone[k], s) for k in alone for s in DECLARED}
    compared = 0
    for stranger in STRANGERS:
        for kind, together in shapes([*ordinary, stranger]):
            if kind not in alone or _converted(together, ordinary):
                continue
            for spec in DECLARED:
                found = read(together, spec)
                if found is None or expected[kind, str(spec)] is None:
                    continue  # its type is refused, before any charge
                compared += 1
                np.testing.assert_array_equal(
                    found[:-1], expected[kind, str(spec)], err_msg=f"{kind}: {spec}, {stranger!r}"
                )
    assert compared > 1000


def _converted(values, ordinary):
    """Whether a library made text of the company, before Tacit had the table."""
    texts = (str, bytes)
    pairs = zip(_cells(values), ordinary)
    return any(isinstance(a, texts) != isinstance(b, texts) for a, b in pairs)


@pytest.mark.parametrize("spec", [*DECLARED, *MORE_DECLARED], ids=str)
def test_a_column_is_read_as_its_cells_are(spec):
    """The vectorised rules are the rules of one cell, cell by cell."""
    for ordinary in COMPANIES.values():
        for kind, values in shapes(ordinary):
            found = read(values, spec)
            if found is None:
                continue
            one_by_one = decoded(spec, list(_cells(values)))
            np.testing.assert_array_equal(found, one_by_one, err_msg=f"{kind}: {ordinary}")


def _cells(values):
    if isinstance(values, pl.Series):
        return values.to_list()
    return (cell.as_py() if isinstance(cell, pa.Scalar) else cell for cell in values)


TEXTS = st.one_of(
    st.text(st.characters(), max_size=12).map(lambda s: s.encode("utf-8", "surrogatepass")),
    st.binary(max_size=8),
    st.floats().map(lambda x: repr(x).encode()),
    st.from_regex(rb"[ +-]?[0-9._eE]{1,9}[ \n]?", fullmatch=True),
    st.datetimes().map(lambda d: str(d).encode()),
    st.from_regex(
        rb"[0-9]{4}[-/][01]?[0-9]([-/][0-3]?[0-9]([ T][0-9]{2}:[0-9]{2}Z?)?)?", fullmatch=True
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=8))
def test_texts_are_read_alike_alone_and_in_columns(texts):
    column = pa.array(texts, pa.binary())
    np.testing.assert_array_equal(cells.number(column), [cells.number_of(t) for t in texts])
    np.testing.assert_array_equal(cells.moment(column), [cells.moment_of(t) for t in texts])
    assert cells.text(column).to_pylist() == [cells.text_of(t) for t in texts]


CODED = st.sampled_from(
    [
        b"1.0",
        b"1",
        b" 1.00 ",
        b"+1.0",
        b"1.",
        b"01.0",
        b"1e0",
        b"Yes",
        b"T",
        b"b",
        b"\xff.0",
        b"True",
    ]
)
SPELT = [*MORE_DECLARED, *DECLARED[3:6], *DECLARED[-2:], tacit.Categorical("x", ["1.0", "1", "2"])]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(TEXTS, CODED), max_size=6), st.sampled_from(SPELT))
def test_a_text_means_the_same_in_any_company(texts, spec):
    """Codes, truth values, decimals after whole numbers and formats of dates: cell by cell."""
    found = decoded(spec, pa.array(texts, pa.binary()))
    np.testing.assert_array_equal(found, [decoded(spec, [text])[0] for text in texts])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.none(), TEXTS, CODED), max_size=12), max_size=4),
    st.sampled_from([*DECLARED, *MORE_DECLARED]),
)
def test_equal_cells_that_a_file_stores_once_are_read_as_each_of_them(batches, spec):
    """Batch after batch, with dictionaries that differ, repeat themselves or hold nulls."""
    read_by_batch = Decoder(spec)
    for texts in batches:
        many = pa.array(texts * 5, pa.binary())
        for stored in (many.dictionary_encode(), many.dictionary_encode("encode")):
            cells_once = folded(stored)
            assert isinstance(cells_once, pa.DictionaryArray)
            expected = decoded(spec, many)
            np.testing.assert_array_equal(read_by_batch(cells_once), expected)
            np.testing.assert_array_equal(decoded(spec, cells_once), expected)
            assert cells.text(cells_once).equals(cells.text(many))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=6),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
def test_times_of_any_unit_are_read_alike(ticks, unit):
    values = pa.array(ticks, pa.int64()).view(pa.timestamp(unit))
    found = cells.moment(values)
    numpy = np.array([np.datetime64("NaT") if t is None else t for t in ticks], f"M8[{unit}]")
    np.testing.assert_array_equal(found, cells.moment(cells.arrow_of_times(numpy)))
    for moment, tick in zip(found, ticks, strict=True):
        per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        # -2^63 is NumPy's NaT in every unit, and Arrow's timestamps are read the same.
        near = tick not in (None, -(2**63)) and abs(tick // per) < 3_999_999 * 86_400
        assert not near or moment == tick * 10**6 // per


# Statistics: whole tables, units, and both relations


def tables(rows: list[dict]):
    """The rows in every kind of source of whole tables."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    yield "dict", columns
    yield "pandas", pd.DataFrame(columns)
    yield "pandas categories", pd.DataFrame(columns).astype("category")
    yield "pandas objects", pd.DataFrame({k: _objects(v) for k, v in columns.items()})
    yield (
        "polars objects",
        pl.DataFrame({k: pl.Series(v, dtype=pl.Object) for k, v in columns.items()}),
    )


ROW = st.fixed_dictionaries(
    {
        "flag": st.sampled_from([True, False, None, 1, 0, "n/a", 7]),
        "score": st.sampled_from([0.5, 1, None, "0.25", True, "x", float("nan"), -0.0]),
        "seen": st.sampled_from([MIDNIGHT, MIDNIGHT.replace(tzinfo=BERLIN), "2005-01-01", None]),
        "who": st.sampled_from(["a", "b", 1, 2, 2**60, None, uuid.UUID(int=3), ""]),
    }
)
COLUMNS = (
    tacit.Integer("flag", 0, 1),
    tacit.Real("score", 0, 1),
    tacit.Time("seen", "2004-12-30", "2005-01-02", every="day"),
)
QUERIES = {
    "counts": tacit.queries.Counts([("flag", "seen")]),
    "moments": tacit.queries.Moments(("flag", "score")),
}


def statistic(data, schema, query):
    release = tacit.Public(data, schema).release(query, tacit.Exact())
    return release.integers, release.n


@settings(max_examples=25, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=5), ROW, st.lists(ROW, min_size=1, max_size=5))
def test_what_a_row_adds_is_its_own(company, row, others):
    """The difference that one row makes is the same in any company and any kind of table."""
    schema = tacit.Schema(*COLUMNS, neighbours="add_remove")
    for query in QUERIES.values():
        added = set()
        for rows in (company, others):
            with_row, without = dict(tables([*rows, row])), dict(tables(rows))
            for kind, data in with_row.items():
                (after, _), (before, _) = (
                    statistic(d, schema, query) for d in (data, without[kind])
                )
                added.add(tuple(after - before))
        assert len(added) == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=6), st.lists(ROW, min_size=1, max_size=3))
def test_what_a_unit_adds_is_its_own_and_bounded(company, mine):
    """However many rows a unit has, and whatever stands around it."""
    schema = tacit.Schema(*COLUMNS, unit="who", max_rows_per_unit=2, neighbours="replace_one")
    mine = [{**row, "who": "me"} for row in mine]
    for query in QUERIES.values():
        added = set()
        other = {**company[0], "who": "other"}
        for rows in ([other], [*company, other], [other, *company[::-1]]):
            without = dict(tables(rows))
            for kind, data in tables([*rows, *mine]):
                after, n = statistic(data, schema, query)
                before, m = statistic(without[kind], schema, query)
                assert n - m == 1
                added.add(tuple(after - before))
        assert len(added) == 1
        assert isinstance(query, tacit.queries.Moments) or np.abs(np.array(list(added))).sum() <= 2


def test_one_cell_of_a_boolean_column_moves_a_count_by_one():
    """A boolean column with one None was read as text, and every count moved."""
    schema = tacit.Schema(tacit.Integer("x", 0, 1), neighbours="replace_one")
    column = [True] * 60 + [False] * 40
    for odd in (None, float("nan"), "n/a", 7):
        for dtype in (None, "boolean", "category", object):
            before = pd.Series(column, dtype=dtype)
            after = pd.Series([odd, *column[1:]])
            counts = [
                tacit.Public(pd.DataFrame({"x": s}), schema).release(
                    tacit.queries.Counts("x"), tacit.Exact()
                )
                for s in (before, after)
            ]
            assert np.abs(counts[0].value - counts[1].value).sum() <= 2


def test_the_rows_of_one_person_count_as_often_as_the_schema_says():
    """Objects in polars are addresses to Arrow: each row looked like another person."""
    schema = tacit.Schema(
        tacit.Categorical("x", ["a"]), unit="who", max_rows_per_unit=1, neighbours="add_remove"
    )
    me = [uuid.UUID(int=5) for _ in range(1000)]
    data = pl.DataFrame({"x": ["a"] * 1000, "who": pl.Series(me, dtype=pl.Object)})
    counts = tacit.Public(data, schema).release(tacit.queries.Counts("x"), tacit.Exact())
    assert counts.value.tolist() == [1, 0]


def test_ids_that_a_float_column_merged_are_refused():
    frame = pd.DataFrame({"who": [2**60, 2**60 + 1, None], "x": ["a"] * 3})
    schema = tacit.Schema(
        tacit.Categorical("x", ["a"]), unit="who", max_rows_per_unit=1, neighbours="add_remove"
    )
    with pytest.raises(tacit.errors.SourceError, match="Int64"):
        tacit.Public(frame, schema)
    levels = tacit.Schema(tacit.Categorical("who", [str(2**60)]), neighbours="add_remove")
    with pytest.raises(tacit.errors.SourceError, match="become equal"):
        tacit.Public(frame, levels)


# Engines


def test_only_tables_that_an_engine_stores_are_read(tmp_path):
    """What an engine computes for a cell can fail for it, and so tell it, after the charge."""
    schema = tacit.Schema(tacit.Integer("age", 0, 99), neighbours="add_remove")
    duck = ibis.duckdb.connect()
    stored = duck.create_table("visits", pa.table({"age": ["17", "unknown", "18"]}))
    counts = tacit.Public(stored, schema).release(tacit.queries.Counts("age"), tacit.Exact())
    assert counts.value.sum() == 3
    view = duck.create_view("cast", stored.mutate(age=stored.age.cast("int64")))
    pq.write_table(pa.table({"age": [1]}), tmp_path / "a.parquet")
    for table, says in (
        (stored.mutate(age=stored.age.cast("int64")), "not an expression"),
        (view, "is a view"),
        (duck.read_parquet(tmp_path / "a.parquet"), "not temporary"),
        (ibis.memtable({"age": [1]}), "the table itself"),
        (ibis.sqlite.connect().create_table("t", schema=ibis.schema({"age": "int64"})), "sqlite"),
    ):
        with pytest.raises(tacit.errors.SourceError, match=says):
            tacit.Wall(table, schema, budget=tacit.Budget(1), ledger=":memory:")


def test_duckdb_types_are_read_like_their_cells():
    duck = ibis.duckdb.connect()
    duck.raw_sql(
        "CREATE TABLE t AS SELECT * FROM (VALUES "
        "('1', 1::HUGEINT, 1.0::DECIMAL(9, 2), true, 1::FLOAT, DATE '2004-12-31', "
        "TIMESTAMPTZ '2004-12-31 23:30:00+01', uuid(), 'a'::ENUM ('a', 'b')), "
        "('\\xFF', 2::HUGEINT, 0.5, NULL, 'nan'::FLOAT, NULL, 'infinity', NULL, 'b')"
        ") AS t(text, huge, dec, flag, real, day, moment, id, kind)"
    )
    table = duck.table("t")
    for name, spec, expected in (
        ("text", tacit.Integer("text", 0, 2), [1, -1]),
        ("huge", tacit.Integer("huge", 0, 2), [1, 2]),
        ("dec", tacit.Real("dec", 0, 2), [1, 0.5]),
        ("flag", tacit.Integer("flag", 0, 1), [1, -1]),
        ("real", tacit.Real("real", 0, 2), [1, np.nan]),
        ("day", tacit.Time("day", "2004", "2004", every="year"), [0, -1]),
        ("moment", tacit.Time("moment", "2004", "2004", every="year"), [0, -1]),
        ("kind", tacit.Categorical("kind", ["a", "b"]), [0, 1]),
    ):
        source = open_source(table, tacit.Schema(spec, neighbours="add_remove"))
        with source.snapshot() as snapshot:
            found = np.concatenate([decoded(spec, raw) for (raw,) in snapshot.batches([name])])
        np.testing.assert_array_equal(found, expected, err_msg=name)
    unit = tacit.Schema(
        tacit.Categorical("kind", ["a", "b"]),
        unit="id",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    assert tacit.Public(table, unit).n_units == 1


def test_order_and_kind_of_source_do_not_matter(tmp_path):
    """Which rows of a unit are kept is a function of the unit's own rows."""
    rng = np.random.default_rng(0)
    rows = [
        {"who": f"p{rng.integers(5)}", "flag": int(rng.integers(2)), "score": float(rng.random())}
        for _ in range(60)
    ]
    schema = tacit.Schema(*COLUMNS[:2], unit="who", max_rows_per_unit=3, neighbours="replace_one")
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    sources = [
        frame,
        frame[::-1],
        frame.sample(frac=1, random_state=1),
        tmp_path / "a.csv",
        tmp_path / "a.parquet",
        pl.from_pandas(frame),
        ibis.duckdb.connect().create_table("t", frame),
    ]
    for query in (tacit.queries.Counts("flag"), tacit.queries.Moments(("flag", "score"))):
        found = [statistic(source, schema, query) for source in sources]
        for steps, n in found[1:]:
            np.testing.assert_array_equal(steps, found[0][0])
            assert n == found[0][1] == 5


def test_reading_is_one_look():
    """Sums and the number of units come from one version of the source."""
    openings = itertools.count()
    schema = tacit.Schema(tacit.Integer("x", 0, 1), neighbours="replace_one")
    public = tacit.Public({"x": [0, 1, 1]}, schema)
    opened = public._source.snapshot

    def counted():
        next(openings)
        return opened()

    object.__setattr__(public._source, "snapshot", counted)
    for query in (tacit.queries.Counts("x"), tacit.queries.Moments("x")):
        assert public.release(query, tacit.Exact()).n == 3
    assert next(openings) == 2
