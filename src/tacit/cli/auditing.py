"""`tacit audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.output import out


def audit(
    runs: Annotated[int, typer.Option(help="Runs on each data set.")] = 10_000,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the result as Markdown.")
    ] = None,
) -> None:
    """Attack the mechanisms: what an adversary can show must stay below what is claimed."""
    from rich.progress import Progress
    from rich.table import Table

    from tacit.audit import COLUMNS, games, markdown, play
    from tacit.spec.errors import StudyError

    if runs < 500:
        raise StudyError(f"Expected --runs {runs} >= 500: fewer show nothing.")
    with Progress(console=out, transient=True) as progress:
        verdicts = [play(game, runs) for game in progress.track(games(), description="Playing")]
    table = Table(*COLUMNS)
    for verdict in verdicts:
        table.add_row(*verdict.cells)
    out.print(table)
    if output is not None:
        output.write_text(markdown(verdicts, runs), encoding="utf-8")
    if not all(verdict.passed and verdict.caught for verdict in verdicts):
        raise typer.Exit(1)
