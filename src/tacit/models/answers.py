"""Which releases a model of one column can use, and the draw it would ask for."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.infer.from_draw import check_usable
from tacit.spec.draws import ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import ModelError
from tacit.spec.keys import Key
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.schema import Schema


def check_answers(release: Release, query: Counts) -> None:
    """Refuse a release of anything but these counts, or of a draw from them under any prior."""
    match release.query:
        case ConjugateDraw(law=TruncatedDirichlet(key=key)) if (key,) == query.columns:
            return
        case asked if asked != query:
            raise ModelError(f"This release answers {asked}, not {query}.")


def conjugate_draw(
    schema: Schema,
    key: Key,
    prior: Iterable[float],
    truncation: float,
    draws: int,
    temper_prior: bool,
) -> ConjugateDraw:
    """Draws of the levels' probabilities."""
    check_usable(schema)
    law = TruncatedDirichlet(key, tuple(float(a) for a in prior), truncation)
    return ConjugateDraw(law, draws, temper_prior)
