import pytest

import tacit
from tacit import Categorical, Integer, Real, Schema, Time, Tokens
from tacit.errors import SchemaError

EVERY_KIND = Schema(
    Categorical("a", ["x", "y"], default="x"),
    Categorical("b", [0, 1]),
    Categorical("c", [False, True]),
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
        (lambda: Time("when"), "public bounds"),
        (lambda: Time("when", "2004", "soon"), "date"),
        (lambda: Time("when", "2005", "2004"), "start <= end"),
        (lambda: Time("when", "2004", "2005", every="week"), "every"),
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


def test_the_stub_is_a_schema_once_filled_in():
    text = Schema.stub(["age", 'quo"te']).replace('["...", "..."]', '["low", "high"]')
    schema = eval(text, {"tacit": tacit})
    assert [column.name for column in schema.columns] == ["age", 'quo"te']
