"""Sums of bounded contributions: one map, one or more blocks of numbers, a bound for each block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tacit.spec.errors import QueryError
from tacit.spec.maps import MAPS, Map, NamedMap, SparseMap, fingerprint_of, named
from tacit.spec.plan import GEOMETRIES, Geometry

Norm = Literal["l1", "l2"]
_MOST_NUMBERS = 10**8


@dataclass(frozen=True)
class Bound:
    """What one unit may contribute to a block of numbers.

    The wall adds up the unit's rows and brings the sum within the bound:

    - "free": any signs, norm at most `clip`;
    - "nonnegative": negative numbers become 0, norm at most `clip`;
    - "simplex": the same with the L1 norm, as for counts and responsibilities;
    - "box": every number between 0 and `clip`.
    """

    size: int | tuple[int, ...]
    clip: float
    norm: Norm = "l2"
    geometry: Geometry = "free"

    def __post_init__(self) -> None:
        if not isinstance(self.size, (int, tuple, list)):
            raise QueryError(f"Expected size={self.size!r} > 0, a whole number or a few of them.")
        shape = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape)
        if not shape or not whole or math.prod(shape) > _MOST_NUMBERS:
            raise QueryError(f"Expected size={self.size!r} > 0, a whole number or a few of them.")
        if isinstance(self.clip, bool) or not isinstance(self.clip, (int, float)):
            raise QueryError(f"Expected a number for clip, got {self.clip!r}.")
        if not 1e-100 <= self.clip <= 1e100:
            raise QueryError(f"Expected clip={self.clip} > 0 and finite.")
        if self.geometry not in GEOMETRIES:
            raise QueryError(f"Expected geometry={self.geometry!r} among {', '.join(GEOMETRIES)}.")
        if self.norm not in ("l1", "l2"):
            raise QueryError(f'Expected norm="l1" or norm="l2", got {self.norm!r}.')
        object.__setattr__(self, "clip", float(self.clip))
        object.__setattr__(self, "size", self.size if isinstance(self.size, int) else shape)
        if self.geometry == "simplex":
            object.__setattr__(self, "norm", "l1")

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


@dataclass(frozen=True, eq=False)
class BoundedSum:
    """The sum over units of a map of their rows, each unit's share within public bounds.

    Parameters
    ----------
    map
        A `NumbaMap`, `SparseMap`, `JaxMap` or `SqlMap`, written for one row. It is fixed code;
        what changes from step to step goes into `state`.
    columns
        The columns of a row, in the map's order.
    size, clip, norm, geometry
        The bound of a single block; see `Bound`.
    blocks
        Several blocks in one release: a mapping from names to `Bound`.
    state
        Public numbers that the map needs, such as the current parameters.

    Examples
    --------
    >>> from tacit.spec.maps import NumbaMap
    >>> def square(row, state, out):
    ...     out[0] = row[0] ** 2
    >>> BoundedSum(NumbaMap(square), "bmi", size=1, clip=3600, geometry="box").numbers
    1
    """

    map: Map
    columns: tuple[str, ...]
    blocks: tuple[tuple[str, Bound], ...]
    state: Any = None

    def __init__(
        self,
        map: Map,
        columns: str | tuple[str, ...] | list[str],
        *,
        size: int | tuple[int, ...] | None = None,
        clip: float | None = None,
        norm: Norm = "l2",
        geometry: Geometry = "free",
        blocks: Mapping[str, Bound] | None = None,
        state: Any = None,
    ) -> None:
        if not isinstance(map, (*MAPS, NamedMap)):
            raise QueryError(f"Expected a map such as tacit.NumbaMap(function), got {map!r}.")
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        if not names or len(set(names)) < len(names):
            raise QueryError("Expected each column once, and at least one.")
        if blocks is None:
            if size is None or clip is None:
                raise QueryError(
                    "Expected size= and clip=, how many numbers a row maps to and the largest "
                    "norm of a unit's share of their sum."
                )
            parts: tuple[tuple[str, Bound], ...] = (("sum", Bound(size, clip, norm, geometry)),)
        else:
            parts = tuple(blocks.items())
            if size is not None or clip is not None:
                raise QueryError("Expected size= and clip= inside each of blocks=.")
            if not parts or not all(
                isinstance(n, str) and n and isinstance(b, Bound) for n, b in parts
            ):
                raise QueryError("Expected blocks={name: tacit.Bound(size, clip), ...}.")
        if isinstance(map, SparseMap) and (len(parts) > 1 or len(names) > 1):
            raise QueryError("Expected one block and one Tokens column for a SparseMap.")
        object.__setattr__(self, "map", map)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "blocks", parts)
        object.__setattr__(self, "state", state)

    def at(self, state: Any) -> BoundedSum:
        """The same question at another public state."""
        other = object.__new__(BoundedSum)
        other.__dict__.update(self.__dict__, state=state)
        return other

    @property
    def numbers(self) -> int:
        return sum(bound.numbers for _, bound in self.blocks)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(bound for _, bound in self.blocks)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "BoundedSum",
            "map": dict(vars(named(self.map))),
            "columns": list(self.columns),
            "blocks": {
                name: {**vars(bound), "size": list(bound.shape)} for name, bound in self.blocks
            },
            "state": self._state_digest(),
        }

    def _state_digest(self) -> str | None:
        if self.state is None or isinstance(self.state, str):  # as a saved release has it
            return self.state
        return fingerprint_of(self.state)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> BoundedSum:
        blocks = {
            name: Bound(**{**bound, "size": tuple(bound["size"])})
            for name, bound in facts["blocks"].items()
        }
        columns = tuple(facts["columns"])
        return cls(NamedMap(**facts["map"]), columns, blocks=blocks, state=facts["state"])
