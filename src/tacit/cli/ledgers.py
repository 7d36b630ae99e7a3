"""`tacit ledger`: what was spent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.output import out

app = typer.Typer(help="What was spent, and proof that nothing was taken back.")

Address = Annotated[
    str,
    typer.Argument(metavar="LEDGER", help="A ledger: a file, or postgresql://host/database#name."),
]


@app.command()
def show(address: Address) -> None:
    """List every charge, and what is left."""
    from rich.table import Table
    from rich.text import Text

    from tacit.spec.budget import plain
    from tacit.wall import Ledger

    ledger = Ledger(address)
    table = Table(title=str(ledger.store))
    for column in ("entry", "time", "what", "name"):
        table.add_column(column, overflow="fold")
    for column in ("epsilon", "delta"):
        table.add_column(column, no_wrap=True)  # what it is for is never cut off
    for entry in ledger.entries():
        what = entry["kind"]
        if what == "charge":
            what = f"charge: {_charged(entry['event'])}"
        elif what == "schema":
            what = f"schema: {'; '.join(entry['changes'])}"
        time = str(entry["time"])[:16].replace("T", " ")
        given = (entry["entry"], time, what, entry.get("name"))
        spent = (entry.get(key) for key in ("epsilon", "delta"))
        values = (*given, *(None if value is None else plain(Decimal(value)) for value in spent))
        table.add_row(*(Text("" if value is None else str(value)) for value in values))
    out.print(table)
    chain = ledger.read()
    unit, rows = chain.pins.get("unit"), chain.pins.get("max_rows_per_unit")
    protected = (
        "one row" if unit is None else f"{unit} ({rows} {'row' if rows == 1 else 'rows'} each)"
    )
    out.print(f"Protects {protected}, neighbours {chain.pins.get('neighbours')}")
    out.print(f"Budget: {chain.limit}\nSpent:  {chain.alone}\nLeft:   {chain.left}")
    composition = chain.pins["composition"]
    if composition != "basic":
        facts = ", ".join(f"{name} {value}" for name, value in chain.adds_up.facts.items())
        out.print(
            f"Added up by composition={composition!r} ({facts}): {chain.spent}\n"
            f"of {chain.adds_up.limits(chain.limit)}. "
            "Spent is what releases cost alone, added up; left is for one more with Laplace noise."
        )
    out.print(f"Head:   {chain.head}")


def _charged(event: Mapping[str, Any]) -> str:
    """What was paid for: the noise of one release, or how many steps, and their mechanism."""
    match event:
        case {"plan": {"steps": [{"mechanism": mechanism}, *_] as steps}}:
            type_ = mechanism.get("type", "") if isinstance(mechanism, Mapping) else mechanism
            return f"{sum(int(part['steps']) for part in steps)} steps, {type_}"
        case {"noise": noise}:
            return str(noise).replace("_", " ")  # breaks at words in a narrow column
        case _:
            return "unknown"


@app.command()
def verify(
    address: Address,
    against: Annotated[
        Path | None, typer.Option(help="A certificate.json whose entry must be in the ledger.")
    ] = None,
) -> None:
    """Check the chain of entries, the stored releases and, if given, a certificate."""
    from tacit.spec.certificate import Certificate
    from tacit.spec.errors import FileError
    from tacit.wall import Ledger

    mark = None
    if against is not None:
        try:
            mark = Certificate.from_dict(json.loads(against.read_text(encoding="utf-8"))).ledger
        except (OSError, ValueError, TypeError, RecursionError):
            raise FileError(f"Cannot read {against} as a certificate.") from None
        if mark is None:
            raise FileError(f"{against} names no ledger: it is a certificate of public data.")
    chain = Ledger(address).verify(mark)
    out.print(f"The chain of {chain.seq} entries holds; head {chain.head}")
    charged = (
        f"What was charged covers what is recorded, by composition={chain.pins['composition']!r}"
    )
    out.print(f"{charged}: {chain.spent} of {chain.adds_up.limits(chain.limit)}.")
    if mark is not None:
        out.print(f"Entry {mark.entry} of the certificate is in it.")


@app.command(name="raise")
def raise_budget(
    address: Address,
    epsilon: Annotated[str, typer.Option(help="The new total epsilon.")],
    reason: Annotated[str, typer.Option(help="Why; it stays on the record.")],
    delta: Annotated[
        str | None, typer.Option(help="The new total delta. Default: what it is now.")
    ] = None,
) -> None:
    """Raise the budget, on the record."""
    from tacit.spec.budget import Budget
    from tacit.wall import Ledger

    ledger = Ledger(address)
    kept = ledger.read().limit.delta if delta is None else delta
    ledger.raise_budget(Budget(epsilon, kept), reason)
    out.print(f"The budget is now {ledger.read().limit}.")
