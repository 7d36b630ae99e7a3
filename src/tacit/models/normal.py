"""Normal numbers: the mean alone, or means and covariance with a normal-inverse-Wishart prior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Unpack

import numpy as np

from tacit.infer.conjugate import NormalPrior, draw_mean_and_covariance, log_normal_prior
from tacit.infer.from_draw import check_usable
from tacit.infer.from_mean_sd_draw import DrawnMeanSd, moments_from_draw
from tacit.infer.latent_moments import draw_matrices, weak_prior
from tacit.infer.latent_sum import DrawnMean, draw_one_parameter, scales
from tacit.infer.one_parameter import normal
from tacit.models.checks import check_answers, check_reach, keep_numbers, number, several
from tacit.posterior import Posterior
from tacit.spec.checks import set_fields
from tacit.spec.draws import BoundedMeanSd, BoundedNormal, ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.moments import Moments, bounds_of, scale_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.walks import Walk


@dataclass(frozen=True)
class NormalMean:
    """The mean of a column whose standard deviation is known, such as a calibrated instrument's.

    A row beyond the column's bounds has no value, and the model knows it: the mean is that of a
    normal law of which only values within the bounds are seen.

    Parameters
    ----------
    column
        A `Real` or `Integer` column.
    sd
        The known standard deviation of a row.
    prior
        The normal prior's (mean, sd). Default: the middle of the bounds, and their width.

    Examples
    --------
    >>> NormalMean("bmi", sd=4).query()
    Moments(columns=('bmi',), degree=1, split=None, centred=True)
    """

    column: str
    sd: float = None  # type: ignore[assignment]
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.sd is None:
            raise ModelError(
                f"Expected the known standard deviation: NormalMean({self.column!r}, sd=...); "
                f"tacit.NormalModel({self.column!r}) is for an unknown one."
            )
        keep_numbers(self, "sd")
        if self.prior is not None:
            mean, sd = several(self.prior, 2, "prior=(mean, sd)")
            sd = number(sd, "the prior's sd", above=0)
            set_fields(self, prior=(number(mean, "the prior's mean"), sd))

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse numbers that have nothing to do with the bounds, before anything is paid."""
        check_reach(schema, self.column, sd=self.sd)
        mean, sd = self._prior(schema)
        check_reach(schema, self.column, mean=mean, sd=sd)

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of the mean between the ends of `truncation`: by default the column's bounds.

        With (-inf, inf) nothing is cut off.
        """
        check_usable(schema)
        low, high = bounds_of(schema[self.column]) if truncation is None else _pair(truncation)
        law = BoundedNormal(self.column, self.sd, self._prior(schema), low, high)
        return ConjugateDraw(law, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `mean` given its moments with noise, or draws of it."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        rng = np.random.default_rng(how.seed)
        if isinstance(release.query, ConjugateDraw) and how.noise == "plugin":
            mean = np.resize(DrawnMean.of(release).draws, how.chains * how.draws)
            return Posterior.of(self, release, how, {"mean": mean})
        centre, spread = self._prior(release.schema)
        mean, rows = draw_one_parameter(
            release,
            self.query(),
            normal(*bounds_of(release.schema[self.column]), self.sd),
            lambda at: -0.5 * ((at - centre) / spread) ** 2,
            (centre - 8 * spread, centre + 8 * spread),
            how,
            rng,
        )
        return Posterior.of(
            self,
            release,
            how,
            {"mean": mean, "rows": rows},
            predicted={self.column: rng.normal(mean, self.sd)},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `mean`."""
        from scipy.stats import norm

        return norm.logpdf(draws["mean"], *self._prior(release.schema))

    def walk(self, schema: Schema) -> Walk:
        """Return the model on the scale of the column's bounds, -1 to 1."""
        middle, half = scale_of(schema[self.column])
        centre, spread = self._prior(schema)
        start, scale = (centre - middle) / half, spread / half
        precision = (half / self.sd) ** 2
        constant = -np.log(self.sd) - np.log(2 * np.pi) / 2

        def polynomials(at: np.ndarray) -> np.ndarray:
            """The log-likelihood at each point, as coefficients of 1, x and x^2."""
            mean = middle + half * at[:, 0]
            parts = constant - 0.5 * (mean / self.sd) ** 2, mean / self.sd**2
            return np.stack([*parts, np.full(len(at), -0.5 / self.sd**2)], axis=1)

        def combinations(
            points: np.ndarray,
            coefficients: np.ndarray,
            constants: Any = 0.0,
            *,
            lifted: bool = False,
        ) -> tuple[Kernel, Any]:
            found = coefficients @ polynomials(points)
            found[:, 0] += constants
            if not lifted:
                return Kernel("walk.quadratics"), (found,)
            return Kernel("walk.quadratics.lifted"), (found - found[0],)  # what is common cancels

        x = middle + half * np.linspace(-1, 1, 65)
        return Walk(
            columns=(self.column,),
            combinations=combinations,
            log_likelihoods=lambda at: np.stack([x**0, x, x**2], axis=1) @ polynomials(at).T,
            max_gradient=2 * precision,  # for means within the bounds
            curvature=precision,
            start=np.array([start]),
            scale=min(scale, 1.0),
            log_prior=lambda at: -0.5 * ((at[..., 0] - start) / scale) ** 2,
            draw_prior=lambda rng, count: rng.normal(start, scale, (count, 1)),
        )

    def walk_posterior(self, release: Release, at: np.ndarray) -> Posterior:
        middle, half = scale_of(release.schema[self.column])
        mean = middle + half * at[:, 0]
        return Posterior.of(self, release, Sampling(len(at), 1), {"mean": mean})

    def _prior(self, schema: Schema) -> tuple[float, float]:
        low, high = bounds_of(schema[self.column])
        return ((low + high) / 2, high - low) if self.prior is None else self.prior


def _pair(value: Any) -> tuple[float, float]:
    """Return the ends of an interval, or those of the whole line."""
    if several(value, 2, "truncation=(low, high)") == (-math.inf, math.inf):
        return -math.inf, math.inf
    if any(isinstance(end, (float, Decimal)) and math.isinf(end) for end in value):
        raise ModelError(
            f"Expected two finite ends in truncation={value!r}, or (-inf, inf) to cut nothing off; "
            "not one of each."
        )
    low, high = (number(end, "each end of truncation") for end in value)
    if not low < high:
        raise ModelError(f"Expected low={low} < high={high} in truncation.")
    return low, high


@dataclass(frozen=True)
class NormalModel:
    """The mean and standard deviation of a column.

    Values are taken as normal, and the bounds as wide: they should hold nearly all of them, since a
    row beyond them has no value.

    Parameters
    ----------
    column
        A `Real` or `Integer` column.
    prior_mean, prior_mean_rows
        The prior mean, and in how many rows it is as if it had been seen. Default: the middle of
        the bounds, in a hundredth of a row.
    prior_sd, prior_sd_rows
        The prior standard deviation, and in how many rows it is as if it had been seen. Default: a
        tenth of the width of the bounds, in half a row, which allows for anything from a third of
        that up.

    Examples
    --------
    >>> NormalModel("bmi").query()
    Moments(columns=('bmi',), degree=2, split=None, centred=True)
    """

    column: str
    prior_mean: float | None = None
    prior_mean_rows: float = 0.01
    prior_sd: float | None = None
    prior_sd_rows: float = 0.5

    def __post_init__(self) -> None:
        keep_numbers(self, "prior_mean", above=None)
        keep_numbers(self, "prior_mean_rows", "prior_sd", "prior_sd_rows")

    def query(self) -> Moments:
        return Moments((self.column,))

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse a prior that has nothing to do with the bounds, before anything is paid."""
        check_reach(schema, self.column, mean=self.prior_mean, sd=self.prior_sd)

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of mean and standard deviation, within `truncation`.

        That is (smallest sd, largest sd), with means within the column's bounds, or a pair of
        intervals, ((low, high), (smallest sd, largest sd)). By default sds lie between a twentieth
        and half of the width of the bounds: one row moves the log-likelihood by the square of width
        / smallest sd.
        """
        check_usable(schema)
        low, high = ends = bounds_of(schema[self.column])
        width = high - low
        sds = width / 20, width / 2
        if truncation is not None:
            given = several(truncation, 2, "truncation=(smallest sd, largest sd)")
            pairs = isinstance(given[0], (tuple, list))
            ends, sds = map(_pair, given) if pairs else (ends, _pair(given))
        mean = (low + high) / 2 if self.prior_mean is None else self.prior_mean
        sd = width / 10 if self.prior_sd is None else self.prior_sd
        prior = mean, self.prior_mean_rows, sd, self.prior_sd_rows
        return ConjugateDraw(BoundedMeanSd(self.column, prior, ends, sds), draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `mean` and `sd` given its moments with noise, or draws of both."""
        how = Sampling.of(sampling)
        (middle,), (half,) = scales(release, self.query())
        if isinstance(release.query, ConjugateDraw) and how.noise == "plugin":
            check_answers(release, self.query())
            seen, size = DrawnMeanSd.of(release), how.chains * how.draws
            repeated = {"mean": middle + half * seen.means, "sd": half * seen.sds}
            repeated = {name: np.resize(drawn, size) for name, drawn in repeated.items()}
            return Posterior.of(self, release, how, repeated)
        rng, rows, centre, root = _drawn(self, release, how)
        mean, sd = middle + half * centre[:, 0], half * root[:, 0, 0]
        return Posterior.of(
            self,
            release,
            how,
            {"mean": mean, "sd": sd, "rows": rows},
            predicted={self.column: rng.normal(mean, sd)},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `mean` and `sd`."""
        (middle,), (half,) = scales(release, self.query())
        mean = (draws["mean"][..., None] - middle) / half
        covariance = (draws["sd"][..., None, None] / half) ** 2
        # the density of sd, not of its square
        return log_normal_prior(mean, covariance, _prior(self, release)) + np.log(draws["sd"])


@dataclass(frozen=True)
class MultivariateNormalModel:
    """The means, standard deviations and correlations of several columns, among complete rows.

    Values are taken as normal, and the bounds as wide: they should hold nearly all of them, since a
    row beyond them has no value.

    Parameters
    ----------
    columns
        `Real` or `Integer` columns.
    prior_mean, prior_mean_rows
        The prior means, one for each column, and in how many rows it is as if they had been seen.
        Default: the middle of the bounds, in a hundredth of a row.
    prior_sd, prior_sd_rows
        The prior standard deviations, without correlation, and in how many rows it is as if they
        had been seen. Default: a tenth of the width of the bounds, in half a row.
    """

    columns: tuple[str, ...]
    prior_mean: Sequence[float] | None = None
    prior_mean_rows: float = 0.01
    prior_sd: Sequence[float] | None = None
    prior_sd_rows: float = 0.5

    def __post_init__(self) -> None:
        set_fields(self, columns=Moments(self.columns).columns)
        keep_numbers(self, "prior_mean_rows", "prior_sd_rows")
        for what, above in (("prior_mean", None), ("prior_sd", 0)):
            if (values := getattr(self, what)) is not None:
                given = several(values, len(self.columns), what)
                kept = tuple(number(v, f"each of {what}", above=above) for v in given)
                set_fields(self, **{what: kept})

    def query(self) -> Moments:
        return Moments(self.columns)

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse a prior that has nothing to do with the bounds, before anything is paid."""
        unknown = (None,) * len(self.columns)
        means, sds = self.prior_mean or unknown, self.prior_sd or unknown
        for name, mean, sd in zip(self.columns, means, sds, strict=True):
            check_reach(schema, name, mean=mean, sd=sd)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `mean`, `sd` and `correlation` given a release of this query."""
        how = Sampling.of(sampling)
        rng, rows, centre, root = _drawn(self, release, how)
        middle, half = scales(release, self.query())
        covariance = root @ root.swapaxes(1, 2)
        sd = np.sqrt(np.einsum("nii->ni", covariance))
        noise = np.einsum("nij,nj->ni", root, rng.standard_normal(centre.shape))
        draws = {
            "mean": middle + half * centre,
            "sd": half * sd,
            "correlation": covariance / sd[:, :, None] / sd[:, None, :],
            "rows": rows,
        }
        column = {"column": self.columns}
        labels = {"mean": column, "sd": column, "correlation": column | {"other": self.columns}}
        value = {"value": middle + half * (centre + noise)}
        return Posterior.of(self, release, how, draws, labels=labels, predicted=value)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `mean`, `sd` and `correlation`."""
        middle, half = scales(release, self.query())
        sd = draws["sd"] / half
        covariance = draws["correlation"] * sd[..., :, None] * sd[..., None, :]
        log = log_normal_prior((draws["mean"] - middle) / half, covariance, _prior(self, release))
        # from the covariance's density to that of standard deviations and correlations
        return log + len(self.columns) * np.log(sd).sum(axis=-1)


def _drawn(
    model: NormalModel | MultivariateNormalModel, release: Release, how: Sampling
) -> tuple[np.random.Generator, np.ndarray, np.ndarray, np.ndarray]:
    """Return the generator after the draws, rows, scaled means and a root of the covariance."""
    check_answers(release, model.query())
    rng, prior = np.random.default_rng(how.seed), _prior(model, release)
    if isinstance(release.query, ConjugateDraw):
        moments = moments_from_draw(release, prior, how, rng)
    else:
        moments = draw_matrices(release, model.query(), prior, how)
    return rng, moments[:, 0, 0], *draw_mean_and_covariance(moments, prior, rng)


def _prior(model: NormalModel | MultivariateNormalModel, release: Release) -> NormalPrior:
    mean, sd = (
        [value] if isinstance(value, float) else value
        for value in (model.prior_mean, model.prior_sd)
    )
    return weak_prior(release, model.query(), mean, model.prior_mean_rows, sd, model.prior_sd_rows)
