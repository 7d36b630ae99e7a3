"""`tacit ledger`: what was spent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.output import out

if TYPE_CHECKING:
    from tacit.spec.certificate import LedgerMark
    from tacit.wall.chain import Chain

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
    address: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER",
            help="A ledger, or an export of one: a file, or postgresql://host/database#name.",
        ),
    ],
    against: Annotated[
        Path | None, typer.Option(help="A certificate.json whose entry must be in the ledger.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Of an export: the key that it must be signed with.")
    ] = None,
    extends: Annotated[
        Path | None, typer.Option(help="Of an export: an earlier one, which it must begin with.")
    ] = None,
) -> None:
    """Check the chain of entries, the stored releases and, if given, a certificate.

    Of an export: its chain and signature, without the ledger, the data or a network.
    """
    from tacit.ledger_export import is_export
    from tacit.spec.errors import FileError
    from tacit.wall import Ledger

    mark = None if against is None else _mark(against)
    if "://" not in address and Path(address).is_file() and is_export(_read(Path(address))):
        chain = _checked_export(Path(address), mark, public_key, extends)
    elif public_key is None and extends is None:
        chain = Ledger(address).verify(mark)
    else:
        raise FileError("Expected an export (tacit ledger export) with --public-key or --extends.")
    out.print(f"The chain of {chain.seq} entries holds; head {chain.head}")
    charged = (
        f"What was charged covers what is recorded, by composition={chain.pins['composition']!r}"
    )
    out.print(f"{charged}: {chain.spent} of {chain.adds_up.limits(chain.limit)}.")
    if mark is not None:
        out.print(f"Entry {mark.entry} of the certificate is in it.")


def _mark(path: Path) -> LedgerMark:
    from tacit.spec.certificate import Certificate
    from tacit.spec.errors import FileError

    try:
        mark = Certificate.from_dict(json.loads(_read(path))).ledger
    except (ValueError, TypeError, RecursionError):
        raise FileError(f"Cannot read {path} as a certificate.") from None
    if mark is None:
        raise FileError(f"{path} names no ledger: it is a certificate of public data.")
    return mark


def _checked_export(
    path: Path, mark: LedgerMark | None, public_key: Path | None, extends: Path | None
) -> Chain:
    from tacit.ledger_export import read_export

    key = None if public_key is None else _read(public_key)
    export = read_export(_read(path), key)
    if extends is not None:
        earlier = read_export(_read(extends), key)
        export.check_extends(earlier)
        out.print(
            f"It extends the export of {earlier.time}, which had {earlier.chain.seq} entries."
        )
    if mark is not None:
        export.check_holds(mark)
    match export.public_key, public_key:
        case None, _:
            out.print("The export is not signed: compare its head with one that you trust.")
        case signer, None:
            out.print(f"Signed on {export.time} with {signer}: name --public-key to know by whom.")
        case _:
            out.print(f"Signed on {export.time} by the holder of {public_key}.")
    return export.chain


@app.command()
def export(
    address: Address,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    key: Annotated[
        Path | None, typer.Option(help="A private key to sign with: see 'tacit ledger key'.")
    ] = None,
) -> None:
    """Write what was spent for outsiders, who check it with 'tacit ledger verify'.

    It holds all entries: questions, prices and names, and nothing of the data. An export that is
    there already is replaced by one that extends it, and by no other.
    """
    from tacit.ledger_export import export_ledger, read_export
    from tacit.wall import Ledger

    data = export_ledger(Ledger(address), None if key is None else _read(key))
    made = read_export(data)
    if output.exists():
        made.check_extends(read_export(_read(output)))
    draft = output.with_name(f"{output.name}.draft")
    _write(draft, data)
    draft.replace(output)
    signed = "signed" if key is not None else "not signed"
    out.print(f"Wrote {made.chain.seq} entries, {signed}: {output}\nHead:   {made.chain.head}")


@app.command(name="key")
def make_key(
    path: Annotated[Path, typer.Argument(help="Where to write the private key.")],
) -> None:
    """Make a key for signed exports: a private one, and beside it the public one (.pub)."""
    from tacit.ledger_export import new_key

    private, public = new_key()
    beside = path.with_name(f"{path.name}.pub")
    _write(path, private, new=True, mode=0o600)
    _write(beside, public, new=True)
    out.print(f"Keep {path} secret. Give {beside} to whoever checks exports.")


def _read(path: Path) -> bytes:
    from tacit.spec.errors import FileError

    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"Cannot read {path}: {error.strerror}.") from None


def _write(path: Path, data: bytes, *, new: bool = False, mode: int = 0o644) -> None:
    from tacit.spec.errors import FileError

    how = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if new else os.O_TRUNC)
    try:
        with open(os.open(path, how, mode), "wb") as file:
            file.write(data)
    except OSError as error:
        raise FileError(f"Cannot write {path}: {error.strerror}.") from None


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
