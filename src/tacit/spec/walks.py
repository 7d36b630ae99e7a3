"""What a random walk through a model's parameters needs to know: one row's say, and the prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Walk:
    """A model on a scale without bounds.

    `ratio(row, state, out)` is compiled by the wall: it writes how much better the parameters
    state[1] explain a row than state[0] do, as a difference of log-likelihoods, to out[0]; the
    `facts` follow in state. `slope` is the most that this can change for a step of length one, by
    public bounds (a row that changes it more is clipped). `start` and `scale` say where the prior
    sits and how wide it is.
    """

    columns: tuple[str, ...]
    ratio: Callable[[Any, Any, Any], None]
    facts: tuple[np.ndarray, ...]
    slope: float
    start: np.ndarray
    scale: float
    log_prior: Callable[[np.ndarray], float]
