"""What a chain of ledger entries says: pure bookkeeping over texts and hashes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tacit.spec.budget import Budget, Spent
from tacit.spec.certificate import LedgerMark
from tacit.spec.errors import LedgerError, TacitError


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def link(head: str, seq: int, body: str) -> str:
    """The hash of an entry, which covers all entries before it."""
    return digest(f"{head}\n{seq}\n{body}")


@dataclass
class Chain:
    """The state after the entries checked so far; it only ever moves forward."""

    seq: int = 0
    head: str = ""
    ledger: str = ""
    pins: dict[str, Any] = field(default_factory=dict)
    budget: Budget | None = None
    spent: Spent = field(default_factory=Spent)
    questions: dict[str, str] = field(default_factory=dict)  # name -> what was asked
    answers: dict[str, str] = field(default_factory=dict)  # name -> digest of what was released

    def follow(self, seq: int, body: str, stored_hash: str) -> None:
        """Check one more link and take in what it says."""
        if seq != self.seq + 1 or link(self.head, seq, body) != stored_hash:
            raise LedgerError(f"The ledger is broken at entry {seq}: its chain does not hold.")
        try:
            self._take(seq, json.loads(body))
        except (KeyError, ValueError, TypeError) as error:
            if isinstance(error, TacitError):
                raise
            raise LedgerError(f"The ledger is broken at entry {seq}.") from None
        self.seq, self.head = seq, stored_hash

    def _take(self, seq: int, entry: dict[str, Any]) -> None:
        match entry["kind"]:
            case "created" if seq == 1:
                self.ledger, self.pins = entry["ledger"], entry["pins"]
                self.budget = Budget(entry["epsilon"], entry["delta"])
            case "charge" if seq > 1:
                self.spent += Budget(entry["epsilon"], entry["delta"])
                if entry["name"] is not None:
                    self.questions[entry["name"]] = entry["question"]
            case "release" if seq > 1:
                self.answers[entry["name"]] = entry["sha256"]
            case "raised" if seq > 1:
                self.budget = Budget(entry["epsilon"], entry["delta"])
            case kind:
                raise LedgerError(f"The ledger is broken at entry {seq}: unknown kind {kind!r}.")

    @property
    def limit(self) -> Budget:
        if self.budget is None:
            raise LedgerError("The ledger is broken: it has no first entry.")
        return self.budget

    @property
    def left(self) -> Spent:
        return self.spent.left_of(self.limit)

    @property
    def mark(self) -> LedgerMark:
        return LedgerMark(self.ledger, self.seq, self.head)
