"""An oracle of the wall: a releaser in plain Python, without noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.kernels import KERNELS, RowKernel
from tacit.spec.budget import Left
from tacit.spec.certificate import Certificate
from tacit.spec.columns import Categorical, Column, Integer, Real
from tacit.spec.errors import BudgetError, SchemaError
from tacit.spec.kernels import Kernel
from tacit.spec.keys import name_of
from tacit.spec.mechanisms import Mechanism
from tacit.spec.moments import ROWS, Moments, scale_of
from tacit.spec.packing import symmetric, upper
from tacit.spec.plan import Plan, Poisson, Subsampling, WithoutReplacement
from tacit.spec.programs import Program
from tacit.spec.protocols import Quote
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Axis, Block, Noise, Release
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound, BoundedSum, side_of
from tacit.wall.statistics.counts import resolve_counts
from tacit.wall.statistics.moments import resolve_moments

_FINE = 2.0**-40


class Rehearsal:
    """A releaser in plain Python: no engine, no noise, no privacy.

    It takes a mapping of clean columns and answers row by row: kernels and programs are called with
    one row at a time, and a unit's rows are added up and clipped in Python. A method that runs on
    it needs nothing but the `Releaser` protocol, and a wall that disagrees with it is wrong.
    Everything that comes out is stamped "public data".
    """

    def __init__(
        self, data: Mapping[str, Sequence[Any]], schema: Schema, *, seed: int | None = None
    ) -> None:
        self._schema = schema
        self._rng = np.random.default_rng(seed)
        names = [column.name for column in schema.columns]
        rows = [dict(zip(names, cells)) for cells in zip(*(data[name] for name in names))]
        owners = range(len(rows)) if schema.unit is None else data[schema.unit]
        units: dict[Any, list[dict[str, Any]]] = {}
        for owner, row in zip(owners, rows):
            units.setdefault(owner, []).append(row)
        self._units = list(units.values())
        if max(map(len, self._units), default=0) > schema.max_rows_per_unit:
            raise SchemaError("Expected no more rows of a unit than the schema allows.")

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Left | None:
        return None

    @property
    def n_units(self) -> int | None:
        return len(self._units) if self._schema.neighbours == "replace_one" else None

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        return Quote(None, (Noise("none", 0.0, 1.0),))

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """The exact answer."""
        return self._answer(query, self._units)

    def prepay(self, plan: Plan, *, name: str | None = None) -> RehearsedSteps:
        """Exact steps over sampled units."""
        return RehearsedSteps(self, plan)

    def _answer(self, query: Query, units: list[list[dict[str, Any]]]) -> Release:
        match query:
            case Counts():
                blocks = resolve_counts(query, self._schema).blocks
                value, grid = self._count(query, blocks, units), 1.0
            case Moments():
                blocks = resolve_moments(query, self._schema).blocks
                value, grid = self._moments(query, blocks, units), _FINE
            case BoundedSum():
                blocks = tuple(_block(name, bound) for name, bound in query.blocks)
                value, grid = self._sum(query, units), _FINE
            case _:
                raise BudgetError("A rehearsal answers counts and sums; tacit.Public draws.")
        public = self._schema.neighbours == "replace_one"
        return Release(
            integers=np.rint(value / grid).astype(np.int64),
            blocks=blocks,
            noise=(Noise("none", 0.0, grid),) * len(blocks),
            n=len(self._units) if public else None,
            schema=self._schema,
            query=query,
            certificate=self.certificate,
        )

    @property
    def certificate(self) -> Certificate:
        return Certificate(
            unit=self._schema.protects,
            neighbours=self._schema.neighbours,
            epsilon=Decimal("Infinity"),
            delta=Decimal(0),
            accountant="none",
            events=(),
            assumptions=("a rehearsal: no noise was added and nothing is private",),
            data="public data",
        )

    def _count(
        self, query: Counts, blocks: tuple[Block, ...], units: list[list[dict[str, Any]]]
    ) -> np.ndarray:
        tables = [np.zeros(block.shape) for block in blocks]
        for row in (row for unit in units for row in unit):
            for keys, block, table in zip(query.tables, blocks, tables):
                at = [
                    _labelled(key, _level(row[name_of(key)], self._schema[name_of(key)]))
                    for key in (*query.by, *keys)
                ]
                if not block.omitted or at[-1] in block.axes[-1].labels:
                    table[tuple(axis.labels.index(x) for axis, x in zip(block.axes, at))] += 1
        return np.concatenate([table.ravel() for table in tables])

    def _moments(
        self, query: Moments, blocks: tuple[Block, ...], units: list[list[dict[str, Any]]]
    ) -> np.ndarray:
        total = dict.fromkeys(query.names, 0.0)
        for row in (row for unit in units for row in unit):
            numbers = {name: _number(row[name], self._schema[name]) for name in query.columns}
            if not np.all(np.isfinite(list(numbers.values()))):
                continue
            total[ROWS] += 1
            for name, number in numbers.items():
                middle, half = scale_of(self._schema[name], query.centred)
                numbers[name] = (number - middle) / half
                total[name] += numbers[name]
            for product in query.names[1 + len(numbers) :]:
                first, second = product.split("*")
                total[product] += numbers[first] * numbers[second]
        return np.array([total[block.name] for block in blocks])

    def _sum(self, query: BoundedSum, units: list[list[dict[str, Any]]]) -> np.ndarray:
        columns = [self._schema[name] for name in query.columns]
        contribution = _contribution(query, columns)
        total = np.zeros(query.numbers)
        for unit in units:
            own = total * 0
            for row in unit:
                numbers = np.array([_number(row[c.name], c) for c in columns])
                if np.all(np.isfinite(numbers)):
                    found = contribution(numbers)
                    own += _of_row(found, query.bounds) if np.all(np.isfinite(found)) else 0.0
            total += _clipped(own, query.bounds)
        return total

    def sampled(self, sampling: Subsampling) -> list[list[dict[str, Any]]]:
        """Units as the plan samples them."""
        match sampling:
            case Poisson(rate=rate):
                chosen = np.flatnonzero(self._rng.random(len(self._units)) < rate)
            case WithoutReplacement(size=size):
                chosen = self._rng.choice(len(self._units), size, replace=False)
            case _:
                chosen = np.arange(len(self._units))
        return [self._units[i] for i in chosen]


@dataclass
class RehearsedSteps:
    """The steps of a plan, answered exactly."""

    releaser: Rehearsal
    plan: Plan
    taken: int = 0

    @property
    def steps_left(self) -> int:
        return self.plan.count - self.taken

    @property
    def certificate(self) -> Certificate:
        return self.releaser.certificate

    def release(self, query: Query) -> Release:
        samplings = self._samplings()
        for _ in range(self.taken):
            next(samplings)
        try:
            sampling = next(samplings)
        except StopIteration:
            raise BudgetError(f"All {self.plan.count} steps of this lease are used.") from None
        self.taken += 1
        return self.releaser._answer(query, self.releaser.sampled(sampling))

    def _samplings(self) -> Iterator[Subsampling]:
        for steps in self.plan.steps:
            yield from (steps.sampling for _ in range(steps.count))


def _contribution(
    query: BoundedSum, columns: Sequence[Column]
) -> Callable[[np.ndarray], np.ndarray]:
    """What one row contributes, as a function of its numbers."""
    if isinstance(query.kernel, Program):
        program, leaves = query.kernel, query.kernel.leaves(query.state)

        def by_program(numbers: np.ndarray) -> np.ndarray:
            with program.precision():
                row = numbers.astype(program.dtype)
                return np.asarray(_compiled(program)(row, leaves), float)

        return by_program
    kernel = _row_kernel(query.kernel)
    state = kernel.frozen(query.state)
    kernel.check(state, columns, [bound.shape for bound in query.bounds])

    def by_kernel(numbers: np.ndarray) -> np.ndarray:
        out = np.zeros(query.numbers)
        kernel.function(numbers, state, out)
        return out

    return by_kernel


def _row_kernel(kernel: Kernel) -> RowKernel:
    found = KERNELS.get(kernel.name)
    if not isinstance(found, RowKernel):
        raise BudgetError(f"A rehearsal runs kernels of rows, and {kernel.name!r} is none.")
    return found


@lru_cache(maxsize=16)
def _compiled(program: Program) -> Callable[[Any, Any], Any]:
    import jax

    return jax.jit(program.function())


def _block(name: str, bound: Bound) -> Block:
    return Block(name, tuple(Axis(f"{name}.{i}", range(n)) for i, n in enumerate(bound.shape)))


def _clipped(values: np.ndarray, bounds: Sequence[Bound]) -> np.ndarray:
    """A contribution within its bounds, as the documentation of `Bound` says it."""
    parts, start = [], 0
    for bound in bounds:
        part = values[start : start + bound.numbers]
        start += bound.numbers
        if bound.geometry not in ("free", "outer"):
            part = np.maximum(part, 0)
        if bound.geometry == "box":
            parts.append(np.minimum(part, bound.clip))
            continue
        norm = np.abs(part).sum() if bound.norm == "l1" else np.linalg.norm(part)
        parts.append(part * (bound.clip / norm) if norm > bound.clip else part)
    return np.concatenate(parts)


def _labelled(key: Any, level: Any) -> Any:
    """The label of a key at a level of its column; None stays missing."""
    return level if isinstance(key, str) or level is None else level in key.levels


def _of_row(values: np.ndarray, bounds: Sequence[Bound]) -> np.ndarray:
    """What a row adds to its unit's sum: outer products are made of one of their rows."""
    parts = np.split(values, np.cumsum([bound.numbers for bound in bounds])[:-1])
    made = [_outer(p) if b.geometry == "outer" else p for p, b in zip(parts, bounds, strict=True)]
    return np.concatenate(made)


def _outer(part: np.ndarray) -> np.ndarray:
    """The outer product that the row with the largest diagonal entry gives."""
    matrix = symmetric(part, side_of(part.size))
    pivot = int(np.argmax(np.diag(matrix)))
    row, largest = matrix[pivot], matrix[pivot, pivot]
    return upper(np.outer(row, row) / largest) if largest > 0 else np.zeros_like(part)


def _level(cell: Any, column: Column) -> Any:
    """The label of a clean cell, its default, or None."""
    known = column.labels
    return cell if cell in known else column.default


def _number(cell: Any, column: Column) -> float:
    """The number that a kernel sees."""
    match column:
        case Real(low=low, high=high) | Integer(low=low, high=high):
            inside = cell is not None and low <= cell <= high
            other = np.nan if column.default is None else float(column.default)
            return float(cell) if inside else other
        case Categorical():
            level = _level(cell, column)
            return np.nan if level is None else float(column.labels.index(level))
        case _:
            raise SchemaError(f"A rehearsal does not read {type(column).__name__} columns.")
