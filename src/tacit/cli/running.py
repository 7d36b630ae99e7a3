"""`tacit run` and `tacit demo`: check and price everything, then release, fit and write."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.opening import known_chain, loaded, opened
from tacit.cli.output import error_line, out, print_posterior, warning_line

if TYPE_CHECKING:
    from tacit.posterior import Posterior
    from tacit.study.file import Analysis, Study
    from tacit.study.price import StudyPlan

Truth = Mapping[str, Mapping[str, float]]


def demo(
    folder: Annotated[Path, typer.Option(help="Where to write it.")] = Path("tacit-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated table.")] = 0,
) -> None:
    """The whole story on simulated hospital incidents with known truth."""
    from tacit.datasets import write_demo
    from tacit.spec.errors import FileError
    from tacit.study.file import Study

    if folder.exists() and any(folder.iterdir()):
        if not (folder / "truth.json").exists():
            raise FileError(f"{folder} is not empty; choose another --folder.")
        (folder / "incidents.ledger").unlink(missing_ok=True)  # an earlier demo's
        out.print("Simulated data may be released again: the earlier demo's ledger is deleted.")
    truth = write_demo(folder, seed)
    out.print(f"Simulated a table of hospital incidents: {folder / 'incidents.csv'}")
    out.print(f"What may be asked of it, and at what price: {folder / 'study.toml'}\n")
    study = Study.load(folder / "study.toml")
    _run(study, study.analyses, truth)
    # As it was started: after `make demo` no environment is active.
    tacit = "tacit" if which("tacit") else os.path.relpath(sys.argv[0])
    out.print(f"Now try: {tacit} ledger show {study.ledger}")
    out.print(f"With a table of your own: {tacit} init table.csv")


def run(
    study_path: Annotated[Path, typer.Argument(help="A study file, such as study.toml.")],
    names: Annotated[
        list[str] | None,
        typer.Option("--analysis", help="Only this analysis; may be given several times."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and price everything, and stop.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the posterior draws. Default: one fixed by each name."),
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public",
            help="Fit without noise and without privacy, for comparison, where you may look at "
            "the data. Prints only; the ledger and the results stay as they are.",
        ),
    ] = False,
) -> None:
    """Release, fit and write the results of every analysis of a study.

    A study file names the data, the ledger and the budget: it is the custodian's to write.
    Everything is checked and priced before the first charge. What was paid for is stored in the
    ledger, and running again is free.
    """
    from tacit.study.file import seeded

    study = loaded(study_path)
    chosen = [study.analysis(name) for name in names] if names else study.analyses
    chosen = [analysis if seed is None else seeded(analysis, seed) for analysis in chosen]
    if public:
        _compare(study, chosen)
    elif dry_run:
        _rehearse(study, chosen)
    else:
        _run(study, chosen, {})


def print_prices(study: Study, planned: StudyPlan) -> None:
    """A line for each analysis, then what is left."""
    from rich.table import Table
    from rich.text import Text

    from tacit.fitting import doubts
    from tacit.spec.budget import plain

    table = Table(title="What it costs", title_justify="left")
    for column in ("analysis", "method", "questions", "epsilon", "delta", ""):
        table.add_column(column, justify="right" if column == "questions" else "left")
    for each in planned.analyses:
        cost = each.plan.cost
        note = "stored: free" if each.stored else "partly paid" if each.due != cost else ""
        method, steps = type(each.plan.method).__name__, str(each.plan.steps)
        cells = (each.name, method, steps, plain(cost.epsilon), plain(cost.delta), note)
        table.add_row(*map(Text, cells))
    out.print(table)
    out.print(f"To pay now: {planned.due}. Left in the budget: {planned.left}.\n")
    if study.composition != "basic":
        out.print(f"{planned.filtered}\n")
    for doubt in doubts(study.budget):
        warning_line(doubt)


def check_payable(study: Study, planned: StudyPlan) -> None:
    """Refuse what the budget, or the allowance at a server, cannot pay as a whole."""
    planned.check()
    if study.wall is not None:
        study.wall.check_allowance(planned.due)


def _rehearse(study: Study, chosen: Sequence[Analysis]) -> None:
    """All that a run would refuse, without a ledger being made."""
    from tacit.public import Public
    from tacit.study.file import check_writable
    from tacit.study.price import plan_study

    # Path, header and types; a server has looked at them.
    public = study.wall or Public(study.source, study.schema)
    planned = plan_study(study, chosen, known_chain(study), lambda: public.n_units)
    print_prices(study, planned)
    check_payable(study, planned)
    for analysis in chosen:
        check_writable(study.output / analysis.name)
    out.print(f"A dry run: nothing was spent or released. It would leave {planned.after}.")


def _compare(study: Study, chosen: Sequence[Analysis]) -> None:
    """Fits without noise, for the eyes of who may see the data."""
    from tacit.fitting import fit
    from tacit.public import Public
    from tacit.spec.errors import StudyError
    from tacit.spec.mechanisms import Exact

    if study.source is None:
        raise StudyError("The records are on a server, which answers nothing without noise.")
    warning_line(
        "these are not private: they are for comparison by those who may see the data, and nothing "
        "of them may be published"
    )
    behind: Any = Public(study.source, study.schema)
    for analysis in chosen:
        options = {"seed": 0, **analysis.options}
        posterior = fit(analysis.model, behind, Exact(), name=analysis.name, **options)
        print_posterior(f"{analysis.name} (not private)", posterior)
    out.print("Nothing was written, and nothing was charged.")


def _run(study: Study, chosen: Sequence[Analysis], truth: Truth) -> None:
    from tacit.spec.errors import FileError
    from tacit.study.file import check_writable, run_analysis, write_results
    from tacit.study.price import plan_study

    wall, ledger = opened(study)
    planned = plan_study(study, chosen, ledger.read(), lambda: wall.n_units)
    check_payable(study, planned)
    for analysis in chosen:
        check_writable(study.output / analysis.name)
    print_prices(study, planned)
    fitted: dict[str, Posterior] = {}
    for each in planned.analyses:
        try:
            posterior = run_analysis(each.analysis, wall)
            write_results(posterior, study.output / each.name)
        except KeyboardInterrupt:
            _interrupted(each.name, ledger)
        except FileError as error:
            raise FileError(
                f"{error} The budget for {each.name!r} is spent and its answers are stored in the "
                "ledger: run again, which is free."
            ) from None
        fitted[each.name] = posterior
        print_posterior(each.name, posterior, truth.get(each.name))
        if each.stored:
            out.print(
                f"{each.name}: a stored answer of {_paid_on(each.name, ledger)}; nothing was spent "
                "now, and data that changed since are not in it. Under another name the question "
                "is asked anew, and paid for.\n"
            )
    page = _write_report(study, fitted, ledger)
    out.print(f"Budget left: {wall.remaining}. Results: {study.output}. To read: {page}")


def _write_report(study: Study, fitted: Mapping[str, Posterior], ledger: Any) -> Path:
    """A page of what was fitted now, and of the study's other results where they are."""
    from tacit import report
    from tacit.posterior import Posterior

    saved = {a.name: study.output / a.name / "posterior.nc" for a in study.analyses}
    found = {
        name: fitted[name] if name in fitted else Posterior.load(path)
        for name, path in saved.items()
        if name in fitted or path.exists()
    }
    page = study.output / "report.html"
    report.write(page, found, title=f"Results from {study.called}", ledger=ledger)
    return page


def _interrupted(name: str, ledger: Any) -> None:
    spent = ledger.read()
    paid = [claim for claim in spent.claims if claim == name or claim.startswith(f"{name} (")]
    state = (
        f"{name!r} had been charged; what was answered is stored, and running again goes on from "
        "there without another charge"
        if paid
        else f"{name!r} had not been charged"
    )
    error_line(f"Interrupted: {state}. Spent in all: {spent.spent}; left: {spent.left}.")
    raise typer.Exit(130)


def _paid_on(name: str, ledger: Any) -> str:
    """The day on which an analysis was first charged."""
    for entry in ledger.entries():
        known = str(entry.get("name"))
        if entry["kind"] == "charge" and (known == name or known.startswith(f"{name} (1 of ")):
            return str(entry["time"])[:10]
    return "an earlier run"
