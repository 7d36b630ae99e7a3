"""What a ledger needs of the place where it is kept: made whole, then one session at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol


class Session(Protocol):
    """One consistent view. What was written is lost unless it is committed."""

    def execute(self, sql: str, given: tuple[Any, ...] = (), /) -> Any:
        """Run a statement that SQLite and PostgreSQL understand alike, with ? for what is given."""
        ...

    def commit(self) -> None:
        """Make durable what was written; when this returns, a crash does not undo it."""
        ...


class Store(Protocol):
    """A ledger's tables, or those of the answers beside it. `str` of a store names its place."""

    @property
    def durable(self) -> bool: ...

    def beside(self, suffix: str, what: str, tables: str) -> Store:
        """The store of other tables that belong to this one."""
        ...

    def exists(self) -> bool: ...

    def create(self, fill: Callable[[Session], object]) -> None:
        """Make the tables with what `fill` writes into them, as one step, unless they are there."""
        ...

    def session(self, outcome: str, *, write: bool) -> AbstractContextManager[Session]:
        """A session, the only one that writes from its start on if it is to write.

        Any fault of the place is refused with a `LedgerError`. `outcome` ends its sentence: what
        has then happened to the data and the budget.
        """
        ...


def located(address: str, folder: Path) -> str:
    """The address of a ledger as a file in `folder` names it: paths are relative to that folder."""
    return address if "://" in address else str(folder / Path(address).expanduser())
