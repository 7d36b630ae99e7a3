"""Codings that once made every cell missing: read now, refused before a charge, or warned of."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit

Q = tacit.queries


def counted(cells, column):
    """How many cells have each label, and last how many have none."""
    schema = tacit.Schema(column, neighbours="add_remove")
    public = tacit.Public({column.name: cells}, schema)
    return public.release(Q.Counts(column.name), tacit.Exact()).value.tolist()


@pytest.mark.parametrize(
    ("cells", "column", "expected"),
    [
        (["1", "2.0", "1.00", "3", "1.5"], tacit.Categorical("x", ["1", "2"]), [2, 1, 2]),
        ([1.0, 2.0, np.nan], tacit.Categorical("x", ["1", "2"]), [1, 1, 1]),
        (["1", "1.0"], tacit.Categorical("x", ["1", "1.0"]), [1, 1, 0]),
        (["01.0", "1.0"], tacit.Categorical("x", ["01", "1"]), [1, 1, 0]),
        (
            ["1", "0", "1.0", "TRUE", "yes", "N", "f", "2", ""],
            tacit.Categorical("x", [False, True]),
            [3, 4, 2],
        ),
        ([1, 0, 1, None], tacit.Categorical("x", [False, True]), [1, 2, 1]),
        (
            ["1", "2.0", "male", "Male", "9"],
            tacit.Categorical("x", codes={"1": "male", "2": "female"}),
            [2, 1, 2],
        ),
        (["1", "2", "0", "True"], tacit.Categorical("x", codes={1: True, 2: False}), [2, 1, 1]),
        (
            ["31.12.2025", "1.1.2026", "2025-12-31", "31.13.2025", dt.date(2026, 1, 2)],
            tacit.Time("x", "2025", "2026", every="year", format="%d.%m.%Y"),
            [1, 2, 2],
        ),
        (
            ["12/31/2025 23:05", "12/31/2025"],
            tacit.Time("x", "2025-12-31T22", "2025-12-31T23", "hour", format="%m/%d/%Y %H:%M"),
            [0, 1, 1],
        ),
        (
            [20251231, "20260105", "2026010"],
            tacit.Time("x", "2026-W01", "2026-W02", every="week", format="%Y%m%d"),
            [1, 1, 1],
        ),
        (
            ["2025-09-30", "2025-10-01", pd.Timestamp("2025-12-31 23:59")],
            tacit.Time("x", "2025-Q3", "2025-Q4", every="quarter"),
            [1, 2, 0],
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_a_cell_means(cells, column, expected):
    assert counted(cells, column) == expected


def test_several_values_become_a_target_of_two_levels():
    """The severity of a disease, 0 to 4, as whether there is one: by codes, in the schema."""
    model = tacit.LogisticRegression("num", ["x"])
    five = tacit.Categorical("num", [0, 1, 2, 3, 4])
    with pytest.raises(tacit.errors.ModelError, match=r'codes=.*"2": "yes"'):
        model.design(tacit.Schema(five, tacit.Real("x", 0, 1), neighbours="replace_one"))
    two = tacit.Categorical("num", codes={"0": "no"} | dict.fromkeys("1234", "yes"))
    model.design(tacit.Schema(two, tacit.Real("x", 0, 1), neighbours="replace_one"))
    assert counted([0, 1.0, "2", "4.0", None], two) == [1, 3, 1]


# Files

TOWNS = tacit.Schema(
    tacit.Categorical("Städtchen", ["Nörd", "Süd"]),
    tacit.Real("bmi", 10, 60),
    neighbours="add_remove",
)
TEXT = "Städtchen;bmi\nNörd;23,5\nNörd;30\nSüd;1.000,5\n"


def towns(source):
    public = tacit.Public(source, TOWNS)
    counts = public.release(Q.Counts("Städtchen"), tacit.Exact()).value.tolist()
    return counts, public.release(Q.Moments("bmi", degree=1), tacit.Exact()).value.tolist()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "iso-8859-15"])
def test_a_file_says_how_it_is_to_be_read(tmp_path, encoding):
    path = tmp_path / "towns.txt"
    path.write_bytes(TEXT.encode(encoding))
    file = tacit.CSV(path, encoding=encoding, separator=";", decimal=",")
    counts, (rows, total) = towns(file)
    assert counts == [2, 1, 0]
    assert rows == 2  # a thousand and a half is out of bounds, however it is written
    np.testing.assert_allclose(total * 25 + 2 * 35, 53.5)


def test_what_the_header_shows_is_said_before_any_charge(tmp_path):
    path = tmp_path / "towns.csv"
    ledger = tmp_path / "towns.ledger"
    for written, says in (
        (TEXT.encode(), r"CSV\('towns.csv', separator=';'\)"),
        (b'"bmi";' + '"Städtchen"'.encode(), "separator=';'"),
        (TEXT.encode("utf-16"), "UTF-16.*iconv"),
        (TEXT.encode("utf-16-le"), "UTF-16.*iconv"),
        (TEXT.replace(";", ",").encode("latin-1"), "encoding="),
    ):
        path.write_bytes(written)
        with pytest.raises(tacit.errors.SourceError, match=says):
            tacit.Wall(path, TOWNS, budget=tacit.Budget(1), ledger=ledger)
    assert not ledger.exists()


@pytest.mark.parametrize(
    "encoding", ["utf-16", "shift_jis", "gb18030", "utf-7", "rot13", "x", "idna"]
)
def test_an_encoding_in_which_one_cell_could_spoil_others_is_refused(encoding):
    with pytest.raises(tacit.errors.SourceError, match="iconv"):
        tacit.CSV("a.csv", encoding=encoding)
    with pytest.raises(tacit.errors.SourceError, match="Parquet"):
        tacit.CSV("a.parquet", encoding=encoding)


WORDS = st.lists(st.sampled_from([*b"a,", *range(128, 133), *range(200, 256)]), max_size=4).map(
    bytes
)


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5), st.sampled_from(["cp1252", "koi8-r"]))
def test_cells_are_transcoded_one_by_one(tmp_path_factory, words, encoding):
    """Whatever bytes: as each cell alone, a byte that stands for nothing as itself."""
    path = tmp_path_factory.mktemp("cells") / "a.csv"
    path.write_bytes(b"x;y\n" + b"".join(b"%b;1\n" % word for word in words))
    decoded = ["".join(_letter(byte, encoding) for byte in word) for word in words]
    levels = set(decoded) - {""}
    column = tacit.Categorical("x", sorted(levels) or ["a"])
    schema = tacit.Schema(column, neighbours="add_remove")
    file = tacit.CSV(path, encoding=encoding, separator=";")
    found = tacit.Public(file, schema).release(Q.Counts("x"), tacit.Exact()).value
    assert found.tolist() == [*map(decoded.count, column.levels), decoded.count("")]


def _letter(byte, encoding):
    letter = bytes([byte]).decode(encoding, "replace")
    return chr(0xE000 + byte) if letter == "\ufffd" else letter


def test_people_whose_names_differ_in_a_byte_stay_apart(tmp_path):
    """Merged, one of them could push out the other's rows: more than add_remove allows."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"who,x\n\x81,a\n\x8d,a\n\x90,a\n\x81,a\n")
    schema = tacit.Schema(
        tacit.Categorical("x", ["a"]), unit="who", max_rows_per_unit=1, neighbours="replace_one"
    )
    assert tacit.Public(tacit.CSV(path, encoding="cp1252"), schema).n_units == 3
