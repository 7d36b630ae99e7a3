"""Synthetic columns for the contract test: many levels and few, wide bounds and narrow ones."""

from __future__ import annotations

import numpy as np

from tacit.spec.columns import Categorical, Column, Integer, Real, Tokens


def some_columns(rng: np.random.Generator, count: int) -> tuple[Column, ...]:
    """Columns of all types that a `Design` takes."""
    return tuple(_column(rng, f"x{i}") for i in range(count))


def numbers(rng: np.random.Generator, count: int) -> tuple[Column, ...]:
    """Real and Integer columns."""
    return tuple(_number(rng, f"x{i}") for i in range(count))


def labels(rng: np.random.Generator, count: int, most: int = 5) -> tuple[Categorical, ...]:
    """Categorical columns of 1 to `most` levels."""
    return tuple(
        Categorical(f"x{i}", tuple(range(int(rng.integers(1, most + 1))))) for i in range(count)
    )


def documents(rng: np.random.Generator) -> Tokens:
    """A small vocabulary and a maximal length."""
    words = tuple(f"w{i}" for i in range(int(rng.integers(1, 12))))
    return Tokens("text", words, max_length=int(rng.choice([1, 20, 5000])))


def scaling(column: Column) -> tuple[float, float]:
    """The middle of a column's numbers, and half their width or a bit more."""
    match column:
        case Real(low=low, high=high) | Integer(low=low, high=high):
            return low / 2 + high / 2, (high / 2 - low / 2) * (1 + 1e-9)
        case _:
            half = (len(column.labels) - 1) / 2
            return half, max(half, 0.5)


def _column(rng: np.random.Generator, name: str) -> Column:
    if rng.random() < 0.5:
        return _number(rng, name)
    return Categorical(name, tuple(range(int(rng.integers(2, 6)))))


def _number(rng: np.random.Generator, name: str) -> Column:
    if rng.random() < 0.3:
        low = int(rng.choice([-(2**53), -5, 0, 1900]))
        return Integer(name, low, low + int(rng.choice([1, 10, 10**6])))
    width = float(rng.choice([1e-3, 1.0, 1e3, 1e100]))
    return Real(name, -width, width * rng.uniform(0.1, 1))
