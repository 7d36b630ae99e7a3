"""What a Numba map may be made of: code that cannot carry anything from one call to the next.

A map and the helpers it calls are rebuilt by the wall, with their indices checked. What they refer
to is looked at by what it is, not only by what it is called: numbers, arrays (which Numba freezes),
functions of the same kind, NumPy and math. Generators, uncleared memory, ways around an array's
write protection, recursion and the world outside are refused, before any charge.
"""

from __future__ import annotations

import dis
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np

from tacit.spec.errors import QueryError
from tacit.wall.sums._typed import KNOWN, Guarded, among, check_settings

_MODULES = {"numpy", "math"}
_DEFAULT = "a default"
_NUMBERS = {int, float, complex, bool, *np.sctypeDict.values()}
_LARGEST = 10**6  # bytes of an array that Numba freezes
# Attributes and names by which generators, memory that was not cleared, aliases that can be written
# to, and the world outside are reached.
_REFUSED = {
    "random", "empty", "empty_like", "ndarray", "objmode", "print", "open", "input", "eval", "exec",
    "carray", "farray", "ascontiguousarray", "asfortranarray", "asarray", "flat", "fill_diagonal",
    "as_strided", "nditer", "nan_to_num", "dot", "__import__", "getattr", "setattr", "globals",
}  # fmt: skip
_HOMES = (np, np.linalg, np.fft)
_REFUSED_OBJECTS = [getattr(np, name) for name in _REFUSED if hasattr(np, name)]
_PLAIN = {*_NUMBERS, str, bytes, type(None), np.ufunc}


def guarded(function: Any) -> Callable[..., None]:
    """The map compiled by the wall, indices checked, with helpers rebuilt in the same way."""
    check_settings()
    return _rebuilt(function, ())


def _rebuilt(function: Any, inside: tuple[types.CodeType, ...]) -> Any:
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, types.FunctionType):
        raise QueryError(f"Expected a plain function as a map, got {function!r}.")
    if plain.__code__ in inside:
        raise QueryError(f"A map may not call itself: {plain.__name__} does.")
    inside = (*inside, plain.__code__)
    used = set(_names(plain.__code__))
    if bad := sorted(used & _REFUSED):
        raise QueryError(
            f"A map may not use {bad[0]!r}: it could carry something from one row to another. "
            "Use np.zeros for scratch memory, .copy() for a copy, a @ b for np.dot(a, b), and pass "
            "random numbers in the state."
        )
    scope = dict(plain.__globals__)
    for name in set(_globals(plain.__code__)) & set(scope):
        scope[name] = _allowed(name, scope[name], inside)
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or ())
    closure = tuple(types.CellType(_allowed(n, c.cell_contents, inside)) for n, c in cells)
    defaults = tuple(_allowed(_DEFAULT, d, inside) for d in plain.__defaults__ or ())
    again = types.FunctionType(plain.__code__, scope, plain.__name__, defaults, closure)
    return numba.njit(boundscheck=True, nogil=True, pipeline_class=Guarded)(again)


def _allowed(name: str, value: Any, inside: tuple[types.CodeType, ...]) -> Any:
    """The value itself, a copy of an array, a helper rebuilt, or a refusal."""
    if among(value, KNOWN):
        return value
    if among(value, _REFUSED_OBJECTS):
        raise QueryError(f"A map may not use {name!r}: it leaves memory uncleared, or aliases it.")
    if type(value) is np.ndarray:
        if value.nbytes > _LARGEST or name == _DEFAULT:
            raise QueryError(
                f"A map takes large arrays, and those of a default, in its state: {name!r}."
            )
        # Numba freezes arrays that lie in one piece, and refers to others as they are.
        return np.array(value, order="C")
    if among(value, _NUMBERS) or among(type(value), _PLAIN) or isinstance(value, np.dtype):
        return value
    if type(value) is tuple:
        return tuple(_allowed(name, part, inside) for part in value)
    if isinstance(value, types.ModuleType):
        if value.__name__ in _MODULES:
            return value
        raise QueryError(
            f"A map may use NumPy, math and functions imported by name; it uses {value.__name__}."
        )
    if any(getattr(home, getattr(value, "__name__", ""), None) is value for home in _HOMES):
        return value
    if isinstance(value, types.BuiltinFunctionType) and value.__self__ is math:
        return value
    if isinstance(value, (types.FunctionType, numba.core.dispatcher.Dispatcher)):
        return _rebuilt(value, inside)
    raise QueryError(
        f"A map may refer to numbers, arrays and functions; {name!r} is {type(value).__name__}."
    )


def _globals(code: types.CodeType) -> Iterator[str]:
    """Names that are looked up outside the function, and not as an attribute of something."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
