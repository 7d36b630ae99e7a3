"""How much noise, in terms a person chooses. The wall turns these into a noise law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tacit.spec.budget import Number, delta_of, epsilon_of
from tacit.spec.checks import set_fields
from tacit.spec.errors import BudgetError
from tacit.spec.wire import plain, reading


@dataclass(frozen=True)
class Laplace:
    """Discrete Laplace noise: pure epsilon-differential privacy.

    Formal guarantee: a release costs (epsilon, 0).
    """

    epsilon: Decimal

    def __init__(self, epsilon: Number | None = None) -> None:
        set_fields(self, epsilon=epsilon_of(epsilon))


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise on a fine grid.

    Give either `epsilon` and `delta`, and the smallest sufficient noise is used, or
    `noise_multiplier` (standard deviation / largest norm of one unit's contribution) and `delta`,
    and the epsilon that this costs is charged. In a `Plan` the delta is the plan's.

    Formal guarantee: a release costs (epsilon, delta) by the exact Gaussian profile.
    """

    epsilon: Decimal | None
    delta: Decimal | None
    noise_multiplier: float | None

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        noise_multiplier: float | None = None,
    ) -> None:
        if (epsilon is None) == (noise_multiplier is None):
            raise BudgetError(
                "Expected Gaussian(epsilon, delta) or Gaussian(noise_multiplier=..., delta=...), "
                "not both and not neither."
            )
        if delta is None and epsilon is not None:
            raise BudgetError("Expected Gaussian to name a delta, for example delta=1e-6.")
        if noise_multiplier is not None:
            multiplier = float(noise_multiplier)
            if not (math.isfinite(multiplier) and 1e-3 <= multiplier <= 1e9):
                raise BudgetError(f"Expected noise_multiplier={multiplier} from 1e-3 to 1e9.")
            set_fields(self, epsilon=None, noise_multiplier=multiplier)
        else:
            set_fields(self, epsilon=epsilon_of(epsilon), noise_multiplier=None)
        set_fields(self, delta=None if delta is None else delta_of(delta, zero=False))


@dataclass(frozen=True)
class Exponential:
    """The exponential mechanism: draws whose own randomness is the privacy.

    Give `epsilon` and, for a flatter price of several draws, `delta`. In a `Plan` the delta is the
    plan's.

    Formal guarantee: the log-probabilities of all outcomes move by amounts within a range of each
    other (bounded range). All draws of a release together cost at most (epsilon, delta), and less
    where the untempered posterior does.
    """

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: Number | None = None, delta: Number = 0) -> None:
        set_fields(self, epsilon=epsilon_of(epsilon), delta=delta_of(delta))


@dataclass(frozen=True)
class Exact:
    """No noise and no privacy: the baseline, accepted by `Public` alone."""


Mechanism = Laplace | Gaussian | Exponential | Exact
ADDITIVE: tuple[type[Mechanism], ...] = (Laplace, Gaussian)  # noise that is added to a statistic
NOISE = (*ADDITIVE, Exact)  # what statistics can have
MECHANISMS: Mapping[str, type[Mechanism]] = {
    cls.__name__: cls for cls in (Laplace, Gaussian, Exponential, Exact)
}


def mechanism_to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """The mechanism as plain values: what is None is left out, and decimals are texts."""
    given = {name: plain(value) for name, value in vars(mechanism).items() if value is not None}
    return {"type": type(mechanism).__name__, **given}


def mechanism_from_dict(facts: Mapping[str, Any]) -> Mechanism:
    with reading("mechanism", BudgetError):
        rest = dict(facts)
    cls = MECHANISMS.get(str(rest.pop("type", None)))
    if cls is None:
        raise BudgetError(f"Expected a mechanism among {', '.join(MECHANISMS)}.")
    with reading(cls.__name__, BudgetError):
        return cls(**rest)
