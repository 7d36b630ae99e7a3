"""Waiting times up to a public cap: their rate, with a Gamma prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from tacit.infer.latent_sum import draw_one_parameter
from tacit.infer.one_parameter import exponential
from tacit.models.answers import check_answers
from tacit.models.description import cap_of, describe, positive
from tacit.models.rates import gamma_on_log, gamma_prior, log_gamma
from tacit.posterior import Posterior
from tacit.spec.moments import Moments
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions


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
            object.__setattr__(self, "prior", positive(self.prior, 2, "prior=(waits, total)"))

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `rate`, and of the `mean` wait 1 / rate, given a release."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        cap = cap_of(release.schema[self.column])
        prior = gamma_prior(self.prior, cap / 2)
        rng = np.random.default_rng(how.seed)
        at, rows = draw_one_parameter(
            release, self.query(), exponential(cap), *gamma_on_log(prior), how, rng
        )
        rate = np.exp(at)
        return Posterior.of(
            describe(self),
            release,
            how,
            {"rate": rate, "mean": 1 / rate, "rows": rows},
            predicted={self.column: rng.standard_exponential(len(rate)) / rate},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `rate`."""
        cap = cap_of(release.schema[self.column])
        return log_gamma(draws["rate"], gamma_prior(self.prior, cap / 2))
