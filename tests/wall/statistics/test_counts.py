"""The statistic moves by no more than the sensitivity, and by as much for the worst neighbour."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.wall.answers import TIERS, Answers
from tests.conftest import exact
from tests.rehearsal import Rehearsal

resolve = Answers.of(TIERS).resolve

VALUES = ["x", "y", "junk"]


def schema_of(neighbours: str, rows: int, default: str | None, by: bool) -> tacit.Schema:
    columns = [
        tacit.Categorical("a", ["x", "y"], default=default),
        tacit.Integer("b", 0, 2),
        tacit.Categorical("h", ["x", "y"]),
    ]
    if by:
        columns.append(tacit.Categorical("g", ["x", "y"]))
    return tacit.Schema(*columns, unit="u", max_rows_per_unit=rows, neighbours=neighbours)


def table(units: list[list[tuple[str, int, str]]], by: bool) -> dict[str, list]:
    flat = [(str(u), *row) for u, rows in enumerate(units) for row in rows]
    columns = list(zip(*flat, strict=True)) or [(), (), (), ()]
    names = ["u", "a", "b", "g"]
    data = {name: list(column) for name, column in zip(names, columns, strict=True)}
    return data | {"h": data["g"]}


ROW = st.tuples(st.sampled_from(VALUES), st.integers(-1, 3), st.sampled_from(VALUES))
UNIT = st.lists(ROW, min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    others=st.lists(UNIT, max_size=3),
    old=UNIT,
    new=UNIT,
    rows=st.integers(1, 3),
    default=st.sampled_from([None, "x"]),
    by=st.booleans(),
    columns=st.sampled_from(
        [
            ("a",),
            ("b",),
            ("a", "b"),
            (tacit.queries.Is("b", (0, 2)), "a"),
            (("a", "b"),),
            (("a", "b"), "b", (tacit.queries.Is("b", (0, 2)), "a", "h")),
            (("a", "h"), ("h", "b"), ("b", "a")),
        ]
    ),
)
@pytest.mark.no_cover
def test_one_unit_moves_the_counts_by_at_most_the_sensitivity(
    others, old, new, rows, default, by, columns
):
    query = tacit.queries.Counts(columns, by=("g",) if by else ())
    with_old, with_new = table([*others, old], by), table([*others, new], by)
    without = table(others, by)
    for neighbours, other in (("replace_one", with_new), ("add_remove", without)):
        schema = schema_of(neighbours, rows, default, by)
        bound = resolve(query, schema).sensitivity
        moved = exact(with_old, schema, query) - exact(other, schema, query)
        assert np.abs(moved).sum() <= bound.l1
        assert (moved**2).sum() <= bound.l2_squared


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(
    "columns", [("a",), ("b",), ("a", "b"), (("a", "b"),), (("a", "b"), ("b", "h"), "a")]
)
@pytest.mark.parametrize("default", [None, "x"])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_the_bound_is_attained(rows, columns, default, neighbours):
    """Brute force over worst neighbours: the derived sensitivity is not loose either."""
    query, schema = tacit.queries.Counts(columns), schema_of(neighbours, rows, default, False)
    bound = resolve(query, schema).sensitivity
    l1 = l2 = 0
    cells = list(product(["x", "y"], [0, 1]))
    unit = {cell: [(*cell, "x")] * rows for cell in cells}
    for old, new in [(cells[0], cells[3]), (cells[0], cells[1]), (cells[0], cells[2])]:
        others = [unit[new]] if neighbours == "replace_one" else []
        moved = exact(table([unit[old]], False), schema, query) - exact(
            table(others, False), schema, query
        )
        l1 = max(l1, int(np.abs(moved).sum()))
        l2 = max(l2, int((moved**2).sum()))
    assert (l1, l2) == (bound.l1, bound.l2_squared)


@pytest.mark.parametrize("default", [None, "x"])
def test_columns_counted_together_agree_with_counting_by_hand(default):
    rng = np.random.default_rng(5)
    data = {name: rng.choice(VALUES, 300) for name in ("a", "h")} | {"b": rng.integers(-1, 4, 300)}
    schema = tacit.Schema(
        *schema_of("add_remove", 1, default, False).columns, neighbours="add_remove"
    )
    query = tacit.queries.Counts((("a", "b"), "b", (tacit.queries.Is("b", (0, 2)), "h", "a")))
    release = tacit.Public(data, schema).release(query, tacit.Exact())
    np.testing.assert_array_equal(
        release.value, Rehearsal(data, schema).release(query, tacit.Exact()).value
    )
    for name in query.names:
        block, value, _ = release.table(name)
        assert value.shape == tuple(len(axis.labels) for axis in block.axes)
        assert value.sum() == 300
    first = release.table("a & b").value
    np.testing.assert_array_equal(first.sum(axis=0), release.table("b").value)


def test_tables_too_large_are_refused_before_any_charge():
    """Limits are in whole numbers, which no product of levels overflows."""
    many = tacit.Schema(
        *(tacit.Integer(f"c{i}", 0, 2**16 - 1, default=0) for i in range(4)),
        *(tacit.Categorical(f"d{i}", ["x", "y"], default="x") for i in range(20)),
        neighbours="replace_one",
    )
    assert (2**16) ** 4 % 2**64 == 0
    with pytest.raises(tacit.errors.QueryError, match="at most"):
        resolve(tacit.queries.Counts([tuple(f"c{i}" for i in range(4))]), many)
    wide = tacit.queries.Counts([tuple(f"d{i}" for i in range(20))])
    data = {column.name: ["0", "y"] for column in many.columns}
    assert exact(data, many, wide).size == 2**20


def test_a_joint_table_of_two_cells_is_measured_whole():
    """The cells of a joint table with one and two levels sum to n; the rule is for one column."""
    schema = tacit.Schema(
        tacit.Categorical("a", ["x", "y"], default="x"),
        tacit.Categorical("one", ["x"], default="x"),
        neighbours="replace_one",
    )
    resolved = resolve(tacit.queries.Counts([("a", "one")]), schema)
    assert not resolved.blocks[0].omitted
    assert (resolved.sensitivity.l1, resolved.sensitivity.l2_squared) == (2, 2)


def test_a_person_with_a_thousand_rows_counts_as_few():
    schema = schema_of("add_remove", 3, None, False)
    crowd = [[("x", 1, "x")]] * 5
    hoarder = [("y", 2, "x")] * 1000
    query = tacit.queries.Counts("a")
    moved = exact(table([*crowd, hoarder], False), schema, query) - exact(
        table(crowd, False), schema, query
    )
    assert np.abs(moved).sum() == 3


def test_all_orders_of_rows_give_the_same_integers():
    rng = np.random.default_rng(1)
    schema = schema_of("add_remove", 2, None, True)
    units = [[("x", 0, "y"), ("y", 1, "x"), ("x", 0, "y"), ("junk", 9, "x")], [("y", 2, "y")] * 4]
    data = table(units, True)
    query = tacit.queries.Counts(("a", "b"), by="g")
    first = exact(data, schema, query)
    for _ in range(10):
        order = rng.permutation(8)
        shuffled = {name: [column[i] for i in order] for name, column in data.items()}
        np.testing.assert_array_equal(exact(shuffled, schema, query), first)


def test_kept_rows_favour_no_value():
    """Of three rows x, x, y two are kept: y is among them in two thirds of the units."""
    units = 3000
    data = table([[("x", 0, "x"), ("x", 0, "x"), ("y", 0, "x")]] * units, False)
    schema = schema_of("add_remove", 2, "x", False)
    kept = exact(data, schema, tacit.queries.Counts("a"))
    assert kept.sum() == 2 * units
    # false-alarm rate 1e-6 would be 4.9 standard deviations; the hash is fixed, so no luck is left
    assert abs(kept[1] - 2 * units / 3) < 4.9 * np.sqrt(units * 2 / 9)


def test_two_cells_that_sum_to_n_become_one():
    schema = tacit.Schema(tacit.Categorical("a", ["x", "y"], default="x"), neighbours="replace_one")
    resolved = resolve(tacit.queries.Counts("a"), schema)
    assert resolved.blocks[0].omitted == ("x",)
    assert (resolved.sensitivity.l1, resolved.sensitivity.l2_squared) == (1, 1)
    for other in (
        tacit.Schema(tacit.Categorical("a", ["x", "y"]), neighbours="replace_one"),
        tacit.Schema(tacit.Categorical("a", ["x", "y"], default="x"), neighbours="add_remove"),
        schema_of("replace_one", 2, "x", False),
    ):
        assert not resolve(tacit.queries.Counts("a"), other).blocks[0].omitted


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (tacit.queries.Counts("z"), tacit.errors.SchemaError),
        (tacit.queries.Counts(tacit.queries.Is("a", "z")), tacit.errors.QueryError),
        (tacit.queries.Counts(tacit.queries.Is("b", True)), tacit.errors.QueryError),
        (tacit.queries.Counts("r"), tacit.errors.SchemaError),
        (tacit.queries.Counts("big"), tacit.errors.SchemaError),
        (tacit.queries.Counts("b", by=["wide", "wide2"]), tacit.errors.QueryError),
        ("a", tacit.errors.QueryError),
    ],
)
def test_what_cannot_be_counted_is_refused(query, error):
    schema = tacit.Schema(
        tacit.Categorical("a", ["x", "y"]),
        tacit.Integer("b", 0, 2),
        tacit.Real("r", 0, 1),
        tacit.Integer("big", 0, 10**9),
        tacit.Integer("wide", 0, 9999),
        tacit.Integer("wide2", 0, 9999),
        neighbours="replace_one",
    )
    with pytest.raises(error):
        resolve(query, schema)
