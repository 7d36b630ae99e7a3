"""The law of a draw of a normal mean and standard deviation, on its public list of points."""

from __future__ import annotations

import numpy as np

from tacit.laws import bounded_normals
from tacit.spec.draws import BoundedMeanSd, ConjugateDraw, scaled_ends
from tacit.spec.errors import QueryError
from tacit.spec.moments import bounds_of, scale_of
from tacit.spec.schema import Schema


def check_mean_sd(law: BoundedMeanSd, schema: Schema) -> None:
    """Refuse ends and priors next to which doubles could not tell what one row does."""
    (low, high), (least, most) = scaled_ends(law, schema)
    bounds, (_, half) = bounds_of(schema[law.column]), scale_of(schema[law.column])
    prior_mean, _, prior_sd, _ = law.prior
    if not bounds[0] <= law.mean[0] < law.mean[1] <= bounds[1] or high - low < 0.01:
        raise QueryError(
            f"Expected mean={law.mean} within the bounds {bounds} of {law.column!r}, its ends at "
            "least half a hundredth of their width apart."
        )
    if not (least >= 0.002 and 1.01 * least <= most <= 10):
        raise QueryError(
            f"Expected sd={law.sd} from {0.002 * half:g} to {10 * half:g}, one end at least a "
            "hundredth above the other."
        )
    if not (bounds[0] <= prior_mean <= bounds[1] and 0 < prior_sd <= 2 * half):
        raise QueryError(
            f"Expected the prior's mean within the bounds {bounds} of {law.column!r}, and its sd "
            f"up to their width, got {law.prior}."
        )


def mean_sd_weights(
    query: ConjugateDraw, moments: np.ndarray, temperature: float, schema: Schema
) -> np.ndarray:
    """The log-weight of each standard deviation and mean that can be drawn, shape (sd, mean)."""
    law = query.law
    assert isinstance(law, BoundedMeanSd)
    means, sds = bounded_normals.points(*scaled_ends(law, schema))
    base = mean_sd_base(query, means, sds, temperature, schema)
    # proof: draw-mean-sd-range. Relative to one public point, so that no large number hides a row.
    row, column = np.unravel_index(int(base.argmax()), base.shape)
    at = int(row), int(column)
    constant, linear, square = bounded_normals.coefficients(means, sds, at)
    data = moments[0, 0] * constant + moments[0, 1] * linear + moments[1, 1] * square
    return (base - base[at]) + data / temperature


def mean_sd_base(
    query: ConjugateDraw, means: np.ndarray, sds: np.ndarray, temperature: float, schema: Schema
) -> np.ndarray:
    """The log-weight without data at points (sd, mean) of equal distances and equal ratios."""
    law = query.law
    assert isinstance(law, BoundedMeanSd)
    middle, half = scale_of(schema[law.column])
    mean, mean_rows, sd, sd_rows = law.prior
    log_sd, precision = np.log(sds)[:, None], 1 / sds[:, None] ** 2
    away = mean_rows * (means - (mean - middle) / half) ** 2 + sd_rows * (sd / half) ** 2
    prior = -(sd_rows + 2) * log_sd - 0.5 * away * precision
    return log_sd + prior / (temperature if query.temper_prior else 1.0)
