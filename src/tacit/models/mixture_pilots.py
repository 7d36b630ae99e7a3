"""Pilot queries of a mixture of normals: histograms and second moments for a warm start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.infer.mixtures import (
    Frame,
    MixturePrior,
    NormalMixture,
    clustered,
    slices_of,
    synthetic_rows,
)
from tacit.kernels.mixtures import BINS
from tacit.spec.kernels import Kernel
from tacit.spec.packing import symmetric
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import PilotQuery, Setting

_SHARES = 0.05, 0.05, 0.15  # of the budget, one for each pilot query


@dataclass(frozen=True)
class MixturePilots:
    """Three pilot queries: the rows' range, their principal axes, and histograms along these.

    `scaling` holds the offset and factor of each column; `most` is the most rows of a unit.
    """

    features: tuple[str, ...]
    scaling: tuple[np.ndarray, np.ndarray]
    components: int
    setting: Setting
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
            state=self._state(Frame.whole(self.size)),
        )
        return (
            PilotQuery(
                self._histograms(np.ones(self.size, np.int64)), _SHARES[0], result=_value_and_sd
            ),
            PilotQuery(
                squares,
                _SHARES[1],
                lambda q, before: q.at(self._state(self._narrowed(before))),
                result=_value_and_sd,
            ),
            PilotQuery(
                self._histograms(self.slices),
                _SHARES[2],
                lambda q, before: q.at((*self._state(self._turned(before)), self.slices)),
                result=_value_and_sd,
            ),
        )

    def initial(self, before: tuple[Any, ...], prior: MixturePrior) -> NormalMixture:
        """Return the initial mixture, fitted to synthetic rows."""
        rng = np.random.default_rng(0)  # for synthetic rows
        counts, sd = before[2]
        shape = int(np.prod(self.slices)), self.size, BINS
        rows = synthetic_rows(self._turned(before), self.slices, counts.reshape(shape), sd, rng)
        return clustered(rows, self.components, self.setting.units, prior, rng)

    def _narrowed(self, before: tuple[Any, ...]) -> Frame:
        counts, sd = before[0]
        return Frame.whole(self.size).narrowed(counts.reshape(self.size, BINS), sd)

    def _turned(self, before: tuple[Any, ...]) -> Frame:
        squares, sd = before[1]
        return self._narrowed(before).turned(symmetric(squares, self.size + 1), sd)

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


def _value_and_sd(release: Release) -> tuple[np.ndarray, float]:
    """Return the released numbers, and the standard deviation of their noise."""
    return release.value, release.noise[0].scale
