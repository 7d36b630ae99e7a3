"""Numbers as people write them, with as many digits as their uncertainty leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

_UNKNOWN = "not known"


@dataclass(frozen=True)
class Estimate:
    """An estimate and its interval as texts, rounded to what their uncertainty leaves."""

    label: str
    mean: str
    low: str
    high: str

    @classmethod
    def of(cls, label: str, mean: float, low: float, high: float, *, share: bool) -> Estimate:
        factor, sign = (100.0, "%") if share else (1.0, "")
        if not math.isfinite(low):  # a single point says nothing of its own error
            return cls(label, plainly(factor * mean) + sign, _UNKNOWN, _UNKNOWN)
        sd = (high - low) / 3.3  # a normal's 90% interval is 3.3 sd wide
        places = decimals(factor * sd if sd > 1e-9 * abs(mean) else 0.0)
        texts = (rounded(factor * value, places) + sign for value in (mean, low, high))
        return cls(label, *texts)

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.low != _UNKNOWN

    def __str__(self) -> str:
        return f"{self.mean} ({self.low} to {self.high})"


def decimals(sd: float) -> int:
    """Return the decimal places that keep a standard deviation's first digit, and a second after 1.

    Examples
    --------
    >>> decimals(0.0123), decimals(4.2), decimals(1234.0)
    (3, 0, -2)
    """
    if not 0 < sd < math.inf:
        return 3
    places = -math.floor(math.log10(sd))
    return min(places + (sd * 10.0**places < 2), 8)


def rounded(value: float, places: int) -> str:
    """Return a number with `places` decimal places, or to tens where they are negative.

    Examples
    --------
    >>> rounded(0.13456, 3), rounded(123456.0, -2), rounded(-0.0001, 2)
    ('0.135', '123,500', '0.00')
    """
    kept = round(value, places)
    return f"{kept if kept else 0.0:,.{max(places, 0)}f}"


def plainly(value: float, *, bound: bool = False) -> str:
    """Return a number with up to three digits; an upper bound is rounded up.

    Examples
    --------
    >>> plainly(8.0), plainly(0.000001), plainly(9.3e-10), plainly(4.4817, bound=True)
    ('8', '0.000001', '9.3e-10', '4.49')
    """
    if not value:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    if bound:  # less what binary fractions add to a decimal
        value = math.ceil(value * 10.0**digits * (1 - 1e-12)) / 10.0**digits
    if abs(value) < 1e-7 or abs(value) >= 1e7:
        return f"{value:.3g}"
    text = f"{value:,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
