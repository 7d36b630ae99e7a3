"""How results look on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from tacit.posterior import Posterior

out = Console(soft_wrap=True, highlight=False, markup=False)


def error_line(text: str) -> None:
    _aside("error: ", "red", text)


def warning_line(text: str) -> None:
    _aside("warning: ", "yellow", text)


def _aside(word: str, colour: str, text: str) -> None:
    """On standard error, apart from the results."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    console.print(Text(word, style=colour).append(text, style="default"))


def print_posterior(
    name: str, posterior: Posterior, truth: Mapping[str, float] | None = None
) -> None:
    """A summary, with the truth beside it where it is known."""
    summary = posterior.table()
    table = Table(title=f"{name}: {posterior.model['model']}", title_justify="left")
    for column in ("", *(["truth"] if truth else []), *summary.columns):
        table.add_column(column, justify="right")
    truths = list(truth.values()) if truth else []
    for i, (label, row) in enumerate(summary.rows()):
        known = [f"{truths[i]:.3f}" if i < len(truths) else ""] if truth else []
        cells = ("" if value != value else f"{value:.4g}" for value in row)  # noqa: PLR0124
        table.add_row(Text(str(label)), *known, *cells)
    out.print(table)
    out.print(f"Rows with a value: {summary.attrs['rows']}")
    for text in summary.attrs["missing"]:
        if text not in posterior.certificate.assumptions:
            out.print(text[:1].upper() + text[1:])
    out.print(f"{posterior.certificate}\n")
