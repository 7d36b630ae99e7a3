"""Who may ask: accounts, tokens, allowances, and which data sets are stopped.

A token is 256 random bits and is kept as its hash. All of it is in one SQLite file of the web
process; what was spent is in the ledgers, which that process cannot write.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from tacit.custodian.custody import check_name
from tacit.spec.budget import Budget
from tacit.spec.checks import one_of, whole_number
from tacit.spec.errors import FileError, StudyError

Role = Literal["analyst", "custodian"]
_TABLES = """
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, role TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (id TEXT PRIMARY KEY, account TEXT NOT NULL,
    sha256 TEXT NOT NULL, expires TEXT NOT NULL, revoked INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS allowances (account TEXT, dataset TEXT, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, PRIMARY KEY (account, dataset));
CREATE TABLE IF NOT EXISTS stopped (dataset TEXT PRIMARY KEY, time TEXT NOT NULL,
    reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (question TEXT, account TEXT, dataset TEXT, name TEXT,
    epsilon TEXT, delta TEXT, asked TEXT, time TEXT, PRIMARY KEY (question, account, dataset));
"""
_MOST_REQUESTS = 1000  # of an account that wait for approval


@dataclass(frozen=True)
class Account:
    """Who asks."""

    name: str
    role: Role


@dataclass(frozen=True)
class Listed:
    """An account as its custodian sees it."""

    name: str
    role: Role
    expires: str | None
    allowances: dict[str, Budget]


@dataclass(frozen=True)
class Request:
    """A question that costs more than the policy allows, as long as nobody has decided on it."""

    question: str
    account: str
    dataset: str
    name: str
    cost: Budget
    asked: str
    time: str


class Accounts:
    """The accounts of a server. Every call opens the file anew."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the file, for its owner's eyes alone, unless it is there."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            raise FileError(f"Cannot write {self.path}: {error.strerror}.") from None
        with self._session() as connection:
            connection.executescript(_TABLES)

    def add(self, name: str, role: Role = "analyst", days: int = 90) -> str:
        """Make an account; return its token, which is nowhere else."""
        one_of(role, "role", get_args(Role), StudyError)
        with self._session() as connection:
            if _role(connection, check_name(name, "an account")) is not None:
                raise StudyError(f"There is an account {name!r} already: renew its token instead.")
            connection.execute("INSERT INTO accounts VALUES (?, ?)", (name, role))
            return _new_token(connection, name, days)

    def renew(self, name: str, days: int = 90) -> str:
        """Return a new token of an account. Its others end now."""
        with self._session() as connection:
            _known(connection, name)
            connection.execute("UPDATE tokens SET revoked = 1 WHERE account = ?", (name,))
            return _new_token(connection, name, days)

    def revoke(self, name: str) -> None:
        """End all tokens of an account. What it spent stays on record under its name."""
        with self._session() as connection:
            _known(connection, name)
            connection.execute("UPDATE tokens SET revoked = 1 WHERE account = ?", (name,))

    def allow(self, name: str, dataset: str, budget: Budget) -> None:
        """Let an account spend this much of a data set's budget in all, at most."""
        with self._session() as connection:
            _known(connection, name)
            row = (name, dataset, *budget.texts.values())
            connection.execute("INSERT OR REPLACE INTO allowances VALUES (?, ?, ?, ?)", row)

    def account_of(self, token: str) -> Account | None:
        """Whose token it is; None for one that is wrong, revoked or expired."""
        _, id_, secret = (*token.split("_", 2), "", "")[:3]
        with self._session() as connection:
            found = connection.execute(
                "SELECT account, sha256, expires, revoked, role FROM tokens "
                "JOIN accounts ON accounts.name = account WHERE id = ?",
                (id_,),
            ).fetchone()
        nobody: Any = ("", "", "", 1, "")
        account, kept, expires, revoked, role = found or nobody
        # As long for an unknown id.
        right = hmac.compare_digest(kept.encode(), _hash(secret).encode())
        return Account(account, role) if right and not revoked and expires > _now() else None

    def allowance(self, name: str, dataset: str) -> Budget | None:
        """What an account may spend of a data set in all; None if it may not ask."""
        with self._session() as connection:
            row = connection.execute(
                "SELECT epsilon, delta FROM allowances WHERE account = ? AND dataset = ?",
                (name, dataset),
            ).fetchone()
        return None if row is None else Budget(*row)

    def listed(self) -> list[Listed]:
        """All accounts, when their tokens expire, and what they may spend."""
        with self._session() as connection:
            accounts = connection.execute(
                "SELECT name, role, (SELECT max(expires) FROM tokens WHERE account = name AND "
                "revoked = 0) FROM accounts ORDER BY name"
            ).fetchall()
            allowed = connection.execute("SELECT * FROM allowances ORDER BY dataset").fetchall()
        of = {
            name: {dataset: Budget(*budget) for who, dataset, *budget in allowed if who == name}
            for name, _, _ in accounts
        }
        return [Listed(name, role, expires, of[name]) for name, role, expires in accounts]

    def stop(self, dataset: str, reason: str) -> None:
        """Stop a data set until its custodian has looked; the first reason stays."""
        with self._session() as connection:
            row = (dataset, _now(), reason)
            connection.execute("INSERT OR IGNORE INTO stopped VALUES (?, ?, ?)", row)

    def stopped(self, dataset: str) -> str | None:
        """Since when and why a data set is stopped; None if it is not."""
        with self._session() as connection:
            row = connection.execute(
                "SELECT time, reason FROM stopped WHERE dataset = ?", (dataset,)
            ).fetchone()
        return None if row is None else f"{row[0]}: {row[1]}"

    def resume(self, dataset: str) -> None:
        """Let a data set answer again."""
        with self._session() as connection:
            if not connection.execute("DELETE FROM stopped WHERE dataset = ?", (dataset,)).rowcount:
                raise StudyError(f"The data set {dataset!r} is not stopped.")

    def ask(self, request: Request) -> None:
        """Enter a question for the custodian to decide on, unless it is there."""
        with self._session() as connection:
            (many,) = connection.execute(
                "SELECT count(*) FROM requests WHERE account = ?", (request.account,)
            ).fetchone()
            if many < _MOST_REQUESTS:
                row = (
                    *(request.question, request.account, request.dataset, request.name),
                    *request.cost.texts.values(),
                    *(request.asked, request.time),
                )
                connection.execute(
                    "INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
                )

    def requests(self) -> list[Request]:
        """What waits for a decision, oldest first."""
        with self._session() as connection:
            rows = connection.execute("SELECT * FROM requests ORDER BY time").fetchall()
        return [
            Request(question, account, dataset, name, Budget(epsilon, delta), asked, time)
            for question, account, dataset, name, epsilon, delta, asked, time in rows
        ]

    def decided(self, request: Request) -> None:
        """Take a question off the list."""
        with self._session() as connection:
            key = (request.question, request.account, request.dataset)
            connection.execute(
                "DELETE FROM requests WHERE question = ? AND account = ? AND dataset = ?", key
            )

    @contextmanager
    def _session(self) -> Iterator[sqlite3.Connection]:
        """A transaction, committed if nothing was raised."""
        try:
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(address, uri=True, timeout=30.0)
            try:
                with connection:
                    yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise FileError(f"Cannot use the accounts in {self.path}: {error}.") from None


def _new_token(connection: sqlite3.Connection, name: str, days: int) -> str:
    whole_number(days, "days", most=3650, error=StudyError)
    id_, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
    row = (id_, name, _hash(secret), expires)
    connection.execute("INSERT INTO tokens (id, account, sha256, expires) VALUES (?, ?, ?, ?)", row)
    return f"tacit_{id_}_{secret}"


def _role(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT role FROM accounts WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _known(connection: sqlite3.Connection, name: str) -> None:
    if _role(connection, name) is None:
        raise StudyError(f"There is no account {name!r}: tacit custody list shows all.")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
