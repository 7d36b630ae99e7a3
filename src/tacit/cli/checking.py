"""`tacit check`: for the custodian, whether the schema can read the records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.opening import loaded
from tacit.cli.output import out


def check(
    study_path: Annotated[Path, typer.Argument(help="A study file, such as study.toml.")],
    least: Annotated[
        float, typer.Option(help="The share of cells that must match in every column.")
    ] = 0.95,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing: the exit status alone.")
    ] = False,
) -> None:
    """For the custodian: which cells the schema reads. Quotes records; nothing may be published."""
    from tacit.spec.errors import StudyError
    from tacit.study.check import check as checked

    if not 0 <= least <= 1:
        raise StudyError(f"Expected --least {least} from 0 to 1.")
    if not (quiet or on_terminal()):
        raise StudyError(
            "Expected a terminal: what is printed quotes records, and no file may hold it. "
            "--quiet gives the exit status alone. Nothing was read."
        )
    study = loaded(study_path)
    if study.source is None:
        raise StudyError("The records are on a server: its custodian checks them, over there.")
    found = checked(study.source, study.schema)
    for line in () if quiet else found.lines(least):
        out.print(line)
    if not found.passes(least):
        raise typer.Exit(1)


def on_terminal() -> bool:
    return sys.stdout.isatty()
