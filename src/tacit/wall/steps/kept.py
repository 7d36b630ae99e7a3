"""Leases under a name: each answer is stored beside the ledger before it is handed out.

A run that was killed asks the same questions again. Those that were answered get the stored answers
and cost nothing; the first that was not is answered under the same charge, with fresh noise and a
fresh batch, since nothing of a dead attempt has left the wall.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacit.spec.certificate import Certificate
from tacit.spec.errors import BudgetError, LedgerError
from tacit.spec.plan import Plan
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.wire import digest, from_json, to_json
from tacit.wall.shield import without_locals
from tacit.wall.steps.lease import Lease

_TABLE = """CREATE TABLE answers (
    lease TEXT, step INTEGER, question TEXT, facts TEXT, integers BLOB, sha256 TEXT,
    PRIMARY KEY (lease, step))"""
_BEGUN = -1  # the step under which a lease is entered before its first
_UNREAD = "No data were read; run again under the same name, which is not charged again."
_APPLICATION = 0x7AC18


class Answer(NamedTuple):
    """One stored answer: the digest of its question, the release without it, and when."""

    question: str
    facts: str
    integers: bytes
    sha256: str

    @classmethod
    def of(cls, query: Query, release: Release) -> Answer:
        facts = {k: v for k, v in release.to_dict().items() if k not in ("query", "integers")}
        facts["time"] = datetime.now(UTC).isoformat(timespec="seconds")
        # Noise takes most of the bits: little is gained by more than the quickest compression.
        integers = zlib.compress(np.ascontiguousarray(release.integers, "<i8").tobytes(), 1)
        parts = digest(query.to_dict()), to_json(facts), integers
        return cls(*parts, _sealed(*parts))

    def release(self, query: Query, name: str, *, again: bool) -> Release:
        """The stored release, if the question is the one that it answered."""
        facts = query.to_dict()
        if self.sha256 != _sealed(self.question, self.facts, self.integers):
            raise LedgerError(f"The stored answers of {name!r} were changed. Nothing was read.")
        # proof: replay. What is handed out is what was handed out before, or nothing.
        if self.question != digest(facts):
            raise LedgerError(
                f"The name {name!r} was used for a different question: choose another. "
                "No data were read and no budget was spent."
            )
        integers = np.frombuffer(zlib.decompress(self.integers), "<i8").astype(np.int64)
        rest = from_json(self.facts)
        time = rest.pop("time")
        release = Release.from_dict({**rest, "query": facts, "integers": integers})
        certificate = release.certificate.replayed(time) if again else release.certificate
        return replace(release, certificate=certificate)


def _sealed(question: str, facts: str, integers: bytes) -> str:
    return digest([question, facts, hashlib.sha256(integers).hexdigest()])


class AnswerStore:
    """The answers of all named leases of one ledger, in a file beside it; or in memory."""

    def __init__(self, ledger: Path | None, memory: dict[tuple[str, int], Answer]) -> None:
        self.path = None if ledger is None else ledger.with_name(ledger.name + ".answers")
        self._memory, self._process = memory, os.getpid()

    def check(self) -> None:
        """Refuse whatever else is in the file's place, before a charge."""
        if self.path is not None and os.path.lexists(self.path):
            try:
                if self.path.is_symlink() or not self.path.is_file():
                    raise sqlite3.DatabaseError
                with closing(self._connected()) as connection:
                    own = connection.execute("PRAGMA application_id").fetchone() == (_APPLICATION,)
                if not own:
                    raise sqlite3.DatabaseError
            except sqlite3.Error:
                raise LedgerError(
                    f"Expected a file of answers at {self.path}, beside the ledger: move away what "
                    "is there. Nothing was charged."
                ) from None

    def begin(self, lease: str) -> str:
        """Enter a lease, unless it is there; the random text that it was entered with.

        The ledger holds that text too: were this file lost, or made anew, the two would differ.
        """
        entered = Answer(secrets.token_hex(16), "", b"", "")
        if self.path is not None and not self.path.exists():
            self._create()
        with self._session() as connection:
            return self._inserted(connection, lease, _BEGUN, entered).question

    def get(self, lease: str, step: int) -> Answer | None:
        with self._session() as connection:
            return self._found(connection, lease, step)

    def put(self, lease: str, begun: str, step: int, answer: Answer) -> Answer:
        """Store an answer if none is stored for the step; return the one that is."""
        with self._session() as connection:
            entry = self._found(connection, lease, _BEGUN)
            if entry is None or entry.question != begun:
                raise LedgerError(f"The answers that were given before are gone from {self.path}.")
            # proof: replay. Only what is stored goes out.
            return self._inserted(connection, lease, step, answer)

    def _found(self, connection: Any, lease: str, step: int) -> Answer | None:
        if connection is None:
            return self._memory.get((lease, step))
        columns = ", ".join(Answer._fields)
        question = f"SELECT {columns} FROM answers WHERE lease = ? AND step = ?"
        row = connection.execute(question, (lease, step)).fetchone()
        return None if row is None else Answer(*row)

    def _inserted(self, connection: Any, lease: str, step: int, answer: Answer) -> Answer:
        if connection is None:
            return self._memory.setdefault((lease, step), answer)
        row = (lease, step, *answer)
        connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?)", row)
        found = self._found(connection, lease, step)
        assert found is not None
        return found

    def _create(self) -> None:
        """Make the file whole under another name, then link it: it is never seen half made."""
        assert self.path is not None
        draft = self.path.with_name(f".{self.path.name}-{secrets.token_hex(8)}")
        try:
            draft.touch(mode=0o600)
            with closing(sqlite3.connect(draft)) as connection:
                connection.execute(f"PRAGMA application_id={_APPLICATION}")
                connection.execute(_TABLE)
                connection.commit()
            with suppress(FileExistsError):  # another process was first
                os.link(draft, self.path)
        except (sqlite3.Error, OSError):
            raise LedgerError(f"Cannot create {self.path}. {_UNREAD}") from None
        finally:
            draft.unlink(missing_ok=True)

    def _connected(self) -> sqlite3.Connection:
        assert self.path is not None
        address = f"{self.path.absolute().as_uri()}?mode=rw"  # never creates
        return sqlite3.connect(address, uri=True, timeout=30.0, isolation_level=None)

    @contextmanager
    def _session(self) -> Iterator[sqlite3.Connection | None]:
        """A write transaction, committed if nothing was raised; None where all is in memory."""
        if self.path is None:
            if os.getpid() != self._process:
                raise LedgerError("A ':memory:' ledger cannot be used after a fork.")
            yield None
            return
        try:
            with closing(self._connected()) as connection:
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError):
            raise LedgerError(
                f"The answers beside the ledger ({self.path}) cannot be read or written. Run again "
                "under the same name once they can be: nothing more is charged."
            ) from None


class KeptLease:
    """A lease whose answers are stored, one by one, and given again.

    Formal guarantee: for each step at most one answer leaves the wall, whoever asks and however
    often, so that all of them together cost what the plan was charged once.
    """

    def __init__(
        self,
        plan: Plan,
        certificate: Certificate,
        store: AnswerStore,
        begun: str,
        name: str,
        open_lease: Callable[[int], Lease],
    ) -> None:
        assert certificate.ledger is not None
        self.plan, self.certificate = plan, certificate
        self._store, self._id, self._begun = store, certificate.ledger.head, begun
        self._name, self._open_lease = name, open_lease
        self._lease: Lease | None = None
        self._lock, self._used = threading.Lock(), 0

    @property
    def steps_left(self) -> int:
        return self.plan.count - self._used

    @without_locals
    def release(self, query: Query) -> Release:
        """The next step: its stored answer, or a new one that is stored first."""
        with self._lock:
            if not self.steps_left:
                raise BudgetError(
                    f"All {self.plan.count} steps of this lease are used. Nothing was read; "
                    "prepay another plan to go on."
                )
            stored = self._store.get(self._id, self._used)
            again = stored is not None
            if stored is None:
                # Opened anew where others have answered steps in between.
                if self._lease is None or self._lease.steps_left != self.steps_left:
                    self._lease = self._open_lease(self._used)
                answer = Answer.of(query, self._lease.release(query))
                stored = self._store.put(self._id, self._begun, self._used, answer)
            release = stored.release(query, self._name, again=again)
            self._used += 1
            return release

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Lease cannot be copied or pickled: its steps would be taken twice.")
