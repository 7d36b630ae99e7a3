"""What a chain of ledger entries says: pure bookkeeping over texts and hashes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tacit.accounting.filters import BASIC, Accountant, Basic, accountant, charged
from tacit.spec.budget import Amounts, Budget, Left, Spent
from tacit.spec.certificate import LedgerMark
from tacit.spec.errors import LedgerError

# What json.loads, Decimal and a look into their results raise; a BudgetError is a ValueError.
_HOSTILE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def link(head: str, seq: int, body: str) -> str:
    """The hash of an entry, which covers all entries before it."""
    return digest(f"{head}\n{seq}\n{body}")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError("not a printable text")
    return value


@dataclass
class Claim:
    """What was asked under a name, where it was paid for, and by whom it may be answered.

    `tokens` are the hashes of its charges and takeovers: random, through their nonces, and known
    to the process that wrote the entry.
    """

    question: str
    mark: LedgerMark
    tokens: set[str] = field(default_factory=set)
    opened: str = ""  # of a lease: what its file of answers was begun with


class Answered(NamedTuple):
    """The digest of what is stored under a name, and the time of its entry."""

    sha256: str
    time: str


@dataclass
class Chain:
    """The state after the entries checked so far; it only ever moves forward."""

    seq: int = 0
    head: str = ""
    ledger: str = ""
    pins: dict[str, Any] = field(default_factory=dict)
    schema: dict[str, Any] | None = None  # the one in force
    changes: dict[int, tuple[str, ...]] = field(default_factory=dict)  # of the schema, by entry
    budget: Budget | None = None
    adds_up: Accountant = field(default_factory=Basic)
    spent: Amounts = field(default_factory=Amounts)  # as this ledger adds up
    alone: Spent = field(default_factory=Spent)  # what the releases would cost alone, added up
    claims: dict[str, Claim] = field(default_factory=dict)  # by name
    answers: dict[str, Answered] = field(default_factory=dict)  # by name
    approved: set[str] = field(default_factory=set)  # questions, with their names and prices

    def follow(self, seq: int, body: str, stored_hash: str) -> None:
        """Check one more link and take in what it says."""
        whole = isinstance(body, str) and link(self.head, seq, body) == stored_hash
        if seq != self.seq + 1 or not whole:
            raise LedgerError(f"The ledger is broken at entry {seq}: its chain does not hold.")
        try:
            self._take(seq, json.loads(body), stored_hash)
        except _HOSTILE:  # a chain that holds may have been written by anyone
            raise LedgerError(f"The ledger is broken at entry {seq}.") from None
        self.seq, self.head = seq, stored_hash

    def _take(self, seq: int, entry: dict[str, Any], hash_: str) -> None:
        time = datetime.fromisoformat(entry["time"]).isoformat()
        bytes.fromhex(entry["nonce"])
        match entry["kind"]:
            case "created" if seq == 1:
                self.budget = Budget(entry["epsilon"], entry["delta"])
                self.ledger, self.pins = _text(entry["ledger"]), {**BASIC, **entry["pins"]}
                self.adds_up = accountant(self.pins, self.budget, entry.get("filter"))
                self.spent = Amounts.none(self.adds_up.names)
                self.schema = None if entry["schema"] is None else dict(entry["schema"].items())
            case "schema" if seq > 1:
                self.schema = dict(entry["schema"].items())
                self.changes[seq] = tuple(map(_text, entry["changes"]))
            case "charge" if seq > 1:
                mark, question = LedgerMark(self.ledger, seq, hash_), _text(entry["question"])
                cost, _ = Budget(entry["epsilon"], entry["delta"]), entry["event"].items()
                if entry["name"] is not None:
                    claim = self._unanswered(entry["name"], Claim(question, mark))
                    if claim.question != question:
                        raise ValueError("one name, two questions")
                    claim.mark = mark
                    claim.tokens.add(hash_)
                    self.claims[entry["name"]] = claim
                self.spent += charged(self.adds_up, entry)
                self.alone += cost
            case "takeover" if seq > 1:
                self._unanswered(entry["name"]).tokens.add(hash_)
            case "opened" if seq > 1:
                self._unanswered(entry["name"]).opened = _text(entry["begun"])
            case "release" if seq > 1:
                if entry["claim"] not in self._unanswered(entry["name"]).tokens:
                    raise ValueError("an answer that nobody paid for")
                self.answers[entry["name"]] = Answered(_text(entry["sha256"]), time)
            case "approved" if seq > 1:
                self.approved.add(_text(entry["question"]))
            case "raised" if seq > 1:
                self.budget = Budget(entry["epsilon"], entry["delta"])
            case _:
                raise ValueError("unknown kind")

    def _unanswered(self, name: str, new: Claim | None = None) -> Claim:
        """The claim to a name. After its answer there are no charges, takeovers or answers."""
        # proof: claim
        if _text(name) in self.answers:
            raise ValueError("one name, two answers")
        return self.claims[name] if new is None else self.claims.get(name, new)

    @property
    def limit(self) -> Budget:
        if self.budget is None:
            raise LedgerError("The ledger is broken: it has no first entry.")
        return self.budget

    @property
    def left(self) -> Left:
        return self.adds_up.left(self.spent, self.limit)

    @property
    def mark(self) -> LedgerMark:
        return LedgerMark(self.ledger, self.seq, self.head)
