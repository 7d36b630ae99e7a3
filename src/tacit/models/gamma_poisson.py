"""Counts up to a public cap: their rate, with a Gamma prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from tacit.infer.latent_sum import draw_one_parameter
from tacit.infer.one_parameter import poisson
from tacit.models.answers import check_answers
from tacit.models.description import cap_of, describe, positive
from tacit.models.rates import gamma_on_log, gamma_prior, log_gamma
from tacit.posterior import Posterior
from tacit.spec.moments import Moments
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions


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
            object.__setattr__(self, "prior", positive(self.prior, 2, "prior=(events, rows)"))

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `rate` given a release of this model's query, or of more columns."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        cap = cap_of(release.schema[self.column], whole=True)
        prior = gamma_prior(self.prior, 2 / cap)
        rng = np.random.default_rng(how.seed)
        at, rows = draw_one_parameter(
            release, self.query(), poisson(cap), *gamma_on_log(prior), how, rng
        )
        rate = np.exp(at)
        return Posterior.of(
            describe(self),
            release,
            how,
            {"rate": rate, "rows": rows},
            predicted={self.column: rng.poisson(np.minimum(rate, 1e15))},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `rate`."""
        cap = cap_of(release.schema[self.column], whole=True)
        return log_gamma(draws["rate"], gamma_prior(self.prior, 2 / cap))
