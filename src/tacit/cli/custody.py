"""`tacit serve` and `tacit custody`: the custodian's server, and who may ask it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.output import out

if TYPE_CHECKING:
    from tacit.custodian.accounts import Accounts
    from tacit.custodian.custody import Custody

app = typer.Typer(help="Who may ask a custodian's server, and how much.")

Where = Annotated[Path, typer.Argument(help="The custody.toml of the server.")]
Name = Annotated[str, typer.Argument(help="The account.")]
Days = Annotated[int, typer.Option(help="For how many days the token is good.")]


def serve(
    path: Annotated[
        Path | None, typer.Argument(help="A custody.toml: data sets, terms, and where to listen.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a simulated hospital, and say what to paste.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="Another port than custody.toml's.")] = None,
) -> None:
    """Hold records for analysts who never see them: questions go in, releases come out.

    Runs until it is interrupted. What is stopped, killed or started again loses no answer.
    """
    from dataclasses import replace

    from tacit.custodian.custody import Custody
    from tacit.custodian.supervisor import Supervisor
    from tacit.spec.errors import StudyError

    if demo == (path is not None):
        raise StudyError("Expected a custody.toml, or --demo for a simulated hospital.")
    if path is None:
        from tacit.custodian.demo import simulated

        custody, token = simulated(Path("tacit-custody-demo"), 8790 if port is None else port)
    else:
        custody, token = Custody.load(path), None
        custody = custody if port is None else replace(custody, port=port)
    supervisor = Supervisor(custody)
    supervisor.start()
    try:
        names = ", ".join(each.name for each in custody.datasets)
        out.print(f"Serving {names} at {supervisor.url}")
        if token is not None:
            from tacit.custodian.demo import to_paste

            out.print(to_paste(supervisor.url, token))
    finally:
        supervisor.watch()


@app.command()
def add(
    path: Where,
    name: Name,
    role: Annotated[str, typer.Option(help="analyst, or custodian.")] = "analyst",
    days: Days = 90,
) -> None:
    """Make an account and print its token, which is stored nowhere."""
    token = _accounts(path).add(name, role, days)  # type: ignore[arg-type]
    out.print(f"The token of {name}, good for {days} days and shown this once:\n{token}")


@app.command()
def renew(path: Where, name: Name, days: Days = 90) -> None:
    """Give an account a new token; its others end now."""
    token = _accounts(path).renew(name, days)
    out.print(f"The new token of {name}, good for {days} days and shown this once:\n{token}")


@app.command()
def revoke(path: Where, name: Name) -> None:
    """End the tokens of an account. What it spent stays on record."""
    _accounts(path).revoke(name)
    out.print(f"The tokens of {name} are of no use from now on.")


@app.command()
def allow(
    path: Where,
    name: Name,
    dataset: Annotated[str, typer.Argument(help="The data set.")],
    epsilon: Annotated[str, typer.Option(help="All that the account may spend of it.")],
    delta: Annotated[str, typer.Option(help="All of delta that it may spend.")] = "0",
) -> None:
    """Let an account ask a data set, and spend so much of its budget at most.

    An allowance is no guarantee of its own, since analysts may work together: the budget is.
    """
    from tacit.spec.budget import Budget

    _dataset(path, dataset)
    budget = Budget(epsilon, delta)
    _accounts(path).allow(name, dataset, budget)
    out.print(f"{name} may spend {budget} of {dataset} in all.")


@app.command(name="list")
def list_(path: Where) -> None:
    """List the accounts with what they may spend, and data sets that are stopped."""
    from rich.table import Table
    from rich.text import Text

    accounts = _accounts(path)
    table = Table(title=str(path))
    for column in ("account", "role", "token until", "may spend"):
        table.add_column(column, overflow="fold")
    for each in accounts.listed():
        allowed = "; ".join(f"{of}: {budget}" for of, budget in each.allowances.items())
        cells = (each.name, each.role, (each.expires or "none")[:10], allowed)
        table.add_row(*map(Text, cells))
    out.print(table)
    for each in _custody(path).datasets:
        if (why := accounts.stopped(each.name)) is not None:
            out.print(f"{each.name} is stopped since {why}. tacit custody resume ends that.")


@app.command()
def requests(path: Where) -> None:
    """List the questions that cost more than the policy allows and wait for a decision."""
    found = _accounts(path).requests()
    for each in found:
        out.print(
            f"{each.question[:12]}  {each.time}  {each.account} asks {each.dataset} for "
            f"{each.cost} as {each.name!r}: {each.asked}"
        )
    if not found:
        out.print("Nothing waits for a decision.")


@app.command()
def approve(
    path: Where,
    question: Annotated[str, typer.Argument(help="As tacit custody requests shows it.")],
    by: Annotated[str, typer.Option(help="Who decides; it stays in the ledger.")],
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")],
) -> None:
    """Let one question cost more than the policy allows, never more than the budget."""
    from tacit.spec.errors import StudyError
    from tacit.wall import Ledger

    accounts = _accounts(path)
    found = [each for each in accounts.requests() if each.question.startswith(question)]
    if len(found) != 1:
        raise StudyError(f"Expected one question that waits, {len(found)} begin so.")
    (one,) = found
    (of,) = (each for each in _custody(path).datasets if each.name == one.dataset)
    Ledger(of.ledger).approve(one.question, one.cost, by, reason)
    accounts.decided(one)
    out.print(f"{one.account} may ask {one.dataset} for {one.cost} as {one.name!r}, once.")


@app.command()
def resume(
    path: Where, dataset: Annotated[str, typer.Argument(help="The data set that is stopped.")]
) -> None:
    """Let a data set answer again, after the fault was looked into."""
    _accounts(path).resume(_dataset(path, dataset))
    out.print(f"{dataset} answers again. What was paid for is answered under its name.")


def _custody(path: Path) -> Custody:
    from tacit.custodian.custody import Custody

    return Custody.load(path)


def _dataset(path: Path, name: str) -> str:
    from tacit.spec.errors import StudyError

    known = [each.name for each in _custody(path).datasets]
    if name not in known:
        raise StudyError(f"There is no data set {name!r} in {path}; it has {', '.join(known)}.")
    return name


def _accounts(path: Path) -> Accounts:
    from tacit.custodian.accounts import Accounts

    accounts = Accounts(_custody(path).accounts)
    accounts.create()
    return accounts
