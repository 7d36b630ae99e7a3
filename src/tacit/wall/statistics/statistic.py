"""The exact answer to a query. It never leaves the wall as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import ADDITIVE


@dataclass(frozen=True)
class Statistic:
    """Integers on the noise's grids, or the counts or rows that a draw is from."""

    integers: np.ndarray = field(repr=False)
    units: int = field(repr=False)


def check_additive(mechanism: Any) -> None:
    if not isinstance(mechanism, ADDITIVE):
        refuse_mechanism(" or ".join(f"tacit.{each.__name__}" for each in ADDITIVE), mechanism)


def refuse_mechanism(fits: str, mechanism: Any) -> NoReturn:
    raise BudgetError(f"Expected {fits}, got {mechanism!r}.")
