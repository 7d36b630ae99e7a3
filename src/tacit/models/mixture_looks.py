"""What is asked before the first step of a mixture of normals: roughly, how rows are spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.infer.mixture_start import Frame, clustered, made_up, slices_of
from tacit.infer.mixtures import MixturePrior, NormalMixture
from tacit.kernels.mixtures import BINS
from tacit.spec.kernels import Kernel
from tacit.spec.newton import symmetric
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Look, Setting

_SHARES = 0.05, 0.05, 0.15  # of the budget


@dataclass(frozen=True)
class Looks:
    """Where rows are, along which axes they are spread, and how, part by part.

    `scaling` is what is taken from each column, and by what it is multiplied; `most` the most rows
    of a unit.
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
        # A part's rows are counted once in every direction, in all bins together.
        noise = self.setting.noise * self.most * math.sqrt(BINS / _SHARES[2])
        return slices_of(self.size, self.setting.units / (self.components * noise))

    def all(self) -> tuple[Look, ...]:
        """None for a single component, which is found from anywhere."""
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
            Look(self._histograms(np.ones(self.size, np.int64)), _SHARES[0], seen=_seen),
            Look(
                squares,
                _SHARES[1],
                lambda q, before: q.at(self._state(self._narrowed(before))),
                seen=_seen,
            ),
            Look(
                self._histograms(self.slices),
                _SHARES[2],
                lambda q, before: q.at((*self._state(self._turned(before)), self.slices)),
                seen=_seen,
            ),
        )

    def begun(self, before: tuple[Any, ...], prior: MixturePrior) -> NormalMixture:
        """Components to begin with."""
        rng = np.random.default_rng(0)  # of rows that are made up
        counts, sd = before[2]
        shape = int(np.prod(self.slices)), self.size, BINS
        rows = made_up(self._turned(before), self.slices, counts.reshape(shape), sd, rng)
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


def _seen(release: Release) -> tuple[np.ndarray, float]:
    """Numbers, and the noise of each."""
    return release.value, release.noise[0].scale
