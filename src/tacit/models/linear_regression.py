"""A number that depends on others, linearly: coefficients and residual standard deviation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from tacit.infer.conjugate import (
    NormalPrior,
    RegressionPrior,
    draw_regression,
    log_regression_prior,
)
from tacit.infer.from_regression_draw import matrices_from_draw, released_coefficients
from tacit.infer.latent_moments import draw_matrices, weak_prior
from tacit.infer.latent_sum import scales
from tacit.models.checks import check_answers, check_reach, keep_numbers, names_of, number
from tacit.posterior import Posterior, RegressionPosterior
from tacit.spec.checks import set_fields
from tacit.spec.draws import BallRegression, ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.moments import Moments, bounds_of, scale_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class LinearRegression:
    """How `target` depends on `features`: target = intercept + features' coef + normal residual.

    The features' own distribution is not known either, since their moments are noisy; it is taken
    as normal with a weak prior. Coefficients are in the original units.

    Parameters
    ----------
    target
        A `Real` or `Integer` column.
    features
        `Real`, `Integer` or two-level `Categorical` columns (which count as 0 and 1).
    prior_scale
        The prior standard deviation of each coefficient, for features and target scaled by their
        bounds to [-1, 1], in units of the residual standard deviation.
    prior_sd, prior_sd_rows
        The prior of the residual standard deviation, and in how many rows it is as if it had been
        seen. Default: a tenth of the width of the target's bounds, in half a row.

    Examples
    --------
    >>> LinearRegression("charge", ["age", "bmi"]).query().columns
    ('age', 'bmi', 'charge')
    """

    target: str
    features: tuple[str, ...] = ()
    prior_scale: float = 5.0
    prior_sd: float | None = None
    prior_sd_rows: float = 0.5

    def __post_init__(self) -> None:
        set_fields(self, features=names_of(self.features, "feature", but=self.target))
        Moments((*self.features, self.target))
        keep_numbers(self, "prior_scale", "prior_sd", "prior_sd_rows")

    def query(self) -> Moments:
        return Moments((*self.features, self.target))

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse a prior that has nothing to do with the bounds, before anything is paid."""
        check_reach(schema, self.target, sd=self.prior_sd)

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of the scaled coefficients within a ball of radius `truncation`."""
        if self.prior_sd is None:
            raise ModelError(
                "Expected LinearRegression(..., prior_sd=...): a draw takes it as known."
            )
        if truncation is None:
            raise ModelError(
                "Expected truncation, the radius of the coefficients of features and target scaled "
                "to [-1, 1], for example truncation=2."
            )
        sd = self.prior_sd / scale_of(schema[self.target])[1]
        radius = number(truncation, "truncation", above=0)
        law = BallRegression(self.target, self.features, sd, self.prior_scale * sd, radius)
        return ConjugateDraw(law, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `coef`, `intercept` and `sigma` given a release of this query."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        rng = np.random.default_rng(how.seed)
        middle, half = scales(release, self.query())
        prior = self._prior(release)
        if not isinstance(release.query, ConjugateDraw):
            moments = draw_matrices(release, self.query(), prior, how)
            scaled, sigma = draw_regression(moments, prior, rng)
        elif how.noise == "aware":
            moments = matrices_from_draw(release, prior, how, rng)
            scaled, sigma = draw_regression(moments, prior, rng)
        else:  # plug-in: the released draws
            seen = released_coefficients(release)
            scaled = np.resize(seen.draws, (how.chains * how.draws, seen.draws.shape[1]))
            sigma, moments = np.full(len(scaled), seen.law.sd), np.zeros((len(scaled), 1, 1))
        coef = half[-1] * scaled[:, 1:] / half[:-1]
        draws = {
            "coef": coef,
            "intercept": middle[-1] + half[-1] * scaled[:, 0] - coef @ middle[:-1],
            "sigma": half[-1] * sigma,
            "rows": moments[:, 0, 0],
        }
        labels = {"coef": {"feature": self.features}}
        return RegressionPosterior.of(self, release, how, draws, labels=labels)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `coef`, `intercept` and `sigma`."""
        middle, half = scales(release, self.query())
        constant = (draws["intercept"] + draws["coef"] @ middle[:-1] - middle[-1]) / half[-1]
        scaled_coef = draws["coef"] * half[:-1] / half[-1]
        scaled = np.concatenate([constant[..., None], scaled_coef], axis=-1)
        return log_regression_prior(scaled, draws["sigma"] / half[-1], self._prior(release))

    def _prior(self, release: Release) -> RegressionPrior:
        features = self._features_prior(release)
        low, high = bounds_of(release.schema[self.target])
        sd = (high - low) / 10 if self.prior_sd is None else self.prior_sd
        half = scales(release, self.query())[1][-1]
        precision = np.eye(len(self.features) + 1) / self.prior_scale**2
        return RegressionPrior(precision, sd / half, self.prior_sd_rows, features)

    def _features_prior(self, release: Release) -> NormalPrior:
        if not isinstance(release.query, ConjugateDraw):
            return weak_prior(release, Moments(self.features), None, 0.01, None, 0.5)
        # A draw says next to nothing about the features, so that the prior matters: that
        # their bounds were chosen to fit them, with a standard deviation of half their half width.
        bounds = [bounds_of(release.schema[name]) for name in self.features]
        sd = [(high - low) / 4 for low, high in bounds]
        return weak_prior(release, Moments(self.features), None, 1.0, sd, 3.0)
