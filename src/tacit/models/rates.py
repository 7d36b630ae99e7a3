"""What the models of a rate share: a Gamma prior, seen on the scale of the log rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import gamma

LogDensity = Callable[[np.ndarray], np.ndarray]


def gamma_prior(given: tuple[float, float] | None, default: float) -> tuple[float, float]:
    """(shape, rate) of the prior; without one, one event at the default."""
    return (1.0, default) if given is None else given


def log_gamma(rate: np.ndarray, prior: tuple[float, float]) -> np.ndarray:
    shape, per = prior
    return gamma.logpdf(rate, shape, scale=1 / per)


def gamma_on_log(prior: tuple[float, float]) -> tuple[LogDensity, tuple[float, float]]:
    """The prior's log density of the log rate, and where all but 1e-9 of it lies."""
    shape, per = prior
    low = np.log(gamma.ppf(1e-9, shape)) if shape > 1e-2 else -9 * np.log(10) / shape
    high = np.log(gamma.isf(1e-12, shape))
    ends = float(np.clip(low, -300, 300)), float(np.clip(high, -300, 300))
    return (
        lambda at: shape * at - per * np.exp(np.minimum(at, 600.0)),
        (ends[0] - float(np.log(per)), ends[1] - float(np.log(per))),
    )
