"""Rates with a Gamma prior: of counts, and of waiting times, up to a public cap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
from scipy.special import gammainccinv, gammaincinv

from tacit.infer.drawn_rate import DrawnRate
from tacit.infer.from_draw import check_usable
from tacit.infer.latent_sum import draw_one_parameter
from tacit.infer.one_parameter import exponential, poisson
from tacit.laws.bounded_rates import RateFamily
from tacit.models.checks import check_answers, positive
from tacit.posterior import Posterior
from tacit.spec.checks import set_fields
from tacit.spec.columns import Integer, Real
from tacit.spec.draws import BoundedRate, ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.moments import Moments
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class _GammaRate:
    """What rates of counts and of waiting times have in common: all but the law of a row."""

    column: str
    prior: tuple[float, float] | None = None

    _counts: ClassVar[bool]
    _prior_form: ClassVar[str]

    def __post_init__(self) -> None:
        if self.prior is not None:
            set_fields(self, prior=positive(self.prior, 2, self._prior_form))

    def query(self) -> Moments:
        return Moments((self.column,), degree=1)

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse a column without a cap, or that does not start at 0, before anything is paid."""
        self._cap_and_prior(schema)

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        """Draws of the rate within `truncation`, the smallest and the largest.

        By default rates of counts lie between a hundredth of the cap and the cap, and mean waits
        between a twentieth of the cap and ten times the cap.
        """
        check_usable(schema)
        cap, prior = self._cap_and_prior(schema)
        if truncation is None:
            truncation = (0.01 * cap, cap) if self._counts else (0.1 / cap, 20 / cap)
        low, high = positive(truncation, 2, "truncation=(smallest rate, largest rate)")
        law = BoundedRate(self.column, self._family, prior, low, high)
        return ConjugateDraw(law, draws, temper_prior)

    @property
    def _family(self) -> RateFamily:
        return "poisson" if self._counts else "exponential"

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of `rate`, and of the `mean` wait 1 / rate, given a release.

        Of draws that were released the law is known: they say what the sum of the values may be.
        """
        how = Sampling.of(sampling)
        drawn = isinstance(release.query, ConjugateDraw)
        if drawn:
            self._check_own(release)
        else:
            check_answers(release, self.query())
        cap, prior = self._cap_and_prior(release.schema)
        rng = np.random.default_rng(how.seed)
        if drawn and how.noise == "plugin":
            rate = np.resize(DrawnRate.of(release).rates, how.chains * how.draws)
            means = {} if self._counts else {"mean": 1 / rate}
            return Posterior.of(self, release, how, {"rate": rate, **means})
        family = poisson(cap) if self._counts else exponential(cap)
        at, rows = draw_one_parameter(release, self.query(), family, *gamma_on_log(prior), how, rng)
        rate = np.exp(at)
        if self._counts:
            means, next_row = {}, rng.poisson(np.minimum(rate, 1e15))
        else:
            means, next_row = {"mean": 1 / rate}, rng.standard_exponential(len(rate)) / rate
        draws = {"rate": rate, **means, "rows": rows}
        return Posterior.of(self, release, how, draws, predicted={self.column: next_row})

    def _check_own(self, release: Release) -> None:
        """Refuse draws of another column or family."""
        law = release.query.law  # type: ignore[union-attr]
        if not isinstance(law, BoundedRate) or (law.column, law.family) != (
            self.column,
            self._family,
        ):
            raise ModelError(f"This release answers {release.query}, not {self.query()}.")

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `rate`."""
        _, (shape, per) = self._cap_and_prior(release.schema)
        from scipy.stats import gamma

        return gamma.logpdf(draws["rate"], shape, scale=1 / per)

    def _cap_and_prior(self, schema: Schema) -> tuple[float, tuple[float, float]]:
        """Return the public cap of the column, which starts at 0, and the prior's (shape, rate)."""
        column = schema[self.column]
        known = isinstance(column, Integer if self._counts else (Integer, Real))
        if not known or column.low != 0 or column.high <= 0:
            wanted = f"{'Integer' if self._counts else 'Real'}({column.name!r}, 0, cap)"
            raise ModelError(f"{type(self).__name__} needs {wanted} in the schema, not {column}.")
        cap = float(column.high)
        return cap, self.prior or (1.0, 2 / cap if self._counts else cap / 2)


@dataclass(frozen=True)
class GammaPoisson(_GammaRate):
    """How many events a row has on average, in a whole-number column from 0 to its public cap.

    A row beyond the cap has no value, and the model knows it: the rate is that of a Poisson law
    of which only values up to the cap are seen.

    Parameters
    ----------
    column
        An `Integer` column that starts at 0, such as `Integer("visits", 0, 20)`.
    prior
        The Gamma prior's (events, rows): as if `events` had been counted in `rows` rows.
        Default: one event, in as many rows as make the rate half the cap.

    Examples
    --------
    >>> GammaPoisson("visits").query()
    Moments(columns=('visits',), degree=1, split=None, centred=True)
    """

    _counts: ClassVar[bool] = True
    _prior_form: ClassVar[str] = "prior=(events, rows)"


@dataclass(frozen=True)
class GammaExponential(_GammaRate):
    """How fast waiting times end, in a column from 0 to its public cap.

    A wait beyond the cap has no value, and the model knows it: the rate is that of an exponential
    law of which only values up to the cap are seen.

    Parameters
    ----------
    column
        A `Real` column that starts at 0, such as `Real("days", 0, 60)`.
    prior
        The Gamma prior's (waits, total): as if `waits` waits that took `total` in all had been
        seen. Default: one wait, half as long as the cap.
    """

    _counts: ClassVar[bool] = False
    _prior_form: ClassVar[str] = "prior=(waits, total)"


def gamma_on_log(
    prior: tuple[float, float],
) -> tuple[Callable[[np.ndarray], np.ndarray], tuple[float, float]]:
    """Return the prior's log density of the log rate, and where all but 1e-9 of it lies."""
    shape, per = prior
    low = np.log(gammaincinv(shape, 1e-9)) if shape > 1e-2 else -9 * np.log(10) / shape
    ends = np.clip([low, np.log(gammainccinv(shape, 1e-12))], -300, 300) - np.log(per)
    return (
        lambda at: shape * at - per * np.exp(np.minimum(at, 600.0)),
        (float(ends[0]), float(ends[1])),
    )
