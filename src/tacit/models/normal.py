"""A number with unknown mean and standard deviation: a normal-inverse-gamma prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from tacit.infer.conjugate import NormalPrior, draw_mean_and_covariance, log_normal_prior
from tacit.infer.latent_moments import draw_matrices, weak_prior
from tacit.infer.latent_sum import scales
from tacit.models.answers import check_answers
from tacit.models.description import describe, number
from tacit.posterior import Posterior
from tacit.spec.moments import Moments
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions


@dataclass(frozen=True)
class NormalModel:
    """The mean and standard deviation of a column.

    Values are taken as normal, and the bounds as wide: they should hold nearly all of them, since a
    row beyond them has no value.

    Parameters
    ----------
    column
        A `Real` or `Integer` column.
    mean, mean_rows
        The prior mean, and in how many rows it is as if it had been seen. Default: the middle of
        the bounds, in a hundredth of a row.
    sd, sd_rows
        The same for the standard deviation. Default: a tenth of the width of the bounds, in half
        a row, which allows for anything from a third of that up.

    Examples
    --------
    >>> NormalModel("bmi").query()
    Moments(columns=('bmi',), degree=2, split=None, centred=True)
    """

    column: str
    mean: float | None = None
    mean_rows: float = 0.01
    sd: float | None = None
    sd_rows: float = 0.5

    def __post_init__(self) -> None:
        for what, above in (("mean", None), ("mean_rows", 0), ("sd", 0), ("sd_rows", 0)):
            value = getattr(self, what)
            if value is not None:
                object.__setattr__(self, what, number(value, what, above=above))

    def query(self) -> Moments:
        return Moments((self.column,))

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `mean` and `sd` given a release of this query, or of more columns."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        rng = np.random.default_rng(how.seed)
        (middle,), (half,) = scales(release, self.query())
        prior = self._prior(release)
        moments = draw_matrices(release, self.query(), prior.moments_density(), how)
        centre, root = draw_mean_and_covariance(moments, prior, rng)
        mean, sd = middle + half * centre[:, 0], half * root[:, 0, 0]
        return Posterior.of(
            describe(self),
            release,
            how,
            {"mean": mean, "sd": sd, "rows": moments[:, 0, 0]},
            predicted={self.column: rng.normal(mean, sd)},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `mean` and `sd`."""
        (middle,), (half,) = scales(release, self.query())
        mean = (draws["mean"][..., None] - middle) / half
        covariance = (draws["sd"][..., None, None] / half) ** 2
        # the density of sd, not of its square
        return log_normal_prior(mean, covariance, self._prior(release)) + np.log(draws["sd"])

    def _prior(self, release: Release) -> NormalPrior:
        mean, sd = (None if value is None else [value] for value in (self.mean, self.sd))
        return weak_prior(release, self.query(), mean, self.mean_rows, sd, self.sd_rows)
