"""The likelihood of a sum given private draws of a normal mean.

A draw is from a tempered normal posterior, truncated or not. Given the sum s and the number of rows
n its law is known: the centre is linear in s, the precision linear in n. `infer/from_draw.py` is
the analogue for counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.infer.from_draw import check_usable
from tacit.infer.latent_sum import RowsSeen, log_rows_prior
from tacit.infer.one_parameter import OneParameter
from tacit.laws import truncated_normal
from tacit.spec.draws import BoundedNormal, ConjugateDraw
from tacit.spec.release import Release


@dataclass(frozen=True)
class DrawnMean:
    """Draws of the mean, their law, and the temperatures of the likelihood and of the prior."""

    draws: np.ndarray
    law: BoundedNormal
    temperature: float
    prior_temperature: float

    def exact(self, n: float) -> float | None:
        return None

    def guess(self, n: float) -> float:
        return n * float(self.draws.mean())

    def window(
        self, family: OneParameter, at: np.ndarray, n: float
    ) -> tuple[np.ndarray, np.ndarray]:
        return family.window(
            at, n
        )  # the draw's likelihood is never narrower than the family's window

    def log(self, s: np.ndarray, n: float) -> np.ndarray:
        prior_mean, prior_sd = self.law.prior
        prior = 1 / (prior_sd**2 * self.prior_temperature)
        each = 1 / (self.law.sd**2 * self.temperature)
        precision = prior + n * each
        centre = (prior * prior_mean + s * each) / precision
        bounds = self.law.low, self.law.high
        return sum(
            truncated_normal.log_density(float(draw), centre, precision**-0.5, *bounds)
            for draw in self.draws
        )


def released_means(release: Release) -> np.ndarray:
    """Return the released draws in the column's units."""
    origin, unit = normal_law_of(release).measure(_prior_temperature(release))
    return origin + unit * release.table("mean").value


def _prior_temperature(release: Release) -> float:
    assert isinstance(release.query, ConjugateDraw)
    return release.noise[0].scale if release.query.temper_prior else 1.0


def normal_law_of(release: Release) -> BoundedNormal:
    assert isinstance(release.query, ConjugateDraw)
    assert isinstance(release.query.law, BoundedNormal)
    return release.query.law


def mean_drawn(release: Release) -> tuple[DrawnMean, RowsSeen]:
    """Return the released draws with their law, and the prior of the number of rows."""
    schema, law = release.schema, normal_law_of(release)
    kept = _prior_temperature(release)
    drawn = DrawnMean(released_means(release), law, release.noise[0].scale, kept)
    check_usable(schema)
    each = schema.max_rows_per_unit
    total = schema[law.column].default is not None
    if release.n is not None and each == 1 and total:
        return drawn, RowsSeen.known(release.n)
    units = release.n if release.n is not None else schema.max_units
    assert units is not None
    missing = units if release.n is not None and not total else None
    least = float(units) if release.n is not None and total else 0.0
    return drawn, RowsSeen.unseen(least, float(units * each), log_rows_prior(missing, each))
