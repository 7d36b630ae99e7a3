"""Maps over records: what a model computes for one row, in the language that suits it.

A map is written for one row; the wall runs it over all rows and sums the results. In a row the
columns of the query stand in their order as numbers: reals and integers as they are, categories and
periods as positions among their labels, counted from 0. A row with a missing value contributes
nothing. Nothing but the row and the public `state` may enter the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tacit.spec.errors import QueryError


@dataclass(frozen=True)
class NumbaMap:
    """`function(row, state, out)` adds to the zeroed vector `out`; compiled by the wall.

    `state` is an array, or a tuple or named tuple of arrays, that cannot be written to.
    """

    function: Callable[[Any, Any, Any], None]

    def __post_init__(self) -> None:
        _check_function(self)


@dataclass(frozen=True)
class SparseMap:
    """`function(words, weights, state, out)` for a document, compiled by the wall.

    `words` are the positions of its words in the vocabulary and `weights` how often each occurs;
    `out` has a zeroed row of `width` numbers for each of these words, and for no other. With
    `some`, the state is a tuple that begins with an array of a whole number for each word of the
    vocabulary: by what position it is known to the map and in the sum, or -1 to leave it out.
    """

    function: Callable[[Any, Any, Any, Any], None]
    width: int
    some: bool = False

    def __post_init__(self) -> None:
        _check_function(self)
        if isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 1:
            raise QueryError(f"Expected width={self.width!r} >= 1 numbers for each word.")
        if not isinstance(self.some, bool):
            raise QueryError(f"Expected some={self.some!r} to be True or False.")


@dataclass(frozen=True)
class JaxMap:
    """`function(row, state)` in JAX, traced once; `state` is any pytree of arrays.

    It returns a vector, or a mapping from the names of the blocks to arrays.
    """

    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        _check_function(self)


@dataclass(frozen=True)
class SqlMap:
    """`function(row)` in Ibis expressions, one for each number, computed where the data are.

    The columns are attributes of `row`. Sums, differences, products, comparisons and choices are
    allowed, and nothing that looks at another row.
    """

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        _check_function(self)


@dataclass(frozen=True)
class NamedMap:
    """What a saved release remembers of the map it was computed with."""

    kind: str
    name: str
    digest: str


Map = NumbaMap | SparseMap | JaxMap | SqlMap | NamedMap
MAPS: tuple[type[Map], ...] = (NumbaMap, SparseMap, JaxMap, SqlMap)


def named(map_: Map) -> NamedMap:
    """The name of a map, and a fingerprint of its code and the constants it captured."""
    if isinstance(map_, NamedMap):
        return map_
    function = map_.function
    name = f"{function.__module__}.{getattr(function, '__qualname__', '?')}"
    return NamedMap(type(map_).__name__, name, _fingerprint(function))


def fingerprint_of(state: Any) -> str:
    """The same for a state: arrays, numbers, and tuples, lists or mappings of them."""
    state_hash = hashlib.sha256()
    _feed(state, state_hash.update, set())
    return state_hash.hexdigest()


def _check_function(map_: Any) -> None:
    if not callable(map_.function):
        kind = type(map_).__name__
        raise QueryError(f"Expected {kind}(function), got {kind}({map_.function!r}).")


def _fingerprint(function: Any) -> str:
    code_hash = hashlib.sha256()
    _feed_code(function, code_hash.update, set())
    return code_hash.hexdigest()


def _feed_code(function: Any, feed: Callable[[bytes], None], seen: set[int]) -> None:
    """Code, constants, defaults, and what the names in it stand for now."""
    function = getattr(function, "py_func", function)
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        feed(repr(getattr(function, "__qualname__", type(function))).encode())
        return
    seen.add(id(code))
    stack, names = [code], []
    while stack:
        here = stack.pop()
        feed(here.co_code + repr(here.co_names).encode())
        names += here.co_names
        for constant in here.co_consts:
            if hasattr(constant, "co_code"):
                stack.append(constant)
            else:
                feed(repr(constant).encode())
    scope = [function.__globals__[name] for name in names if name in function.__globals__]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in (*scope, *cells, *(function.__defaults__ or ())):
        _feed(value, feed, seen)


def _feed(value: Any, feed: Callable[[bytes], None], seen: set[int]) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            feed(str(key).encode())
            _feed(value[key], feed, seen)
    elif isinstance(value, (tuple, list)):
        feed(f"{len(value)}".encode())
        for part in value:
            _feed(part, feed, seen)
    elif callable(value):
        _feed_code(value, feed, seen)
    elif value is None or isinstance(value, (str, bytes)):
        feed(repr(value).encode())
    elif isinstance(value, ModuleType):
        feed(value.__name__.encode())
    else:
        array = np.asarray(value)
        feed(f"{array.dtype}{array.shape}".encode())
        feed(array.tobytes())
