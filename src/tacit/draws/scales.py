"""Scales and priors that are refused: next to them doubles would lose what a row adds."""

from __future__ import annotations

from tacit.spec.draws import BoundedNormal, BoundedRate
from tacit.spec.errors import QueryError
from tacit.spec.moments import bounds_of
from tacit.spec.schema import Schema

_LEAST = 1e-4
_MOST_CAP = 1e5
_MOST_PRIOR = 2.0**40  # times the temperature


def check_comparable(law: BoundedNormal, middle: float, half: float) -> None:
    """Refuse scales so far from the column's own that doubles could not tell them apart."""
    mean, spread = law.prior
    sizes = {"sd": law.sd, "the prior's sd": spread}
    if law.bounded:
        sizes["high - low"] = law.high - law.low
    for what, size in sizes.items():
        if not _LEAST * half <= size <= half / _LEAST:
            raise QueryError(f"Expected {what}={size} within 10,000 times the column's bounds.")
    if not law.bounded:
        if abs(mean - middle) > min(half, spread) / _LEAST:
            raise QueryError(
                "Expected the prior's mean nearer to the column's bounds: within 10,000 times "
                "half their width, and the prior's sd."
            )
        return
    # The data's gradient is added to the prior's: it must not drown in the last digit of their sum.
    if law.high - law.low > spread / _LEAST:
        raise QueryError(f"Expected high - low of at most 10,000 times the prior's sd in {law}.")
    if max(abs(x - middle) for x in (law.low, law.high, mean)) > half / _LEAST:
        raise QueryError("Expected low, high and the prior's mean nearer to the column's bounds.")


def check_rates(law: BoundedRate, schema: Schema) -> None:
    """Refuse columns without a cap above 0, and rates that no value within it speaks for."""
    low, cap = bounds_of(schema[law.column])
    counts = law.family == "poisson"
    if low != 0 or not 0 < cap <= _MOST_CAP or (counts and cap % 1):
        raise QueryError(f"Expected {law.column!r} to go from 0 to a cap of at most {_MOST_CAP:g}.")
    scale = cap if counts else 1 / cap
    if not 1e-6 * scale <= law.low < law.high <= 1e6 * scale:
        raise QueryError(f"Expected low={law.low} and high={law.high} nearer to {scale:g}.")


def check_prior(largest: float, temperature: float) -> None:
    """Refuse a Dirichlet prior next to which one row's 1 / temperature would be rounded."""
    # proof: draw-range
    if largest * temperature > _MOST_PRIOR:
        raise QueryError(
            f"Expected a prior of at most {_MOST_PRIOR / temperature:.3g} at the temperature "
            f"{temperature:.3g}, got {largest:g}: write a smaller prior, or a larger epsilon."
        )
