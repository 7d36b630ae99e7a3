"""A mixture of normals with diagonal covariances: rows have latent components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.infer.mixtures import (
    MixturePrior,
    NormalMixture,
    mixture_posterior,
    prior_mixture,
    with_noise,
)
from tacit.kernels.mixtures import MIDDLE
from tacit.models.description import describe, names_of, number, whole
from tacit.models.mixture_pilots import MixturePilots
from tacit.posterior.mixture import MixturePosterior
from tacit.spec.columns import Column, Integer, Real
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.moments import scale_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Setting, Sums, Variational, VIPSSchedule

_WHOLE = 2.0  # no number is further from a mean
_WIDTHS = 2.0  # half-width of a window, in standard deviations; numbers are clipped to it
_RATIO = 2 / MIDDLE
_COMMON = (2 - _RATIO**2) / (2 + _RATIO**2)  # correlation of the noise of a count and of squares
_NAMES = "count", "sum", "square"


def _kept(widths: float) -> tuple[float, float]:
    """Return which share of a normal's variance is left after clipping to a window.

    The second number is the share of a small change of the variance, for a fixed window.
    """
    beyond = math.erfc(widths / math.sqrt(2))
    edge = math.exp(-(widths**2) / 2) / math.sqrt(2 * math.pi)
    within = 1 - beyond - 2 * widths * edge
    return within + widths**2 * beyond, within


class _Parameters(NamedTuple):
    """Variational parameters, and the sums that they are computed from."""

    mixture: NormalMixture
    sums: Sums


@dataclass(frozen=True)
class GaussianMixture:
    """Rows from one of several normals, with independent numbers within each.

    Numbers are scaled by their public bounds; results are in original units. Each step asks, for
    every component, for the expected number of its rows, their sum and their squares, within a
    window of two standard deviations around the component's current mean: numbers beyond are
    clipped to its edge, and variances are corrected for that. All that a row adds is bounded
    together, so that noise does not grow with the number of components, and the narrower they are
    the better they are known. A quarter of the budget is for pilot queries: noisy histograms, from
    which synthetic rows are drawn and clustered for a warm start.

    Parameters
    ----------
    components
        How many normals.
    features
        `Real` or `Integer` columns.
    prior_weight
        The Dirichlet concentration of each component's weight.
    prior_width
        About how wide a component is, as a share of half the width of a column's bounds.
    point
        Whether the parameters are point estimates at each step: private EM. Draws then
        differ by the privacy noise alone.

    Examples
    --------
    >>> GaussianMixture(3, ["height", "weight"]).features
    ('height', 'weight')
    """

    components: int
    features: Sequence[str]
    prior_weight: float = 1.0
    prior_width: float = 0.2
    point: bool = False

    def __post_init__(self) -> None:
        whole(self.components, "components", 1)
        object.__setattr__(self, "features", names_of(self.features, "feature"))
        for what in ("prior_weight", "prior_width"):
            object.__setattr__(self, what, number(getattr(self, what), what, above=0))
        if not isinstance(self.point, bool):
            raise ModelError(f"Expected point={self.point!r} to be True or False.")

    def variational(self, schema: Schema, setting: Setting) -> Variational:
        scales = np.array([scale_of(column) for column in self._columns(schema)])
        shape = self.components, len(self.features)
        prior = MixturePrior(self.prior_weight, self.prior_width)
        # Each number of a row has three curves of norm 1, shared among components.
        clip = math.sqrt(shape[1]) * (1 + 1e-12) * schema.max_rows_per_unit

        scaling = scales[:, 0].copy(), 1 / scales[:, 1]
        pilots = MixturePilots(
            self.features, scaling, self.components, setting, schema.max_rows_per_unit
        )

        def start(rng: np.random.Generator) -> Sums:
            one, each = np.zeros(self.components), np.zeros(shape)
            return Sums({"count": one, "sum": each, "square": each}, dict.fromkeys(_NAMES, 0.0))

        def maximise(sums: Sums) -> _Parameters:
            return _Parameters(mixture_posterior(sums, prior), sums)

        def initial(sums: Sums) -> _Parameters:
            if not sums.pilots:
                return _Parameters(prior_mixture(*shape, prior), sums)
            return _Parameters(pilots.initial(sums.pilots, prior), sums)

        def windows(mixture: NormalMixture) -> np.ndarray:
            if not setting.noise:  # nothing is gained by leaving something out
                return np.full(shape, _WHOLE)
            return np.minimum(_WIDTHS * mixture.sd, _WHOLE)

        def question(parameters: _Parameters) -> BoundedSum:
            mixture = parameters.mixture
            scores, precision = mixture.scores(self.point), mixture.sd**-2.0
            return BoundedSum(
                Kernel("normal_mixture.expected_statistics"),
                self.features,
                size=(*shape, 3),
                clip=clip,
                geometry="nonnegative",
                state=(*scaling, scores, mixture.mean, precision, windows(mixture)),
            )

        def read(sums: Sums, parameters: _Parameters) -> Sums:
            low, middle, high = np.moveaxis(sums.values["sum"], -1, 0)
            mixture, sd = parameters.mixture, sums.sd["sum"]
            mean, window = mixture.mean, windows(mixture)
            count = (low + _RATIO * middle + high).mean(axis=1)
            kept, kept_change = (np.where(window < _WHOLE, share, 1.0) for share in _kept(_WIDTHS))
            off, square = window * (high - low), window**2 * (low - _RATIO * middle + high)
            square /= kept
            values = {
                "count": count,
                "sum": count[:, None] * mean + off,
                "square": count[:, None] * mean**2 + 2 * mean * off + square,
            }
            wide = math.sqrt(2 + _RATIO**2) * sd
            noise = {
                "count": np.full(shape[0], wide / math.sqrt(shape[1])),
                "sum": window * math.sqrt(2) * sd,
                # Windows follow noisy variances, so that noise returns in the next step.
                "square": window**2 * wide / kept_change,
            }
            return Sums(values, noise, sums.pilots)

        quiet = setting.units > 1000 * self.components * setting.noise
        schedule = (
            VIPSSchedule(25 if quiet else 6, kappa=0.5) if setting.noise else VIPSSchedule(100)
        )
        return Variational(start, question, maximise, schedule, pilots.queries(), read, initial)

    def variational_posterior(
        self, release: Release, parameters: _Parameters, sampling: Sampling
    ) -> MixturePosterior:
        rng, mixture = np.random.default_rng(sampling.seed), parameters.mixture
        count = sampling.chains * sampling.draws
        aware = sampling.noise == "aware"
        if aware:
            prior = MixturePrior(self.prior_weight, self.prior_width)
            common = _COMMON / math.sqrt(len(self.features))
            each = mixture_posterior(
                with_noise(parameters.sums, mixture.mean, common, count, rng), prior
            )
        else:
            each = mixture.repeated(count)
        weights, means, sds = (each.weights, each.mean, each.sd) if self.point else each.drawn(rng)
        middle, half = np.array([scale_of(c) for c in self._columns(release.schema)]).T
        order = np.argsort(-mixture.weights, kind="stable")
        return MixturePosterior.of(
            describe(self),
            release,
            sampling,
            {
                "weights": weights[:, order],
                "means": middle + half * means[:, order],
                "sds": half * sds[:, order],
            },
            dims={
                "weights": ("component",),
                "means": ("component", "feature"),
                "sds": ("component", "feature"),
            },
            coords={"component": tuple(range(self.components)), "feature": self.features},
        )

    def _columns(self, schema: Schema) -> list[Column]:
        columns = [schema[name] for name in self.features]
        for column in columns:
            if not isinstance(column, (Real, Integer)):
                raise ModelError(f"Expected feature {column.name!r} to be Real or Integer.")
        return columns
