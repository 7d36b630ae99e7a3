"""`tacit release` and `tacit fit`: the custodian's half and the analyst's half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.opening import loaded, opened
from tacit.cli.output import out, print_posterior


def release(
    study_path: Annotated[Path, typer.Argument(help="A study file, such as study.toml.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The release file to write.")],
    name: Annotated[
        str | None, typer.Option("--analysis", help="Which analysis, if the study has several.")
    ] = None,
) -> None:
    """The custodian's half: spend, and write a release that can be sent to an analyst."""
    from tacit.spec.errors import FileError
    from tacit.study.file import release_analysis

    study = loaded(study_path)
    analysis = study.analysis(name)
    if not output.parent.is_dir():
        raise FileError(f"Cannot write {output}: its folder does not exist. Nothing was spent.")
    if output.is_dir():
        raise FileError(f"Cannot write {output}: it is a folder. Nothing was spent.")
    wall, _ = opened(study)
    made = release_analysis(analysis, wall)
    try:
        made.save(output)
    except OSError as error:
        raise FileError(
            f"Cannot write {output}: {error.strerror}. The budget is spent and the release is "
            "stored in the ledger: write it elsewhere, which is free."
        ) from None
    out.print(f"Wrote {output}\n\n{made.certificate}")


def fit(
    path: Annotated[Path, typer.Argument(help="A release file, such as results/*/release.json.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A folder for the results.")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Another prior, as JSON: '[2, 5]' or '0.5'.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any option of the model, as NAME=JSON: prior_scale=1, prior_mean=50."
        ),
    ] = None,
    noise: Annotated[str | None, typer.Option(help="aware or plugin.")] = None,
    draws: Annotated[int | None, typer.Option(help="Draws of each chain.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the posterior draws.")] = None,
) -> None:
    """The analyst's half: a posterior from a release. Needs no data and spends nothing."""
    from tacit.spec.release import Release
    from tacit.study.file import check_writable, fit_release, write_results

    given = dict(_named(each) for each in options or ())
    if prior is not None:
        given["prior"] = _json(prior, "--prior as JSON, such as '[2, 5]'")
    found = Release.load(path)
    if output is not None:
        check_writable(output)
    posterior = fit_release(found, **given, noise=noise, draws=draws, seed=seed)
    print_posterior(path.name, posterior)
    if output is not None:
        write_results(posterior, output)
        out.print(f"Results: {output}")


def _named(option: str) -> tuple[str, Any]:
    name, equals, text = option.partition("=")
    wanted = "--set NAME=JSON, such as prior_scale=1"
    return name.strip(), _json(text if equals else "", wanted)


def _json(text: str, wanted: str) -> Any:
    from tacit.spec.errors import StudyError

    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise StudyError(f"Expected {wanted}, got {text[:200]!r}.") from None
