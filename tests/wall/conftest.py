"""Where a ledger may be kept: what is promised of one holds for each."""

import pytest


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    """The address of a ledger that is not made yet."""
    if request.param == "file":
        return tmp_path / "visits.ledger"
    return request.getfixturevalue("postgres").ledger()
