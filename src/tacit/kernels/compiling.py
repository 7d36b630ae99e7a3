"""How kernels are compiled: without index checks, so that Numba vectorises; see `RowKernel.check`.

Compiled code is cached on disk beside its source file, or in the user's cache directory. Numba
compares the source of the cached function alone, not of the helpers it calls from other files:
after a change to a helper, delete `__pycache__`. The contract test fails on stale code.
"""

from __future__ import annotations

from collections.abc import Callable
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
