import json

import pytest

from tacit.errors import QueryError
from tacit.queries import Counts, Is
from tacit.spec.queries import query_from_dict


@pytest.mark.parametrize(
    "make",
    [
        lambda: Counts(()),
        lambda: Counts(["a", "a"]),
        lambda: Counts("a", by="a"),
        lambda: Counts("a", by=["b", "b"]),
        lambda: Is("a", ()),
        lambda: Counts([("a", "a")]),
        lambda: Counts([("a", "b"), ("b", "a")]),
        lambda: Counts([("a", "b")], by="a"),
        lambda: Counts([()]),
        lambda: Counts([("a", 3)]),
        lambda: Counts([3]),
        lambda: Counts([("a", ("b", "c"))]),
        lambda: Counts(["a & b", ("a", "b")]),  # one name for two tables
        lambda: Counts([("a & b", "c"), ("a", "b & c")]),
    ],
)
def test_questions_that_make_no_sense(make):
    with pytest.raises(QueryError):
        make()


def test_one_column_needs_no_list():
    assert Counts("a", by="b") == Counts(("a",), ("b",))
    assert Is("a", "x") == Is("a", ("x",))


def test_columns_counted_together():
    query = Counts([("a", Is("b", (1,))), "c", ["a", "c"], ("d",)], by="e")
    assert query.columns == (("a", Is("b", (1,))), "c", ("a", "c"), "d")
    assert query.names == ("a & b", "c", "a & c", "d")
    assert query_from_dict(json.loads(json.dumps(query.to_dict()))) == query
    assert Counts(("a", "b")).to_dict()["columns"] == ["a", "b"]  # as it was before
