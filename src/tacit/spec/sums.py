"""Sums of bounded contributions: one kernel, one or more blocks of numbers, a bound for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tacit.spec.checks import distinct_columns, is_whole, number, one_of, set_fields
from tacit.spec.errors import QueryError
from tacit.spec.kernels import Contribution, Kernel
from tacit.spec.plan import GEOMETRIES, Geometry
from tacit.spec.programs import Program, leaves_of, trace
from tacit.spec.wire import Record

Norm = Literal["l1", "l2"]
_MOST_NUMBERS = 10**8


@dataclass(frozen=True)
class Bound(Record):
    """What one unit may contribute to a block of numbers.

    The wall adds up the unit's rows and brings the sum within the bound:

    - "free": any signs, norm at most `clip`;
    - "nonnegative": negative numbers become 0, norm at most `clip`;
    - "simplex": negative numbers become 0, L1 norm at most `clip` (responsibilities);
    - "box": every number between 0 and `clip`;
    - "outer": a row's outer product g g', norm at most `clip`, as a vector of the same norm: the
      upper triangle row by row, entries off the diagonal times the root of 2 (second moments). Of
      what the kernel gives, the row with the largest diagonal entry counts: it is g times a number,
      and the rest follows from it.
    """

    size: int | tuple[int, ...]
    clip: float
    norm: Norm = "l2"
    geometry: Geometry = "free"

    def __post_init__(self) -> None:
        size = tuple(self.size) if isinstance(self.size, (tuple, list)) else self.size
        shape = size if isinstance(size, tuple) else (size,)
        whole = all(is_whole(n, 1, _MOST_NUMBERS) for n in shape)
        if not shape or not whole or math.prod(shape) > _MOST_NUMBERS:
            raise QueryError(f"Expected size={self.size!r} > 0, a whole number or a few of them.")
        one_of(self.geometry, "geometry", GEOMETRIES)
        one_of(self.norm, "norm", ("l1", "l2"))
        norm = {"simplex": "l1", "outer": "l2"}.get(self.geometry, self.norm)
        if self.geometry == "outer" and not (isinstance(size, int) and side_of(size)):
            raise QueryError(f"Expected size={self.size!r} to be p (p + 1) / 2 for outer products.")
        set_fields(self, size=size, clip=number(self.clip, "clip", 1e-100, 1e100), norm=norm)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,) if isinstance(self.size, int) else tuple(self.size)

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)

    @property
    def unit_norm(self) -> float:
        """The largest L2 norm of one unit's contribution."""
        if self.geometry == "box":
            return self.clip * math.sqrt(self.numbers)
        return self.clip


def side_of(numbers: int) -> int:
    """The p of a packed p by p matrix of p (p + 1) / 2 numbers; 0 if there is none."""
    side = (math.isqrt(8 * numbers + 1) - 1) // 2
    return side if side * (side + 1) // 2 == numbers else 0


@dataclass(frozen=True, eq=False)
class BoundedSum(Record):
    """The sum over units of what a kernel computes for them, each unit's share within bounds.

    Parameters
    ----------
    kernel
        A `Kernel`, a `Program`, or a function `f(row, state)` of one row in JAX, which is traced
        into a program here and now. It is fixed; what changes from step to step goes into `state`.
        In a row the columns stand in their order as numbers: reals and integers as they are,
        categories and periods as positions among their labels, counted from 0. A row with a
        missing value contributes nothing.
    columns
        The columns of a row, in the kernel's order.
    size, clip, norm, geometry
        The bound of a single block; see `Bound`.
    blocks
        Several blocks in one release: a mapping from names to `Bound`.
    state
        Public numbers that the kernel needs, such as the current parameters: an array, or tuples,
        lists and mappings of arrays. They are copied.

    Examples
    --------
    >>> import numpy as np
    >>> state = (np.array([25.0]), np.array([1.0]))  # how far from 25
    >>> query = BoundedSum(Kernel("columns.values"), "bmi", size=1, clip=35, state=state)
    >>> query.numbers
    1
    """

    kernel: Contribution
    columns: tuple[str, ...]
    blocks: tuple[tuple[str, Bound], ...]
    state: tuple[np.ndarray, ...]

    def __init__(
        self,
        kernel: Contribution | Callable[[Any, Any], Any],
        columns: str | tuple[str, ...] | list[str],
        *,
        size: int | tuple[int, ...] | None = None,
        clip: float | None = None,
        norm: Norm = "l2",
        geometry: Geometry = "free",
        blocks: Mapping[str, Bound] | None = None,
        state: Any = None,
    ) -> None:
        names = distinct_columns(columns)
        if blocks is None:
            if size is None or clip is None:
                raise QueryError(
                    "Expected size= and clip=, how many numbers a row gives and the largest norm "
                    "of a unit's share of their sum."
                )
            parts: tuple[tuple[str, Bound], ...] = (("sum", Bound(size, clip, norm, geometry)),)
        else:
            parts = tuple(dict(blocks).items())
            if size is not None or clip is not None:
                raise QueryError("Expected size= and clip= inside each of blocks=.")
            if not parts or not all(
                isinstance(n, str) and n and isinstance(b, Bound) for n, b in parts
            ):
                raise QueryError("Expected blocks={name: tacit.queries.Bound(size, clip), ...}.")
        if not isinstance(kernel, (Kernel, Program)):
            if not callable(kernel):
                raise QueryError(
                    "Expected a Kernel or a Program of tacit.queries, or a function of a row and a "
                    f"state in JAX, got {kernel!r}."
                )
            shapes = tuple((name, bound.shape) for name, bound in parts)
            kernel = trace(kernel, len(names), state, blocks=shapes)
        set_fields(self, kernel=kernel, columns=names, blocks=parts, state=leaves_of(state))

    def at(self, state: Any) -> BoundedSum:
        """Return this query with another public state."""
        other = object.__new__(BoundedSum)
        other.__dict__.update(self.__dict__)
        set_fields(other, state=leaves_of(state))
        return other

    @property
    def numbers(self) -> int:
        return sum(bound.numbers for _, bound in self.blocks)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(bound for _, bound in self.blocks)
