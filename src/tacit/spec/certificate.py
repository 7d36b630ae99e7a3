"""What was asked, of whom, at what cost, under which assumptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from tacit.spec.budget import plain
from tacit.spec.html import facts_html
from tacit.spec.wire import facts_of, reading


@dataclass(frozen=True)
class LedgerMark:
    """Where the charge stands: the ledger's identity, the entry and the chain's head there."""

    ledger: str
    entry: int
    head: str


@dataclass(frozen=True)
class Stored:
    """An answer that was given before, and when it was stored."""

    body: str
    time: str


@dataclass(frozen=True)
class Charge:
    """What was paid: a mark to print on the release, and a token that allows to store one answer.

    Or, if the name has been answered, what is stored under it; if it is that of a lease which was
    opened, just that.
    """

    mark: LedgerMark
    token: str
    stored: Stored | None = None
    opened: str = ""


@dataclass(frozen=True)
class Certificate:
    """The privacy facts of one release. Everything in it is public.

    `data` is "private" for a `Wall`, "public data" for a `Public`, whose results carry no
    guarantee at all, "rehearsal" for one of synthetic rows, and "released elsewhere" for what Tacit
    did not make. `events` are facts
    (law, scale, sensitivity), so that a later and tighter accountant can read them again.
    """

    unit: str
    neighbours: str
    epsilon: Decimal
    delta: Decimal
    accountant: str
    events: tuple[Mapping[str, Any], ...]
    assumptions: tuple[str, ...] = ()
    ledger: LedgerMark | None = None
    data: Literal["private", "public data", "released elsewhere", "rehearsal"] = "private"

    def assuming(self, more: tuple[str, ...]) -> Certificate:
        """The certificate with further assumptions."""
        return replace(self, assumptions=self.assumptions + more) if more else self

    def replayed(self, time: str) -> Certificate:
        """The certificate of an answer that was stored at this time and is given again."""
        note = f"answered again from the ledger: first released {time}; "
        return self.assuming((note + "data that changed since are not in it",))

    def to_dict(self) -> dict[str, Any]:
        return facts_of(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Certificate:
        with reading("certificate"):
            rest = dict(facts)
            rest["epsilon"], rest["delta"] = Decimal(rest["epsilon"]), Decimal(rest["delta"])
            rest["events"] = tuple({**event} for event in rest["events"])
            rest["assumptions"] = tuple(rest["assumptions"])
            rest["ledger"] = None if rest["ledger"] is None else LedgerMark(**rest["ledger"])
            return cls(**rest)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        if self.data != "private":
            return f"Certificate({self.data})"
        entry = "" if self.ledger is None else f", ledger entry {self.ledger.entry}"
        return (
            f"Certificate(epsilon {plain(self.epsilon)}, delta {plain(self.delta)} for "
            f"{self.unit}, {self.neighbours}{entry})"
        )

    def _repr_html_(self) -> str:
        if self.data != "private":
            return facts_html("Certificate", {"data": self.data})
        mark = self.ledger
        entry = "none" if mark is None else f"entry {mark.entry}, head {mark.head[:16]}"
        facts = {
            "epsilon": plain(self.epsilon),
            "delta": plain(self.delta),
            "protects": self.unit,
            "neighbours": self.neighbours,
            "accounting": self.accountant,
            "ledger": entry,
        }
        assumed = {"assumptions": "; ".join(self.assumptions)} if self.assumptions else {}
        return facts_html("Certificate", {**facts, **assumed})

    def __str__(self) -> str:
        if self.data == "public data":
            return "public data: no privacy guarantee is made or needed"
        if self.data == "rehearsal":
            return "rehearsal: synthetic rows from the public schema; nothing here is about anyone"
        if self.data == "released elsewhere":
            return "\n".join(f"{self.data}: {text}" for text in self.assumptions)
        lines = [
            f"({plain(self.epsilon)}, {plain(self.delta)})-differential privacy for {self.unit}",
            f"neighbours: {self.neighbours}; accounting: {self.accountant}",
            *(f"event: {_sentence(event)}" for event in self.events),
            *(f"assumption: {text}" for text in self.assumptions),
        ]
        if self.ledger is not None:
            lines.append(f"ledger entry {self.ledger.entry}, head {self.ledger.head[:16]}")
        return "\n".join(lines)


def _rounded(value: Any) -> str:
    """A value as people read it; the certificate's own numbers are exact."""
    match value:
        case float():
            return f"{value:.6g}"
        case {"type": name, **options}:
            return " ".join([name, *(f"{key} {_rounded(each)}" for key, each in options.items())])
        case list() | tuple():
            return f"[{', '.join(map(_rounded, value))}]"
    return str(value)


def _sentence(event: Mapping[str, Any]) -> str:
    parts = [
        f"{key} {_rounded(value)}" for key, value in event.items() if key not in ("query", "noise")
    ]
    return f"{event.get('noise', 'noise')}, " + ", ".join(parts)
