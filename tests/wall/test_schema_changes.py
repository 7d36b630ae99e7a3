"""A schema may grow, on the record; a name keeps its question; who is protected stays."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.cli.output import out

Q = tacit.queries
DATA = {
    "smoker": ["no", "yes", "ex"] * 20,
    "bmi": [20.0, 30.0, 40.0] * 20,
    "note": ["war and peace", "war", "calm"] * 20,
    "who": [f"p{i}" for i in range(30)] * 2,
}
SMOKER = tacit.Categorical("smoker", ["no", "yes"])
BMI = tacit.Real("bmi", 10, 60)
NOTE = tacit.Tokens("note", ["war", "peace"], max_length=9)
COUNTS, PRICE = Q.Counts("smoker"), tacit.Laplace(0.5)


def schema(*columns, **options):
    return tacit.Schema(*columns, **({"neighbours": "replace_one"} | options))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.ledger"


def wall(path, *columns, **options):
    budget = tacit.Budget(9, 1e-5)
    return tacit.Wall(DATA, schema(*columns, **options), budget=budget, ledger=path)


def changes(path):
    return [e["changes"] for e in tacit.Ledger(path).entries() if e["kind"] == "schema"]


GROWN = [
    ((SMOKER, BMI), "column 'bmi' added"),
    ((tacit.Categorical("smoker", ["no", "yes", "ex"]),), "'smoker': level 'ex' added"),
    ((tacit.Categorical("smoker", ["yes", "no"]),), "'smoker': levels in another order"),
    ((tacit.Categorical("smoker", ["no", "Yes"]),), "'smoker': level 'yes' left out"),
    ((tacit.Categorical("smoker", ["no", "yes"], default="no"),), "default was None, now 'no'"),
    (
        (tacit.Categorical("smoker", ["no", "yes"], codes={"1": "yes"}),),
        "'smoker': code ('1', 'yes') added",
    ),
    ((tacit.Integer("smoker", 0, 1),), "'smoker': was Categorical, now Integer"),
]


@pytest.mark.parametrize(("columns", "words"), GROWN, ids=[words for _, words in GROWN])
def test_a_schema_grows_with_the_next_charge(path, columns, words, monkeypatch):
    """Not when a wall is made; in the same transaction as the charge, before it; in words."""
    first = wall(path, SMOKER).release(COUNTS, PRICE)
    assert first.certificate.assumptions == ()
    grown = wall(path, *columns)
    assert changes(path) == []
    with pytest.raises(tacit.OverBudgetError):
        grown.release(COUNTS, tacit.Laplace(99))
    assert changes(path) == []
    release = grown.release(COUNTS, PRICE)
    assert release.schema == grown.schema
    kinds = [e["kind"] for e in tacit.Ledger(path).entries()]
    assert kinds == ["created", "charge", "schema", "charge"]
    assert any(words in each for each in changes(path)[0])
    (assumed,) = release.certificate.assumptions
    assert "the schema was changed on the record (in the ledger: 3)" in assumed
    tacit.Ledger(path).verify(release.certificate.ledger)
    monkeypatch.setattr(out, "width", 300)  # no line is folded
    shown = CliRunner().invoke(app, ["ledger", "show", str(path)])
    assert words in shown.stdout
    wall(path, *columns).release(COUNTS, PRICE)
    assert len(changes(path)) == 1  # the same schema is recorded once


def test_bounds_and_order_are_recorded_too(path):
    wall(path, SMOKER, BMI).release(COUNTS, PRICE)
    wall(path, tacit.Real("bmi", 5, 50), SMOKER, max_units=99).release(COUNTS, PRICE)
    assert changes(path) == [
        [
            "'bmi': low was 10.0, now 5.0",
            "'bmi': high was 60.0, now 50.0",
            "columns in another order",
            "max_units was None, now 99",
        ]
    ]


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ([SMOKER], {"unit": "who", "max_rows_per_unit": 2}, "unit = None, not 'who'"),
        ([SMOKER], {"neighbours": "add_remove"}, "neighbours = 'replace_one'"),
        ([BMI], {}, "knows the columns 'smoker'.* but 'bmi'.*another table"),
    ],
)
def test_who_is_protected_stays_and_another_table_is_refused(path, columns, options, says):
    wall(path, SMOKER)
    with pytest.raises(tacit.errors.LedgerError, match=says) as caught:
        wall(path, *columns, **options)
    _is_in_words(str(caught.value))


def _is_in_words(error):
    """No hashes, and no advice to spend on the same people from another ledger."""
    assert not re.search(r"[0-9a-f]{16}", error)
    assert "new ledger" not in error
    assert "no budget was spent" in error


def test_a_name_keeps_its_question_while_its_columns_are_what_they_were(path):
    first = wall(path, SMOKER).release(COUNTS, PRICE, name="smoking")
    again = wall(path, BMI, SMOKER, NOTE).release(COUNTS, PRICE, name="smoking")
    np.testing.assert_array_equal(again.integers, first.integers)
    assert tacit.Ledger(path).read().alone.epsilon == first.certificate.epsilon
    # Coordinates, noise and cost are those of the first question, but its levels are not.
    renamed = wall(path, tacit.Categorical("smoker", ["no", "Yes"]))
    with pytest.raises(tacit.errors.LedgerError, match="level 'Yes' added") as caught:
        renamed.release(COUNTS, PRICE, name="smoking")
    _is_in_words(str(caught.value))
    assert changes(path) == []
    renamed.release(COUNTS, PRICE)
    with pytest.raises(tacit.errors.LedgerError, match="level 'yes' left out"):
        renamed.release(COUNTS, PRICE, name="smoking")  # recorded by now, and still said


def test_true_is_not_one(path):
    """Python holds [0, 1] and [False, True] for equal; cells are read differently."""
    wall(path, tacit.Categorical("smoker", [0, 1])).release(COUNTS, PRICE, name="x")
    with pytest.raises(tacit.errors.LedgerError, match="level False, True added"):
        wall(path, tacit.Categorical("smoker", [False, True])).release(COUNTS, PRICE, name="x")


def _mean(bound):
    kernel, state = Q.Kernel("columns.values"), (np.array([30.0]), np.array([10.0]))
    return Q.BoundedSum(kernel, "bmi", size=1, clip=bound, state=state)


def test_answers_of_a_lease_are_given_again_under_its_columns_alone(path):
    mechanism = tacit.Gaussian(noise_multiplier=5, delta="1e-6")
    plan = Q.Plan(Q.Steps(2, mechanism), delta="1e-6")
    first = wall(path, BMI).prepay(plan, name="walk").release(_mean(1))
    other = wall(path, SMOKER, BMI).prepay(plan, name="walk")
    np.testing.assert_array_equal(other.release(_mean(1)).integers, first.integers)
    other.release(_mean(1))  # the second step, under the charge of the first
    wider = wall(path, tacit.Real("bmi", 0, 90)).prepay(plan, name="walk")
    with pytest.raises(tacit.errors.LedgerError, match="columns have changed in the schema"):
        wider.release(_mean(1))


def test_each_charge_stands_under_the_schema_it_was_made_with(path):
    """Two walls at once: the last schema before a charge is that of its sensitivity."""
    small, large = wall(path, SMOKER), wall(path, tacit.Categorical("smoker", ["no", "ex", "yes"]))
    for each in (small, large, large, small):
        each.release(COUNTS, PRICE)
    levels = 0
    for entry in tacit.Ledger(path).entries():
        if entry["kind"] in ("created", "schema"):
            levels = len(entry["schema"]["columns"][0]["levels"])
        if entry["kind"] == "charge":
            assert entry["event"]["coordinates"] == levels + 1
    assert len(changes(path)) == 2


@pytest.mark.parametrize("unit", [None, "who"])
def test_notes_and_codes_of_the_same_people_share_a_ledger(path, unit):
    """A question is about the table or about the texts; both are of the same units."""
    options = {} if unit is None else {"unit": unit, "max_rows_per_unit": 1}
    both = wall(path, SMOKER, NOTE, BMI, **options)
    counts = both.release(COUNTS, tacit.Laplace(2))
    assert counts.n == both.n_units == (60 if unit is None else 30)
    public, alone = tacit.Public(DATA, both.schema), tacit.Public(DATA, schema(NOTE, **options))
    how = tacit.VIPS(noise_multiplier=0, steps=1)
    exact = [tacit.fit(tacit.LDA(2), each, how, seed=1, draws=2).flat() for each in (public, alone)]
    np.testing.assert_array_equal(*exact)
    noisy = tacit.fit(tacit.LDA(2), both, tacit.VIPS(2, 1e-6, steps=1), seed=1, draws=2)
    assert noisy.certificate.unit == both.schema.protects
    for query in (Q.Counts("note"), Q.Moments("note"), _note_as_a_number()):
        with pytest.raises((tacit.errors.SchemaError, tacit.errors.QueryError)):
            both.release(query, tacit.Laplace(1))
    assert both.remaining.epsilon == 9 - counts.certificate.epsilon - noisy.certificate.epsilon


def _note_as_a_number():
    state = (np.array([30.0]), np.array([10.0]))
    return Q.BoundedSum(Q.Kernel("columns.values"), "note", size=1, clip=1, state=state)
