"""The law of the noise in a released number, as inference sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.spec.release import Noise

DEPTH = 40.0  # weights e^-40 below the largest are left out


@dataclass(frozen=True)
class Law:
    """The noise's log density up to a constant; at whole counts the discrete laws have it too."""

    family: str
    scale: float

    @classmethod
    def of(cls, noise: Noise, times: float = 1.0) -> Law:
        """The law of a released number multiplied by `times`."""
        return cls(noise.family, noise.scale * times)

    @property
    def none(self) -> bool:
        return self.family == "none"

    @property
    def heavy(self) -> bool:
        """Whether it falls like e^-|x|, as Laplace noise does, and not like e^-x^2."""
        return self.family in ("laplace", "discrete_laplace")

    def log(self, error: np.ndarray) -> np.ndarray:
        if self.heavy:
            return -np.abs(error) / self.scale
        return -0.5 * (error / self.scale) ** 2

    @property
    def reach(self) -> float:
        """How far noise goes until its density has fallen by e^-40."""
        if self.none:
            return 0.0
        return self.scale * (DEPTH if self.heavy else np.sqrt(2 * DEPTH))
