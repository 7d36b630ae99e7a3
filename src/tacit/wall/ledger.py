"""A durable budget: append-only, hash-chained, and charged before anything is read.

One file (`store`) holds what is pinned (unit, relation), the entries (budget, schema and what
changed of them, charges), and the releases that were paid for, so that a name can be replayed. It
holds nothing else about the data.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tacit.accounting.filters import BASIC, accountant, charged, check_charge
from tacit.spec.budget import Budget
from tacit.spec.certificate import Certificate, Charge, LedgerMark, Stored
from tacit.spec.errors import LedgerError, NameTakenError, OverBudgetError
from tacit.spec.schema import Schema
from tacit.spec.schema_changes import assumed_of_changes, changed_since, schema_changes
from tacit.stores.store import Session
from tacit.wall.chain import Answered, Chain, digest, link
from tacit.wall.store import store_at

_ALL_AFTER = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq"
_ONE_HASH = "SELECT hash FROM entries WHERE seq = ?"
_LOOKED = "Nothing was read from the data."
_UNPAID = "No data were read and no budget was spent."


class Ledger:
    """The ledger of one protected population, in a file or at "postgresql://host/database#name"."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.store = store_at(address)
        self._chain = Chain()
        self._written: list[tuple[int, str, str]] = []
        self._schema: Schema | None = None

    def open(self, pins: Mapping[str, Any], budget: Budget, schema: Schema | None = None) -> None:
        """Create the ledger, or check that it was created for the same people and terms.

        The schema may have changed since: the next charge records it.
        """
        pins = {**BASIC, **pins}
        first = {
            "kind": "created",
            "ledger": secrets.token_hex(8),
            "pins": pins,
            "filter": accountant(pins, budget).facts,
            "schema": None if schema is None else schema.to_dict(),
            **budget.texts,
        }
        self.store.create(lambda session: _insert(session, 0, "", first))
        chain = self.read()
        for what in {**chain.pins, **pins}:
            pinned = chain.pins.get(what)
            if pins.get(what) != pinned:
                raise LedgerError(
                    f"The ledger was created with {what} = {pinned!r}, not {pins.get(what)!r}: "
                    "keep to that, since all that was spent was spent on these terms. Columns, "
                    f"levels and bounds may change. {_UNPAID}"
                )
        self._schema = schema
        self._changes(chain)  # refuses the schema of another table
        if chain.limit != budget:
            raise LedgerError(
                f"The ledger was created with a budget of {chain.limit}, not {budget}: "
                "keep to that, or raise it on the record with 'tacit ledger raise'."
            )

    def read(self) -> Chain:
        """What the ledger says now, after checking the chain."""
        with self.store.session(_LOOKED, write=False) as session:
            return self._advance(session)

    def entries(self, after: int = 0) -> list[dict[str, Any]]:
        """All entries, or those after one, after checking the chain."""
        with self.store.session(_LOOKED, write=False) as session:
            self._advance(session)
            rows = session.execute(_ALL_AFTER, (after,)).fetchall()
        return [{"entry": seq, **json.loads(body), "hash": hash_} for seq, body, hash_ in rows]

    def verify(self, mark: LedgerMark | None = None) -> Chain:
        """Check every link, every stored release and, given a mark, that its entry is here."""
        with self.store.session(_LOOKED, write=False) as session:
            self._chain = Chain()
            chain = self._advance(session)
            stored = session.execute("SELECT name, body FROM releases").fetchall()
            if len(stored) != len(chain.answers):
                raise LedgerError("The ledger is broken: a stored release is gone or twice there.")
            for name, body in stored:
                _check_stored(body, chain.answers.get(name))
            for seq, body, _ in session.execute(_ALL_AFTER, (0,)).fetchall():
                check_charge(chain.adds_up, seq, json.loads(body))
            if mark is not None:
                whole = type(mark.entry) is int and 0 < mark.entry <= chain.seq
                row = session.execute(_ONE_HASH, (mark.entry if whole else 0,)).fetchone()
                if row is None or row[0] != mark.head:
                    raise LedgerError(
                        f"The ledger does not hold entry {mark.entry} of this certificate: "
                        "it was cut, rolled back, or is another ledger."
                    )
        return chain

    def charge(
        self,
        cost: Budget,
        event: Mapping[str, Any],
        name: str | None,
        question: str,
        *,
        takeover: bool = False,
    ) -> Charge:
        """Check and append as one step; the charge is on disk when this returns.

        A charge under a name claims it. With `takeover`, a name that is charged but not answered
        may be answered again without a charge; the caller must return only what `keep` has stored.
        """
        # Fixed by the first entry; computed before others wait, since a lease takes a second.
        adds_up = (self._chain if self._chain.seq else self.read()).adds_up
        amounts = charged(adds_up, adds_up.cost(cost, event).texts)  # refuses what cannot be read
        with self._transaction(_UNPAID) as session:
            chain = self._advance(session)
            new = self._changes(chain)
            claim = None if name is None else chain.claims.get(name)
            if name is not None and claim is not None:
                if claim.question != question:
                    since = changed_since(chain.changes, claim.mark.entry, new)
                    raise NameTakenError(
                        f"The name {name!r} was used for a different question: choose another. "
                        f"{_UNPAID}{since}"
                    )
                stored = self._stored(session, chain, name)
                if stored is not None:
                    return Charge(claim.mark, "", stored)
                if claim.opened:  # proof: claim
                    return Charge(claim.mark, "", opened=claim.opened)
                if takeover:
                    taken = self._append(session, {"kind": "takeover", "name": name})
                    return Charge(claim.mark, taken.head)
            left = chain.adds_up.limits(chain.limit) - chain.spent
            if not amounts.within(left):  # proof: budget
                raise OverBudgetError(str(amounts), str(left))
            if self._schema is not None and new:  # proof: schema-grows
                facts = {"schema": self._schema.to_dict(), "changes": list(new)}
                self._append(session, {"kind": "schema", **facts})
            paid = {"name": name, "question": question, **cost.texts, **amounts.texts}
            mark = self._append(session, {"kind": "charge", **paid, "event": dict(event)})
        return Charge(mark, mark.head)

    def keep(self, name: str, token: str, answer: str) -> Stored | None:
        """Store an answer if none is stored under the name; else return the one that is.

        The first of several holders of a claim stores, be it the last to have taken it over or
        not: an answer that waited for a holder who died would never be given.
        """
        with self._transaction("The answer was not stored.") as session:
            chain = self._advance(session)
            stored = self._stored(session, chain, name)
            if stored is not None:
                return stored
            if name not in chain.claims or token not in chain.claims[name].tokens:
                raise LedgerError(f"The name {name!r} is not claimed by this process.")
            session.execute("INSERT INTO releases VALUES (?, ?)", (name, answer))
            facts = {"name": name, "claim": token, "sha256": digest(answer)}
            self._append(session, {"kind": "release", **facts})
        return None

    def open_lease(self, name: str, begun: str) -> str:
        """Write down with what the answers under a name were begun, or return what was written."""
        with self._transaction("The lease was not opened.") as session:
            claim = self._advance(session).claims[name]
            if not claim.opened:
                self._append(session, {"kind": "opened", "name": name, "begun": begun})
            return claim.opened or begun

    def answer(self, name: str) -> Stored | None:
        """The answer that is stored under a name."""
        with self.store.session(_LOOKED, write=False) as session:
            return self._stored(session, self._advance(session), name)

    def approve(self, question: str, cost: Budget, by: str, reason: str) -> None:
        """Write down that a question may cost more than a custodian's policy allows."""
        with self._transaction("Nothing was approved.") as session:
            self._advance(session)
            facts = {"question": question, "by": by, "reason": reason, **cost.texts}
            self._append(session, {"kind": "approved", **facts})

    def certificate(
        self,
        schema: Schema,
        cost: Budget,
        accountant: str,
        events: tuple[dict[str, Any], ...],
        mark: LedgerMark,
    ) -> Certificate:
        """What was charged for, at what cost, for whom and under which assumptions."""
        assumptions = assumed_of_changes(tuple(self._chain.changes))
        if not self.store.durable:
            assumptions.append("the ledger is in memory: what was spent before is not known")
        return Certificate(
            unit=schema.protects,
            neighbours=schema.neighbours,
            epsilon=cost.epsilon,
            delta=cost.delta,
            accountant=accountant,
            events=events,
            assumptions=tuple(assumptions),
            ledger=mark,
        )

    def _changes(self, chain: Chain) -> tuple[str, ...]:
        """What the schema of this process changes of the one in force."""
        return () if self._schema is None else schema_changes(chain.schema, self._schema)

    def raise_budget(self, budget: Budget, reason: str) -> None:
        """Allow more from now on; the decision and its reason stay on the record."""
        if not reason.strip():
            raise LedgerError("Expected a reason for raising the budget.")
        with self._transaction("The budget was not raised.") as session:
            limit = self._advance(session).limit
            accountant(self._chain.pins, budget, self._chain.adds_up.facts)  # what has no proof
            if budget.epsilon < limit.epsilon or budget.delta < limit.delta or budget == limit:
                raise LedgerError(f"Expected a larger budget than {limit}, got {budget}.")
            self._append(session, {"kind": "raised", **budget.texts, "reason": reason})

    @staticmethod
    def _stored(session: Session, chain: Chain, name: str) -> Stored | None:
        row = session.execute("SELECT body FROM releases WHERE name = ?", (name,)).fetchone()
        answered = chain.answers.get(name)
        if row is None and answered is None:
            return None
        return _check_stored(None if row is None else row[0], answered)

    def _append(self, session: Session, entry: Mapping[str, Any]) -> LedgerMark:
        seq, _, head = (
            self._written[-1] if self._written else (self._chain.seq, "", self._chain.head)
        )
        row = _insert(session, seq, head, entry)
        self._written.append(row)
        return LedgerMark(self._chain.ledger, row[0], row[2])

    def _advance(self, session: Session) -> Chain:
        """Check what was added since the last read, and that what was seen is still there."""
        chain = self._chain
        if chain.seq:
            row = session.execute(_ONE_HASH, (chain.seq,)).fetchone()
            if row is None or row[0] != chain.head:
                raise LedgerError("The ledger is broken: it was cut or rolled back.")
        for seq, body, stored_hash in session.execute(_ALL_AFTER, (chain.seq,)).fetchall():
            chain.follow(seq, body, stored_hash)
        # The end of the chain stands in a second place, so that a damaged page cannot hide it.
        if session.execute("SELECT seq, hash FROM head").fetchall() != [(chain.seq, chain.head)]:
            raise LedgerError("The ledger is broken: its last entries are gone.")
        return chain

    @contextmanager
    def _transaction(self, outcome: str) -> Iterator[Session]:
        """A session for writing: alone from its start, committed if nothing was raised."""
        with self.store.session(outcome, write=True) as session:
            self._written.clear()
            yield session
            session.commit()
            for row in self._written:  # only what is on disk is remembered
                self._chain.follow(*row)


def _check_stored(body: Any, answered: Answered | None) -> Stored:
    if not isinstance(body, str) or answered is None or digest(body) != answered.sha256:
        raise LedgerError("The ledger is broken: a stored release was changed.")
    return Stored(body, answered.time)


def _insert(
    session: Session, seq: int, head: str, entry: Mapping[str, Any]
) -> tuple[int, str, str]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    # proof: nonce. Equal entries written on two copies of a ledger have different hashes.
    body = json.dumps({"time": now, "nonce": secrets.token_hex(16), **entry})
    row = (seq + 1, body, link(head, seq + 1, body))
    session.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
    session.execute("DELETE FROM head")
    session.execute("INSERT INTO head VALUES (?, ?)", (row[0], row[2]))
    return row
