"""`tacit init` and `tacit plan`: before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.opening import known_chain, loaded
from tacit.cli.output import out

if TYPE_CHECKING:
    from tacit.planning.forecast import Forecast
    from tacit.study.file import Study
    from tacit.study.price import StudyPlan

_SHOWN = 6  # quantities of an analysis that a terminal shows


def init(
    source: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The study file to write.")] = Path(
        "study.toml"
    ),
    dictionary: Annotated[
        Path | None,
        typer.Option(help="A data dictionary: a CSV of name, type, levels, low, high, and more."),
    ] = None,
) -> None:
    """Write a study file to fill in, from the header of a table. Reads no cell of it."""
    from tacit.spec.errors import FileError
    from tacit.study.template import study_template

    if output.exists():
        raise FileError(f"{output} is there already: choose another name with -o.")
    text, left = study_template(source, output.parent, dictionary)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"Cannot write {output}: {error.strerror}.") from None
    out.print(f"Wrote {output}; only the header of {source} was read.")
    out.print(f"Fill in what it asks for ({left}), then: tacit plan {output}")


def plan(
    study_path: Annotated[Path, typer.Argument(help="A study file, such as study.toml.")],
    n_units: Annotated[
        int | None, typer.Option(help="About how many units there are. Shows expected accuracy.")
    ] = None,
    name: Annotated[str | None, typer.Option("--analysis", help="Only this analysis.")] = None,
    half_width: Annotated[
        float | None,
        typer.Option(help="How much epsilon for plus or minus this much? 0.02: two points."),
    ] = None,
    quantity: Annotated[
        str | None, typer.Option(help="Of which quantity, such as 'p' or 'coef[age]'.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Simulated tables for the expected accuracy.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw it: plan.png, .svg or .pdf.")] = None,
) -> None:
    """What a study would cost and how accurate it would be. Opens no data.

    The expected accuracy is that of simulated tables: [plan] in the study file may say how many
    units there are, and guess what columns are like.
    """
    from tacit.cli.running import print_prices
    from tacit.study.price import plan_study

    study = loaded(study_path)
    chosen = study.analyses if name is None else (study.analysis(name),)
    known = n_units or study.planning.get("n_units") or study.schema.max_units
    planned = plan_study(study, chosen, known_chain(study), lambda: known)
    for each in planned.analyses:
        out.print(f"{each.name}\n{each.plan}\n")
    print_prices(study, planned)
    planned.check()
    out.print(f"The whole study fits: it would leave {planned.after}.\n")
    if known is None:
        out.print("How accurate would it be? Say about how many units there are: --n-units 4000.")
        return
    _forecasts(study, planned, known, half_width, quantity, repeats, plot)


def _forecasts(
    study: Study,
    planned: StudyPlan,
    units: int,
    half_width: float | None,
    quantity: str | None,
    repeats: int | None,
    plot: Path | None,
) -> None:
    from rich.progress import Progress

    from tacit.spec.errors import ModelError

    given: dict[str, Any] = {"n_units": units, "guess": _guess(study)}
    if (count := repeats or study.planning.get("repeats")) is not None:
        given["repeats"] = count
    asked = {"epsilons": study.planning["epsilons"]} if "epsilons" in study.planning else {}
    shown: list[tuple[str, Forecast]] = []
    for each in planned.analyses:
        with Progress(console=_aside(), transient=True) as progress:
            progress.add_task(f"Simulating {each.name}", total=None)
            try:
                found = each.plan.forecast(**given, **asked)
            except ModelError as error:
                out.print(f"{each.name}: {error}\n")
                continue
            answer = ""
            if half_width is not None:
                try:
                    epsilon = each.plan.epsilon_for(half_width, quantity, **given)
                    answer = f"about epsilon {epsilon:g}"
                except ModelError as error:
                    answer = str(error)
        _print_forecast(each.name, found)
        if answer:
            out.print(f"{each.name}: for ± {half_width:g}: {answer}\n")
        shown.append((each.name, found))
    if plot is not None and shown:
        _draw(shown, plot)


def _guess(study: Study) -> Any:
    """The guesses of [plan], or the rows that it names."""
    rows = study.planning.get("rows")
    if rows is None:
        return study.planning.get("guess")
    import pandas as pd

    from tacit.spec.errors import FileError

    try:
        return pd.read_csv(rows)
    except (OSError, ValueError) as error:
        raise FileError(f"Cannot read {rows} as rows to guess by: {error}.") from None


def _aside() -> Any:
    from rich.console import Console

    return Console(stderr=True)


def _print_forecast(name: str, found: Forecast) -> None:
    from rich.table import Table
    from rich.text import Text

    from tacit.planning.forecast import FEWEST_TO_COVER

    title = f"{name}: what to expect of {found.n_units:,} units ({100 * found.level:g}% intervals)"
    table = Table(title=title, title_justify="left")
    told = found.repeats >= FEWEST_TO_COVER
    for column in ("epsilon", "", "±", "error", *["coverage"] * told):
        table.add_column(column, justify="left" if column == "" else "right")
    quantities = found.quantities[:_SHOWN]
    for (epsilon, quantity), row in found.table.iterrows():  # type: ignore[misc]
        if quantity in quantities:
            at = "no noise" if epsilon == float("inf") else f"{epsilon:g}"
            numbers = [f"{row['half_width']:.3g}", f"{row['error']:.3g}"]
            numbers += [f"{row['coverage']:.0%} ± {found.coverage_sd:.0%}"] * told
            table.add_row(at, Text(str(quantity)), *numbers)
    out.print(table)
    if len(found.quantities) > _SHOWN:
        out.print(f"and {len(found.quantities) - _SHOWN} more quantities")
    for text in found.assumptions:
        out.print(f"assumed: {text}")
    out.print("")


def _draw(shown: list[tuple[str, Forecast]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from tacit.spec.errors import FileError

    size = (6.4, 4.0 * len(shown))
    figure, axes = plt.subplots(len(shown), squeeze=False, figsize=size, layout="constrained")
    for ax, (name, found) in zip(axes[:, 0], shown, strict=True):
        found.plot(ax)
        ax.set_title(f"{name}: {ax.get_title()}")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise FileError(f"Cannot draw to {path}: {error}.") from None
    plt.close(figure)
    out.print(f"Drawn: {path}")
