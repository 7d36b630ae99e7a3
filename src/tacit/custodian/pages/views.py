"""What pages show, as plain facts: columns, a budget's meter, the ledger over time, a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from tacit.accounting.filters import history
from tacit.spec.budget import plain
from tacit.spec.release import Release
from tacit.spec.schema import Schema

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 200, 8, 10, 24
_AT_ONCE = 60.0  # seconds within which entries are drawn one by one
_SHOWN = 200  # numbers of a release on its page


@dataclass(frozen=True)
class Meter:
    """How much of a budget is spent, in what the ledger adds up."""

    what: str
    spent: str
    limit: str
    share: float

    @property
    def percent(self) -> str:
        return f"{100 * self.share:.3g} %"


@dataclass(frozen=True)
class Chart:
    """What was spent over time and what may be: two lines of SVG, and the words at their ends."""

    width: int
    height: int
    spent: str
    limit: str
    first: str
    last: str
    most: str


def meter(entries: Sequence[Mapping[str, Any]]) -> Meter:
    *_, (_, spent, limits) = history(entries)
    name = next(iter(limits.by_name))
    used, most = spent.by_name[name], limits.by_name[name]
    share = float(used / most) if most else 1.0
    return Meter(name.replace("_", " "), plain(used), plain(most), min(share, 1.0))


def chart(entries: Sequence[Mapping[str, Any]]) -> Chart:
    taken, sums, limits = zip(*history(entries))
    name = next(iter(limits[0].by_name))
    times = [datetime.fromisoformat(entry["time"]) for entry in taken]
    seconds = [(each - times[0]).total_seconds() for each in times]
    at: Sequence[float] = seconds if seconds[-1] > _AT_ONCE else range(len(times))
    most = max(float(each.by_name[name]) for each in limits) or 1.0
    across, up = _WIDTH - 2 * _LEFT, _HEIGHT - _TOP - _BOTTOM

    def line(values: Sequence[Any]) -> str:
        """A step for each entry, and on to the right edge."""
        last = at[-1] or 1.0
        points = [
            (_LEFT + across * x / last, _HEIGHT - _BOTTOM - up * float(v.by_name[name]) / most)
            for x, v in zip(at, values, strict=True)
        ]
        steps = [points[0]]
        for (_, before), (x, y) in pairwise(points):
            steps += [(x, before), (x, y)]
        steps.append((_LEFT + across, points[-1][1]))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)

    days = f"{times[0]:%Y-%m-%d}", f"{times[-1]:%Y-%m-%d}"
    return Chart(_WIDTH, _HEIGHT, line(sums), line(limits), *days, plain(Decimal(repr(most))))


def rows(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a ledger, latest first, and whether a release is stored under their names."""
    stored = {entry.get("name") for entry in entries if entry["kind"] == "release"}
    found = []
    for entry in entries:
        if entry["kind"] in ("release", "takeover", "opened"):
            continue  # of a charge that is listed
        name = entry.get("name")
        found.append(
            {
                "entry": entry["entry"],
                "time": str(entry["time"])[:16].replace("T", " "),
                "what": _what(entry),
                "name": name,
                "stored": name is not None and name in stored,
                "epsilon": plain(Decimal(entry["epsilon"])) if "epsilon" in entry else "",
                "delta": plain(Decimal(entry["delta"])) if "delta" in entry else "",
            }
        )
    return found[::-1]


def _what(entry: Mapping[str, Any]) -> str:
    match entry:
        case {"kind": "created"}:
            return "budget set"
        case {"kind": "raised", "reason": reason}:
            return f"budget raised: {reason}"
        case {"kind": "schema", "changes": changes}:
            return f"schema: {'; '.join(changes)}"
        case {"kind": "approved", "by": by, "reason": reason}:
            return f"approved by {by}: {reason}"
        case {"kind": "charge", "event": {"plan": {"steps": steps}}}:
            return f"{sum(int(part['steps']) for part in steps)} steps"
        case {"kind": "charge", "event": {"noise": noise}}:
            return f"a release, {str(noise).replace('_', ' ')}"
        case _:
            return str(entry["kind"])


def columns(schema: Schema) -> list[tuple[str, str, str]]:
    """Name, type and domain of each column."""
    found = []
    for facts in schema.to_dict()["columns"]:
        known = [
            f"{key.replace('_', ' ')} {_said(value)}"
            for key, value in facts.items()
            if key not in ("type", "name") and value not in (None, [], {}, ())
        ]
        found.append((facts["name"], facts["type"], "; ".join(known)))
    return found


def _said(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(str, value[:12]))
        return shown + f" and {len(value) - 12} more" * (len(value) > 12)
    return str(value)


@dataclass(frozen=True)
class Answer:
    """A stored release as a page shows it."""

    header: tuple[str, ...]
    rows: list[list[str]]
    more: int
    units: str
    certificate: list[str]
    assumptions: tuple[str, ...]
    meaning: list[str]


def answer(release: Release) -> Answer:
    # With what it stands on it takes seconds: for those who look at a release.
    from tacit.report.privacy import Price, translated

    frame = release.to_frame()
    shown = [
        [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.head(_SHOWN).itertuples(index=False)
    ]
    certificate = release.certificate
    price = Price.of([certificate], release.schema)
    return Answer(
        header=tuple(map(str, frame.columns)),
        rows=shown,
        more=max(0, len(frame) - _SHOWN),
        units="not public" if release.n is None else f"{release.n:,}",
        certificate=translated(certificate, release.schema),
        assumptions=certificate.assumptions,
        meaning=[] if price is None else price.meaning("this release alone"),
    )
