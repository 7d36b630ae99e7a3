"""How kernels are compiled: without index checks, so that Numba vectorises; see `RowKernel.check`.

Compiled code is cached on disk beside its source file, or in the user's cache directory. Numba
compares the source of the cached function alone, not of the helpers it calls from other files:
after a change to a helper, delete `__pycache__`. The contract test fails on stale code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba

from tacit.compile_cache import cached

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}

inlined = numba.njit(inline="always", **_OPTIONS)


def compiled(function: Callable[..., Any], *, signature: Any = None, **options: Any) -> Any:
    """A module-level function compiled at its first call, or read from the cache.

    With a `signature` it is compiled now, and for no other types.
    """
    types = () if signature is None else ([signature],)
    return cached(*types, **_OPTIONS, **options)(function)


def uncounted(function: Callable[..., Any], *, signature: Any = None) -> Any:
    """A compiled function that makes no array, without the counting of references.

    Who calls it holds on to what is passed. Counts would take as long as fifty numbers.
    """
    return compiled(function, signature=signature, _nrt=False)


def reassociated(function: Callable[..., Any]) -> Any:
    """A compiled function whose sums are added up in vector lanes.

    Their order follows from the number of terms alone, so that a document has the same bits
    wherever it stands. Neither flag assumes that numbers are finite.
    """
    return compiled(function, fastmath={"reassoc", "contract"})


def with_kernel(loop: Any, kernel: Any, helpers: str) -> Any:
    """A copy of a loop in which the name `kernel` is this kernel: called by address it costs more.

    Numba's cache knows code by its name and its own file. So the copy's name tells its kernel, and
    has a digest of the other files that it is compiled from: those of kernels, and `helpers`.
    """
    own = FunctionType(loop.__code__, {**loop.__globals__, "kernel": kernel}, loop.__name__)
    own.__qualname__ = f"{loop.__name__}.{kernel.__module__}.{kernel.__name__}.{_digest(helpers)}"
    return own


@cache
def _digest(helpers: str) -> str:
    files = [Path(helpers), *sorted(Path(__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
