"""Features of a row as one vector of norm at most 1, by public bounds and levels alone.

The first number stands for the constant. A numeric column is scaled by its bounds to [-1, 1]. A
column of k levels has k numbers: 1 at its level, less 1 / k everywhere, so that they sum to zero
and have a squared norm of 1 - 1 / k; one of two levels has a single number, -1 or 1 over the root
of 2. All of it is divided by `radius`, the largest norm that such a row can have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.spec.columns import Categorical, Column, Integer, Real
from tacit.spec.errors import ModelError
from tacit.spec.moments import scale_of
from tacit.spec.schema import Schema

CONSTANT = "(constant)"


class Encoding(NamedTuple):
    """What compiled code needs to encode a row: `base`, and what each feature adds to it.

    Feature f of value v adds (v - midpoint[f]) * scale[f] at position[f] if it has no levels, else
    scale[f] at position[f] + v.
    """

    base: np.ndarray
    position: np.ndarray
    levels: np.ndarray
    midpoint: np.ndarray
    scale: np.ndarray

    def rows(self, values: np.ndarray) -> np.ndarray:
        """The vectors of rows."""
        vectors = np.tile(self.base, (len(values), 1))
        each = np.arange(len(values))
        for f, position in enumerate(self.position):
            if self.levels[f]:
                vectors[each, position + values[:, f].astype(np.int64)] += self.scale[f]
            else:
                vectors[:, position] += (values[:, f] - self.midpoint[f]) * self.scale[f]
        return vectors


@dataclass(frozen=True, eq=False)
class Design:
    """How the features of a schema become a vector, and what its coefficients mean."""

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    encoding: Encoding
    radius: float

    @classmethod
    def of(cls, features: Sequence[str], schema: Schema) -> Design:
        columns = tuple(schema[name] for name in features)
        names, base, parts = [CONSTANT], [1.0], list[tuple[int, int, float, float]]()
        norm = 1.0
        for column in columns:
            position = len(names)
            match column:
                case Categorical(levels=(_, second)):
                    names.append(f"{column.name}[{second}]")
                    base.append(0.0)
                    parts.append((position, 0, 0.5, math.sqrt(2)))
                    norm += 0.5
                case Categorical(levels=levels) if len(levels) > 2:
                    names += [f"{column.name}[{level}]" for level in levels]
                    base += [-1 / len(levels)] * len(levels)
                    parts.append((position, len(levels), 0.0, 1.0))
                    norm += 1 - 1 / len(levels)
                case Real() | Integer():
                    midpoint, half = scale_of(column)
                    names.append(column.name)
                    base.append(0.0)
                    parts.append((position, 0, midpoint, 1 / half))
                    norm += 1
                case _:
                    raise ModelError(
                        f"Expected feature {column.name!r} to be Real, Integer, or Categorical "
                        "with two levels or more."
                    )
        radius = math.sqrt(norm) * (1 + 1e-12)
        positions, counts, midpoints, scales = (np.array(part) for part in zip(*parts, strict=True))
        encoding = Encoding(np.array(base) / radius, positions, counts, midpoints, scales / radius)
        return cls(columns, tuple(names), encoding, radius)

    @property
    def size(self) -> int:
        return len(self.names)

    def rows(self, values: np.ndarray) -> np.ndarray:
        """Vectors of rows that hold the features as maps see them: numbers, positions of levels."""
        return self.encoding.rows(values)

    def columns_in_units(self, values: np.ndarray) -> np.ndarray:
        """Return feature columns (row, name) in original units: numbers, and 1 at a row's level.

        The coefficients of `in_units` multiply these.
        """
        code = self.encoding
        zeros, none = np.zeros(self.size - 1), np.zeros_like(code.scale)
        unscaled = Encoding(zeros, code.position - 1, code.levels, none, np.ones_like(code.scale))
        return unscaled.rows(values)

    def in_units(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intercept and coefficients (..., names) in original units, from those of the vectors.

        The coefficients of levels are differences: from the mean of them all, or for two levels
        from the first one.
        """
        code = self.encoding
        coef, intercept = theta[..., 1:].copy(), theta[..., 0] * code.base[0]
        for f, position in enumerate(code.position - 1):
            part = coef[..., position : position + max(code.levels[f], 1)]  # a view
            part *= code.scale[f]
            if code.levels[f]:
                part -= part.mean(axis=-1, keepdims=True)
            elif isinstance(self.columns[f], Categorical):
                intercept = intercept - part[..., 0] / 2
            else:
                intercept = intercept - part[..., 0] * code.midpoint[f]
        return intercept, coef

    def from_units(self, intercept: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """The coefficients of the vectors (..., size) that `in_units` gave these."""
        code = self.encoding
        theta, constant = np.array(coef, float), np.array(intercept, float)
        for f, position in enumerate(code.position - 1):
            part = theta[..., position : position + max(code.levels[f], 1)]  # a view
            if isinstance(self.columns[f], Categorical) and not code.levels[f]:
                constant = constant + part[..., 0] / 2
            elif not code.levels[f]:
                constant = constant + part[..., 0] * code.midpoint[f]
            part /= code.scale[f]
        return np.concatenate([constant[..., None] / code.base[0], theta], axis=-1)
