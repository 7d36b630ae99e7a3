"""The page: what it says of each analysis, put into its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tacit import plots
from tacit.models import model_from_description
from tacit.plots.estimates import height_of
from tacit.plots.privacy import Entries
from tacit.posterior import Posterior
from tacit.report.answers import (
    answers,
    estimates,
    in_words,
    main_variable,
    opening,
    question,
)
from tacit.report.figures import inline_svg
from tacit.report.methods import VERSION, citation, paragraph
from tacit.report.privacy import Price, ledger_rows, limit_of, translated
from tacit.report.rounding import Estimate
from tacit.spec.budget import plain
from tacit.spec.errors import FileError, ModelError, TacitError
from tacit.spec.moments import Moments
from tacit.spec.queries import Counts

_MOST_ROWS = 60
_SLOW = ("HMM", "MarkovRandomField")  # are not fitted a second time, without the noise


@dataclass(frozen=True)
class Shown:
    """A figure with its title and what it says in words."""

    title: str
    svg: Markup


@dataclass(frozen=True)
class Section:
    """What the page says of one analysis."""

    name: str
    question: str
    answers: list[str]
    figures: list[Shown]
    noise: str
    rows: list[Estimate]
    left_out: int
    model: str
    warnings: tuple[str, ...]
    price: str
    certificate: list[str]
    assumptions: tuple[str, ...]
    missing: tuple[str, ...]


def write(
    path: str | Path,
    posteriors: Mapping[str, Posterior],
    *,
    title: str = "Results under differential privacy",
    questions: Mapping[str, str] | None = None,
    ledger: Entries | None = None,
    level: float = 0.9,
) -> None:
    """Write a page that a manager, a statistician and a privacy officer can read.

    It is one file of HTML without scripts, and asks nothing of a network. All of it follows from
    posteriors, their certificates and the ledger: no raw data are needed, and nothing is spent.

    Parameters
    ----------
    path
        The file to write, such as "report.html".
    posteriors
        By the names of their analyses.
    title
        The heading of the page.
    questions
        What was asked, in your words, by the names of analyses. Default: in Tacit's.
    ledger
        The `tacit.Ledger`, for a table and a picture of what was spent.
    level
        The probability of intervals.
    """
    given = list(posteriors.values()) if isinstance(posteriors, Mapping) else []
    if not given or not all(isinstance(p, Posterior) for p in given):
        raise ModelError('Expected posteriors by name: report.write(path, {"smoking": posterior}).')
    numbers = count(1)
    asked = dict(questions or {})
    sections = [
        _section(name, posterior, asked.get(name), level, numbers)
        for name, posterior in posteriors.items()
    ]
    first = next(iter(posteriors.values()))
    certificates = [posterior.certificate for posterior in posteriors.values()]
    price = Price.of(certificates, first.releases[0].schema)
    entries = ledger.entries() if ledger is not None else []
    drawn = []
    if ledger is not None:
        picture = plots.Picture("Spent over time", 2.6, lambda ax: plots.ledger(ledger, ax=ax))
        drawn = [Shown(picture.title, inline_svg(picture, next(numbers), "Epsilon over time"))]
    environment = Environment(
        loader=PackageLoader("tacit.report", "."), autoescape=True, undefined=StrictUndefined
    )
    text = environment.get_template("report.html.jinja").render(
        title=title,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        version=VERSION,
        level=f"{100 * level:g}%",
        sections=sections,
        price=price,
        ledger=ledger_rows(entries),
        limit=limit_of(entries),
        ledger_figures=drawn,
        methods=paragraph(posteriors, price, level),
        citation=citation(),
        style=Markup((Path(__file__).parent / "report.css").read_text(encoding="utf-8")),
    )
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(
            f"Cannot write {path}: {error.strerror}. Nothing was spent for the report."
        ) from None


def _section(
    name: str, posterior: Posterior, asked: str | None, level: float, numbers: Iterator[int]
) -> Section:
    said = answers(posterior, level)
    pictures = plots.pictures(posterior, level)
    ratio, compared = _noise(posterior, level)
    figures = [
        Shown(name, inline_svg(picture, next(numbers), f"{name}. {said[0]}"))
        for picture in [*pictures, *compared]
        for name in [opening(in_words(posterior, picture.title))]
    ]
    rows = [
        each for variable in _tabled(posterior) for each in estimates(posterior, variable, level)
    ]
    certificate = posterior.certificate
    noted = tuple(text for text in certificate.assumptions if not text.startswith("warning: "))
    # On the certificate where nothing is known of them; here where something is.
    known = (str(each) for each in posterior.releases[-1].missing() if not each.replaced)
    lacking = tuple(text[:1].upper() + text[1:] for text in known)
    return Section(
        name=name,
        question=asked or question(posterior),
        answers=said,
        figures=figures,
        noise=ratio,
        rows=rows[:_MOST_ROWS],
        left_out=max(0, len(rows) - _MOST_ROWS),
        model=str(posterior.model["model"]),
        warnings=posterior.warnings,
        price=certificate.data if certificate.data != "private" else _cost(posterior),
        certificate=translated(certificate, posterior.releases[0].schema),
        assumptions=noted,
        missing=lacking,
    )


def _cost(posterior: Posterior) -> str:
    certificate = posterior.certificate
    delta = f", delta {plain(certificate.delta)}" if certificate.delta else ""
    return f"epsilon {plain(certificate.epsilon)}{delta}"


def _tabled(posterior: Posterior) -> list[str]:
    return [name for name in posterior.draws if name not in ("states", "topics")]


def _noise(posterior: Posterior, level: float) -> tuple[str, list[plots.Picture]]:
    """How much wider the privacy noise made the intervals of the main variable, and a picture."""
    (release,) = posterior.releases
    able = isinstance(release.query, (Counts, Moments)) and posterior.noise == "aware"
    if not able or posterior.model["model"] in _SLOW:
        return "", []
    shape = next(iter(posterior.draws.values())).shape
    try:
        model = model_from_description(dict(posterior.model))
        without = model.posterior(release, noise="plugin", chains=shape[0], draws=shape[1], seed=0)
    except TacitError:  # another prior, or one that no file can name
        return "", []
    name = main_variable(posterior)
    ends = (each.interval(level, name) for each in (posterior, without))
    widths = [np.ravel(high - low) for low, high in ends]
    ratio = float(np.mean(widths[0]) / max(float(np.mean(widths[1])), 1e-300))
    rows = len(widths[0])
    said = (
        f"The privacy noise makes the intervals of {in_words(posterior, name)} about "
        f"{ratio:.2g} times as wide as they would be if the released numbers were exact."
    )
    if ratio < 1.05:
        said = "The privacy noise is small here: beside the variation of the data it hardly shows."
    picture = plots.Picture(
        "With and without the privacy noise",
        height_of(rows, 0.12 * rows + 0.5),
        lambda ax: plots.noise(posterior, without, name, level, ax=ax),
    )
    return said, [picture]
