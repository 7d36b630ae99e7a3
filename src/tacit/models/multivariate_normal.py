"""Several numbers with unknown means and covariance: a normal-inverse-Wishart prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from tacit.infer.conjugate import NormalPrior, draw_mean_and_covariance, log_normal_prior
from tacit.infer.latent_moments import draw_matrices, weak_prior
from tacit.infer.latent_sum import scales
from tacit.models.answers import check_answers
from tacit.models.description import describe, number
from tacit.posterior import Posterior
from tacit.spec.errors import ModelError
from tacit.spec.moments import Moments
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions


@dataclass(frozen=True)
class MultivariateNormalModel:
    """The means, standard deviations and correlations of several columns, among complete rows.

    Values are taken as normal, and the bounds as wide: they should hold nearly all of them, since a
    row beyond them has no value.

    Parameters
    ----------
    columns
        `Real` or `Integer` columns.
    mean, mean_rows
        The prior means, one for each column, and in how many rows it is as if they had been seen.
        Default: the middle of the bounds, in a hundredth of a row.
    sd, sd_rows
        The same for the standard deviations, without correlation. Default: a tenth of the
        width of the bounds, in half a row.
    """

    columns: tuple[str, ...]
    mean: Sequence[float] | None = None
    mean_rows: float = 0.01
    sd: Sequence[float] | None = None
    sd_rows: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", Moments(self.columns).columns)
        for what in ("mean_rows", "sd_rows"):
            object.__setattr__(self, what, number(getattr(self, what), what, above=0))
        for what, above in (("mean", None), ("sd", 0)):
            values = getattr(self, what)
            if values is None:
                continue
            if not isinstance(values, (tuple, list)) or len(values) != len(self.columns):
                raise ModelError(f"Expected {what} with {len(self.columns)} numbers.")
            checked = tuple(number(v, f"each of {what}", above=above) for v in values)
            object.__setattr__(self, what, checked)

    def query(self) -> Moments:
        return Moments(self.columns)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `mean`, `sd` and `correlation` given a release of this query."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        rng = np.random.default_rng(how.seed)
        middle, half = scales(release, self.query())
        prior = self._prior(release)
        moments = draw_matrices(release, self.query(), prior.moments_density(), how)
        centre, root = draw_mean_and_covariance(moments, prior, rng)
        covariance = root @ root.swapaxes(1, 2)
        sd = np.sqrt(np.einsum("nii->ni", covariance))
        noise = np.einsum("nij,nj->ni", root, rng.standard_normal(centre.shape))
        return Posterior.of(
            describe(self),
            release,
            how,
            {
                "mean": middle + half * centre,
                "sd": half * sd,
                "correlation": covariance / sd[:, :, None] / sd[:, None, :],
                "rows": moments[:, 0, 0],
            },
            dims={"mean": ("column",), "sd": ("column",), "correlation": ("column", "other")},
            coords={"column": self.columns, "other": self.columns},
            predicted={"value": middle + half * (centre + noise)},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `mean`, `sd` and `correlation`."""
        middle, half = scales(release, self.query())
        sd = draws["sd"] / half
        covariance = draws["correlation"] * sd[..., :, None] * sd[..., None, :]
        log = log_normal_prior((draws["mean"] - middle) / half, covariance, self._prior(release))
        # from the covariance's density to that of standard deviations and correlations
        return log + len(self.columns) * np.log(sd).sum(axis=-1)

    def _prior(self, release: Release) -> NormalPrior:
        mean, sd = self.mean, self.sd
        return weak_prior(release, self.query(), mean, self.mean_rows, sd, self.sd_rows)
