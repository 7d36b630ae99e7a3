"""A number with a known standard deviation: its mean, with a normal prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.stats import norm

from tacit.infer.from_draw import check_usable
from tacit.infer.latent_sum import DrawnMean, draw_one_parameter
from tacit.infer.one_parameter import normal
from tacit.models.answers import check_answers
from tacit.models.description import describe, number, pair
from tacit.posterior import Posterior
from tacit.spec.draws import BoundedNormal, ConjugateDraw
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
        object.__setattr__(self, "sd", number(self.sd, "sd", above=0))
        if self.prior is not None:
            if not isinstance(self.prior, (tuple, list)) or len(self.prior) != 2:
                raise ModelError(f"Expected prior=(mean, sd), got {self.prior!r}.")
            mean, sd = self.prior
            checked = number(mean, "the prior's mean"), number(sd, "the prior's sd", above=0)
            object.__setattr__(self, "prior", checked)

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of the mean between the ends of `truncation`: by default the column's bounds.

        With (-inf, inf) nothing is cut off.
        """
        check_usable(schema)
        low, high = bounds_of(schema[self.column]) if truncation is None else pair(truncation)
        law = BoundedNormal(self.column, self.sd, self._prior(schema), low, high)
        return ConjugateDraw(law, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `mean` given its moments with noise, or draws of it."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        rng = np.random.default_rng(how.seed)
        if isinstance(release.query, ConjugateDraw) and how.noise == "plugin":
            mean = np.resize(DrawnMean.of(release).draws, how.chains * how.draws)
            return Posterior.of(describe(self), release, how, {"mean": mean})
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
            describe(self),
            release,
            how,
            {"mean": mean, "rows": rows},
            predicted={self.column: rng.normal(mean, self.sd)},
        )

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `mean`."""
        return norm.logpdf(draws["mean"], *self._prior(release.schema))

    def walk(self, schema: Schema) -> Walk:
        """A walk on the scale of the column's bounds, -1 to 1."""
        middle, half = scale_of(schema[self.column])
        centre, spread = self._prior(schema)
        start, scale = (centre - middle) / half, spread / half
        return Walk(
            columns=(self.column,),
            ratio=Kernel("walk.normal_log_ratio"),
            state=lambda here, there: (
                (there - here) * (half / self.sd) ** 2 * _line_of(middle, half, here + there),
            ),
            max_gradient=2 * (half / self.sd) ** 2,  # for means within the bounds
            start=np.array([start]),
            scale=min(scale, 1.0),
            log_prior=lambda at: float(-0.5 * ((at[0] - start) / scale) ** 2),
        )

    def walk_posterior(self, release: Release, at: np.ndarray) -> Posterior:
        middle, half = scale_of(release.schema[self.column])
        return Posterior.walked(describe(self), release, {"mean": middle + half * at[:, 0]})

    def _prior(self, schema: Schema) -> tuple[float, float]:
        low, high = bounds_of(schema[self.column])
        return ((low + high) / 2, high - low) if self.prior is None else self.prior


def _line_of(middle: float, half: float, twice: np.ndarray) -> np.ndarray:
    """Intercept and coefficient of (x - middle) / half - twice / 2 as a function of x."""
    return np.array([-middle / half - twice[0] / 2, 1 / half])
