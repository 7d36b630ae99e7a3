"""Rates with a Gamma prior: of counts, and of waiting times, up to a public cap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from scipy.stats import gamma

from tacit.infer.latent_sum import draw_one_parameter
from tacit.infer.one_parameter import exponential, poisson
from tacit.models.checks import check_answers, positive
from tacit.posterior import Posterior
from tacit.spec.checks import set_fields
from tacit.spec.columns import Integer, Real
from tacit.spec.errors import ModelError
from tacit.spec.moments import Moments
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class GammaPoisson:
    """How many events a row has on average, in a whole-number column from 0 to its public cap.

    A row beyond the cap has no value, and the model knows it: the rate is that of a Poisson law
    of which only values up to the cap are seen.

    Parameters
    ----------
    column
        An `Integer` column that starts at 0, such as `Integer("visits", 0, 20)`.
    prior
        The Gamma prior's (events, rows): as if so many events had been counted in so many rows.
        Default: one event, in as many rows as make the rate half the cap.

    Examples
    --------
    >>> GammaPoisson("visits").query()
    Moments(columns=('visits',), degree=1, split=None, centred=True)
    """

    column: str
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.prior is not None:
            set_fields(self, prior=positive(self.prior, 2, "prior=(events, rows)"))

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `rate` given a release of this model's query, or of more columns."""
        return _posterior(self, release, Sampling.of(sampling))

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `rate`."""
        return _log_prior(self, draws["rate"], release)


@dataclass(frozen=True)
class GammaExponential:
    """How fast waiting times end, in a column from 0 to its public cap.

    A wait beyond the cap has no value, and the model knows it: the rate is that of an exponential
    law of which only values up to the cap are seen.

    Parameters
    ----------
    column
        A `Real` column that starts at 0, such as `Real("days", 0, 60)`.
    prior
        The Gamma prior's (waits, total): as if so many waits that took `total` in all had been
        seen. Default: one wait, half as long as the cap.
    """

    column: str
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.prior is not None:
            set_fields(self, prior=positive(self.prior, 2, "prior=(waits, total)"))

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `rate`, and of the `mean` wait 1 / rate, given a release."""
        return _posterior(self, release, Sampling.of(sampling))

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `rate`."""
        return _log_prior(self, draws["rate"], release)


def _posterior(
    model: GammaPoisson | GammaExponential, release: Release, how: Sampling
) -> Posterior:
    query, counts = model.query(), isinstance(model, GammaPoisson)
    check_answers(release, query)
    cap, prior = _cap_and_prior(model, release.schema)
    rng = np.random.default_rng(how.seed)
    family = poisson(cap) if counts else exponential(cap)
    at, rows = draw_one_parameter(release, query, family, *gamma_on_log(prior), how, rng)
    rate = np.exp(at)
    if counts:
        means, next_row = {}, rng.poisson(np.minimum(rate, 1e15))
    else:
        means, next_row = {"mean": 1 / rate}, rng.standard_exponential(len(rate)) / rate
    return Posterior.of(
        model,
        release,
        how,
        {"rate": rate, **means, "rows": rows},
        predicted={model.column: next_row},
    )


def _log_prior(
    model: GammaPoisson | GammaExponential, rate: np.ndarray, release: Release
) -> np.ndarray:
    _, (shape, per) = _cap_and_prior(model, release.schema)
    return gamma.logpdf(rate, shape, scale=1 / per)


def _cap_and_prior(
    model: GammaPoisson | GammaExponential, schema: Schema
) -> tuple[float, tuple[float, float]]:
    """Return the public cap of the column, which starts at 0, and the prior's (shape, rate)."""
    column, counts = schema[model.column], isinstance(model, GammaPoisson)
    known = isinstance(column, Integer if counts else (Integer, Real))
    if not known or column.low != 0 or column.high <= 0:
        wanted = f"{'Integer' if counts else 'Real'}({column.name!r}, 0, cap)"
        raise ModelError(f"Expected the schema to have {wanted} for this model.")
    cap = float(column.high)
    return cap, model.prior or (1.0, 2 / cap if counts else cap / 2)


def gamma_on_log(
    prior: tuple[float, float],
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[float, float]]:
    """Return the prior's log density of the log rate, and where all but 1e-9 of it lies."""
    shape, per = prior
    low = np.log(gamma.ppf(1e-9, shape)) if shape > 1e-2 else -9 * np.log(10) / shape
    ends = np.clip([low, np.log(gamma.isf(1e-12, shape))], -300, 300) - np.log(per)
    return (
        lambda at: shape * at - per * np.exp(np.minimum(at, 600.0)),
        (float(ends[0]), float(ends[1])),
    )
