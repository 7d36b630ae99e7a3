"""A SQLite file, a ledger or the answers beside it: its creation, and one session at a time.

Every session opens the file anew, so that nothing is shared across a fork.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from tacit.spec.errors import LedgerError
from tacit.stores.store import Session, Store

_VERSION = 5
_APPLICATION = 0x7AC17
_WAIT_SECONDS = 30.0
_TABLES = """\
CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE releases (name TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE head (seq INTEGER NOT NULL, hash TEXT NOT NULL);
"""


def store_at(address: str | os.PathLike[str]) -> Store:
    """The store of a ledger: a path, ":memory:", or "postgresql://host/database#ledger"."""
    if str(address) == ":memory:":
        return FileStore(Path(":memory:"), "ledger", _TABLES)
    if "://" in str(address):
        from tacit.stores.postgres import PostgresStore

        return PostgresStore(str(address), "ledger", _TABLES)
    return FileStore(Path(os.path.realpath(address)), "ledger", _TABLES)  # proof: one-name


class FileStore:
    """One file, or ":memory:", which only the process that made it can use."""

    def __init__(self, path: Path, what: str, tables: str) -> None:
        self.path, self._what, self._tables = path, what, tables
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        if path == Path(":memory:"):
            self._memory = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            self._memory.executescript(tables)

    @property
    def durable(self) -> bool:
        return self._memory is None

    def beside(self, suffix: str, what: str, tables: str) -> FileStore:
        path = self.path if self._memory else self.path.with_name(self.path.name + suffix)
        return FileStore(path, what, tables)

    def exists(self) -> bool:
        return self.durable and os.path.lexists(self.path)

    def create(self, fill: Callable[[Session], object]) -> None:
        if self._memory is not None:
            fill(self._memory)
            return
        if self.exists():
            return
        # Made whole under another name, then linked: a ledger is never seen half made, and an
        # emptied file in its place is never taken for a new one.
        folder = self.path.parent
        try:
            with tempfile.TemporaryDirectory(prefix=".ledger-", dir=folder) as workshop:
                draft = Path(workshop) / "draft"
                draft.touch(mode=0o600)
                with _connected(draft) as connection:
                    connection.execute(f"PRAGMA user_version={_VERSION}")
                    connection.execute(f"PRAGMA application_id={_APPLICATION}")
                    connection.executescript(self._tables)
                    fill(connection)
                with suppress(FileExistsError):  # another process was first: its pins are checked
                    os.link(draft, self.path)
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise LedgerError(
                f"Cannot create the {self._what} {self.path}: {why}. Nothing was charged."
            ) from None

    @contextmanager
    def session(self, outcome: str, *, write: bool) -> Iterator[Session]:
        with self._lock:
            try:
                with self._connection(outcome) as connection:
                    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    try:
                        yield connection
                    finally:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
            except (sqlite3.Error, UnicodeDecodeError) as error:
                state = _state(error) or f"unreadable or not a {self._what}"
                raise LedgerError(f"The {self._what} {self.path} is {state}. {outcome}") from None

    @contextmanager
    def _connection(self, outcome: str) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            if os.getpid() != self._process:
                raise LedgerError(f"A ':memory:' ledger cannot be used after a fork. {outcome}")
            yield self._memory
            return
        self._check_links(outcome)
        with _connected(self.path) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            found = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
            tables = "".join(f"{sql};\n" for (sql,) in found)
            if (application, version, tables) != (_APPLICATION, _VERSION, self._tables):
                raise LedgerError(
                    f"{self.path} is not a {self._what} of this version of Tacit. {outcome}"
                )
            yield connection

    def __str__(self) -> str:
        return str(self.path)

    def _check_links(self, outcome: str) -> None:
        """Refuse a file with two names: SQLite's journal lies beside one of them only."""
        # proof: one-name. By stat, never by open: to close another descriptor of the file would
        # drop SQLite's locks on it.
        try:
            if not S_ISREG(self.path.lstat().st_mode):
                raise LedgerError(f"{self.path} is not a {self._what}. {outcome}")
            links = self.path.stat().st_nlink
            if links > 1:
                # A creator is between its link and its end, or died there: nobody opens its draft.
                for draft in self.path.parent.glob(".ledger-*/draft"):
                    with suppress(OSError):
                        if draft.samefile(self.path):
                            draft.unlink()
                links = self.path.stat().st_nlink
        except OSError as error:
            why = f"unreadable or not a {self._what}: {error.strerror}"
            raise LedgerError(f"The {self._what} {self.path} is {why}. {outcome}") from None
        if links > 1:
            raise LedgerError(
                f"The {self._what} {self.path} has {links} hard links: remove others. {outcome}"
            )


def _state(error: Exception) -> str:
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "locked by another process"
        case sqlite3.SQLITE_FULL:
            return "on a disk that is full"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "not writable"
        case sqlite3.SQLITE_IOERR:
            return "on a disk that is full or fails"
        case _:
            return ""


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    address = f"{path.absolute().as_uri()}?mode=rw"  # never creates
    connection = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    try:
        # With SQLite's rollback journal a committed charge is in the ledger file itself, not in a
        # log beside it that could be lost; EXTRA makes the commit durable before it returns.
        # proof: charge-then-read
        connection.execute("PRAGMA synchronous=EXTRA")
        if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            raise LedgerError(f"{path} has another journal than Tacit gave it.")
        yield connection
    finally:
        connection.close()
