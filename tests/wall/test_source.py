"""Every kind of source gives the same integers, and no cell of any of them can fail."""

import datetime as dt
import gzip
import os
from decimal import Decimal
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tacit
from tests.conftest import SMOKERS, exact, smoking

SCHEMA = tacit.Schema(
    tacit.Categorical("smoker", ["no", "yes"]),
    tacit.Integer("age", 0, 120),
    unit="who",
    max_rows_per_unit=2,
    neighbours="replace_one",
)
QUERY = tacit.Counts(["smoker", "age"])


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
    yield "ibis memtable", ibis.memtable(frame)
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
        assert exact({"x": column}, schema, tacit.Counts("x")).tolist() == [1, 3, 0], type(column)


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
                assert exact(data, schema, tacit.Counts("x")).tolist() == [1, 2, 1]


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
    assert exact({"x": column}, schema, tacit.Counts("x")).tolist() == [1, 2, 0]


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
            assert exact(data, schema, tacit.Counts("t")).tolist() == counts, (column, every)


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
    query = tacit.Counts(["c", "i", "n", "t", "m"])
    base = exact({key: [value] for key, value in good.items()}, schema, query)
    data = {key: [value] * (len(NASTY) + 1) for key, value in good.items()}
    data["u"] = [f"person {i}" for i in range(len(NASTY) + 1)]
    data[name] = [good[name], *NASTY]
    release = tacit.Public(data, schema).release(query, tacit.Exact())
    assert np.all(release.value - base >= 0)
    assert release.value.sum() == len(query.columns) * release.n
    if name != "u":
        assert release.n == len(NASTY) + 1


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(list(b"a1,\"\n\r\x00\xff\xc3 ye\t'\\")), max_size=80))
def test_no_bytes_in_a_csv_can_fail(tmp_path, body):
    path = tmp_path / "fuzz.csv"
    path.write_bytes(b"smoker,age\n" + bytes(body))
    assert exact(path, smoking("add_remove"), tacit.Counts("smoker")).sum() >= 0


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
    assert exact(path, smoking("add_remove"), tacit.Counts("smoker")).tolist() == [1, 3, 2]


def test_an_empty_table_is_an_answer(tmp_path):
    for name, text in (("a.csv", "smoker\n"), ("b.csv", "smoker"), ("c.tsv", "x\tsmoker\n")):
        path = tmp_path / name
        path.write_text(text)
        assert exact(path, smoking("add_remove"), tacit.Counts("smoker")).tolist() == [0, 0, 0]
    assert exact({"smoker": []}, smoking("add_remove"), tacit.Counts("smoker")).sum() == 0


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
        (lambda p: {"other": ["yes"]}, "no column 'smoker'; it has other"),
        (lambda p: pa.table({"smoker": [[1]]}), "type"),
        (lambda p: pl.LazyFrame({"smoker": ["yes"]}), "collect"),
    ],
)
def test_paths_headers_and_types_are_refused_in_words(tmp_path, make, says):
    with pytest.raises(tacit.SourceError, match="(?i)" + says.replace("(", r"\(")):
        tacit.Public(make(tmp_path), smoking())


def test_headers_are_refused_in_words(tmp_path):
    for text, says in (
        ("", "no header"),
        ("\nyes\n", "no header"),
        ("smoker,smoker\n", "more than one"),
    ):
        path = tmp_path / "x.csv"
        path.write_text(text)
        with pytest.raises(tacit.SourceError, match=says):
            tacit.Public(path, smoking())
    for name in ("x.parquet", "x.csv.gz"):
        (tmp_path / name).write_bytes(b"not what it says")
        with pytest.raises(tacit.SourceError, match="Cannot read"):
            tacit.Public(tmp_path / name, smoking())
    with pytest.raises(tacit.SourceError, match="same length"):
        tacit.Public({"smoker": ["yes"], "u": []}, smoking(unit="u", max_rows_per_unit=1))
    words = tacit.Schema(tacit.Tokens("w", ["a"], max_length=3), neighbours="add_remove")
    with pytest.raises(tacit.SourceError, match="document-term"):
        tacit.Public({"w": ["a"]}, words)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "a.csv"
    path.write_bytes(b"smoker\nyes\n\xff\n")
    exact(path, smoking(), tacit.Counts("smoker"))
    assert os.listdir(tmp_path) == ["a.csv"]
