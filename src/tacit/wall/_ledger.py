"""A durable budget: append-only, hash-chained, and charged before anything is read.

One SQLite file holds what is pinned (budget, unit, relation, schema), the entries, and the releases
that were paid for, so that a name can be replayed. It holds nothing else about the data. Every
operation opens the file anew, so that nothing is shared across a fork.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.spec.budget import Budget
from tacit.spec.certificate import LedgerMark
from tacit.spec.errors import LedgerError, OverBudget
from tacit.wall._chain import Chain, digest, link

_VERSION = 1
_APPLICATION = 0x7AC17
_WAIT_SECONDS = 30.0
_TABLES = """
CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE releases (name TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE head (seq INTEGER NOT NULL, hash TEXT NOT NULL);
"""
_EXPECTED = [(line.rstrip(";"),) for line in _TABLES.split("\n") if line]  # and nothing else
_ALL_AFTER = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq"
_ONE_HASH = "SELECT hash FROM entries WHERE seq = ?"


@dataclass(frozen=True)
class Charge:
    """A mark to print on the release, or the answer that was given before under this name."""

    mark: LedgerMark
    stored: str | None = None


class Ledger:
    """The ledger of one protected population."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._chain = Chain()
        self._lock = threading.RLock()
        self._written: list[tuple[int, str, str]] = []
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        if str(path) == ":memory:":
            self._memory = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            self._memory.executescript(_TABLES)

    @property
    def durable(self) -> bool:
        return self._memory is None

    def open(self, pins: Mapping[str, Any], budget: Budget) -> None:
        """Create the ledger, or check that it was created for the same population and terms."""
        first = {
            "kind": "created",
            "ledger": secrets.token_hex(8),
            "pins": dict(pins),
            "epsilon": str(budget.epsilon),
            "delta": str(budget.delta),
        }
        if self._memory is not None:
            with self._transaction() as connection:
                self._append(connection, first)
        elif not self._path.exists():
            self._create(first)
        chain = self.read()
        for what, pinned in chain.pins.items():
            if pins.get(what) != pinned:
                raise LedgerError(
                    f"The ledger was created with {what} = {pinned!r}, not {pins.get(what)!r}: "
                    "keep to that, or use a new ledger for a new population."
                )
        if chain.limit != budget:
            raise LedgerError(
                f"The ledger was created with a budget of {chain.limit}, not {budget}: "
                "keep to that, or raise it on the record with 'tacit ledger raise'."
            )

    def _create(self, first: Mapping[str, Any]) -> None:
        # Made whole under another name, then linked: a ledger is never seen half made, and an
        # emptied file in its place is never taken for a new one.
        folder = self._path.parent
        try:
            with tempfile.TemporaryDirectory(prefix=".ledger-", dir=folder) as workshop:
                path = Path(workshop) / "draft"
                path.touch(mode=0o600)
                with _connected(path) as connection:
                    connection.execute(f"PRAGMA user_version={_VERSION}")
                    connection.execute(f"PRAGMA application_id={_APPLICATION}")
                    connection.executescript(_TABLES)
                    _insert(connection, Chain(), first)
                with suppress(FileExistsError):  # another process was first: its pins are checked
                    os.link(path, self._path)
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        except OSError as error:
            raise LedgerError(f"Cannot create the ledger {self._path}: {error.strerror}.") from None

    def read(self) -> Chain:
        """What the ledger says now, after checking the chain."""
        with self._session() as connection:
            return self._advance(connection)

    def entries(self) -> list[dict[str, Any]]:
        """All entries, after checking the chain."""
        with self._session() as connection:
            self._advance(connection)
            rows = connection.execute(_ALL_AFTER, (0,)).fetchall()
        return [{"entry": seq, **json.loads(body), "hash": hash_} for seq, body, hash_ in rows]

    def verify(self, mark: LedgerMark | None = None) -> Chain:
        """Check every link, every stored release and, given a mark, that its entry is here."""
        with self._session() as connection:
            self._chain = Chain()
            chain = self._advance(connection)
            stored = connection.execute("SELECT name, body FROM releases").fetchall()
            if {name: digest(body) for name, body in stored} != chain.answers:
                raise LedgerError("The ledger is broken: a stored release was changed.")
            if mark is not None:
                row = connection.execute(_ONE_HASH, (mark.entry,)).fetchone()
                if row is None or row[0] != mark.head:
                    raise LedgerError(
                        f"The ledger does not hold entry {mark.entry} of this certificate: "
                        "it was cut, rolled back, or is another ledger."
                    )
        return chain

    def charge(
        self, cost: Budget, event: Mapping[str, Any], name: str | None, question: str
    ) -> Charge:
        """Check and append as one step; the charge is on disk when this returns."""
        with self._transaction() as connection:
            chain = self._advance(connection)
            if name is not None and name in chain.questions:
                if chain.questions[name] != question:
                    raise LedgerError(
                        f"The name {name!r} was used for a different question: choose another. "
                        "No data were read and no budget was spent."
                    )
                stored = self._stored(connection, chain, name)
                if stored is not None:
                    return Charge(chain.mark, stored)
            if not (chain.spent + cost).within(chain.limit):
                raise OverBudget(str(cost), str(chain.left))
            mark = self._append(
                connection,
                {
                    "kind": "charge",
                    "name": name,
                    "question": question,
                    "epsilon": str(cost.epsilon),
                    "delta": str(cost.delta),
                    "event": dict(event),
                },
            )
        return Charge(mark)

    def keep(self, name: str, release: str) -> None:
        """Store a release under its name, so that asking again is free."""
        with self._transaction() as connection:
            self._advance(connection)
            if name not in self._chain.answers:  # else a twin raced us, and paid as well
                connection.execute("INSERT INTO releases VALUES (?, ?)", (name, release))
                entry = {"kind": "release", "name": name, "sha256": digest(release)}
                self._append(connection, entry)

    def raise_budget(self, budget: Budget, reason: str) -> None:
        """Allow more from now on; the decision and its reason stay on the record."""
        if not reason.strip():
            raise LedgerError("Expected a reason for raising the budget.")
        with self._transaction() as connection:
            limit = self._advance(connection).limit
            if budget.epsilon < limit.epsilon or budget.delta < limit.delta or budget == limit:
                raise LedgerError(f"Expected a larger budget than {limit}, got {budget}.")
            self._append(
                connection,
                {
                    "kind": "raised",
                    "epsilon": str(budget.epsilon),
                    "delta": str(budget.delta),
                    "reason": reason,
                },
            )

    @staticmethod
    def _stored(connection: sqlite3.Connection, chain: Chain, name: str) -> str | None:
        row = connection.execute("SELECT body FROM releases WHERE name = ?", (name,)).fetchone()
        body = None if row is None else str(row[0])
        if (None if body is None else digest(body)) != chain.answers.get(name):
            raise LedgerError("The ledger is broken: a stored release was changed.")
        return body

    def _append(self, connection: sqlite3.Connection, entry: Mapping[str, Any]) -> LedgerMark:
        row = _insert(connection, self._chain, entry)
        self._written.append(row)
        return LedgerMark(self._chain.ledger, row[0], row[2])

    def _advance(self, connection: sqlite3.Connection) -> Chain:
        """Check what was added since the last look, and that what was seen is still there."""
        chain = self._chain
        if chain.seq:
            row = connection.execute(_ONE_HASH, (chain.seq,)).fetchone()
            if row is None or row[0] != chain.head:
                raise LedgerError("The ledger is broken: it was cut or rolled back.")
        for seq, body, stored_hash in connection.execute(_ALL_AFTER, (chain.seq,)).fetchall():
            chain.follow(seq, body, stored_hash)
        # The end of the chain stands in a second place, so that a damaged page cannot hide it.
        if connection.execute("SELECT seq, hash FROM head").fetchall() != [(chain.seq, chain.head)]:
            raise LedgerError("The ledger is broken: its last entries are gone.")
        return chain

    @contextmanager
    def _session(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """One consistent look, undone at its end; whatever is wrong with the file, refuse."""
        with self._lock:
            try:
                with self._connection() as connection:
                    connection.execute(begin)
                    try:
                        yield connection
                    finally:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
            except (sqlite3.Error, UnicodeDecodeError) as error:
                busy = "locked" in str(error) or "busy" in str(error)
                state = "locked by another process" if busy else "unreadable or not a ledger"
                raise LedgerError(
                    f"The ledger {self._path} is {state}. Nothing was read from the data."
                ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The same for writing: alone from the first look on, and kept if nothing was raised."""
        with self._session("BEGIN IMMEDIATE") as connection:
            self._written.clear()
            yield connection
            connection.execute("COMMIT")
            for row in self._written:  # only what is on disk is remembered
                self._chain.follow(*row)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            if os.getpid() != self._process:
                raise LedgerError("A ':memory:' ledger cannot be used after a fork.")
            yield self._memory
            return
        with _connected(self._path) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            kind = connection.execute("PRAGMA application_id").fetchone()[0]
            tables = connection.execute("SELECT sql FROM sqlite_master").fetchall()
            if (kind, version, tables) != (_APPLICATION, _VERSION, _EXPECTED):
                raise LedgerError(f"{self._path} is not a ledger of this version of Tacit.")
            yield connection


def _insert(
    connection: sqlite3.Connection, chain: Chain, entry: Mapping[str, Any]
) -> tuple[int, str, str]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    body = json.dumps({"time": now, **entry})
    row = (chain.seq + 1, body, link(chain.head, chain.seq + 1, body))
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
    connection.execute("DELETE FROM head")
    connection.execute("INSERT INTO head VALUES (?, ?)", (row[0], row[2]))
    return row


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    address = f"{path.absolute().as_uri()}?mode=rw"  # never creates
    connection = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    try:
        # With SQLite's rollback journal a committed charge is in the ledger file itself, not in a
        # log beside it that could be lost; EXTRA makes the commit durable before it returns.
        connection.execute("PRAGMA synchronous=EXTRA")
        yield connection
    finally:
        connection.close()
