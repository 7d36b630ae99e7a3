"""Where a ledger may be kept: what is promised of one holds for each."""

import pytest

from tests.postgres import LEDGERS


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path, monkeypatch):
    """The address of a ledger that is not made yet."""
    if request.param == "file":
        return tmp_path / "visits.ledger"
    monkeypatch.setenv("PGPASSWORD", LEDGERS)
    return request.getfixturevalue("postgres").ledger()
