"""What the web process does with a request before and after the worker.

It has accounts, sizes and rates, and a log of who asked what when. It has no right to the data: a
request goes to the worker of its data set as it came, and the answer back.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.custodian.accounts import Account, Accounts, Request
from tacit.custodian.custody import Counter, Offer
from tacit.custodian.messages import (
    BYTES,
    CHECKING,
    GO,
    READING,
    STATUS,
    VERBS,
    decoded,
    encoded,
    error_from_facts,
    error_to_facts,
    receive,
    send,
)
from tacit.spec.budget import Budget
from tacit.spec.errors import (
    FileError,
    LedgerError,
    PolicyError,
    QueryError,
    StoppedError,
    TacitError,
)

_DEATHS = 3  # of a worker under one request, until its data set is stopped
_QUEUE = 600.0  # seconds that a request waits for its turn
_BUSY = "The data set is busy: try again later, under the same name, which is paid once."
_STOPPED = (
    "The data set {} is stopped until its custodian has looked. No budget was spent; what was paid "
    "for under a name will then be answered under it."
)


@dataclass(frozen=True)
class Reply:
    """What goes back over HTTP: a status, a body, and the public time at which it leaves."""

    status: int
    body: bytes
    slot: str = ""
    wait: float = 0.0


class Office:
    """The counter of a custody: everything but the records."""

    def __init__(self, counter: Counter) -> None:
        self.offers: Mapping[str, Offer] = counter.offers
        self.accounts = Accounts(counter.folder / "accounts.sqlite")
        self.audit = Audit(counter.folder / "audit.jsonl")
        self.rate = Rate(counter.requests_per_minute)
        self.failures = Rate(60)  # tokens that were wrong, by address
        self._sockets = counter.sockets
        self._unwritten: set[str] = set()  # stopped, where that could not be written down

    def account(self, authorization: str) -> Account | None:
        """Whose token an Authorization header has."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self.accounts.account_of(token.strip())

    def visible(self, account: Account) -> list[str]:
        """The data sets that an account may ask: a custodian sees all."""
        return [name for name in self.offers if self._may_ask(account, name) is not None]

    def _may_ask(self, account: Account, dataset: str) -> dict[str, Any] | None:
        """What a worker is told of who asks; None for a data set that is not there for them."""
        if dataset not in self.offers:
            return None
        allowance = self.accounts.allowance(account.name, dataset)
        listed = self.offers[dataset].policy.analysts
        if account.role != "custodian" and (
            allowance is None or (listed is not None and account.name not in listed)
        ):
            return None
        texts = None if allowance is None else allowance.texts
        return {"account": account.name, "role": account.role, "allowance": texts}

    def ask(self, account: Account, dataset: str, verb: str, **facts: Any) -> Any:
        """Ask for facts from inside the web process, for its pages; refusals are raised."""
        reply = self.reply(account, dataset, verb, encoded(facts, BYTES), BYTES, BYTES)
        time.sleep(reply.wait)
        found = decoded(reply.body, BYTES)
        if reply.status != 200:
            raise error_from_facts(found)
        return found

    def reply(
        self, account: Account, dataset: str, verb: str, body: bytes, type_: str, accept: str
    ) -> Reply:
        """Pass a request on to the worker of its data set, and what it says back."""
        header: dict[str, Any] = {"error": None, "name": None}
        asker = self._may_ask(account, dataset)
        try:
            header, answer = self._passed(account, asker, dataset, verb, body, type_, accept)
            status = 200 if header["error"] is None else STATUS.get(header["error"], 400)
        except FileError:  # of the accounts: with their path and what SQLite says
            raise
        except TacitError as error:
            header["error"] = type(error).__name__
            status, answer = (
                STATUS.get(header["error"], 400),
                encoded(error_to_facts(error), accept),
            )
        self.audit.write(account.name, dataset, verb, header["name"], header["error"] or "ok")
        reply = Reply(status, answer)
        # What is free waits too: behind what is not, it would tell when that was done.
        every = 0 if asker is None else self.offers[dataset].policy.answer_every
        return _in_slot(reply, every) if every else reply

    def most(self, account: Account, dataset: str) -> int:
        """The bytes that a body may have: for a data set that an account may not ask, the least."""
        offer = self.offers[dataset] if self._may_ask(account, dataset) is not None else None
        return 2**20 * (1 if offer is None else offer.limits.body)

    def _passed(
        self,
        account: Account,
        asker: dict[str, Any] | None,
        dataset: str,
        verb: str,
        body: bytes,
        type_: str,
        accept: str,
    ) -> tuple[dict[str, Any], bytes]:
        if asker is None:
            raise PolicyError(
                f"There is no data set {dataset[:40]!r} for the account {account.name!r}. "
                "Nothing was read or spent."
            )
        envelope = {"verb": verb, "asker": asker, "type": type_, "accept": accept}
        header, answer = self._worker(dataset, verb, json.dumps(envelope).encode(), body)
        if header.get("stop"):
            self._stop(dataset, f"a fault in {verb!r} of {account.name}")
        if header["error"] == "PolicyError" and "question" in header:
            self.accounts.ask(_request(header, account, dataset))
        return header, answer

    def _worker(
        self, dataset: str, verb: str, envelope: bytes, body: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """Ask the worker; again if it was killed, since nothing of its answer has left it.

        One that ends again and again under a question while it reads, or after its time is over,
        stops the data set: that may be because of a record, and would tell of it every time.
        """
        limits, patience = self.offers[dataset].limits, time.monotonic() + _QUEUE
        read = False
        for _ in range(_DEATHS):
            begun, seconds = None, min(limits.seconds, CHECKING)
            while begun is None:
                try:
                    with socket.socket(socket.AF_UNIX) as connection:
                        connection.settimeout(_QUEUE)
                        connection.connect(self._sockets[dataset])
                        send(connection, envelope, body)
                        receive(connection)
                        begun = time.monotonic()
                        connection.settimeout(limits.seconds + 60.0)
                        frame = receive(connection)
                        if frame == READING:
                            # Not before: it may have waited while another was stopped.
                            self._check_stopped(dataset)
                            read, begun, seconds = True, time.monotonic(), limits.seconds
                            send(connection, GO)
                            frame = receive(connection)
                        return json.loads(frame), bytes(receive(connection))
                except TimeoutError:
                    if begun is None:
                        raise LedgerError(_BUSY) from None
                except ConnectionError:  # died before it worked on this, or while it did
                    if begun is None and time.monotonic() > patience:
                        raise LedgerError(_BUSY) from None
                    if begun is None:
                        time.sleep(0.05)
                        if VERBS[verb].charged:
                            self._check_stopped(dataset)
                except OSError:  # no more files can be opened, say
                    raise LedgerError(_BUSY) from None
            if time.monotonic() - begun > seconds - 1:
                break
        if not read:
            raise QueryError(
                f"Expected a question that is checked within {min(limits.seconds, CHECKING):g} "
                "seconds and the memory of the server. Nothing was read or spent."
            )
        self._stop(dataset, f"a {verb!r} that took too long, or ended the worker")
        raise StoppedError(
            f"The answer is withheld: the machine failed. {_STOPPED.format(repr(dataset))}"
        )

    def _stop(self, dataset: str, reason: str) -> None:
        self._unwritten.add(dataset)
        self.accounts.stop(dataset, reason)
        self._unwritten.discard(dataset)

    def _check_stopped(self, dataset: str) -> None:
        if dataset in self._unwritten or self.accounts.stopped(dataset) is not None:
            raise StoppedError(_STOPPED.format(repr(dataset)))


def _in_slot(reply: Reply, every: float) -> Reply:
    """The reply at the end of the public slot that is running: an overrun waits for the next."""
    now = time.time()
    end = (now // every + 1) * every
    slot = datetime.fromtimestamp(end, UTC).isoformat(timespec="milliseconds")
    return Reply(reply.status, reply.body, slot, end - now)


def _request(header: Mapping[str, Any], account: Account, dataset: str) -> Request:
    return Request(
        question=header["question"],
        account=account.name,
        dataset=dataset,
        name=header["name"] or "",
        cost=Budget(**header["cost"]),
        asked=header["asked"],
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class Rate:
    """So many requests a minute of each who asks, in a bucket that fills steadily."""

    def __init__(self, a_minute: int) -> None:
        self._most, self._second = float(max(1, a_minute)), a_minute / 60
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def allows(self, who: str) -> bool:
        """Take one, if there is one."""
        now = time.monotonic()
        with self._lock:
            left, since = self._left.get(who, (self._most, now))
            left = min(self._most, left + (now - since) * self._second)
            self._left[who] = (max(left - 1, 0.0), now)
            if len(self._left) > 10_000:  # whose buckets are full need not be remembered
                self._left = dict(list(self._left.items())[5_000:])
            return left >= 1


class Audit:
    """Who asked what when, line by line; no question, no answer and no token."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()

    def write(self, account: str, dataset: str, verb: str, name: str | None, outcome: str) -> None:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "account": account,
            "dataset": dataset[:40],
            "verb": verb,
            "name": name,
            "outcome": outcome,
        }
        try:
            with self._lock:
                handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(handle, (json.dumps(line) + "\n").encode())
                finally:
                    os.close(handle)
        except OSError as error:
            raise FileError(f"Cannot write the audit log: {error.strerror}.") from None
