"""The command line: opens the wall, prints, and leaves the thinking to others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import tacit
from tacit.datasets import write_demo
from tacit.posterior import Posterior
from tacit.spec.budget import Budget, Spent
from tacit.spec.certificate import Certificate
from tacit.spec.errors import FileError, StudyError, TacitError
from tacit.spec.release import Release
from tacit.study import Study, fit_release, release_analysis, run_analysis, write_results
from tacit.wall import Ledger, Wall

app = typer.Typer(
    help="Publish posteriors from sensitive records under differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ledger_app = typer.Typer(help="What was spent, and proof that nothing was taken back.")
app.add_typer(ledger_app, name="ledger", no_args_is_help=True)

StudyPath = Annotated[Path, typer.Argument(help="A study file, such as study.toml.")]
LedgerPath = Annotated[Path, typer.Argument(help="A ledger file.")]

_SHOWN = ("name", "epsilon", "delta")
_out = Console(soft_wrap=True, highlight=False, markup=False)


def main() -> None:
    """Run a command; what Tacit refuses is one sentence and a non-zero exit."""
    try:
        app()
    except TacitError as error:
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(
            Text("error: ", style="red").append(str(error), style="default")
        )
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        _out.print(f"tacit {tacit.__version__}")
        raise typer.Exit


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to write it.")] = Path("tacit-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated table.")] = 0,
) -> None:
    """The whole story on simulated hospital incidents with known truth."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / "truth.json").exists():
            raise FileError(f"{folder} is not empty; choose another --folder.")
        (folder / "incidents.ledger").unlink(missing_ok=True)  # an earlier demo's
    truth = write_demo(folder, seed)
    _out.print(f"Simulated a table of hospital incidents: {folder / 'incidents.csv'}")
    _out.print(f"What may be asked of it, and at what price: {folder / 'study.toml'}\n")
    study = Study.load(folder / "study.toml")
    _run(study, truth)
    _out.print(f"Now try: tacit ledger show {study.ledger}")


@app.command()
def run(study_path: StudyPath) -> None:
    """Release, fit and write the results of every analysis of a study."""
    _run(Study.load(study_path), {})


@app.command()
def plan(
    study_path: StudyPath,
    units: Annotated[
        int | None, typer.Option(help="About how many units there are, where a method needs it.")
    ] = None,
) -> None:
    """What a study would cost and how noisy its answers would be. Opens no data."""
    study = Study.load(study_path)
    total = Spent()
    for analysis in study.analyses:
        planned = tacit.plan(
            analysis.model, study.schema, analysis.how, n_units=units, **analysis.options
        )
        total += Budget(planned.cost.epsilon, planned.cost.delta)
        _out.print(f"{analysis.name}\n{planned}\n")
    _out.print(f"All of it: {total}. The budget: {study.budget}.")
    if not total.within(study.budget):
        raise StudyError("The study would cost more than its budget. Nothing was opened or spent.")


@app.command()
def release(
    study_path: StudyPath,
    output: Annotated[Path, typer.Option("-o", "--output", help="The release file to write.")],
    name: Annotated[
        str | None, typer.Option("--analysis", help="Which analysis, if the study has several.")
    ] = None,
) -> None:
    """The custodian's half: spend, and write a release that can be sent to an analyst."""
    study = Study.load(study_path)
    analysis = study.analysis(name)
    if not output.parent.is_dir():
        raise FileError(f"Cannot write {output}: its folder does not exist. Nothing was spent.")
    made = release_analysis(analysis, _wall(study))
    made.save(output)
    _out.print(f"Wrote {output}\n\n{made.certificate}")


@app.command()
def fit(
    path: Annotated[Path, typer.Argument(help="A release file.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A folder for the results.")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Another prior, as JSON: '[2, 5]' or '0.5'.")
    ] = None,
    noise: Annotated[str | None, typer.Option(help="aware or plugin.")] = None,
    draws: Annotated[int | None, typer.Option(help="Draws of each chain.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the posterior draws.")] = None,
) -> None:
    """The analyst's half: a posterior from a release. Needs no data and spends nothing."""
    try:
        other = None if prior is None else json.loads(prior)
    except json.JSONDecodeError:
        raise StudyError(f"Expected --prior as JSON, such as '[2, 5]', got {prior!r}.") from None
    posterior = fit_release(Release.load(path), prior=other, noise=noise, draws=draws, seed=seed)
    _print_posterior(path.name, posterior)
    if output is not None:
        write_results(posterior, output)
        _out.print(f"Results: {output}")


@app.command()
def audit(
    runs: Annotated[int, typer.Option(help="Runs on each data set.")] = 10_000,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the result as Markdown.")
    ] = None,
) -> None:
    """Attack the mechanisms: what an adversary can show must stay below what is claimed."""
    from tacit.audit import COLUMNS, games, markdown, play

    if runs < 500:
        raise StudyError(f"Expected --runs {runs} >= 500: fewer show nothing.")
    with Progress(console=_out, transient=True) as progress:
        verdicts = [play(game, runs) for game in progress.track(games(), description="Playing")]
    table = Table(*COLUMNS)
    for verdict in verdicts:
        table.add_row(*verdict.cells)
    _out.print(table)
    if output is not None:
        output.write_text(markdown(verdicts, runs), encoding="utf-8")
    if not all(verdict.passed and verdict.caught for verdict in verdicts):
        raise typer.Exit(1)


@ledger_app.command()
def show(path: LedgerPath) -> None:
    """List every charge, and what is left."""
    ledger = Ledger(path)
    table = Table(title=str(path))
    for column in ("entry", "time", "what", *_SHOWN):
        table.add_column(column, no_wrap=True)
    for entry in ledger.entries():
        what = entry["kind"]
        if what == "charge":
            what = f"charge: {_charged(entry['event'])}"
        values = (entry["entry"], entry["time"], what, *(entry.get(k) for k in _SHOWN))
        table.add_row(*(Text("" if value is None else str(value)) for value in values))
    _out.print(table)
    chain = ledger.read()
    unit, rows = chain.pins.get("unit"), chain.pins.get("max_rows_per_unit")
    protected = "one row" if unit is None else f"{unit} ({rows} rows each)"
    _out.print(f"Protects {protected}, neighbours {chain.pins.get('neighbours')}")
    _out.print(f"Budget: {chain.limit}\nSpent:  {chain.spent}\nLeft:   {chain.left}")
    _out.print(f"Head:   {chain.head}")


def _charged(event: dict[str, Any]) -> str:
    """What was paid for: the noise of one release, or how many steps, and their mechanism."""
    match event:
        case {"plan": {"steps": [{"mechanism": mechanism}, *_] as steps}}:
            return f"{sum(int(part['steps']) for part in steps)} steps, {mechanism}"
        case {"noise": noise}:
            return str(noise)
        case _:
            return "unknown"


@ledger_app.command()
def verify(
    path: LedgerPath,
    against: Annotated[
        Path | None, typer.Option(help="A certificate.json whose entry must be in the ledger.")
    ] = None,
) -> None:
    """Check the chain of entries, the stored releases and, if given, a certificate."""
    mark = None
    if against is not None:
        try:
            mark = Certificate.from_dict(json.loads(against.read_text(encoding="utf-8"))).ledger
        except (OSError, ValueError, TypeError, RecursionError):
            raise FileError(f"Cannot read {against} as a certificate.") from None
        if mark is None:
            raise FileError(f"{against} names no ledger: it is a certificate of public data.")
    chain = Ledger(path).verify(mark)
    _out.print(f"The chain of {chain.seq} entries holds; head {chain.head}")
    if mark is not None:
        _out.print(f"Entry {mark.entry} of the certificate is in it.")


@ledger_app.command(name="raise")
def raise_budget(
    path: LedgerPath,
    epsilon: Annotated[str, typer.Option(help="The new total epsilon.")],
    reason: Annotated[str, typer.Option(help="Why; it stays on the record.")],
    delta: Annotated[str, typer.Option(help="The new total delta.")] = "0",
) -> None:
    """Raise the budget, on the record."""
    ledger = Ledger(path)
    ledger.raise_budget(Budget(epsilon, delta), reason)
    _out.print(f"The budget is now {ledger.read().limit}.")


def _wall(study: Study) -> Wall:
    return Wall(study.source, study.schema, budget=study.budget, ledger=study.ledger)


def _run(study: Study, truth: dict[str, dict[str, float]]) -> None:
    wall = _wall(study)
    for analysis in study.analyses:
        posterior = run_analysis(analysis, wall)
        write_results(posterior, study.output / analysis.name)
        _print_posterior(analysis.name, posterior, truth.get(analysis.name))
    _out.print(f"Budget left: {wall.remaining}. Results: {study.output}")


def _print_posterior(
    name: str, posterior: Posterior, truth: dict[str, float] | None = None
) -> None:
    """A summary, with the truth beside it where it is known."""
    summary = posterior.summary()
    table = Table(title=f"{name}: {posterior.model['model']}", title_justify="left")
    for column in ("", *(["truth"] if truth else []), *summary.columns):
        table.add_column(column, justify="right")
    truths = list(truth.values()) if truth else []
    for i, (label, row) in enumerate(summary.iterrows()):
        known = [f"{truths[i]:.3f}" if i < len(truths) else ""] if truth else []
        table.add_row(Text(str(label)), *known, *(f"{value:.4g}" for value in row))
    _out.print(table)
    _out.print(f"{posterior.certificate}\n")
