"""What a Gibbs sampler asks of a model: blocks of parameters, and a query that draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from tacit.spec.queries import Query
from tacit.spec.release import Release

Values = Mapping[str, np.ndarray]  # the public state of the sampler


class GibbsBlocks(Protocol):
    """Blocks of a model's parameters, and how each is drawn given the others.

    `names` are the blocks in the order of a sweep. Where `together`, all of them are independent
    given what the wall draws for itself, so that one query can draw several.
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def together(self) -> bool: ...

    def start(self, rng: np.random.Generator) -> Values:
        """The state before anything was asked, from public randomness."""
        ...

    def query(self, values: Values, names: tuple[str, ...], rng: np.random.Generator) -> Query:
        """The query that draws some blocks given the state; public draws are made by `rng`."""
        ...

    def read(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator, release: Release
    ) -> Values:
        """The state after the answer, with the same public draws."""
        ...
