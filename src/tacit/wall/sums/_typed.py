"""What a Numba map may do, looked at whenever it is compiled and its types are known.

Numba checks indices where it is told to, but not everywhere: `a += b` and a ufunc with an output
take the length from the output and read the other array past its end, where another unit's numbers
may lie; several of NumPy's functions have indices of their own. What has been tried and found to
check its sizes is allowed here, and nothing else is: kinds of values, attributes, functions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np
from numba.core import ir
from numba.core import types as kinds
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import UnsupportedError
from numba.core.typed_passes import NopythonTypeInference
from numba.core.types.containers import BaseTuple

from tacit.laws.mixing import divided, gathered, mixed
from tacit.spec.errors import QueryError

types: Any = kinds  # its stubs know few of them

REFUSED = "A map may not"
_OUTPUT = (
    f"{REFUSED} pass an output to a NumPy function, whose size Numba does not look at: write "
    "a[:] = np.sqrt(b)."
)
# What may be called, by how many arguments come before an output or an option nobody has tried.
_FUNCTIONS = {
    1: "copy prod mean std var min max amin amax any all cumsum cumprod sort ravel finfo iinfo "
    "shape",
    2: "zeros zeros_like ones ones_like array identity argmin argmax count_nonzero trace outer "
    "arange diff concatenate argsort round around",
    3: "full full_like linspace sum where searchsorted interp clip",
    4: "eye",
}
_ALGEBRA = {1: "inv det slogdet cholesky eigh eigvalsh qr", 2: "norm solve pinv svd"}
_INPUTS: list[tuple[Callable[..., Any], int]] = [
    (getattr(home, name), most)
    for home, functions in ((np, _FUNCTIONS), (np.linalg, _ALGEBRA))
    for most, names in functions.items()
    for name in names.split()
]
_COPIES = """
sum prod mean std var min max any all argmin argmax cumsum cumprod copy ravel flatten fill astype
sort argsort nonzero
"""
# The methods of arrays, and how many arguments come before an output.
_METHODS = dict.fromkeys(_COPIES.split(), 3) | {"clip": 2, "round": 1}
_BUILTINS: set[Any] = {
    abs, bool, divmod, enumerate, float, int, len, max, min, pow, range, round, slice, zip,
}  # fmt: skip
# Checked once and for all: they look at their sizes first, and keep nothing.  proof: maps
KNOWN = (divided, gathered, mixed)
# The least whole number over -1 ends the process, and remainders of arrays do not look for it.
_REMAINDERS = (np.remainder, np.fmod, np.floor_divide, np.divmod)
_DIVISIONS = (operator.mod, operator.floordiv, operator.imod, operator.ifloordiv)

_SINGLE = (types.Number, types.Boolean)
_VALUES = (
    *_SINGLE, types.NoneType, types.Omitted, types.SliceType, types.EllipsisType, types.RangeType,
    types.NumberClass, types.DType, types.StringLiteral, types.ExceptionClass,
    types.ExceptionInstance, types.Function, types.BoundFunction, types.Dispatcher,
    types.iterators.RangeIteratorType, types.ArrayIterator, types.EnumerateType, types.ZipType,
    types.containers.UniTupleIter,
)  # fmt: skip
_ATTRIBUTES = {"shape", "size", "ndim", "T", "dtype", "real", "imag", "type"}
_MODULES = (np, np.linalg, math)


class Guarded(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with a look at what it found about types."""

    def define_pipelines(self) -> list[Any]:
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(_Sizes, NopythonTypeInference)
        steps.finalize()
        return [steps]


@register_pass(mutates_CFG=False, analysis_only=True)
class _Sizes(AnalysisPass):  # type: ignore[misc]
    """Refuses what reads or writes without looking at sizes."""  # proof: maps

    _name = "tacit_sizes"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        check_settings()
        if not state.flags.boundscheck:
            raise UnsupportedError(f"{REFUSED} be compiled without a check of its indices.")
        for kind in state.typemap.values():
            _check_kind(kind)
        for block in state.func_ir.blocks.values():
            for expression in block.find_exprs():
                match expression.op:
                    case "binop" | "inplace_binop":
                        _check_operation(expression, state.typemap)
                    case "call":
                        _check_call(expression, state.typemap)
                    case "getattr":
                        _check_attribute(expression, state.typemap)
                    case "phi" if any(v is ir.UNDEFINED for v in expression.incoming_values):
                        _refuse_unset(expression.incoming_values)
        return False


def check_settings() -> None:
    """Numba's settings, when a map is compiled."""
    config = numba.config
    if config.FULL_TRACEBACKS:
        raise QueryError("Expected NUMBA_FULL_TRACEBACKS off: it prints what a row asked for.")
    if config.DISABLE_JIT or (config.BOUNDSCHECK is not None and not config.BOUNDSCHECK):
        raise QueryError("Expected NUMBA_DISABLE_JIT and NUMBA_BOUNDSCHECK not to be set.")


def _refuse_unset(values: list[Any]) -> None:
    """What was not made on some path is not there: using it may end the process."""
    names = [value.name.split(".")[0] for value in values if value is not ir.UNDEFINED]
    what = names[0] if names and not names[0].startswith("$") else "a variable"
    raise UnsupportedError(f"{REFUSED} use {what} where it may not be set: set it first.")


def _check_kind(kind: Any) -> None:
    """Whether a value is of a kind that Numba cannot be led astray with."""
    match kind:
        case types.Array():
            fine = isinstance(kind.dtype, _SINGLE)
        case types.Module():
            fine = any(kind.pymod is module for module in _MODULES)
        case BaseTuple():
            for part in kind:
                _check_kind(part)
            return
        case types.Pair():
            fine = True  # the next of an iterator, and whether there was one
        case _:
            fine = isinstance(kind, _VALUES)
    if not fine:
        raise UnsupportedError(
            f"{REFUSED} use a {kind.name}, but numbers, arrays of numbers, tuples, functions, "
            "NumPy and math: np.zeros instead of lists, and the state for all else."
        )


def _check_attribute(expression: ir.Expr, known: Any) -> None:
    owner = known[expression.value.name]
    if isinstance(owner, types.Array) and expression.attr not in _ATTRIBUTES | set(_METHODS):
        raise UnsupportedError(
            f"{REFUSED} use .{expression.attr} of an array, which may not look at all sizes; but "
            f"{', '.join(sorted(_ATTRIBUTES | set(_METHODS)))}."
        )


def _check_operation(expression: ir.Expr, known: Any) -> None:
    left, right = known[expression.lhs.name], known[expression.rhs.name]
    single = any(isinstance(one, _SINGLE) for one in (left, right))
    if expression.op == "inplace_binop" and not single and not isinstance(left, BaseTuple):
        raise UnsupportedError(
            f"{REFUSED} write a += b for two arrays, whose sizes Numba does not compare: write "
            "a[:] = a + b."
        )
    plain = all(isinstance(one, _SINGLE) for one in (left, right))
    if expression.fn in _DIVISIONS and not plain:
        raise UnsupportedError(f"{REFUSED} divide arrays by // or %: do so number by number.")


def _check_call(expression: ir.Expr, known: Any) -> None:
    function, count = known[expression.func.name], len(expression.args)
    if expression.vararg is not None:
        raise UnsupportedError(f"{REFUSED} call a function with *arguments.")
    match function:
        case types.BoundFunction():  # its name was looked at as an attribute
            name = str(function.typing_key).rsplit(".", 1)[-1]
            most = _METHODS.get(name, 0)
        case types.Function():
            most = _inputs(function.typing_key, count)
            _check_steps(function.typing_key, [known[part.name] for part in expression.args])
        case types.NumberClass() | types.ExceptionClass():
            most = count
        case types.Dispatcher() if _ours(function.dispatcher):
            most = count
        case _:
            raise UnsupportedError(f"{REFUSED} call {function}.")
    if count > most or "out" in dict(expression.kws):
        raise UnsupportedError(_OUTPUT)


def _check_steps(called: Any, kinds: list[Any]) -> None:
    """The least whole number over a stride of -1 ends the process, as a size beyond all does."""
    if called is range and len(kinds) == 3 and not isinstance(kinds[2], types.IntegerLiteral):
        raise UnsupportedError(f"{REFUSED} use range with a stride that is not written out.")
    if called is np.arange and not all(isinstance(kind, types.Integer) for kind in kinds):
        raise UnsupportedError(f"{REFUSED} use np.arange but with whole numbers.")


def among(value: Any, known: Iterable[Any]) -> bool:
    """Whether it is one of these itself, whatever it says that it equals."""
    return any(value is one for one in known)


def _ours(dispatcher: Any) -> bool:
    """Whether a function was compiled with these checks, or has been looked at."""
    pipeline = getattr(dispatcher._compiler, "pipeline_class", None)  # noqa: SLF001
    return pipeline is Guarded or among(dispatcher, KNOWN)


def _inputs(called: Any, count: int) -> int:
    """How many arguments a function may be given, if it may be used at all."""
    # By what it is: what someone made may say that it equals anything.
    name = getattr(called, "__name__", "a function")
    if type(called) is np.ufunc:
        inputs = int(called.nin)
        if among(called, _REMAINDERS) or getattr(np, name, None) is not called:
            raise UnsupportedError(f"{REFUSED} use np.{name}: write % for two numbers.")
        return inputs
    for allowed, most in _INPUTS:
        if called is allowed:
            return most
    if among(called, _BUILTINS) or getattr(math, name, None) is called:
        return count
    known = [" ".join(names.values()) for names in (_FUNCTIONS, _ALGEBRA)]
    known.append(" ".join(sorted(builtin.__name__ for builtin in _BUILTINS)))
    arrays, algebra, builtins = (", ".join(names.split()) for names in known)
    raise UnsupportedError(
        f"{REFUSED} use {name}, which nobody has tried to break; "
        f"but ufuncs, {arrays}, of np.linalg {algebra}, math, and {builtins}."
    )
