"""Which releases a model can use, and the draw that a model of levels would ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tacit.infer.from_draw import check_usable
from tacit.spec.draws import BallRegression, BoundedNormal, ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import ModelError
from tacit.spec.keys import Is, Key
from tacit.spec.moments import Moments
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.schema import Schema


def check_answers(release: Release, query: Counts | Moments) -> None:
    """Refuse a release that cannot serve: other counts, or without the moments that are needed.

    Counts of each level serve for some of them together, and draws from counts under any prior.
    """
    match query, release.query:
        case Counts(columns=(Is(column=column),)), Counts(columns=(str() as counted,), by=()):
            serves = column == counted  # each of its levels
        case Counts(columns=columns), ConjugateDraw(law=TruncatedDirichlet(key=key)):
            serves = (key,) == columns
        case Moments(columns=(column,)), ConjugateDraw(law=BoundedNormal(column=drawn)):
            serves = column == drawn
        case Moments(columns=columns), ConjugateDraw(law=BallRegression() as law):
            serves = columns == (*law.features, law.target)
        case Moments(), Moments() as asked:
            serves = set(query.columns) <= set(asked.columns) and query.degree <= asked.degree
        case _:
            serves = query == release.query
    if not serves:
        raise ModelError(f"This release answers {release.query}, not {query}.")


def conjugate_draw(
    schema: Schema,
    key: Key,
    prior: Iterable[float],
    truncation: Any,
    draws: int,
    temper_prior: bool,
) -> ConjugateDraw:
    """Draws of the levels' probabilities."""
    check_usable(schema)
    if truncation is None:
        raise ModelError(
            "Expected OnePosteriorSample(..., truncation=0.05), or another smallest probability "
            "that a draw can have: it bounds what one row can do and has no default."
        )
    law = TruncatedDirichlet(key, tuple(float(a) for a in prior), truncation)
    return ConjugateDraw(law, draws, temper_prior)
