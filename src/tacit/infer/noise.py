"""The law of the noise in a released number, for inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.spec.errors import ModelError
from tacit.spec.release import Noise

DEPTH = 40.0  # weights e^-40 below the largest are left out
_HEAVY = {
    **dict.fromkeys(("laplace", "discrete_laplace"), True),
    **dict.fromkeys(("gaussian", "discrete_gaussian", "none"), False),
}


@dataclass(frozen=True)
class Law:
    """The noise's log density up to a constant; discrete laws have the same one at integers."""

    family: str
    scale: float

    @classmethod
    def of(cls, noise: Noise) -> Law:
        """Return the law of a released number."""
        return cls(noise.family, noise.scale)

    @property
    def none(self) -> bool:
        return self.family == "none"

    @property
    def heavy(self) -> bool:
        """Whether the tails are Laplace's, e^-|x|, rather than Gaussian, e^-x^2."""
        if self.family not in _HEAVY:
            raise ModelError(f"No inference knows noise of the law {self.family!r}.")
        return _HEAVY[self.family]

    def log(self, error: np.ndarray) -> np.ndarray:
        if self.heavy:
            return -np.abs(error) / self.scale
        return -0.5 * (error / self.scale) ** 2

    @property
    def reach(self) -> float:
        """The distance at which the density has fallen by e^-40."""
        if self.none:
            return 0.0
        return self.scale * (DEPTH if self.heavy else np.sqrt(2 * DEPTH))
