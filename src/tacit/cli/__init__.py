"""The command line: opens the wall, prints, and leaves the thinking to others.

Commands are declared in modules that import next to nothing: what a command needs is imported when
it runs, so that `tacit --help` is quick.
"""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Annotated, Any

import typer

from tacit.cli import auditing, checking, custody, exchanging, ledgers, planning, running
from tacit.cli.output import error_line, out, warning_line
from tacit.spec.errors import InferenceWarning, PrivacyWarning, TacitError

app = typer.Typer(
    help="Publish posteriors from sensitive records under differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(running.demo)
app.command()(planning.init)
app.command()(planning.plan)
app.command()(checking.check)
app.command()(running.run)
app.command()(exchanging.release)
app.command()(exchanging.fit)
app.command()(auditing.audit)
app.command()(custody.serve)
app.add_typer(custody.app, name="custody", no_args_is_help=True)
app.add_typer(ledgers.app, name="ledger", no_args_is_help=True)


_OBJECTS = 50_000  # made anew, before the collector looks for cycles among them


def main() -> None:
    """Run a command; what Tacit refuses is one sentence and a non-zero exit."""
    # What is imported stays. At Python's own threshold, looking through it for garbage again and
    # again is a seventh of a short run.
    gc.set_threshold(_OBJECTS)
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **others: Any) -> None:
        if issubclass(category, (InferenceWarning, PrivacyWarning)):
            warning_line(str(message))
        else:
            usual(message, category, *where, **others)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InferenceWarning)
        warnings.simplefilter("always", PrivacyWarning)
        warnings.showwarning = show
        try:
            app()
        except TacitError as error:
            error_line(str(error))
            sys.exit(1)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from tacit import __version__

        out.print(f"tacit {__version__}")
        raise typer.Exit
