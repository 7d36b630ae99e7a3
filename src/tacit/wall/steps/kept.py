"""Leases under a name: each answer is stored beside the ledger before it is handed out.

A run that was killed asks the same questions again. Those that were answered get the stored answers
and cost nothing; the first that was not is answered under the same charge, with fresh noise and a
fresh batch, since nothing of a dead attempt has left the wall.

Old answers may be replaced by the public state that a method made of them, so that a long run does
not fill the disk. The digests of their questions stay, and they are never answered again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tacit.spec.certificate import Certificate
from tacit.spec.checks import whole_number
from tacit.spec.errors import BudgetError, LedgerError, NameTakenError, ReplacedError
from tacit.spec.plan import Plan
from tacit.spec.queries import Query, asked_of, columns_of
from tacit.spec.release import Release, read_header
from tacit.spec.schema import Schema
from tacit.spec.wire import digest, from_json, to_json
from tacit.stores.store import Session, Store
from tacit.wall.shield import without_locals
from tacit.wall.steps.lease import Lease

_TABLES = """\
CREATE TABLE facts (sha256 TEXT PRIMARY KEY, text TEXT);
CREATE TABLE answers (lease TEXT, step INTEGER, question TEXT, facts TEXT, integers BLOB, \
time TEXT, sha256 TEXT, PRIMARY KEY (lease, step));
"""
_FOUND = """SELECT question, text, integers, time, answers.sha256
    FROM answers LEFT JOIN facts ON facts.sha256 = facts WHERE lease = ? AND step = ?"""
_REPLACE = """UPDATE answers SET facts = NULL, integers = ?
    WHERE lease = ? AND step >= ? AND step < ?"""
_UNUSED = (
    "DELETE FROM facts WHERE sha256 NOT IN (SELECT facts FROM answers WHERE facts IS NOT NULL)"
)
_INSERT = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_BEGUN, _STATE = -1, -2  # the steps under which a lease and a state are entered
_AGAIN = "Run again under the same name once it can be used: nothing more is charged."


class StoredAnswer(NamedTuple):
    """One stored answer: the digest of its question, the release without it, and when.

    Facts, shared by most steps, are stored once; they are None where a state replaced the answer.
    """

    question: str
    facts: str | None
    integers: bytes
    time: str
    sha256: str

    @classmethod
    def of(cls, question: str, release: Release) -> StoredAnswer:
        facts = release.header("query")
        # Noise takes most of the bits: little is gained by more than the quickest compression.
        integers = zlib.compress(np.ascontiguousarray(release.integers, "<i8").tobytes(), 1)
        return cls.sealed(question, to_json(facts), integers)

    @classmethod
    def sealed(cls, question: str, facts: str, integers: bytes) -> StoredAnswer:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(question, facts, integers, time, _seal(question, facts, integers, time))

    def check(self, question: str | None, name: str) -> None:
        """Refuse what was changed, and another question than the one that was answered."""
        if self.facts is not None and self.sha256 != _seal(*self[:-1]):
            raise LedgerError(f"The stored answers of {name!r} were changed. Nothing was read.")
        # proof: replay. What is handed out is what was handed out before, or nothing.
        if question is not None and self.question != question:
            raise NameTakenError(
                f"The name {name!r} was used for a different question, or its columns have changed "
                "in the schema (see 'tacit ledger show'): choose another. "
                "No data were read and no budget was spent."
            )

    def release(self, query: Query, *, again: bool) -> Release:
        assert self.facts is not None
        integers = np.frombuffer(zlib.decompress(self.integers), "<i8").astype(np.int64)
        release = Release.from_header(*read_header(self.facts), integers, query)
        certificate = release.certificate.replayed(self.time) if again else release.certificate
        return replace(release, certificate=certificate)


def _seal(question: str, facts: str | None, integers: bytes, time: str) -> str:
    return digest([question, facts, hashlib.sha256(integers).hexdigest(), time])


class AnswerStore:
    """The answers of all named leases of one ledger, beside it."""

    def __init__(self, ledger: Store) -> None:
        self.store = ledger.beside(".answers", "file of answers", _TABLES)

    def ready(self) -> None:
        """Make the file where there is none and try to write to it, before a charge."""
        self.store.create(lambda session: None)
        with self.store.session("Nothing was charged.", write=True) as session:
            _inserted(session, "", _BEGUN, StoredAnswer.sealed("", "", b""))  # rolled back

    def begin(self, lease: str, text: str | None = None) -> str:
        """Enter a lease, unless it is there; the text, by default random, it was entered with.

        The ledger holds that text too: were this file lost, or made anew, the two would differ.
        """
        with self._session() as session:
            entered = StoredAnswer.sealed(text or secrets.token_hex(16), "", b"")
            return _inserted(session, lease, _BEGUN, entered).question

    def get(self, lease: str, step: int) -> StoredAnswer | None:
        with self._session() as session:
            return _found(session, lease, step)

    def put(self, lease: str, begun: str, step: int, answer: StoredAnswer) -> StoredAnswer:
        """Store an answer if none is stored for the step; return the one that is."""
        with self._session() as session:
            self._check_begun(session, lease, begun)
            # proof: replay. Only what is stored goes out.
            return _inserted(session, lease, step, answer)

    def replace_answers(self, lease: str, begun: str, since: int, step: int, state: bytes) -> None:
        """Store a state in place of the answers from `since` until `step`, whose rows stay."""
        with self._session() as session:
            self._check_begun(session, lease, begun)
            stored = _found(session, lease, _STATE)
            if stored is not None and int(stored.question) >= step:
                return  # another run is ahead
            session.execute("DELETE FROM answers WHERE lease = ? AND step = ?", (lease, _STATE))
            _inserted(session, lease, _STATE, StoredAnswer.sealed(str(step), "", state))
            session.execute(_REPLACE, (b"", lease, since, step))
            session.execute(_UNUSED)

    def _check_begun(self, session: Session, lease: str, begun: str) -> None:
        entry = _found(session, lease, _BEGUN)
        if entry is None or entry.question != begun:
            raise LedgerError(f"The answers that were given before are gone from {self.store}.")

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """A session for writing, committed if nothing was raised."""
        with self.store.session(_AGAIN, write=True) as session:
            yield session
            session.commit()


def _found(session: Session, lease: str, step: int) -> StoredAnswer | None:
    row = session.execute(_FOUND, (lease, step)).fetchone()
    if row is not None and [type(part) for part in (row[0], *row[2:])] != [str, bytes, str, str]:
        raise LedgerError("The stored answers were changed. Nothing was read.")
    return None if row is None else StoredAnswer(*row)


def _inserted(session: Session, lease: str, step: int, answer: StoredAnswer) -> StoredAnswer:
    """Insert an answer unless there is one; the one that is there."""
    question, facts, *rest = answer
    kept = digest(facts)
    session.execute("INSERT INTO facts VALUES (?, ?) ON CONFLICT DO NOTHING", (kept, facts))
    row = (lease, step, question, kept, *rest)
    session.execute(_INSERT, row)
    found = _found(session, lease, step)
    assert found is not None
    return found


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
        schema: Schema,
        open_lease: Callable[[int], Lease],
    ) -> None:
        assert certificate.ledger is not None
        self.plan, self.certificate = plan, certificate
        self._store, self._id, self._begun = store, certificate.ledger.head, begun
        self._name, self._schema, self._open_lease = name, schema, open_lease
        self._asked: dict[tuple[str, ...], str] = {}
        self._lease: Lease | None = None
        self._lock, self._used = threading.Lock(), 0

    @property
    def steps_left(self) -> int:
        return self.plan.count - self._used

    def seek(self, step: int) -> None:
        """Go to a step, answered or not: it is the next, as in a new run under the name."""
        with self._lock:
            self._used = whole_number(step, "step", least=0, most=self.plan.count)

    @without_locals
    def release(self, query: Query) -> Release:
        """The next step: its stored answer, or a new one that is stored first."""
        with self._lock:
            if not self.steps_left:
                raise BudgetError(
                    f"All {self.plan.count} steps of this lease are used. Nothing was read; "
                    "prepay another plan to go on."
                )
            stored, question = self._store.get(self._id, self._used), self._question(query)
            again = True
            if stored is None:
                # Opened anew where others have answered steps in between.
                if self._lease is None or self._lease.steps_left != self.steps_left:
                    self._lease = self._open_lease(self._used)
                answer = StoredAnswer.of(question, self._lease.release(query))
                # proof: same-data. Nothing goes out of other data than the first answers are of.
                for what, found in self._lease.loaded.fingerprints().items():
                    if self._store.begin(f"{self._id} {what}", found) != found:
                        raise LedgerError(
                            f"The data have changed since {self._name!r} began, and a run is of "
                            "one version: choose another name, which is charged anew. "
                            "What was answered stays; nothing more was charged."
                        )
                stored = self._store.put(self._id, self._begun, self._used, answer)
                again = stored != answer  # another run was first
            stored.check(question, self._name)
            if stored.facts is None:
                raise self._replaced()
            release = stored.release(query, again=again)
            self._used += 1
            return release

    def _question(self, query: Query) -> str:
        """The digest of a query and of the columns that it names, whose facts may be long."""
        names = tuple(column.name for column in columns_of(query, self._schema))
        if names not in self._asked:
            self._asked[names] = digest(asked_of(query, self._schema))
        return digest([query.to_dict(), self._asked[names]])

    def keep_state(self, facts: Any, *, since: int) -> None:
        """Store what all answers so far have led to, in place of those from step `since` on.

        `facts` are public: JSON and arrays. Who asks the next of those questions again is told
        them by a `ReplacedError`, and goes on after the last answer that they stand for.
        """
        with self._lock:
            whole_number(since, "since", least=0, most=self._used)
            state = to_json(facts)
            from_json(state)  # what cannot be read back replaces nothing
            packed = zlib.compress(state.encode(), 1)
            self._store.replace_answers(self._id, self._begun, since, self._used, packed)

    def _replaced(self) -> ReplacedError:
        state = self._store.get(self._id, _STATE)
        if state is None or int(state.question) <= self._used:
            raise LedgerError(f"The stored answers of {self._name!r} are incomplete.")
        state.check(None, self._name)
        facts = from_json(zlib.decompress(state.integers))
        self._used = int(state.question)
        return ReplacedError(self._name, self._used, facts)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Lease cannot be copied or pickled: its steps would be taken twice.")
