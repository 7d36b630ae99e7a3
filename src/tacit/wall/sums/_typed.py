"""What a Numba map may do with arrays, looked at when it is compiled and their types are known.

Numba checks indices where it is told to, but not everywhere: `a += b` and a ufunc with an output
take the length from the output and read the other array past its end, where another unit's numbers
may lie; several of NumPy's functions have indices of their own. What has been tried and found to
check its sizes is allowed here, and nothing else of NumPy is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import UnsupportedError
from numba.core.typed_passes import NopythonTypeInference
from numba.core.types.containers import BaseTuple, DictType, List, ListType, Set

REFUSED = "A map may not"
_OUTPUT = (
    f"{REFUSED} pass an output to a NumPy function, whose size Numba does not look at: write "
    "a[:] = np.sqrt(b)."
)
_FUNCTIONS = """
zeros zeros_like ones ones_like full full_like array arange linspace eye identity copy sum prod mean
std var min max amin amax any all argmin argmax cumsum cumprod count_nonzero trace outer diff where
repeat concatenate searchsorted bincount interp sort argsort ravel transpose clip round around finfo
iinfo shape
"""
_ALGEBRA = "norm solve inv pinv det slogdet cholesky eigh eigvalsh svd qr"
_ALLOWED = {getattr(np, name) for name in _FUNCTIONS.split() if hasattr(np, name)}
_ALLOWED |= {getattr(np.linalg, name) for name in _ALGEBRA.split()}
# How many arguments come before an output.
_INPUTS: dict[Callable[..., Any], int] = {np.clip: 3, np.round: 2, np.around: 2}
_METHODS = {"clip": 2, "round": 1}
_REFUSED_METHODS = ("take", "dot", "reshape", "resize", "view", "put", "itemset")
# The least whole number over -1 ends the process, and remainders of arrays do not look for it.
_REMAINDERS = (np.remainder, np.fmod, np.floor_divide, np.divmod)
_DIVISIONS = (operator.mod, operator.floordiv, operator.imod, operator.ifloordiv)

_SINGLE = (types.Number, types.Boolean)
# One that was not made on some path through a map is not there, and using it ends the process.
_CONTAINERS = (List, ListType, Set, DictType)


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
        if any(isinstance(kind, _CONTAINERS) for kind in state.typemap.values()):
            raise UnsupportedError(
                f"{REFUSED} use lists, sets or dictionaries: use tuples, np.zeros."
            )
        for block in state.func_ir.blocks.values():
            for expression in block.find_exprs():
                match expression.op:
                    case "binop" | "inplace_binop":
                        _check_operation(expression, state.typemap)
                    case "call":
                        _check_call(expression, state.typemap)
        return False


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
    most = count
    if isinstance(function, types.BoundFunction):
        name = str(function.typing_key).rsplit(".", 1)[-1]
        if name in _REFUSED_METHODS:
            raise UnsupportedError(f"{REFUSED} use .{name}(): it does not look at all sizes.")
        most = _METHODS.get(name, count)
    elif isinstance(function, types.Function):
        most = _inputs(function.typing_key, count)
    if count > most or "out" in dict(expression.kws):
        raise UnsupportedError(_OUTPUT)


def _inputs(called: Any, count: int) -> int:
    """How many arguments a function may be given, if it may be used at all."""
    if isinstance(called, np.ufunc):
        if called in _REMAINDERS:
            raise UnsupportedError(f"{REFUSED} use np.{called.__name__}: write % for two numbers.")
        return called.nin
    if (getattr(called, "__module__", None) or "").split(".")[0] == "numpy":
        if called not in _ALLOWED:
            raise UnsupportedError(
                f"{REFUSED} use np.{called.__name__}, which nobody has tried to break; but ufuncs, "
                f"{', '.join(_FUNCTIONS.split())}, and of np.linalg {', '.join(_ALGEBRA.split())}."
            )
        return _INPUTS.get(called, count)
    return count
