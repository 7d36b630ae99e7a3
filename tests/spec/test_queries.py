import pytest

from tacit import Counts, Is, QueryError


@pytest.mark.parametrize(
    "make",
    [
        lambda: Counts(()),
        lambda: Counts(["a", "a"]),
        lambda: Counts("a", by="a"),
        lambda: Counts("a", by=["b", "b"]),
        lambda: Is("a", ()),
    ],
)
def test_questions_that_make_no_sense(make):
    with pytest.raises(QueryError):
        make()


def test_one_column_needs_no_list():
    assert Counts("a", by="b") == Counts(("a",), ("b",))
    assert Is("a", "x") == Is("a", ("x",))
