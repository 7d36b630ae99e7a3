"""How a posterior is drawn from a release: post-processing, free of privacy cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from tacit.spec.checks import is_whole, one_of, whole_number
from tacit.spec.errors import ModelError

NoiseHandling = Literal["aware", "plugin"]


class SamplingOptions(TypedDict, total=False):
    """The keywords that `fit` and `model.posterior` take."""

    draws: int | None
    chains: int | None
    seed: int | None
    noise: NoiseHandling


@dataclass(frozen=True)
class Sampling:
    """`SamplingOptions`, checked. `seed` steers these draws and never the privacy noise.

    `noise="aware"` treats the true statistics as unknown; `noise="plugin"` projects the noisy
    ones onto the valid range and treats them as exact, as the papers do: overconfident.
    """

    draws: int = 1000
    chains: int = 4
    seed: int | None = None
    noise: NoiseHandling = "aware"

    @classmethod
    def of(cls, options: SamplingOptions) -> Sampling:
        unknown = set(options) - set(SamplingOptions.__annotations__)
        if unknown:
            known = ", ".join(SamplingOptions.__annotations__)
            raise ModelError(f"Unknown option {sorted(unknown)[0]!r}; there are {known}.")
        return cls(**{key: value for key, value in options.items() if value is not None})  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        whole_number(self.draws, "draws", most=10**7)
        whole_number(self.chains, "chains", most=10**7)
        if self.seed is not None and not is_whole(self.seed, 0, 2**1000):
            raise ModelError(f"Expected seed={self.seed!r} to be a whole number >= 0.")
        one_of(self.noise, "noise", ("aware", "plugin"), ModelError)
