"""What a privacy price means: for one person, for an officer, and in a ledger."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tacit.accounting.filters import BASIC, history
from tacit.report.rounding import plainly
from tacit.spec.budget import Amounts, Budget, Spent, plain
from tacit.spec.certificate import Certificate
from tacit.spec.release import Noise
from tacit.spec.schema import Schema

_LAWS = {
    "discrete_laplace": "a Laplace law on whole multiples of the grid",
    "discrete_gaussian": "a Gaussian law on whole multiples of the grid",
    "laplace": "a Laplace law",
    "gaussian": "a Gaussian law",
}
_ONE_IN = 100


@dataclass(frozen=True)
class Price:
    """What all releases of a report cost together, each charge once."""

    epsilon: Decimal
    delta: Decimal
    schema: Schema

    @classmethod
    def of(cls, certificates: Iterable[Certificate], schema: Schema) -> Price | None:
        """Return the price of private releases; None where there are none."""
        private = [c for c in certificates if c.data == "private"]
        if not private:
            return None
        marks = {
            (c.ledger.ledger, c.ledger.entry) if c.ledger else i: c for i, c in enumerate(private)
        }
        spent = Spent()
        for certificate in marks.values():
            spent += Budget(certificate.epsilon, certificate.delta)
        return cls(spent.epsilon, spent.delta, schema)

    @property
    def who(self) -> str:
        """Who is protected, in one word."""
        return self.schema.unit or "row"

    @property
    def text(self) -> str:
        """Epsilon as people write it."""
        return plain(self.epsilon)

    @property
    def factor(self) -> str:
        """How much any odds can change: e^epsilon."""
        return plainly(math.exp(min(float(self.epsilon), 700.0)), bound=True)

    def meaning(self, of: str = "all results of this report together") -> list[str]:
        """Return what the price of something means for one unit, in plain sentences."""
        who, one = self.who, f"one {self.who}"
        if self.schema.neighbours == "replace_one":
            rows = "this row" if who == "row" else f"the rows of this {who}"
            other = f"{rows} been {'any other' if who == 'row' else 'any others'}"
            what = "one row says" if who == "row" else f"the rows of {one} say"
            compared = f"Take any two accounts of what {what}"
            likely = "under one as under the other"
            odds = f"{rows} change{'s' * (who == 'row')} a reader's odds between the two"
        else:
            other = f"this {who} not been in the data at all"
            compared = f"Compare data with {one} and the same data without"
            likely = "with as without, and the reverse"
            odds = f"a reader's odds of whether this {who} is in the data change"
        but = ""
        if self.delta:
            but = (
                f" Delta is what may be added to a chance on top of that: {plain(self.delta)}, "
                f"or {_chance(float(self.delta))}."
            )
        return [
            f"Epsilon is {self.text} for {of}. {compared}: what is "
            f"published here is at most e^epsilon = {self.factor} times as likely {likely}, "
            f"whatever the rest of the data are. So {odds} by at most that factor, however clever "
            f"the reader and whatever else they know.{but}",
            f"A worked example. Think of anything that might happen to {one} because of these "
            f"results, say an insurer who raises a premium. Had {other}, and the chance of it "
            f"been 1 in {_ONE_IN}, then with the true rows it is at most "
            f"{plainly(_ONE_IN * self.at_most(1 / _ONE_IN), bound=True)} in {_ONE_IN}.",
            f"What is not promised: that nothing is learned about {who}s in general. A finding "
            f"that holds for most of them would be found without any single one of them too, and "
            "may be used to guess about each.",
        ]

    def at_most(self, chance: float) -> float:
        """Return the largest chance of an event, given that without the true rows."""
        epsilon, delta = min(float(self.epsilon), 700.0), float(self.delta)
        grown = math.exp(epsilon) * chance + delta
        kept = 1 - math.exp(-epsilon) * (1 - chance - delta)
        return min(grown, kept, 1.0)


def translated(certificate: Certificate, schema: Schema) -> list[str]:
    """Return a certificate in sentences, for a privacy officer."""
    who = schema.unit or "row"
    if certificate.data != "private":
        what = certificate.data if certificate.data != "rehearsal" else "synthetic rows"
        return [f"These are {what}: Tacit makes no promise of privacy about them."]
    delta = f" and delta {plain(certificate.delta)}" if certificate.delta else ""
    said = [
        f"It cost epsilon {plain(certificate.epsilon)}{delta} "
        f"({certificate.accountant}). Protected: {certificate.unit}.",
    ]
    if certificate.neighbours == "replace_one":
        said.append(
            f"Compared are data in which one {who} has other rows. How many {who}s there are is "
            "public; what they said is not."
        )
    else:
        said.append(
            f"Compared are data with and without one {who}. Neither who is in them nor how many "
            "there are is public."
        )
    for event in certificate.events:
        said += _event(event, who)
    if certificate.ledger is not None:
        mark = certificate.ledger
        said.append(
            f"The charge is entry {mark.entry} of the ledger {mark.ledger}, whose head was then "
            f"{mark.head[:16]}. The command tacit ledger verify --against "
            "certificate.json checks that it is still there."
        )
    return said


def _event(event: Mapping[str, Any], who: str) -> list[str]:
    match event:
        case {"noise": str(law), "scale": scale, "grid": grid, "coordinates": count} if (
            law in _LAWS
        ):
            said = [f"{_numbers(count)} released at once."]
            if "sensitivity" in event and "norm" in event:
                how = {
                    "L1": "all changes added up (the L1 norm)",
                    "L2": "the root of the sum of their squares (the L2 norm)",
                }.get(event["norm"], f"in the norm {event['norm']}")
                said.append(
                    f"One {who} can change them by at most {plainly(float(event['sensitivity']))}, "
                    f"{how}."
                )
            if event.get("query", {}).get("type") == "Moments":
                said.append("They are sums of columns scaled by their public bounds to [-1, 1].")
            said.append(f"Each had noise added, from {_LAWS[law]}: {_widths(law, scale, grid)}.")
            return said
        case {"steps": steps, "mechanism": {"noise_multiplier": multiplier}, "numbers": numbers}:
            rate = event.get("sampling", {}).get("rate")
            sampled = f"; a step uses each {who} with a chance of {rate:g}" if rate else ""
            return [
                f"{steps} step{'s' * (steps > 1)} of up to {_count(numbers)} each, with Gaussian "
                f"noise of {plainly(float(multiplier))} times what one {who} may add{sampled}."
            ]
        case {"noise": "draw", "scale": scale, "coordinates": count}:
            return [
                f"{_numbers(count)} drawn at random by the exponential mechanism, at a temperature "
                f"of {_range(_listed(scale))}: the draw itself is the protection, and no noise "
                "was added to it."
            ]
        case {"noise": "objective", "scale": scale, "coordinates": count}:
            return [
                f"{_numbers(count)} computed by minimising an objective to whose gradient Gaussian "
                f"noise of scale {_range(_listed(scale))} was added."
            ]
        case _:
            facts = (f"{k} {v}" for k, v in event.items() if k not in ("query", "noise"))
            return [f"Randomness: {event.get('noise', 'unknown')}, {', '.join(facts)}."]


def _widths(law: Any, scale: Any, grid: Any) -> str:
    pairs = sorted(set(zip(_listed(scale), _listed(grid), strict=True)))
    half = [Noise(law, float(s), float(g)).half_width(0.9) or 0.0 for s, g in pairs]
    shown = f"scale {_range([s for s, _ in pairs])}, grid {_range(sorted(g for _, g in pairs))}"
    return f"in 90 of 100 cases no more than {_range(sorted(half))} up or down ({shown})"


def _listed(value: Any) -> list[float]:
    return [float(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


def _range(values: list[float]) -> str:
    low, high = plainly(float(values[0])), plainly(float(values[-1]))
    return low if low == high else f"{low} to {high}"


def _numbers(count: int) -> str:
    return "1 number was" if count == 1 else f"{count:,} numbers were"


def _count(numbers: int) -> str:
    return "1 number" if numbers == 1 else f"{numbers:,} numbers"


def _chance(delta: float) -> str:
    return f"1 in {math.floor(1 / delta):,}" if delta > 1e-9 else f"1 in {1 / delta:.0e}"


def ledger_rows(entries: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return when, what, its price and the total so far, for charges and decisions."""
    rows = []
    for entry, spent, limits in history(entries):
        when = str(entry["time"])[:16].replace("T", " ")
        price = [plain(Decimal(entry[k])) for k in ("epsilon", "delta")]
        match entry["kind"]:
            case "created":
                rows.append((when, "budget set", *price, ""))
            case "raised":
                rows.append((when, f"budget raised: {entry['reason']}", *price, ""))
            case _:
                rows.append(
                    (when, str(entry["name"] or "(no name)"), *price, _so_far(spent, limits))
                )
    return rows


def _so_far(spent: Amounts, limits: Amounts) -> str:
    """The sum of epsilons; or, of what a filter adds up, the first amount and its limit."""
    name, amount = next(iter(spent.by_name.items()))
    if name == "epsilon":
        return plain(amount)
    return f"{name.replace('_', ' ')} {plain(amount)} of {plain(limits.by_name[name])}"


def composition_of(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return how a ledger adds up."""
    created = (entry["pins"] for entry in entries if entry["kind"] == "created")
    return str({**BASIC, **next(created, {})}["composition"])


def limit_of(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return what all releases of a ledger may cost together, by its last decision."""
    decided = [entry for entry in entries if entry["kind"] in ("created", "raised")]
    if not decided:
        return ""
    epsilon, delta = (plain(Decimal(decided[-1][key])) for key in ("epsilon", "delta"))
    return f"epsilon {epsilon}, delta {delta}"
