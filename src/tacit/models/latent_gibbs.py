"""Gibbs sampling of latent classes: public tables, and assignments that stay behind the wall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.checks import set_fields
from tacit.spec.draws import checked_share
from tacit.spec.gibbs import Values
from tacit.spec.latent_tables import WEIGHTS, LatentTables
from tacit.spec.release import Release

_START = 2.0  # concentration of the initial tables: unlike one another, and not extreme


@dataclass(frozen=True)
class LatentBlocks:
    """Tables of classes by column, and the classes' probabilities unless `weights` fixes them.

    `levels` has the number of each column's levels. A table is a block.
    """

    levels: Mapping[str, int]
    classes: int
    prior: float
    truncation: Any
    weights: np.ndarray | None = None
    together = True

    def __post_init__(self) -> None:
        set_fields(self, truncation=checked_share(self.truncation))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.levels) if self.weights is not None else (WEIGHTS, *self.levels)

    def start(self, rng: np.random.Generator) -> Values:
        flat = np.full(self.classes, 1 / self.classes)
        found = {WEIGHTS: flat if self.weights is None else self.weights}
        for name, count in self.levels.items():
            drawn = rng.dirichlet(np.full(count, _START), size=self.classes)
            found[name] = self.truncation / count + (1 - self.truncation) * drawn
        return found

    def query(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator | None = None
    ) -> LatentTables:
        tables = tuple(values[name] for name in self.levels)
        given = tuple(self.levels), values[WEIGHTS], tables
        return LatentTables(*given, names, self.prior, self.truncation)

    def read(
        self, values: Values, names: tuple[str, ...], rng: np.random.Generator, release: Release
    ) -> Values:
        return {**values, **{name: release.table(name).value for name in names}}


def matched(kept: Sequence[Values], columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Return draws of all tables (draw, class, ...), classes renumbered alike.

    Each draw is matched to the mean of those before it, from the last one backwards, by its tables.
    """
    from scipy.optimize import linear_sum_assignment

    tables = [np.concatenate([values[name] for name in columns], axis=1) for values in kept]
    order = np.empty((len(kept), len(tables[0])), int)
    total = np.zeros_like(tables[0])
    for i in range(len(kept) - 1, -1, -1):
        likeness = np.sqrt(total + 1e-12) @ np.sqrt(tables[i]).T
        order[i] = linear_sum_assignment(likeness, maximize=True)[1]
        total += tables[i][order[i]]
    names = (WEIGHTS, *columns)
    return {name: np.stack([v[name][o] for v, o in zip(kept, order)]) for name in names}


def latent_note(what: str) -> str:
    """What a certificate says of assignments that are not tempered."""
    return (
        f"{what} are assigned behind the wall at temperature 1 for each update, and forgotten: the "
        "chain comes to a law somewhat narrower than the tempered one, and wider than the posterior"
    )
