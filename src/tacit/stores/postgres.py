"""A ledger in PostgreSQL, for several servers: a schema of the database holds its tables.

PROOFS-STORES.md says why its charges are as durable, and as much alone, as those of a file.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeAlias

from tacit.spec.errors import LedgerError
from tacit.stores.store import Session

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise LedgerError(
        'A ledger in PostgreSQL needs psycopg: pip install "tacit[postgres]". Nothing was charged.'
    ) from None

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_VERSION = "tacit 1"
_ADDRESS = re.compile(r"(postgresql://[^#\s]*)#([a-z][a-z0-9_]{0,50})")
_SECRETS = ("password", "sslpassword")
# Each session says what it relies on, whatever a server, a role or a pooler has set.
_SETTINGS = """SET LOCAL synchronous_commit = on; SET LOCAL search_path = {name};
    SET LOCAL lock_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '60s';"""
# proof: serial. A view of its own for each statement, all of them taken once the lock is held.
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;" + _SETTINGS
_LOCK = "LOCK TABLE {table} IN EXCLUSIVE MODE"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;" + _SETTINGS
# What makes the tables what they were made as: persistent, with no trigger, rule or policy.
_TABLES_ARE = """
    SELECT current_setting('fsync'), current_setting('full_page_writes'), (
        SELECT string_agg(concat(relname, ' ', relkind, relpersistence,
            obj_description(oid, 'pg_class')), ', ' ORDER BY relname)
        FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(?)
            AND NOT relrowsecurity AND NOT relhasrules AND NOT relhassubclass AND NOT EXISTS (
                SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid))"""


class PostgresStore:
    """The tables of one ledger, or of the answers beside it: "postgresql://host/database#ledger".

    The address holds no password: it is printed, and stands in study files. PostgreSQL's client
    finds one in PGPASSWORD, in ~/.pgpass or in a service file.
    """

    def __init__(self, address: str, what: str, tables: str) -> None:
        found = _ADDRESS.fullmatch(address)
        try:
            facts = conninfo_to_dict(found[1]) if found else {}
        except psycopg.Error:
            facts = {}
        if not facts or found is None:
            raise LedgerError(
                'Expected ledger="postgresql://host/database#name", the name in small letters, '
                "digits and underscores. Nothing was charged."
            )
        if any(secret in facts for secret in _SECRETS):
            raise LedgerError(
                "Expected no password in the address of a ledger: put it into ~/.pgpass, a service "
                "file or PGPASSWORD. Nothing was charged."
            )
        self._address, self._database, self._name = address, found[1], found[2]
        self._what, self._tables = what, tables.replace("BLOB", "BYTEA")
        self._names = sorted(re.findall(r"CREATE TABLE (\w+)", tables))
        self._lock = threading.RLock()
        self._held: dict[int, Connection] = {}  # by process: a fork leaves its parent's alone
        weakref.finalize(self, _close, self._held)

    @property
    def durable(self) -> bool:
        return True

    def beside(self, suffix: str, what: str, tables: str) -> PostgresStore:
        return PostgresStore(self._address, what, tables)  # other tables of the same schema

    def exists(self) -> bool:
        with self._begun(_READ, "Nothing was charged.") as session:
            return self._found(session)

    def create(self, fill: Callable[[Session], object]) -> None:
        outcome = "Nothing was charged."
        with self._begun(_WRITE, outcome) as session:
            # proof: whole. One creator at a time, under any name: the next one finds the tables.
            session.execute("SELECT pg_advisory_xact_lock(7406615)")
            if not self._found(session):
                (made,) = session.execute("SELECT to_regnamespace(?)", (self._name,)).fetchone()
                if made is None:
                    session.execute(f"CREATE SCHEMA {self._name}")
                session.execute(self._tables)
                for name in self._names:
                    session.execute(f"COMMENT ON TABLE {name} IS '{_VERSION}'")
                fill(session)
                session.commit()

    def _found(self, session: Session) -> bool:
        row = session.execute("SELECT to_regclass(?)", (self._names[0],)).fetchone()
        return bool(row != (None,))

    @contextmanager
    def session(self, outcome: str, *, write: bool) -> Iterator[Session]:
        with self._begun(_WRITE if write else _READ, outcome) as session:
            if write:
                session.execute(_LOCK.format(table=self._names[0]))
            fsync, pages, tables = session.execute(_TABLES_ARE, (self._names,)).fetchone()
            if tables != ", ".join(f"{name} rp{_VERSION}" for name in self._names):
                raise LedgerError(
                    f"{self} is not a {self._what} of this version of Tacit, or has triggers, "
                    f"rules or policies. {outcome}"
                )
            if (fsync, pages) != ("on", "on"):  # proof: synchronous
                raise LedgerError(
                    f"The server of the {self._what} {self} may lose what it confirms: set fsync "
                    f"and full_page_writes to on. {outcome}"
                )
            yield session

    @contextmanager
    def _begun(self, begin: str, outcome: str) -> Iterator[_Statements]:
        """A transaction on this process's connection, rolled back unless it was committed."""
        with self._lock:
            connection = self._opened(begin.format(name=self._name), outcome)
            try:
                yield _Statements(connection, f"The {self._what} {self}", outcome)
            finally:
                with suppress(psycopg.Error):  # the server rolls back what it hears no more of
                    connection.rollback()

    def _opened(self, begin: str, outcome: str) -> Connection:
        held = self._held.get(os.getpid())
        if held is not None:
            try:
                held.execute(begin.encode())
                return held
            except psycopg.Error:  # the server was started again, or drops who is idle
                held.close()
        try:
            held = self._held[os.getpid()] = psycopg.connect(
                self._database,
                autocommit=True,  # transactions begin and end as they are told to
                prepare_threshold=None,  # poolers hand over connections between transactions
                connect_timeout=10,
                target_session_attrs="read-write",  # a standby may not know the latest charge
                application_name="tacit",
            )
            held.execute(begin.encode())
            return held
        except psycopg.Error as error:
            state = _state(error)
        raise LedgerError(f"The {self._what} {self} {state}. {outcome}")

    def __str__(self) -> str:
        return f"postgresql://***#{self._name}"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A store cannot be copied or pickled; open it again from its address.")


class _Statements:
    """A transaction. What PostgreSQL says of a fault may quote what was written: its state is told.

    The error has no context either, where a debugger would find that text.
    """  # proof: quiet

    def __init__(self, connection: Connection, what: str, outcome: str) -> None:
        self._connection, self._what, self._outcome = connection, what, outcome

    def execute(self, sql: str, given: tuple[Any, ...] = (), /) -> Any:
        try:
            return self._connection.execute(sql.replace("?", "%s").encode(), given or None)
        except psycopg.Error as error:
            state = _state(error)
        raise LedgerError(f"{self._what} {state}. {self._outcome}")

    def commit(self) -> None:
        try:
            return self._connection.commit()
        except psycopg.Error as error:
            state = _state(error)
        raise LedgerError(
            f"{self._what} {state}. Whether this was written is not known: ask again under the "
            "same name, or look with 'tacit ledger show'."
        )


def _close(held: dict[int, Connection]) -> None:
    if os.getpid() in held:
        held.pop(os.getpid()).close()


def _state(error: psycopg.Error) -> str:
    match error.sqlstate or "08000":
        case "55P03":
            return "is locked by another process"
        case "25P03":
            return "did not wait any longer for this process"
        case "53100":
            return "is on a disk that is full"
        case "25006" | "42501":
            return "is not writable for this user"
        case code if code[:2] in ("08", "57"):
            return "cannot be reached: check its address, user and password, and the server"
        case _:
            return "is unreadable or not a ledger"
