"""A mixture of normals with diagonal covariances: rows have latent components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.infer.mixtures import (
    Frame,
    MixturePrior,
    NormalMixture,
    clustered,
    mixture_posterior,
    prior_mixture,
    slices_of,
    synthetic_rows,
    with_noise,
)
from tacit.kernels.mixtures import BINS, MIDDLE
from tacit.models.checks import features_of, keep_numbers, names_of
from tacit.posterior.latent import MixturePosterior
from tacit.spec.checks import set_fields, whole_number
from tacit.spec.columns import Integer, Real
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.moments import scale_of
from tacit.spec.packing import symmetric
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, PilotQuery, Sums, Variational, VIPSSchedule

_WHOLE = 2.0  # no number is further from a mean
_WIDTHS = 2.0  # half-width of a window, in standard deviations; numbers are clipped to it
_RATIO = 2 / MIDDLE
_COMMON = (2 - _RATIO**2) / (2 + _RATIO**2)  # correlation of the noise of a count and of squares
_NAMES = "count", "sum", "square"
_SHARES = 0.05, 0.05, 0.15  # of the budget, one for each pilot query
# Shares of a normal's variance, and of a small change of it, that are left after clipping.
_BEYOND = math.erfc(_WIDTHS / math.sqrt(2))
_KEPT_CHANGE = 1 - _BEYOND - 2 * _WIDTHS * (math.exp(-(_WIDTHS**2) / 2) / math.sqrt(2 * math.pi))
_KEPT = _KEPT_CHANGE + _WIDTHS**2 * _BEYOND


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
    n_components
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

    n_components: int
    features: Sequence[str]
    prior_weight: float = 1.0
    prior_width: float = 0.2
    point: bool = False

    def __post_init__(self) -> None:
        whole_number(self.n_components, "n_components", most=10**6)
        set_fields(self, features=names_of(self.features, "feature"))
        keep_numbers(self, "prior_weight", "prior_width")
        if not isinstance(self.point, bool):
            raise ModelError(f"Expected point={self.point!r} to be True or False.")

    def variational(self, schema: Schema, setting: FitSetting) -> Variational:
        middle, half = self._scales(schema)
        shape = self.n_components, len(self.features)
        prior = MixturePrior(self.prior_weight, self.prior_width)
        # Each number of a row has three curves of norm 1, shared among components.
        clip = math.sqrt(shape[1]) * (1 + 1e-12) * schema.max_rows_per_unit
        scaling = middle, 1 / half
        pilots = _Pilots(
            self.features, scaling, self.n_components, setting, schema.max_rows_per_unit
        )

        def start(rng: np.random.Generator) -> Sums:
            one, each = np.zeros(self.n_components), np.zeros(shape)
            return Sums({"count": one, "sum": each, "square": each}, dict.fromkeys(_NAMES, 0.0))

        def initial(sums: Sums) -> NormalMixture:
            return (
                pilots.initial(sums.pilots, prior) if sums.pilots else prior_mixture(*shape, prior)
            )

        def windows(mixture: NormalMixture) -> np.ndarray:
            if not setting.noise:  # nothing is gained by leaving something out
                return np.full(shape, _WHOLE)
            return np.minimum(_WIDTHS * mixture.sd, _WHOLE)

        def question(mixture: NormalMixture) -> BoundedSum:
            scores, precision = mixture.scores(self.point), mixture.sd**-2.0
            return BoundedSum(
                Kernel("normal_mixture.expected_statistics"),
                self.features,
                size=(*shape, 3),
                clip=clip,
                geometry="nonnegative",
                state=(*scaling, scores, mixture.mean, precision, windows(mixture)),
            )

        def read(sums: Sums, mixture: NormalMixture) -> Sums:
            low, centre, high = np.moveaxis(sums.values["sum"], -1, 0)
            mean, window, sd = mixture.mean, windows(mixture), sums.sd["sum"]
            count = (low + _RATIO * centre + high).mean(axis=1)
            kept, kept_change = (
                np.where(window < _WHOLE, share, 1.0) for share in (_KEPT, _KEPT_CHANGE)
            )
            off, square = window * (high - low), window**2 * (low - _RATIO * centre + high)
            values = {
                "count": count,
                "sum": count[:, None] * mean + off,
                "square": count[:, None] * mean**2 + 2 * mean * off + square / kept,
            }
            wide = math.sqrt(2 + _RATIO**2) * sd
            noise = {
                "count": np.full(shape[0], wide / math.sqrt(shape[1])),
                "sum": window * math.sqrt(2) * sd,
                # Windows follow noisy variances, so that noise returns in the next step.
                "square": window**2 * wide / kept_change,
            }
            return Sums(values, noise, sums.pilots)

        low_noise = setting.units > 1000 * self.n_components * setting.noise
        schedule = (
            VIPSSchedule(25 if low_noise else 6, kappa=0.5) if setting.noise else VIPSSchedule(100)
        )
        return Variational(
            start,
            question,
            lambda sums: mixture_posterior(sums, prior),
            schedule,
            pilots.queries(),
            read,
            initial,
        )

    def variational_posterior(
        self, release: Release, parameters: NormalMixture, sums: Sums, sampling: Sampling
    ) -> MixturePosterior:
        rng, count = np.random.default_rng(sampling.seed), sampling.chains * sampling.draws
        if sampling.noise == "aware":
            prior = MixturePrior(self.prior_weight, self.prior_width)
            common = _COMMON / math.sqrt(len(self.features))
            sums = with_noise(sums, parameters.mean, common, count, rng)
            each = mixture_posterior(sums, prior)
        else:
            each = parameters.repeated(count)
        weights, means, sds = (each.weights, each.mean, each.sd) if self.point else each.drawn(rng)
        middle, half = self._scales(release.schema)
        order = np.argsort(-parameters.weights, kind="stable")
        draws = {
            "weights": weights[:, order],
            "means": middle + half * means[:, order],
            "sds": half * sds[:, order],
        }
        component = {"component": range(self.n_components)}
        each_feature = component | {"feature": self.features}
        labels = {"weights": component, "means": each_feature, "sds": each_feature}
        return MixturePosterior.of(self, release, sampling, draws, labels=labels)

    def _scales(self, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle and half width of each column's bounds."""
        columns = features_of(schema, self.features, Real, Integer)
        middle, half = np.array([scale_of(column) for column in columns]).T
        return middle.copy(), half.copy()


@dataclass(frozen=True)
class _Pilots:
    """Three pilot queries: the rows' range, their principal axes, and histograms along these.

    `scaling` holds the offset and factor of each column; `most` is the most rows of a unit.
    """

    features: tuple[str, ...]
    scaling: tuple[np.ndarray, np.ndarray]
    components: int
    setting: FitSetting
    most: int

    @property
    def size(self) -> int:
        return len(self.features)

    @property
    def slices(self) -> np.ndarray:
        if not self.setting.noise:
            return slices_of(self.size, math.inf)
        # Noise of a part's count: BINS bins, the mean over directions (sensitivity sqrt(size)).
        noise = self.setting.noise * self.most * math.sqrt(BINS / _SHARES[2])
        return slices_of(self.size, self.setting.units / (self.components * noise))

    def queries(self) -> tuple[PilotQuery, ...]:
        """Return the pilot queries; a single component needs none."""
        if self.components == 1:
            return ()
        squares = BoundedSum(
            Kernel("normal_mixture.products"),
            self.features,
            size=(self.size + 1) * (self.size + 2) // 2,
            clip=(1 + self.size / 2) * self.most,
            geometry="outer",
            state=self._state(Frame.whole(self.size)),
        )
        range_query = self._histograms(np.ones(self.size, np.int64))
        slices = self.slices

        def along_axes(query: BoundedSum, before: tuple[Release, ...]) -> BoundedSum:
            return query.at((*self._state(self._turned(before)), slices))

        return (
            PilotQuery(range_query, _SHARES[0]),
            PilotQuery(
                squares,
                _SHARES[1],
                lambda query, before: query.at(self._state(self._narrowed(before))),
            ),
            PilotQuery(self._histograms(slices), _SHARES[2], along_axes),
        )

    def initial(self, before: tuple[Release, ...], prior: MixturePrior) -> NormalMixture:
        """Return the initial mixture, fitted to synthetic rows."""
        rng = np.random.default_rng(0)  # for synthetic rows
        counts = before[2].value.reshape(-1, self.size, BINS)
        sd = before[2].noise[0].scale
        rows = synthetic_rows(self._turned(before), self.slices, counts, sd, rng)
        return clustered(rows, self.components, self.setting.units, prior, rng)

    def _narrowed(self, before: tuple[Release, ...]) -> Frame:
        counts = before[0].value.reshape(self.size, BINS)
        return Frame.whole(self.size).narrowed(counts, before[0].noise[0].scale)

    def _turned(self, before: tuple[Release, ...]) -> Frame:
        squares = symmetric(before[1].value, self.size + 1)
        return self._narrowed(before).turned(squares, before[1].noise[0].scale)

    def _state(self, frame: Frame) -> tuple[np.ndarray, ...]:
        return (*self.scaling, frame.centre, frame.axes, frame.reach)

    def _histograms(self, slices: np.ndarray) -> BoundedSum:
        return BoundedSum(
            Kernel("normal_mixture.histograms"),
            self.features,
            size=(int(np.prod(slices)), self.size, BINS),
            clip=math.sqrt(self.size) * (1 + 1e-12) * self.most,
            geometry="nonnegative",
            state=(*self._state(Frame.whole(self.size)), slices),
        )
