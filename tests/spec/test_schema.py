import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import Categorical, Integer, Real, Schema, Time, Tokens
from tacit.errors import SchemaError

EVERY_KIND = Schema(
    Categorical("a", ["x", "y"], default="x"),
    Categorical("b", [0, 1]),
    Categorical("c", [False, True]),
    Categorical("h", codes={1: "low", "2": "high", "02": "high"}),
    Time("i", "2004-Q1", "2005", every="quarter", format="%d.%m.%Y"),
    Integer("d", 0, 3, default=1),
    Real("e", -1, 2.5, default=0),
    Time("f", "2004-11", "2005-02", default="2005-01"),
    Tokens("g", ["word"], max_length=5),
    unit="who",
    max_rows_per_unit=3,
    max_units=100,
    neighbours="add_remove",
)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Real("bmi"), "Real('bmi', low, high)"),
        (lambda: Real("bmi", 3), "bounds"),
        (lambda: Real("bmi", 3, 2), "low=3.0 < high=2.0"),
        (lambda: Real("bmi", 0, float("inf")), "finite"),
        (lambda: Real("bmi", 0, 1, default=2), "default"),
        (lambda: Integer("age"), "Integer('age', low, high)"),
        (lambda: Integer("age", 0.5, 2), "whole"),
        (lambda: Integer("age", 0, 2**60), "whole"),
        (lambda: Categorical("sex"), "never taken from the data"),
        (lambda: Categorical("sex", "mf"), "list"),
        (lambda: Categorical("sex", ["m", "m"]), "once"),
        (lambda: Categorical("sex", ["m", 1]), "all text"),
        (lambda: Categorical("sex", [" m", "f"]), "blanks"),
        (lambda: Categorical("sex", ["", "f"]), "empty"),
        (lambda: Categorical("sex", ["m", "f"], default="x"), "default"),
        (lambda: Categorical("n", [0, 1], default=True), "default"),
        (lambda: Categorical("sex", {"m", "f"}), "order"),
        (lambda: Categorical("sex", frozenset({"m", "f"})), "order"),
        (lambda: Categorical("n", [0.0, 1.0]), "got float"),
        (lambda: Categorical("sex", codes={"": "m"}), "none empty"),
        (lambda: Categorical("sex", codes=["1", "2"]), "codes"),
        (lambda: Categorical("sex", codes={"1": "m", 1: "f"}), "each once"),
        (lambda: Categorical("sex", ["m"], codes={"1": "f"}), "among levels"),
        (lambda: Time("when", "2004", "2005", format="%d.%m.%y"), "%Y"),
        (lambda: Time("when", "2004", "2005", format="%Y-%m-%b"), "%Y"),
        (lambda: Time("when", "2004", "2005", every="hour", format="%d.%m.%Y"), "%H"),
        (lambda: Time("when", "2004-Q5", "2005"), "date"),
        (lambda: Time("when", "2004-W60", "2005", every="week"), "date"),
        (lambda: Time("when"), "public bounds"),
        (lambda: Time("when", "2004", "soon"), "date"),
        (lambda: Time("when", "2005", "2004"), "start <= end"),
        (lambda: Time("when", "2004", "2005", every="decade"), "every"),
        (lambda: Tokens("text", ["a"]), "max_length"),
        (lambda: Schema(Real("x", 0, 1)), "neighbours"),
        (lambda: Schema(neighbours="replace_one"), "at least one column"),
        (lambda: Schema(Real("x", 0, 1), unit="id", neighbours="replace_one"), "max_rows_per_unit"),
        (lambda: Schema(Real("x", 0, 1), max_rows_per_unit=2, neighbours="replace_one"), "unit"),
        (lambda: Schema(Real("x", 0, 1), Real("x", 0, 2), neighbours="add_remove"), "once"),
        (lambda: Schema("x", neighbours="add_remove"), "column"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(make, says):
    with pytest.raises(SchemaError, match="Expected") as caught:
        make()
    assert says in str(caught.value)


def test_a_schema_survives_plain_values():
    again = Schema.from_dict(EVERY_KIND.to_dict())
    assert again == EVERY_KIND
    assert again.digest == EVERY_KIND.digest


def test_the_digest_sees_every_change():
    other = {**EVERY_KIND.to_dict(), "max_units": 101}
    assert Schema.from_dict(other).digest != EVERY_KIND.digest


def test_an_unknown_column_is_named_with_those_there_are():
    with pytest.raises(SchemaError, match=r"No column 'z'.*a, b, c"):
        EVERY_KIND["z"]


def test_time_has_periods():
    assert Time("t", "2003-12-31", "2004-01-02", every="day").labels == (
        "2003-12-31",
        "2004-01-01",
        "2004-01-02",
    )
    assert Time("t", "2003", "2005", every="year").labels == ("2003", "2004", "2005")


@pytest.mark.parametrize(
    ("every", "labels"),
    [
        ("quarter", ("2004-Q4", "2005-Q1")),
        ("week", ("2004-W53", "2005-W01")),
        ("hour", ("2004-12-31T23", "2005-01-01T00")),
    ],
)
def test_labels_of_periods_are_read_as_they_are_written(every, labels):
    time = Time("t", labels[0], labels[1], every=every)
    assert time.labels == labels
    assert Schema.from_dict(Schema(time, neighbours="add_remove").to_dict()).columns == (time,)


def test_levels_of_numpy_and_pandas_are_taken_as_they_are():
    assert Categorical("x", np.unique([3, 1, 3])) == Categorical("x", [1, 3])
    assert Categorical("x", pd.Series(["b", "a"]).unique(), default=np.str_("a")).levels == (
        "b",
        "a",
    )
    assert Categorical("x", np.array([False, True])).levels == (False, True)
    assert Integer("x", np.int64(0), np.int8(3)) == Integer("x", 0, 3)


def test_the_stub_is_a_schema_once_filled_in():
    text = Schema.stub(["age", 'quo"te']).replace('["...", "..."]', '["low", "high"]')
    schema = eval(text, {"tacit": tacit})
    assert [column.name for column in schema.columns] == ["age", 'quo"te']
