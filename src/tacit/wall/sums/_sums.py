"""Bounded sums: the map is compiled and checked first, then charged for, then run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.sums import MOST_STEPS, calibrate_sum, exact_noise
from tacit.spec.columns import Tokens
from tacit.spec.errors import QueryError
from tacit.spec.maps import JaxMap, NamedMap, NumbaMap, SparseMap, SqlMap
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound, BoundedSum
from tacit.wall.chance._noise import Statistic, Words, noised
from tacit.wall.data._documents import Documents, DocumentSource
from tacit.wall.data._rows import Rows, load_rows
from tacit.wall.data._source import Source
from tacit.wall.data._texts import TextSource
from tacit.wall.sums._clip import limits_of
from tacit.wall.sums._jax import JaxKernel, jax_kernel
from tacit.wall.sums._maps import (
    NumbaKernel,
    SparseKernel,
    fixed_state,
    kind_of,
    numba_kernel,
    places_of,
    sparse_kernel,
    tried,
)
from tacit.wall.sums._sql import SQL_STEPS, SqlKernel, sql_kernel, sum_in_engine

Kernel = NumbaKernel | SparseKernel | JaxKernel | SqlKernel
Data = Rows | Documents
AnySource = Source | DocumentSource | TextSource
_MOST_PASSED = 64
_MANY = 3072  # units from which longer chunks are faster


@dataclass(frozen=True)
class ResolvedSum:
    """A query whose map has been compiled: what one unit can contribute and how it is summed.

    `bounds` are those of one unit: for a `SqlMap`, which bounds rows, as many times a row's as a
    unit has rows.
    """

    query: BoundedSum
    schema: Schema
    blocks: tuple[Block, ...]
    bounds: tuple[Bound, ...]
    kernel: Kernel
    state: Any

    @property
    def most_steps(self) -> int:
        return SQL_STEPS if isinstance(self.kernel, SqlKernel) else MOST_STEPS

    def calibrate(self, mechanism: Laplace | Gaussian) -> Calibration:
        return calibrate_sum(mechanism, self.bounds, self.schema.neighbours, self.most_steps)

    def exact(self) -> tuple[Noise, ...]:
        return exact_noise(self.bounds, self.most_steps)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self.kernel.assumptions if isinstance(self.kernel, JaxKernel) else ()

    def bound(self, noise: Noise) -> dict[str, Any]:
        return {}  # the blocks of the query say it

    def evaluate(self, source: AnySource, noise: tuple[Noise, ...]) -> Statistic:
        if isinstance(self.kernel, SqlKernel):
            assert isinstance(source, Source)
            found = sum_in_engine(self.kernel, self.query, self.schema, source, noise)
            return Statistic(*found)
        data = load(source, self.schema, self.query.columns)
        return Statistic(self.sum(data, np.arange(data.units), noise), data.units)

    def sample(self, statistic: Statistic, noise: tuple[Noise, ...], words: Words) -> np.ndarray:
        return noised(statistic, noise, self.blocks, words)

    def at(self, state: Any) -> ResolvedSum:
        """The same map and bounds at another state."""
        kernel, query = self.kernel, self.query.at(state)
        if isinstance(kernel, JaxKernel):
            kernel, state = kernel.at(state)
        else:
            state = fixed_state(state)
            if kind_of(state) != kind_of(self.state):
                kernel, state = _compiled(query, self.schema)
            _check_places(query, self.schema, state)
        other = object.__new__(ResolvedSum)
        other.__dict__.update(self.__dict__, query=query, kernel=kernel, state=state)
        return other

    def start(
        self, data: Data, units: np.ndarray, noise: tuple[Noise, ...]
    ) -> Callable[[], np.ndarray]:
        """Begin with the sum over some units, and return what waits for it, in steps."""
        kernel = self.kernel
        assert not isinstance(kernel, SqlKernel)
        limits = limits_of(self.bounds, noise)
        # proof: maps. Neighbours have as many units in the same batch.
        public = self.schema.neighbours == "replace_one"
        if isinstance(kernel, JaxKernel) and public and len(units) >= _MANY:
            kernel = kernel.wide()
        return kernel.start(data, units, self.state, limits)  # type: ignore[arg-type]

    def sum(self, data: Data, units: np.ndarray, noise: tuple[Noise, ...]) -> np.ndarray:
        """The sum over some units, in steps."""
        return self.start(data, units, noise)()


def load(source: AnySource, schema: Schema, columns: tuple[str, ...]) -> Data:
    """What a map runs over, read once."""
    if isinstance(source, (DocumentSource, TextSource)):
        return source.read()
    return load_rows(source, schema, columns)


def resolve_sum(query: BoundedSum, schema: Schema) -> ResolvedSum:
    """Check the query against the schema and compile its map. Opens no data."""
    for name in query.columns:
        wanted = isinstance(query.map, SparseMap)
        if isinstance(schema[name], Tokens) != wanted:
            raise QueryError(
                f"Column {name!r} is of {type(schema[name]).__name__}: a SparseMap reads one "
                "column of Tokens, and every other map reads the other columns."
            )
    bounds = query.bounds
    if isinstance(query.map, SqlMap):
        rows = schema.max_rows_per_unit  # proof: sums-rows
        bounds = tuple(replace(bound, clip=bound.clip * rows) for bound in bounds)
    if isinstance(query.map, SparseMap):
        (tokens,) = (schema[name] for name in query.columns)
        assert isinstance(tokens, Tokens)
        shape = (len(tokens.vocabulary), query.map.width)
        if not query.map.some and bounds[0].shape != shape:
            raise QueryError(f"Expected size={shape}: a row for each word of the vocabulary.")
        if len(bounds[0].shape) != 2 or bounds[0].shape[1] != query.map.width:
            raise QueryError(f"Expected size=(words, {query.map.width}).")
        if bounds[0].geometry == "box":
            raise QueryError('Expected another geometry than "box" for a SparseMap.')
    blocks = tuple(_block(name, bound) for name, bound in query.blocks)
    kernel, state = _compiled(query, schema)
    return ResolvedSum(query, schema, blocks, bounds, kernel, state)


def _block(name: str, bound: Bound) -> Block:
    axes = tuple(Axis(f"{name}.{i}", range(size)) for i, size in enumerate(bound.shape))
    return Block(name, axes)


def _compiled(query: BoundedSum, schema: Schema) -> tuple[Kernel, Any]:
    """The compiled map, and the state in the form it takes."""
    columns, state = [schema[name] for name in query.columns], query.state
    match query.map:
        case NumbaMap() | SparseMap():
            state = fixed_state(state)
            loop: NumbaKernel | SparseKernel = (
                numba_kernel(query.map)
                if isinstance(query.map, NumbaMap)
                else sparse_kernel(query.map)
            )
            _check_places(query, schema, state)
            trial = (kind_of(state), tuple(columns), query.blocks)
            if trial not in loop.passed:
                if len(loop.passed) >= _MOST_PASSED:  # a clip that adapts leaves others behind
                    loop.passed.clear()
                tried(loop, columns, state, limits_of(query.bounds, exact_noise(query.bounds)))
                loop.passed.add(trial)
            return loop, state
        case JaxMap():
            shapes = tuple((name, bound.shape) for name, bound in query.blocks)
            return jax_kernel(query.map, len(columns), shapes)(state)
        case SqlMap():
            return sql_kernel(query), state
        case NamedMap(name=name):
            raise QueryError(f"Expected the map {name} itself: a saved release keeps its name.")


def _check_places(query: BoundedSum, schema: Schema, state: Any) -> None:
    """The loop adds where a public state says: within the sum, and each word at its own place.

    Two words at one place would add up there, to more than the norm of what was clipped.
    """  # proof: sums-places
    if not (isinstance(query.map, SparseMap) and query.map.some):
        return
    (column,) = (schema[name] for name in query.columns)
    assert isinstance(column, Tokens)
    words, rows = len(column.vocabulary), query.bounds[0].shape[0]
    places = places_of(state)
    if places.shape == (words,) and places.dtype.kind == "i":
        taken = places[places != -1]
        if taken.size == np.unique(taken).size and np.all((taken >= 0) & (taken < rows)):
            return
    raise QueryError(
        f"Expected a state that begins with whole numbers from -1 to {rows - 1}, one for each of "
        f"the {words} words, and none but -1 twice."
    )
