"""Every kind of source gives the same integers, and no cell of any of them can fail."""

import csv
import datetime as dt
import gzip
import os
from collections import deque
from decimal import Decimal
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import tacit
from tacit.sources import tables
from tacit.sources.cells import WORD
from tacit.sources.data import load, open_data
from tests.conftest import SMOKERS, exact, smoking

SCHEMA = tacit.Schema(
    tacit.Categorical("smoker", ["no", "yes"]),
    tacit.Integer("age", 0, 120),
    unit="who",
    max_rows_per_unit=2,
    neighbours="replace_one",
)
QUERY = tacit.queries.Counts(["smoker", "age"])
QUERY_SMOKER = tacit.queries.Counts("smoker")


def as_csv(path: Path, newline: str = "\n", opener=open) -> Path:
    rows = [",".join(SMOKERS), *(",".join(row) for row in zip(*SMOKERS.values(), strict=True))]
    with opener(path, "wb") as file:
        file.write((newline.join(rows) + newline).encode())
    return path


def every_source(folder: Path):
    frame = pd.DataFrame(SMOKERS)
    yield "dict of arrays", SMOKERS
    yield "dict of lists", {k: v.tolist() for k, v in SMOKERS.items()}
    yield "dict of objects", {k: v.astype(object) for k, v in SMOKERS.items()}
    yield "csv", as_csv(folder / "a.csv")
    yield "csv as text", str(as_csv(folder / "b.csv"))
    yield "csv with CRLF", as_csv(folder / "c.csv", "\r\n")
    yield "csv.gz", as_csv(folder / "d.csv.gz", opener=gzip.open)
    yield "pandas", frame
    yield "pandas categories", frame.astype("category")
    yield "polars", pl.DataFrame(SMOKERS)
    yield "pyarrow", pa.table(SMOKERS)
    yield (
        "pyarrow dictionary",
        pa.table({k: pa.array(v).dictionary_encode() for k, v in SMOKERS.items()}),
    )
    frame.to_parquet(folder / "e.parquet")
    yield "parquet", folder / "e.parquet"
    yield "ibis", ibis.duckdb.connect().create_table("t", pa.table(SMOKERS))
    yield "reversed", {k: v[::-1] for k, v in SMOKERS.items()}
    yield "more columns", {"other": np.arange(8), **SMOKERS, "smoker2": np.arange(8)}


def test_every_source_gives_the_same_integers(tmp_path):
    expected = exact(SMOKERS, SCHEMA, QUERY)
    assert expected[:3].sum() == 6  # two of a's three rows, one of b, two of c, one of d
    for kind, source in every_source(tmp_path):
        np.testing.assert_array_equal(exact(source, SCHEMA, QUERY), expected, err_msg=kind)
        assert tacit.Public(source, SCHEMA).release(QUERY, tacit.Exact()).n == 4, kind


def column_of_numbers():
    yield np.array([1, 0, 1, 1])
    yield np.array([1, 0, 1, 1], dtype="u1")
    yield np.array([1.0, 0.0, 1.0, 1.0])
    yield np.array([1.0, 0.0, 1.0, 1.0], dtype="f4")
    yield [1, 0, 1, 1]
    yield [1.0, 0, "1", 1]
    yield ["1", "0", "1", b"1"]
    yield [Decimal(1), Decimal(0), Decimal(1), 1]
    yield pd.Series([1, 0, 1, 1], dtype="Int64")
    yield pl.Series([1, 0, 1, 1])
    yield pa.array([1, 0, 1, 1])


@pytest.mark.parametrize("levels", [[0, 1], ["0", "1"]])
def test_numbers_mean_the_same_in_every_type(levels):
    schema = tacit.Schema(tacit.Categorical("x", levels), neighbours="add_remove")
    for column in column_of_numbers():
        assert exact({"x": column}, schema, tacit.queries.Counts("x")).tolist() == [1, 3, 0], type(
            column
        )


@pytest.mark.parametrize(
    "odd", [None, "n/a", float("nan"), b"\xff", [1], dt.date(2020, 1, 1), 1e308]
)
def test_one_odd_cell_changes_no_other(odd):
    """The trap of inferred types: one "n/a" must not turn a column of numbers into text."""
    for levels in ([0, 1], ["0", "1"]):
        schema = tacit.Schema(tacit.Categorical("x", levels), neighbours="add_remove")
        for cells in ([1, 0, 1], [1.0, 0.0, 1.0], ["1", "0", "1"]):
            for make in (
                list,
                lambda c: np.array(c, dtype=object),
                lambda c: pd.Series(c, dtype=object),
            ):
                data = {"x": make([*cells, odd])}
                assert exact(data, schema, tacit.queries.Counts("x")).tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    "column",
    [
        np.array([True, False, True]),
        [True, False, True],
        ["true", "False", "TRUE"],
        pd.array([True, False, True]),
    ],
)
def test_booleans(column):
    schema = tacit.Schema(tacit.Categorical("x", [False, True]), neighbours="add_remove")
    assert exact({"x": column}, schema, tacit.queries.Counts("x")).tolist() == [1, 2, 0]


def moments():
    yield ["2004-11-30", "2005-01-01 23:59:59", "2005-01", "2005"]
    yield np.array(["2004-11-30", "2005-01-01", "2005-01-31", "2005-01-02"], dtype="M8[s]")
    yield [dt.date(2004, 11, 30), dt.date(2005, 1, 1), dt.datetime(2005, 1, 2, 3), "2005-01-01"]
    yield pd.to_datetime(["2004-11-30", "2005-01-01", "2005-01-02", "2005-01-03"])
    yield pa.array([dt.date(2004, 11, 30), *[dt.date(2005, 1, 1)] * 3])


def test_moments_fall_into_public_periods():
    for column in moments():
        data = {"t": column if not isinstance(column, pd.DatetimeIndex) else column.to_series()}
        for every, start, end, counts in (
            ("month", "2004-11", "2005-01", [1, 0, 3, 0]),
            ("year", "2005", "2006", [3, 0, 1]),
            ("day", "2004-11-29", "2004-11-30", [0, 1, 3]),
        ):
            column_spec = tacit.Time("t", start, end, every=every)
            schema = tacit.Schema(column_spec, neighbours="add_remove")
            assert exact(data, schema, tacit.queries.Counts("t")).tolist() == counts, (
                column,
                every,
            )


NASTY = [
    None, "", " ", "NaN", "nan", "inf", "-inf", "1e308", "1e400", "-0.0", "5e-324", "9" * 16,
    str(10**30), "0x1F", "1_000", "1,5", "½", "\x00", "\ud800", "yes\x00", "YES", " yes ", "'",
    '"', ";", "infinity", "epoch", "2005-13-45", "9999999-01-01", "-0001-01-01", "DROP TABLE t",
    "%s", "{x}", "é" * 1000, 1e308, float("inf"), 2**70, object, b"\xff", [1, 2], {}, 1j,
]  # fmt: skip


@pytest.mark.parametrize("name", ["c", "i", "n", "r", "t", "m", "u"])
def test_no_cell_can_fail(name):
    schema = tacit.Schema(
        tacit.Categorical("c", ["no", "yes"]),
        tacit.Categorical("i", [0, 1]),
        tacit.Integer("n", 0, 9),
        tacit.Real("r", 0, 1),
        tacit.Time("t", "2005-01-01", "2005-01-03", every="day"),
        tacit.Time("m", "2005-01", "2005-03"),
        unit="u",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    names = [*(column.name for column in schema.columns), "u"]
    cells = ["yes", "1", "3", "0.5", "2005-01-02", "2005-02-01", "someone"]
    good = dict(zip(names, cells, strict=True))
    query = tacit.queries.Counts(["c", "i", "n", "t", "m"])
    base = exact({key: [value] for key, value in good.items()}, schema, query)
    data = {key: [value] * (len(NASTY) + 1) for key, value in good.items()}
    data["u"] = [f"person {i}" for i in range(len(NASTY) + 1)]
    data[name] = [good[name], *NASTY]
    release = tacit.Public(data, schema).release(query, tacit.Exact())
    assert np.all(release.value - base >= 0)
    assert release.value.sum() == len(query.columns) * release.n
    if name != "u":
        assert release.n == len(NASTY) + 1


# Files -----------------------------------------------------------------------------------------


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from([b"a1,\"\n\r\x00\xff\xc3 ye\t'\\", b"yes,\n", b"yes,\n\r \x00"]).flatmap(
        lambda letters: st.lists(st.sampled_from(list(letters)), max_size=60)
    ),
    st.booleans(),
    st.booleans(),
)
def test_no_bytes_in_a_csv_can_fail(tmp_path, body, single, crlf):
    path = tmp_path / "fuzz.csv"
    text = (b"smoker\n" if single else b"smoker,age\n") + bytes(body)
    path.write_bytes(text.replace(b"\n", b"\r\n") if crlf else text)
    release = tacit.Public(path, smoking()).release(tacit.queries.Counts("smoker"), tacit.Exact())
    assert release.value.sum() == release.n


CELL = st.text(st.sampled_from("aé,\"\n\r\x00\ud800\U0010f800 '\t"), max_size=5)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(CELL, st.sampled_from(["yes", "no", "?"])), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_a_csv_writer_wrote_is_read_back(tmp_path, rows, terminator):
    path = tmp_path / "written.csv"
    with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        writer = csv.writer(file, lineterminator=terminator)
        writer.writerows([("note", "smoker"), *rows])
    counts = exact(path, smoking("add_remove"), tacit.queries.Counts("smoker"))
    said = [smoker for _, smoker in rows]
    assert counts.tolist() == [said.count("no"), said.count("yes"), said.count("?")]


@pytest.mark.parametrize("cell", ["z" * 3_000_000, '"' + "q" * 3_000_000 + '"', '"two\nlines"'])
def test_a_long_cell_does_not_lose_its_row(tmp_path, cell):
    path = tmp_path / "long.csv"
    path.write_text(f"note,smoker\nshort,yes\n{cell},yes\nshort,no\n")
    release = tacit.Public(path, smoking()).release(tacit.queries.Counts("smoker"), tacit.Exact())
    assert (release.n, release.value.tolist()) == (3, [1, 2, 0])


def test_a_csv_row_is_never_lost(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(
        b"\xef\xbb\xbfname,smoker\r\n"  # a byte order mark
        b"Ren\xe9,yes\r\n"  # Latin-1 in a UTF-8 file
        b"Ana\r\n"  # too short
        b"Bo,no,extra,cells\r\n"  # too long
        b'"Multi\nline, quoted",yes\r\n'
        b"Cy, yes \r\n"
        b",\r\n"
    )
    assert exact(path, smoking("add_remove"), tacit.queries.Counts("smoker")).tolist() == [1, 3, 2]


def test_an_empty_table_is_an_answer(tmp_path):
    files = {"a.csv": "smoker\n", "b.csv": "smoker", "c.tsv": "x\tsmoker\n", "d.csv": ""}
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        assert exact(path, smoking("add_remove"), tacit.queries.Counts("smoker")).tolist() == [
            0,
            0,
            0,
        ]
    assert exact({"smoker": []}, smoking("add_remove"), tacit.queries.Counts("smoker")).sum() == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: p / "none.csv", "No such file"),
        (lambda p: p / "none.parquet", "No such file"),
        (lambda p: p, "path"),
        (lambda p: "visits.xlsx", "Expected a .csv"),
        (lambda p: "visits*.csv", "without"),
        (lambda p: 3, "got int"),
        (lambda p: {"smoker": "yes"}, "list or array"),
        (lambda p: {"smoker": np.zeros((2, 2))}, "one dimension"),
        (lambda p: {"other": ["yes"]}, "no column 'smoker'"),
        (lambda p: {"Smoker": ["yes"]}, "did you mean 'Smoker'"),
        (lambda p: pa.table({"smoker": [[1]]}), "type"),
        (lambda p: pa.table({"smoker": pa.array([1], pa.duration("s"))}), "type"),
        (lambda p: pl.LazyFrame({"smoker": ["yes"]}), "collect"),
    ],
)
def test_paths_headers_and_types_are_refused_in_words(tmp_path, make, says):
    with pytest.raises(tacit.errors.SourceError, match="(?i)" + says.replace("(", r"\(")):
        tacit.Public(make(tmp_path), smoking())


def test_headers_are_refused_in_words(tmp_path):
    for text, says in (
        ("\nyes\n", "no header"),
        ("smoker,smoker\n", "more than one"),
        ('smoker,"age\nyes,2\nno,"3"\n', "quotation mark in its first line"),
    ):
        path = tmp_path / "x.csv"
        path.write_text(text)
        with pytest.raises(tacit.errors.SourceError, match=says):
            tacit.Public(path, smoking())
    for name in ("x.parquet", "x.csv.gz"):
        (tmp_path / name).write_bytes(b"not what it says")
        with pytest.raises(tacit.errors.SourceError, match="Cannot read"):
            tacit.Public(tmp_path / name, smoking())
    with pytest.raises(tacit.errors.SourceError, match="same length"):
        tacit.Public({"smoker": ["yes"], "u": []}, smoking(unit="u", max_rows_per_unit=1))


# Types -----------------------------------------------------------------------------------------

FAR = 2**62


class Unprintable(str):
    def __str__(self) -> str:
        raise RuntimeError("canary")


SIGNALS = np.array([0x7FA00000, 0x3F800000], "<u4").view("<f4")  # a signalling NaN, and 1

HOSTILE = {
    "signalling": SIGNALS,
    "signalling in pandas": pd.Series(SIGNALS),
    "signalling one by one": list(SIGNALS),
    "durations among cells": ["1", np.timedelta64(5, "s"), dt.timedelta(1)],
    "big-endian": np.array([1, 5], dtype=">i4"),
    "no character": np.frombuffer(np.array([0x110000, 49], "<u4").tobytes(), dtype="<U1"),
    "unprintable": ["1", Unprintable("5"), Unprintable],
    "extension": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16))),
    "dictionary": pa.array([b"1", b"\xff", None]).view(pa.string()).dictionary_encode(),
    "text view": pa.array(["1", None], pa.string_view()),
    "strings": pd.array(["1", None, "\ud800"], dtype="string[python]"),
    "sparse": pd.arrays.SparseArray([1.0, np.nan]),
    "periods": pd.period_range("2005-01", periods=2).to_series(),
    "numpy extension": pd.arrays.NumpyExtensionArray(np.array([1, "x"], dtype=object)),
    "polars text": pl.Series(["1", None], dtype=pl.Categorical),
    "doubles": pa.array([1.0, np.nan, np.inf, -np.inf, 1e300, 2.0**63, 0.5, None]),
    "halves": np.array([1, np.nan, np.inf, 0.5], dtype="f2"),
    "decimals": pa.array([Decimal(10) ** 30, Decimal(1), None], pa.decimal128(38, 0)),
    "big decimals": pa.array([Decimal(10) ** 60, Decimal(1)], pa.decimal256(70, 0)),
    "broken text": pa.array([b"1", b"caf\xe9", b"\xff"]).view(pa.string()),
    "bytes": pa.array([b"1", b"\xff", None]),
    "dates": pa.array([1, 2**31 - 2, -(2**31)], pa.int32()).view(pa.date32()),
    "seconds": pa.array([0, FAR, -(2**63)]).view(pa.timestamp("s")),
    "zoned": pa.array([0, FAR, -(2**63), 2**63 - 1]).view(pa.timestamp("us", tz="UTC")),
    "nanoseconds": pa.array([0, FAR, -(2**63)]).view(pa.timestamp("ns")),
    "numpy years": np.array([0, 10**6, "NaT"], dtype="M8[Y]"),
    "booleans": pa.array([True, None, False]),
    "nothing": pa.nulls(3),
    "polars": pl.Series([1, None, 2**62]),
    "polars odd": pl.Series([object(), 1], dtype=pl.Object),
    "nullable": pd.array([1, None, 2**62], dtype="Int64"),
    "categories": pd.Categorical([1, None, "x"]),
    "intervals": pd.arrays.IntervalArray.from_breaks([0, 1, 2]),
    "masked": np.ma.array([1, 2], mask=[True, False]),
    "deque": deque([1.0, "z"]),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_type_of_column_can_fail(kind):
    """Each counted as text, numbers, moments and, where it may be, as the unit."""
    values = HOSTILE[kind]
    n = len(values)
    for spec in (
        tacit.Categorical("x", ["1", "5"]),
        tacit.Categorical("x", [1, 5]),
        tacit.Categorical("x", [False, True]),
        tacit.Integer("x", 0, 3),
        tacit.Time("x", "1970-01-01", "1970-01-02", every="day"),
        tacit.Time("x", "1969", "2001", every="year"),
    ):
        schema = tacit.Schema(spec, neighbours="replace_one")
        assert exact({"x": values}, schema, tacit.queries.Counts("x")).sum() == n
    schema = tacit.Schema(
        tacit.Categorical("y", ["a"]), unit="x", max_rows_per_unit=1, neighbours="replace_one"
    )
    data = {"x": values, "y": ["a"] * n}
    try:
        source = tacit.Public(data, schema)
    except tacit.errors.SourceError as error:
        assert "unit" in str(error)  # noqa: PT017
    else:
        assert source.release(tacit.queries.Counts("y"), tacit.Exact()).n <= n


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2], dtype=np.longdouble),
        np.array([1j, 1]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.array([1, 2], dtype="m8[s]"),
        pd.Series(pd.to_timedelta([1, None])),
        pd.Series([1, 2], dtype="duration[s][pyarrow]"),
        pl.Series([dt.timedelta(1)] * 2),
        pl.Series([[1], [2]]),
        pa.array([1, 2], pa.duration("s")).dictionary_encode(),
    ],
    ids=str,
)
def test_types_without_single_values_are_refused_before_any_charge(values):
    with pytest.raises(tacit.errors.SourceError, match="type"):
        tacit.Public({"smoker": values}, smoking())


def test_other_cells_do_not_decide_how_an_id_is_read():
    """Which of eight rows is kept for one unit, while only the other unit's id changes."""
    schema = tacit.Schema(
        tacit.Categorical("x", list("abcdefgh")),
        unit="id",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    ids = [Decimal("1.50"), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 5), "\U0010f001"]
    others = [Decimal("2.123"), dt.date(2021, 1, 1), dt.datetime(2021, 1, 1), "zz", b"\xff", 7]
    for one in ids:
        for make in (list, pd.Categorical, lambda v: pd.Series(v, dtype=object)):
            if make is pd.Categorical and isinstance(one, dt.datetime):
                continue  # its type may be a time, which cannot name a unit
            kept = set()
            for other in others:
                data = {"id": make([one] * 8 + [other]), "x": [*"abcdefgh", "none"]}
                kept.add(tuple(exact(data, schema, tacit.queries.Counts("x"))))
            assert len(kept) == 1, (one, make)
    for odd in ([b"t"], [b"\xff"]):
        chunk = pa.array(["\U0010f001".encode()] * 8 + odd).view(pa.string())
        data = pa.table({"id": chunk, "x": [*"abcdefgh", "none"]})
        kept.add(tuple(exact(data, schema, tacit.queries.Counts("x"))))
    assert len(kept) == 1


def test_one_null_changes_no_other_cell():
    """A null must not turn a column of whole numbers into doubles that merge long ones."""
    levels = [str(2**62), str(2**62 + 1)]
    schema = tacit.Schema(tacit.Categorical("x", levels), neighbours="add_remove")
    for make in (
        pa.array,
        pl.Series,
        list,
        deque,
        lambda v: pd.array(v, dtype="Int64"),
        lambda v: pd.Series(v, dtype="int64[pyarrow]"),
        lambda v: pd.Series(v, dtype=object),
    ):
        for odd in (2**62, None):
            counts = exact({"x": make([2**62, 2**62 + 1, odd])}, schema, tacit.queries.Counts("x"))
            assert counts.tolist() == ([2, 1, 0] if odd else [1, 1, 1]), make


def ids():
    yield pa.array([Decimal(2**60 + i) for i in range(4)], pa.decimal128(20, 0))
    yield [b"M\xfcller", b"M\xf6ller", "M\udcf6\udcf6ller", "M\ufffdller"]
    yield ["\ud800", "\ud801", "\U0010f000", "\U0010f800\U0010f000"]
    yield pl.Series([2**60, 2**60 + 1, 2**60 + 2, None])
    yield np.array([2**60, 2**60 + 1, 2**60 + 2, 7])
    yield [1e17, 1e17 + 16, 0.1, 0.1 + 2e-17 * 8]
    yield pa.array([b"\xfc", b"\xf6", b"a", b"b"]).view(pa.string())
    yield [10**5000, 10**5000 + 1, "a", "A"]
    yield pa.chunked_array([["\U0010f4ff", "a"], pa.array([b"\xff", b"b"]).view(pa.string())])
    yield pd.Categorical([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), "x", "y"])
    # two different texts of the same MD5
    clash = "TEXTCOLLBYfGiJUETHQ4hAcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"
    yield [clash, clash.replace("4hA", "4hE"), "a", "b"]


@pytest.mark.parametrize("dtype", [pa.binary(4), pa.uuid()])
def test_bytes_of_a_fixed_size_cannot_name_a_unit(tmp_path, dtype):
    """Trimmed like text, the numbers 9, 10 and 32 in four bytes were one person."""
    size = 4 if dtype == pa.binary(4) else 16
    ids = pa.array([i.to_bytes(size, "big") for i in (9, 10, 32, 33)], pa.binary(size)).cast(dtype)
    table = pa.table({"id": ids, "smoker": ["yes"] * 4})
    pq.write_table(table, tmp_path / "a.parquet")
    for source in (table, tmp_path / "a.parquet"):
        with pytest.raises(tacit.errors.SourceError, match="become equal"):
            tacit.Public(source, smoking(unit="id", max_rows_per_unit=1))


def test_types_that_ibis_does_not_know_are_refused():
    """Bits were read as text of their bytes: 00100000 and 0010000000100000 were one person."""
    duck = ibis.duckdb.connect()
    duck.raw_sql("CREATE TABLE t (id BIT, smoker TEXT)")
    with pytest.raises(tacit.errors.SourceError, match="'id' has type"):
        tacit.Public(duck.table("t"), smoking(unit="id", max_rows_per_unit=1))


def test_different_ids_are_different_units(tmp_path):
    schema = smoking(unit="id", max_rows_per_unit=1)
    for column in ids():
        data = {"id": column, "smoker": ["yes"] * 4}
        people = 4 - sum(value is None for value in list(column))
        release = tacit.Public(data, schema).release(tacit.queries.Counts("smoker"), tacit.Exact())
        assert release.n == people, column
    path = tmp_path / "latin.csv"
    path.write_bytes(
        b"id,smoker\nM\xfcller,yes\nM\xf6ller,yes\nM\xef\xbf\xbdller,no\na\rb,no\na b,no\n"
    )
    assert tacit.Public(path, schema).release(tacit.queries.Counts("smoker"), tacit.Exact()).n == 5
    for terminator in ("\n", "\r\n"):
        with path.open("w", newline="", encoding="utf-8") as file:
            names = ["a\r\nb", "a\nb", "a\rb", "a\U0010f80db", "ab", "ab\r", "ab\n"]
            rows = [("smoker", "id"), *(("yes", name) for name in names)]
            csv.writer(file, lineterminator=terminator, quoting=csv.QUOTE_ALL).writerows(rows)
        release = tacit.Public(path, schema).release(tacit.queries.Counts("smoker"), tacit.Exact())
        assert release.n == 5  # blanks at the end are trimmed, and only there


def test_a_column_that_ignores_case_does_not_merge_levels():
    engine = ibis.duckdb.connect()
    engine.raw_sql("CREATE TABLE t (smoker TEXT COLLATE NOCASE)")
    engine.raw_sql("INSERT INTO t VALUES ('yes'), ('YES'), ('Yes'), ('no')")
    counts = exact(engine.table("t"), smoking(), tacit.queries.Counts("smoker"))
    assert counts.tolist() == [1, 1, 2]


def test_an_engine_that_ignores_case_does_not_merge_units():
    engine = ibis.duckdb.connect()
    engine.raw_sql("SET default_collation='nocase'")
    table = engine.create_table("t", pa.table({"id": ["a", "A"], "smoker": ["yes", "no"]}))
    schema = smoking(unit="id", max_rows_per_unit=1)
    assert tacit.Public(table, schema).release(tacit.queries.Counts("smoker"), tacit.Exact()).n == 2


def test_times_cannot_name_a_unit(tmp_path):
    schema = smoking(unit="id", max_rows_per_unit=1)
    moment = np.array(["2005-01-01"], dtype="M8[ns]")
    table = pa.table({"id": moment, "smoker": ["yes"]})
    pq.write_table(table, tmp_path / "t.parquet")
    frame = pd.DataFrame({"id": moment, "smoker": ["yes"]})
    path = tmp_path / "t.parquet"
    stored = ibis.duckdb.connect().create_table("t", table)
    for source in (table, frame, pl.from_arrow(table), path, stored):
        with pytest.raises(tacit.errors.SourceError, match="unit"):
            tacit.Public(source, schema)


def test_hostile_parquet_is_read(tmp_path):
    texts = pa.array([b"yes", b"caf\xe9", b"no"]).view(pa.string())
    pq.write_table(pa.table({"smoker": texts}), tmp_path / "x.parquet")
    counts = exact(tmp_path / "x.parquet", smoking("add_remove"), tacit.queries.Counts("smoker"))
    assert counts.tolist() == [1, 1, 1]
    (tmp_path / "f0=no").mkdir()  # a partition's name is not a column
    (tmp_path / "f0=no" / "f.csv").write_text("smoker\nyes\n")
    counts = exact(
        tmp_path / "f0=no" / "f.csv", smoking("add_remove"), tacit.queries.Counts("smoker")
    )
    assert counts.tolist() == [0, 1, 0]
    (tmp_path / "smoker=no").mkdir()
    inner = tmp_path / "smoker=no" / "f.parquet"
    pq.write_table(pa.table({"smoker": ["yes"]}), inner)
    counts = exact(inner, smoking("add_remove"), tacit.queries.Counts("smoker"))
    assert counts.tolist() == [0, 1, 0]


@pytest.mark.parametrize("text", [str, str.encode])
def test_a_text_more_than_a_parquet_file_has_indices_for_is_read(tmp_path, text):
    """Arrow restores 8-bit indices: the 128th different text of a column made reading fail."""
    schema = tacit.Schema(tacit.Categorical("x", ["w0", "w100"]), neighbours="add_remove")
    for size in (127, 128, 200):
        words = [text(f"w{i}") for i in range(size)]
        index = pa.array(range(100), pa.int8())
        chunks = [
            pa.DictionaryArray.from_arrays(index[: len(some)], some)
            for some in (words[:100], words[100:])
        ]
        pq.write_table(pa.table({"x": pa.chunked_array(chunks)}), tmp_path / "a.parquet")
        found = exact(tmp_path / "a.parquet", schema, tacit.queries.Counts("x"))
        assert found.tolist() == [1, 1, size - 2]


@pytest.mark.slow
def test_texts_too_long_for_one_dictionary_are_read(tmp_path):
    """More than 2^31 bytes of different texts in a row group: one cell made reading fail."""
    texts = pa.chunked_array([[f"{i} " + "a " * 2**19] for i in range(2100)])
    pq.write_table(pa.table({"x": texts}), tmp_path / "a.parquet", compression="zstd")
    schema = tacit.Schema(tacit.Categorical("x", ["0"]), neighbours="add_remove")
    assert exact(tmp_path / "a.parquet", schema, tacit.queries.Counts("x")).tolist() == [0, 2100]


def test_a_file_without_a_header_is_not_quoted_back(tmp_path):
    path = tmp_path / "h.csv"
    for text in ("SECRETCELL12345,42\nx,1\n", "my smoker SECRET,7\n", "a,smoker\rSECRET,b\r"):
        path.write_bytes(text.encode())
        with pytest.raises(tacit.errors.SourceError) as caught:
            tacit.Public(path, smoking())
        assert "SECRET" not in str(caught.value)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "a.csv"
    path.write_bytes(b"smoker\nyes\n\xff\n")
    exact(path, smoking(), tacit.queries.Counts("smoker"))
    assert os.listdir(tmp_path) == ["a.csv"]


# What one cell must not decide ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d.csv.gz", "D.CSV.GZ"])
@pytest.mark.parametrize("quoted", ["yes", '"yes"'])
@pytest.mark.parametrize("padding", [b"", bytes(512)])
def test_one_quotation_mark_does_not_change_how_a_compressed_file_is_read(
    tmp_path, name, quoted, padding
):
    path = tmp_path / name
    text = "smoker\n" + "no\n" * 500 + quoted + "\n"
    path.write_bytes(gzip.compress(text.encode()) + padding)
    release = tacit.Public(path, smoking()).release(tacit.queries.Counts("smoker"), tacit.Exact())
    assert (release.n, release.value.tolist()) == (501, [500, 1, 0])


def refused(table, says):
    with pytest.raises(tacit.errors.SourceError, match=says):
        tacit.Public(table, smoking())


def test_a_table_elsewhere_does_not_vouch_for_a_view_of_its_name():
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE raw AS SELECT 'zz' AS smoker")
    con.raw_sql("CREATE VIEW v AS SELECT CAST(smoker AS INTEGER) AS smoker FROM raw")
    con.raw_sql("CREATE SCHEMA other; CREATE TABLE other.v AS SELECT 'yes' AS smoker")
    refused(con.table("v"), "is a view")
    assert (
        exact(con.table("v", database="other"), smoking(), tacit.queries.Counts("smoker"))[1] == 1
    )
    con.raw_sql("CREATE TABLE t AS SELECT 'yes' AS smoker")
    con.raw_sql("CREATE TEMP VIEW t AS SELECT CAST(smoker AS INTEGER) AS smoker FROM raw")
    refused(con.table("t"), "found 2: give its schema")


def test_generated_columns_are_refused():
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE g (x TEXT, smoker INTEGER GENERATED ALWAYS AS (CAST(x AS INTEGER)))")
    refused(con.table("g"), "generated columns")


def test_a_macro_of_the_database_cannot_read_for_a_cell():
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE t AS SELECT unnest(['yes', 'no', 'yes']) AS smoker")
    con.raw_sql("CREATE MACRO encode(a) AS (SELECT max(smoker) FROM t WHERE smoker <> a)::BLOB")
    con.raw_sql("CREATE MACRO duckdb_tables() AS TABLE SELECT smoker FROM t")
    con.raw_sql("CREATE MACRO current_schema() AS error('called')")
    counts = exact(con.table("t"), smoking(), tacit.queries.Counts("smoker")).tolist()
    assert (
        counts
        == exact(
            {"smoker": ["yes", "no", "yes"]}, smoking(), tacit.queries.Counts("smoker")
        ).tolist()
    )


def test_whole_numbers_are_exact_in_the_widest_range():
    schema = tacit.Schema(tacit.Integer("x", -(2**53), 2**53 - 1), neighbours="replace_one")
    with open_data({"x": [5, 2**53 - 1, -(2**53)]}, schema).snapshot() as snapshot:
        rows = load(snapshot, schema, ("x",))
    assert rows.values[:, 0].tolist() == [5, 2**53 - 1, -(2**53)]


def test_bytes_of_a_fixed_size_are_text_like_any_other():
    table = pa.table({"smoker": pa.array([b"yes", b"no ", None], pa.binary(3))})
    assert exact(table, smoking(), tacit.queries.Counts("smoker")).tolist() == [1, 1, 1]


@pytest.mark.parametrize("later", [None, "age,smoker\n3,yes\n", "smoker\n"])
def test_a_file_that_has_other_columns_by_now_is_refused_before_the_charge(tmp_path, later):
    path = tmp_path / "t.csv"
    path.write_text("smoker,age\nyes,3\n")
    wall = tacit.Wall(path, smoking(), budget=tacit.Budget(1), ledger=":memory:")
    path.write_text("smoker,age\nno,3\nyes,4\n")  # other rows are another matter
    assert wall.release(tacit.queries.Counts("smoker"), tacit.Laplace(0.5)).n == 2
    if later is None:
        path.unlink()
    else:
        path.write_text(later)
    with pytest.raises(tacit.errors.SourceError, match=r"Cannot read|Nothing was charged"):
        wall.release(tacit.queries.Counts("smoker"), tacit.Laplace(0.5))
    assert str(wall.remaining.epsilon) == "0.5"


def test_chunks_with_dictionaries_of_their_own_are_read_chunk_by_chunk():
    """Whether the union of their dictionaries fits the type of the indices is up to one record."""
    first = (
        pa.array([f"v{i}" for i in range(127)])
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.string()))
    )
    for last in ("yes", "no", None):
        second = pa.DictionaryArray.from_arrays(
            pa.array([0, 0], pa.int8()), pa.array([last], pa.string())
        )
        table = pa.table({"smoker": pa.chunked_array([first, second])})
        for data in (table, table.to_pandas(types_mapper=pd.ArrowDtype)):
            counts = exact(data, smoking(), tacit.queries.Counts("smoker"))
            assert counts.tolist() == [
                2 * (last == "no"),
                2 * (last == "yes"),
                127 + 2 * (not last),
            ]


def test_a_dictionary_is_read_whatever_texts_it_holds():
    """Views cannot be taken by index, and 32-bit offsets end at 2 GB: one long cell would do it."""
    views = pa.array(["yes", "no"], pa.string_view()).dictionary_encode()
    table = pa.table({"smoker": pa.chunked_array([views, views])})
    assert exact(table, smoking(), tacit.queries.Counts("smoker")).tolist() == [2, 2, 0]
    texts = tables.plain(pa.array(["yes", "no"]).dictionary_encode())
    assert pa.types.is_large_binary(texts.type)


@pytest.mark.parametrize(
    ("owners", "says"),
    [
        (np.array([2.0**53, 2.0**53 + 2, np.nan]), "names the unit and has type double"),
        (np.array(["2020", "2021", "2022"], "M8[D]"), "expected text or numbers"),
        (np.array([1, 2, 3], "m8[s]"), "expected text, numbers or dates"),
        ("abc", "list or array"),
    ],
)
def test_who_wrote_a_document_is_checked_like_any_unit_column(owners, says):
    schema = tacit.Schema(
        tacit.Tokens("words", ["a", "b"], 9),
        unit="who",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    matrix = csr_matrix(np.ones((3, 2)))
    assert tacit.Public(matrix, schema, owners=[1, 2, 3]).n_units == 3
    with pytest.raises(tacit.errors.SourceError, match=says):
        tacit.Public(matrix, schema, owners=owners)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([Decimal(1), Decimal(2)], pa.decimal32(9, 0)),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["yes"])),
        pa.array([[1], [2]]),
        pa.array([1, 2], pa.duration("s")),
    ],
    ids=lambda values: str(values.type),
)
def test_other_types_are_refused_by_name_before_the_charge(values):
    with pytest.raises(tacit.errors.SourceError, match="expected text, numbers or dates"):
        tacit.Public(pa.table({"smoker": values}), smoking())


def test_the_header_of_the_table_that_is_read_is_looked_at_again():
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE SCHEMA a; CREATE SCHEMA b; USE a; CREATE TABLE t AS SELECT 'yes' AS smoker")
    wall = tacit.Wall(con.table("t"), smoking(), budget=tacit.Budget(1), ledger=":memory:")
    con.raw_sql("DROP TABLE a.t; CREATE VIEW a.t AS SELECT error('x') AS smoker")
    con.raw_sql("CREATE TABLE b.t AS SELECT 'no' AS smoker; USE b")
    with pytest.raises(tacit.errors.SourceError, match="is a view"):
        wall.release(tacit.queries.Counts("smoker"), tacit.Laplace(0.5))
    assert wall.remaining.epsilon == 1


@pytest.mark.parametrize("kind", ["long", "damaged"])
def test_a_header_that_cannot_be_read_is_one_sentence(tmp_path, kind):
    path = tmp_path / "t.csv.gz"
    text = b"x" * 200_000 + b",smoker\nyes\n" if kind == "long" else b"smoker\nyes\n" * 99
    packed = bytearray(gzip.compress(text))
    if kind == "damaged":
        packed[12:20] = bytes(8)
    path.write_bytes(packed)
    with pytest.raises(tacit.errors.SourceError, match="Cannot read"):
        tacit.Public(path, smoking())


def test_a_duckdb_file_is_read_like_any_other_source(tmp_path):
    path = tmp_path / "smokers.duckdb"
    with duckdb.connect(path) as con:
        con.execute("CREATE SCHEMA clinic")
        con.register("rows", pa.table(SMOKERS))
        con.execute("CREATE TABLE clinic.visits AS SELECT * FROM rows")
    table = tacit.Table(path, "clinic.visits", version="2026-11")
    np.testing.assert_array_equal(exact(table, SCHEMA, QUERY), exact(SMOKERS, SCHEMA, QUERY))
    wall = tacit.Wall(table, SCHEMA, budget=tacit.Budget(1), ledger=tmp_path / "a.ledger")
    wall.release(QUERY, tacit.Laplace(0.5))
    lease = tacit.Ledger(tmp_path / "a.ledger").entries()[-1]
    assert lease["event"]["version"] == "2026-11"
    for name, file in (("visits", path), ("clinic.visits", tmp_path / "none.db")):
        with pytest.raises(tacit.errors.SourceError, match=r"Nothing was charged"):
            tacit.Public(tacit.Table(file, name), SCHEMA)


def test_what_duckdb_reads_for_one_release_is_one_version():
    """Each read was a query of its own, and rows written in between were in one of them alone."""
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE t AS SELECT 'yes' AS smoker")
    with open_data(con.table("t"), smoking()).snapshot() as snapshot:
        rows = [sum(len(cells) for (cells,) in snapshot.batches(["smoker"]))]
        con.raw_sql("INSERT INTO t SELECT 'no' FROM range(9)")
        rows += [sum(len(cells) for (cells,) in snapshot.batches(["smoker"]))]
        rows += [sum(int(group.rows.sum()) for group in snapshot.groups([["smoker"]]))]
    assert rows == [1, 1, 1]
    assert exact(con.table("t"), smoking(), QUERY_SMOKER).sum() == 10


def test_what_a_lease_reads_of_duckdb_is_one_version():
    """Columns that are asked for later are of the same rows."""
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE t AS SELECT 0.5 AS x, 0.5 AS y FROM range(3)")
    reals = tacit.Schema(tacit.Real("x", 0, 1), tacit.Real("y", 0, 1), neighbours="replace_one")
    wall = tacit.Wall(con.table("t"), reals, budget=tacit.Budget(9, 1e-3), ledger=":memory:")
    steps = tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=2.0))
    lease = wall.prepay(tacit.queries.Plan(steps, delta=1e-6))
    found = []
    for name in ("x", "y"):
        kernel, state = tacit.queries.Kernel("columns.values"), (np.zeros(1), np.zeros(1))
        asked = tacit.queries.BoundedSum(kernel, name, size=1, clip=1, state=state)
        found.append(lease.release(asked).n)
        con.raw_sql("INSERT INTO t SELECT 1, 1 FROM range(5)")
    assert found == [3, 3]
    assert wall.n_units == 13


def test_more_columns_than_one_grouping_takes_are_grouped_alone():
    names = [f"x{i}" for i in range(40)]
    table = pa.table({name: pa.array([0, 1, 1]) for name in names})
    schema = tacit.Schema(*(tacit.Integer(n, 0, 1) for n in names), neighbours="add_remove")
    query = tacit.queries.Counts([*names, (names[0], names[1])])
    stored = ibis.duckdb.connect().create_table("t", table)
    np.testing.assert_array_equal(exact(stored, schema, query), exact(table, schema, query))
    with open_data(stored, schema).snapshot() as snapshot:
        (group,) = snapshot.groups([names])
    assert sorted(group.rows.tolist()) == [1, 2]


def test_a_table_that_one_connection_alone_sees_is_refused():
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TEMP TABLE t AS SELECT 'yes' AS smoker")
    refused(con.table("t"), "not temporary")


@pytest.mark.parametrize(
    ("source", "name", "says"),
    [
        ("visits.txt", "t", "path of a DuckDB file"),
        ("mysql://host/base", "t", "postgresql://host/database"),
        ("postgresql://host/a b", "t", "Expected an address"),
        ("postgresql://u:secret@host/base", "t", "without a password"),
        ("postgresql://u:se/cr@et@host/base", "t", "without a password"),
        ("postgresql://host/base?password=secret", "t", "options of the address"),
        ("postgresql://host/base?secret", "t", "options of the address"),
        ("visits.duckdb", "", "name of a table"),
    ],
)
def test_an_address_that_is_none_or_holds_a_password_is_refused_unseen(source, name, says):
    with pytest.raises(tacit.errors.SourceError, match=says) as error:
        tacit.Table(source, name)
    assert "secret" not in str(error.value)


def test_where_a_table_is_shows_no_user():
    table = tacit.Table("postgresql://me:${PW}@[::1]:5432,b:5433/base?sslmode=require", "a.b")
    assert repr(table) == "Table('postgresql://[::1]:5432,b:5433/base', 'a.b')"
    with pytest.raises(tacit.errors.SourceError, match=r"\$\{PW\}"):
        _ = table.address


def test_a_text_that_is_too_long_is_missing_wherever_it_is(tmp_path):
    """Whether an engine sends a row would else be a matter of one cell."""
    said = ["yes".rjust(WORD), "yes".rjust(WORD + 1), "7".rjust(WORD + 1), "no"]
    table = pa.table({"x": said})
    pq.write_table(table, tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(said) + "\n")
    places = [{"x": said}, {"x": np.array(said)}, table, {"x": table["x"].dictionary_encode()}]
    places += [{"x": [each.encode() for each in said]}, tmp_path / "x.parquet", tmp_path / "x.csv"]
    levels = tacit.Categorical("x", ["yes", "no", "7"])
    schema = tacit.Schema(levels, neighbours="add_remove")
    for place in places:
        assert exact(place, schema, tacit.queries.Counts("x")).tolist() == [1, 1, 0, 2]
