"""Draws of latent classes' tables: rows are assigned behind the wall, counted, and drawn from.

Assignments are made anew for each draw and never leave. Probabilities leave as multiples of 2^-40.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import calibrate_range
from tacit.accounting.latent import latent_range
from tacit.draws.conjugate import to_grid
from tacit.draws.draw import FLOAT_DRAW, Draw, exponential, uniforms
from tacit.laws import truncated_dirichlet
from tacit.laws.truncated_dirichlet import LogGamma
from tacit.laws.uniform import Uniform
from tacit.sources.data import AnySnapshot, Data, load
from tacit.sources.loaded import Loaded
from tacit.sources.rows import Rows
from tacit.spec.columns import Categorical, Column, Tokens
from tacit.spec.draws import GRID, LEAST_TRUNCATION, MOST_LEVELS
from tacit.spec.errors import QueryError
from tacit.spec.latent_tables import WEIGHTS, LatentTables
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy
from tacit.wall.statistics.statistic import Statistic

_NUMBERS = 2**22  # rows or words that are assigned together, times classes
_MOST_WORDS = 10**4  # of a document: one must not be able to fill the memory
_ROUNDS = 8  # of a document's own Gibbs sampler: topics of its words, and their proportions
_SMALL = 1e-300


@dataclass(frozen=True)
class LatentAnswer(Draw):
    """A draw of tables; its statistic has the rows themselves, which are assigned by `sample`."""

    query: LatentTables
    stepwise = True

    @property
    def documents(self) -> bool:
        return isinstance(self.schema[self.query.columns[0]], Tokens)

    @property
    def largest_prior(self) -> float:
        return self.query.prior

    def calibrate(self, mechanism: Any) -> Calibration:
        found = calibrate_range(exponential(mechanism), self.span, *self.grids)
        return replace(found, noise=self.at_temperature(found.noise[0].scale))

    def evaluate(self, snapshot: AnySnapshot, noise: tuple[Noise, ...]) -> Statistic:
        return _integers(load(snapshot, self.schema, self.query.columns))

    def evaluate_step(self, loaded: Loaded) -> Statistic:
        """The rows, read once in a lease."""
        columns = self.query.columns
        return loaded.once((LatentTables, columns), lambda: _integers(loaded.rows(columns)))

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        uniform, query, drawn = partial(uniforms, entropy), self.query, []
        with np.errstate(all="ignore"):
            for at in self.concentrations(statistic, noise[0].scale, uniform):
                levels = at.shape[1]
                least = query.truncation / levels
                one = np.ones_like(at)
                p = truncated_dirichlet.sample(at, least, uniform) if levels > 1 else one
                drawn.append(to_grid(p, least).ravel())
        return np.concatenate(drawn)

    def concentrations(
        self, statistic: Statistic, temperature: float, uniform: Uniform
    ) -> list[np.ndarray]:
        """For each table the Dirichlet laws drawn from, shape (classes, levels), given new z."""
        # proof: latent-range. Only counts / temperature depend on the data.
        counts = self.assigned(statistic, uniform)
        return [self.query.prior + counts[name] / temperature for name in self.query.drawn]

    def assigned(self, statistic: Statistic, uniform: Uniform) -> dict[str, np.ndarray]:
        """How often each class has each level, all rows or words assigned at random."""
        # proof: latent-assigned. A unit's assignments depend on its own rows and what is public.
        query, width = self.query, 3 if self.documents else len(self.query.columns)
        rows = statistic.integers.reshape(-1, width)
        assign = _assigned_words if self.documents else _assigned_rows
        counts = {
            name: np.zeros((query.classes, query.count_levels(name))) for name in query.columns
        }
        counts[WEIGHTS] = np.zeros((1, query.classes))
        size = max(1, _NUMBERS // query.classes)
        for part in _chunks(rows, size, self.documents):
            assign(query, part, counts, uniform)
        return counts


def _integers(data: Data) -> Statistic:
    """Levels of each row, -1 for a missing one; of documents (document, word, count)."""
    if isinstance(data, Rows):
        codes = np.where(np.isfinite(data.values), data.values, -1.0)
        return Statistic(codes.astype(np.int64).ravel(), data.units)
    document = np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
    counts = np.floor(data.weights).astype(np.int64)  # of one cut short, whole words
    triples = np.column_stack([document, data.words, counts])
    return Statistic(triples[counts > 0].ravel(), data.units)


def _chunks(rows: np.ndarray, size: int, documents: bool) -> list[np.ndarray]:
    """Some rows at a time, a document never in two parts."""
    if not len(rows):
        return []
    if not documents:
        return np.array_split(rows, math.ceil(len(rows) / size))
    first = np.flatnonzero(np.append(True, rows[1:, 0] != rows[:-1, 0]))
    words = np.add.reduceat(rows[:, 2], first)
    part = np.cumsum(words) // size
    return np.split(rows, first[1:][part[1:] != part[:-1]])


def _assigned_rows(
    query: LatentTables, codes: np.ndarray, counts: dict[str, np.ndarray], uniform: Uniform
) -> None:
    """Add rows to the counts, each in a class drawn given its levels."""
    log = np.tile(np.log(query.weights), (len(codes), 1))
    for table, levels in zip(query.probabilities, codes.T, strict=True):
        seen = levels >= 0  # a missing level says nothing, and adds nothing
        log[seen] += np.log(table).T[levels[seen]]
    z = _categories(np.exp(log - log.max(axis=1, keepdims=True)), uniform)
    counts[WEIGHTS] += np.bincount(z, minlength=query.classes)
    for name, levels in zip(query.columns, codes.T, strict=True):
        seen = levels >= 0
        counts[name] += _table(z[seen], levels[seen], counts[name].shape)


def _assigned_words(
    query: LatentTables, triples: np.ndarray, counts: dict[str, np.ndarray], uniform: Uniform
) -> None:
    """Add words to the counts, each in a topic drawn given its document.

    The document's sampler starts at the prior's mean proportions. How near it comes to their
    posterior is a matter of accuracy: any rule would do that looks at the document alone.
    """
    _, document = np.unique(triples[:, 0], return_inverse=True)
    document = np.repeat(document.ravel(), triples[:, 2])
    words, many = np.repeat(triples[:, 1], triples[:, 2]), document[-1] + 1
    given = query.probabilities[0].T[words]
    theta = np.tile(query.weights / query.weights.sum(), (many, 1))
    for turn in range(_ROUNDS):
        z = _categories(theta[document] * given, uniform)
        if turn < _ROUNDS - 1:
            at = query.weights + _table(document, z, (many, query.classes))
            log = LogGamma.of(at, np.ones_like(at), -1e9, 700.0).sample(uniform)
            theta = np.maximum(np.exp(log - log.max(axis=1, keepdims=True)), _SMALL)
            theta /= theta.sum(axis=1, keepdims=True)
    (table,) = (counts[name] for name in query.columns)
    table += _table(z, words, table.shape)


def _table(row: np.ndarray, column: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """How often each pair occurs."""
    return np.bincount(row * shape[1] + column, minlength=math.prod(shape)).reshape(shape)


def _categories(weight: np.ndarray, uniform: Uniform) -> np.ndarray:
    """A class for each row, with probability proportional to its weight."""
    below = np.cumsum(weight, axis=1)
    at = uniform(len(weight)) * below[:, -1]
    return np.minimum((at[:, None] > below).sum(axis=1), weight.shape[1] - 1)


def resolve_latent(query: LatentTables, schema: Schema) -> LatentAnswer:
    """Look up what is public. Opens no data."""
    columns = tuple(schema[name] for name in query.columns)
    first = columns[0]
    documents = len(columns) == 1 and isinstance(first, Tokens)
    if not documents and not all(isinstance(column, Categorical) for column in columns):
        raise QueryError("Expected Categorical columns, or a single column of Tokens.")
    if isinstance(first, Tokens) and first.max_length > _MOST_WORDS:
        raise QueryError(f"Expected Tokens(..., max_length={_MOST_WORDS}) or less for a draw.")
    if documents and WEIGHTS in query.drawn:
        raise QueryError(f"Expected no {WEIGHTS!r} for documents: each has proportions of its own.")
    each = Axis("class", range(query.classes))
    levels = {name: _labels(column) for name, column in zip(query.columns, columns, strict=True)}
    for name in query.columns:
        if len(levels[name]) != query.count_levels(name):
            raise QueryError(f"Expected a table of {len(levels[name])} levels for {name!r}.")
    most = max(map(query.count_levels, query.drawn))
    if most > min(MOST_LEVELS, query.truncation / LEAST_TRUNCATION):
        raise QueryError(
            f"Expected a larger truncation than {query.truncation}: with {most} levels the "
            f"smallest probability would be below {LEAST_TRUNCATION:g}."
        )
    blocks = tuple(
        Block(name, (each,)) if name == WEIGHTS else Block(name, (each, Axis(name, levels[name])))
        for name in query.drawn
    )
    span = latent_range(query, schema)
    return LatentAnswer(query, schema, blocks, span, (GRID,) * len(blocks), (FLOAT_DRAW,))


def _labels(column: Column) -> tuple[Any, ...]:
    return column.vocabulary if isinstance(column, Tokens) else column.labels
