"""Which of two levels a row has, given its features: coefficients on the scale of log odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from tacit.models.checks import MOST_WHITENED, keep_numbers, names_of, refuse_draws
from tacit.models.jax_density import synthetic_rows
from tacit.models.logistic_variational import Augmented, augmented, drawn
from tacit.posterior import LogisticPosterior, Posterior, describe
from tacit.spec.checks import set_fields
from tacit.spec.columns import Categorical
from tacit.spec.density import DensityDraw, Likelihood
from tacit.spec.design import Design
from tacit.spec.errors import ModelError, QueryError
from tacit.spec.kernels import Kernel
from tacit.spec.logistic import Logistic, LogisticDraw, LogisticMinimum, ridge_of, units_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, Sums, Variational
from tacit.spec.walks import Derivatives, Frame, Gradients

_MOST_NUMBERS = 400  # in a row: of its curvature every pair is released


@dataclass(frozen=True)
class LogisticRegression:
    """How probable the second level of `target` is, given `features`.

    Numbers are scaled by their public bounds to [-1, 1] and levels are compared with each other, so
    that no reference level is needed. Coefficients are reported in original units: what one unit
    more does to the log odds, what a level does against the mean of all levels, or for two levels
    the second against the first.

    Parameters
    ----------
    target
        A `Categorical` column of two levels.
    features
        `Real`, `Integer` or `Categorical` columns.
    prior_scale
        About how large coefficients are, on the scale of [-1, 1]: their prior standard deviation,
        which `RidgeNewton` learns from there on.

    Examples
    --------
    >>> LogisticRegression("readmitted", ["age", "ward"]).target
    'readmitted'
    """

    target: str
    features: tuple[str, ...] = ()
    prior_scale: float = 2.0

    def __post_init__(self) -> None:
        set_fields(self, features=names_of(self.features, "feature", but=self.target))
        keep_numbers(self, "prior_scale")

    def design(self, schema: Schema, *, squares: bool = False) -> Design:
        """Return the encoding of rows; with `squares`, one whose curvature can be released."""
        target = schema[self.target]
        if not isinstance(target, Categorical) or len(target.levels) != 2:
            levels = target.levels if isinstance(target, Categorical) else ()
            instead = f"; tacit.NaiveBayes({self.target!r}, [...]) takes {len(levels)}"
            raise ModelError(
                f"Expected a target of two levels, such as Categorical({self.target!r}, "
                '["no", "yes"]), with codes={"0": "no", "1": "yes", "2": "yes"} where several '
                f"values mean one, not {target}{instead * (len(levels) > 2)}."
            )
        design = Design.of(self.features, schema)
        if squares and design.size > _MOST_NUMBERS:
            raise ModelError(
                f"Expected features that make at most {_MOST_NUMBERS} numbers, got {design.size}: "
                "leave out levels or features, or use tacit.SGLD(epsilon, delta)."
            )
        return design

    def variational(self, schema: Schema, setting: FitSetting) -> Variational:
        """Return the Polya-Gamma fit: the gradient's constant part once, then weighted squares."""
        design = self.design(schema, squares=True)
        columns = (*self.features, self.target)
        rows = schema.max_rows_per_unit
        return augmented(design, columns, rows, self.prior_scale * design.radius, setting)

    def variational_posterior(
        self, release: Release, parameters: Augmented, sums: Sums, sampling: Sampling
    ) -> Posterior:
        return self.vector_posterior(release, drawn(parameters, sampling), sampling.noise)

    def derivatives(self, schema: Schema) -> Derivatives | None:
        """Return gradient and Hessian in any coordinates, or None for too many coefficients."""
        design = self.design(schema)
        if design.size > MOST_WHITENED:
            return None
        precision = (self.prior_scale * design.radius) ** -2.0
        fisher = self._fisher(design, schema)
        values, vectors = np.linalg.eigh(fisher)
        values = np.maximum(values, 1e-4 * values[-1])
        return Derivatives(
            Kernel("logistic.whitened_score"),
            Kernel("logistic.whitened_score_and_hessian"),
            (*self.features, self.target),
            Frame(np.zeros(design.size), vectors * values**-0.5 @ vectors.T),
            prior_mean=np.zeros(design.size),
            prior_precision=precision * np.eye(design.size),
            log_prior=None,
            log_prior_gradient=lambda theta: -precision * theta,
            posterior=self.vector_posterior,
            parameters=lambda posterior: self._parameters(design, posterior),
            constants=tuple(design.encoding),
            fair=True,
        )

    def gradients(self, schema: Schema) -> Gradients:
        """Return the query for gradients, which samplers ask at each step."""
        design = self.design(schema)
        precision = (self.prior_scale * design.radius) ** -2.0
        # Features of records are more alike than those of synthetic ones: some margin.
        fisher = self._fisher(design, schema)
        curvature = min(0.25, 4 * float(np.linalg.eigvalsh(fisher)[-1]))
        return Gradients(
            question=self._score(design, schema),
            log_prior_gradient=lambda theta: -precision * theta,
            start=np.zeros(design.size),
            curvature=curvature,
            prior_precision=precision,
            posterior=lambda release, theta: self.vector_posterior(release, theta, "tempered"),
            parameters=lambda posterior: self._parameters(design, posterior),
            typical=float(np.trace(fisher)) / design.size,
        )

    def _fisher(self, design: Design, schema: Schema) -> np.ndarray:
        """The curvature of a record at zero coefficients, the mean over synthetic records."""
        x = design.rows(synthetic_rows(self.features, schema))
        return x.T @ x / (4 * len(x))

    def _parameters(self, design: Design, posterior: Posterior) -> np.ndarray:
        return design.from_units(posterior.mean("intercept"), posterior.mean("coef"))

    def likelihood(self, schema: Schema) -> Likelihood:
        """Return the query's parts for draws within a ball of the vectors' coefficients."""
        design = self.design(schema)
        return Likelihood(
            Kernel("logistic.log_likelihood"),
            (*self.features, self.target),
            design.size,
            self.prior_scale * design.radius,
            self._score(design, schema),
            design.encoding,
        )

    def _score(self, design: Design, schema: Schema) -> BoundedSum:
        """The log-likelihood's gradient, summed over rows; a row's norm is at most that of x."""
        return BoundedSum(
            Kernel("logistic.score"),
            (*self.features, self.target),
            size=design.size,
            clip=float(schema.max_rows_per_unit),
            state=(np.zeros(design.size), *design.encoding),
        )

    def logistic(self, schema: Schema) -> Logistic:
        """Return the law of the queries for draws without truncation, and for noisy minima."""
        radius = self.design(schema).radius
        return Logistic(self.target, self.features, (self.prior_scale * radius) ** -2.0)

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> LogisticDraw:
        return LogisticDraw(self.logistic(schema), draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """Return the plug-in posterior of released draws, or of a minimum: one point."""
        refuse_draws(sampling)
        if isinstance(release.query, DensityDraw):
            theta = release.query.parameters(release)
        else:
            theta = theta_of(release)
        minimum = isinstance(release.query, LogisticMinimum)
        if not minimum:
            return self.vector_posterior(release, theta[None], "tempered")
        return self.vector_posterior(release, theta[None], "plugin").warned((
            "a point, not a posterior: it says nothing of its own error, and has no intervals",
        ))  # fmt: skip

    def vector_posterior(self, release: Release, theta: np.ndarray, noise: str) -> Posterior:
        """Draws (chain, draw, parameter) of the vectors' coefficients, in original units."""
        design = self.design(release.schema)
        intercept, coef = design.in_units(theta)
        return LogisticPosterior(
            draws={"coef": coef, "intercept": intercept},
            dims={"coef": ("feature",), "intercept": ()},
            coords={"feature": design.names[1:]},
            model=describe(self),
            releases=(release,),
            noise=noise,
        ).coded()


def theta_of(release: Release) -> np.ndarray:
    """The coefficients (draw, name) of the vectors, from a release of a regression."""
    query = release.query
    if not isinstance(query, LogisticDraw | LogisticMinimum):
        raise QueryError(f"Expected a release of a logistic regression, got one of {query!r}.")
    block, values, noise = release.table("theta")
    if isinstance(query, LogisticDraw) or noise.family != "discrete_gaussian":
        return values
    units, each = units_of(release.schema, release.n), release.schema.max_rows_per_unit
    return values / ridge_of(query, units, block.shape[1], noise.scale, each)
