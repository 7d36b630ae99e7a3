"""Bounded sums: a kernel or a program over units, each unit's share clipped and added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.calibrate import calibrate_sum, exact_noise
from tacit.kernels import KERNELS, DocumentKernel
from tacit.sources.data import AnySnapshot, Data, load
from tacit.sources.documents import Documents
from tacit.sources.rows import Rows
from tacit.sources.workers import Shards
from tacit.spec.columns import Column, Tokens
from tacit.spec.errors import QueryError
from tacit.spec.kernels import Contribution, Kernel
from tacit.spec.programs import Program
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound, BoundedSum
from tacit.wall.noise import Entropy, noised
from tacit.wall.statistics.statistic import Statistic, check_additive
from tacit.wall.steps.clip import limits_of
from tacit.wall.steps.loops import sum_documents, sum_rows
from tacit.wall.steps.programs import ASSUMPTION, MANY, compiled, refuse_debugging, started

Pending = Callable[[], np.ndarray]
MOST_OUTER_ROWS = 1000


@dataclass(frozen=True)
class BoundedSums:
    """A query whose kernel and state were checked: what one unit adds, and how it is summed."""

    query: BoundedSum
    schema: Schema
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    state: tuple[np.ndarray, ...] = field(repr=False)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return self.query.bounds

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (ASSUMPTION,) if isinstance(self.query.kernel, Program) else ()

    def calibrate(self, mechanism: Any) -> Calibration:
        check_additive(mechanism)
        return calibrate_sum(mechanism, self.bounds, self.schema.neighbours)

    def exact(self) -> tuple[Noise, ...]:
        return exact_noise(self.bounds)

    def bound(self, noise: Noise) -> dict[str, Any]:
        return {}  # the blocks of the query say it

    def evaluate(self, snapshot: AnySnapshot, noise: tuple[Noise, ...]) -> Statistic:
        data = load(snapshot, self.schema, self.query.columns)
        return Statistic(self.sum(data, np.arange(data.units), noise), data.units)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        return noised(statistic, noise, self.blocks, entropy)

    def at(self, state: Any) -> BoundedSums:
        """This sum at another state, which is checked like the first."""
        query = self.query.at(state)
        other = object.__new__(BoundedSums)
        other.__dict__.update(self.__dict__, query=query, state=_checked_state(query, self.columns))
        return other

    def start(self, data: Data | Shards, units: np.ndarray, noise: tuple[Noise, ...]) -> Pending:
        """Start the sum over some units; return a function that waits for it, in grid units."""
        # Neighbours have as many units in the same batch where that is public.
        many = self.schema.neighbours == "replace_one" and len(units) >= MANY
        width = self.bounds[0].shape[-1]
        step = Step(self.query.kernel, self.state, limits_of(self.bounds, noise), width, many)
        if isinstance(data, Shards):  # proof: workers
            return data.start(summed, units, step)
        return _begun(data, units, step)

    def sum(self, data: Data, units: np.ndarray, noise: tuple[Noise, ...]) -> np.ndarray:
        """The sum over some units, in grid units."""
        return self.start(data, units, noise)()


class Step(NamedTuple):
    """All it takes to sum over units, wherever they are held."""

    kernel: Contribution
    state: tuple[np.ndarray, ...]
    limits: np.ndarray
    width: int
    many: bool


def summed(data: Data, units: np.ndarray, step: Step) -> np.ndarray:
    """The sum over some units, in a worker, which cannot write to what it was sent either."""
    state, limits = tuple(map(np.array, step.state)), step.limits.copy()
    for array in (*state, limits):
        array.setflags(write=False)
    return _begun(data, units, step._replace(state=state, limits=limits))()


def _begun(data: Data, units: np.ndarray, step: Step) -> Pending:
    kernel, state, limits, width, many = step
    if isinstance(kernel, Program):
        assert isinstance(data, Rows)
        return started(compiled(kernel), data, units, state, limits, many=many)
    if isinstance(data, Documents):
        return lambda: sum_documents(kernel.name, data, units, state, limits, width)
    return lambda: sum_rows(kernel.name, data, units, state, limits)


def resolve_sum(query: BoundedSum, schema: Schema) -> BoundedSums:
    """Check the kernel, its state and the shapes against the schema. Opens no data."""
    columns = tuple(schema[name] for name in query.columns)
    state = _checked_state(query, columns)
    if isinstance(query.kernel, Program):
        _check_program(query, columns)
    outer = any(bound.geometry == "outer" for bound in query.bounds)
    if outer and schema.max_rows_per_unit > MOST_OUTER_ROWS:  # proof: sums-outer
        raise QueryError(f"Expected max_rows_per_unit <= {MOST_OUTER_ROWS} for outer products.")
    blocks = tuple(_block(name, bound) for name, bound in query.blocks)
    return BoundedSums(query, schema, columns, blocks, state)


STEPS: Mapping[type, Any] = {BoundedSum: resolve_sum}


def _block(name: str, bound: Bound) -> Block:
    axes = tuple(Axis(f"{name}.{i}", range(size)) for i, size in enumerate(bound.shape))
    return Block(name, axes)


def _check_program(query: BoundedSum, columns: tuple[Column, ...]) -> None:
    """Refuse a program that does not fit the columns and blocks, or that XLA cannot compile."""
    program = query.kernel
    assert isinstance(program, Program)
    if any(isinstance(column, Tokens) for column in columns):
        raise QueryError("Expected columns of numbers for a program, and no Tokens.")
    if (program.columns, program.size) != (len(columns), query.numbers):
        raise QueryError(
            f"Expected a program of {len(columns)} columns that gives {query.numbers} "
            f"numbers, got one of {program.columns} that gives {program.size}."
        )
    compiled(program)


def _checked_state(query: BoundedSum, columns: tuple[Column, ...]) -> tuple[np.ndarray, ...]:
    """The state in the form that the kernel or program takes; anything else is refused."""
    match query.kernel:
        case Kernel(name=name):
            kernel = KERNELS.get(name)
            if kernel is None:
                raise QueryError(f"No kernel {name!r}; there are {', '.join(KERNELS)}.")
            geometry = query.bounds[0].geometry
            if isinstance(kernel, DocumentKernel) and geometry in ("box", "outer"):
                raise QueryError(f'Expected another geometry than "{geometry}" for documents.')
            state = kernel.frozen(query.state)
            # proof: kernels. No index of the compiled code can fall outside what it is given.
            kernel.check(state, columns, [bound.shape for bound in query.bounds])
            return state
        case Program() as program:
            refuse_debugging()
            return program.leaves(query.state)
