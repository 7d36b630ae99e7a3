"""Programs: functions of one row, written in JAX, as data.

A function is traced once, without data, into a list of JAX's primitive operations. The list can be
printed, hashed, stored and sent; the wall rebuilds a function from it and never calls the
caller's. In a row the columns of the query stand in their order as numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tacit.spec.checks import is_whole
from tacit.spec.errors import QueryError
from tacit.spec.primitives import NOTHING
from tacit.spec.program_reading import FORMAT, MOST_TEXT, Rebuilt, canonical, rebuilt
from tacit.spec.program_writing import scope

Blocks = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Program:
    """A function of one row and a public state, as a list of JAX's primitive operations.

    Made by `trace` or `Program.from_dict`. Everything is checked when it is made: the operations
    are on a closed list, nothing is used before it is computed, sizes are limited, and JAX accepts
    the whole. A loop over `while` ends after 100,000 rounds at the latest.

    Parameters
    ----------
    text
        The canonical JSON: keys sorted, no blanks.
    jax
        The version of JAX that traced it, for information; not part of what a program is.

    Examples
    --------
    >>> import numpy as np
    >>> program = trace(lambda row, scale: row * scale, 2, np.float32(3))
    >>> program.columns, program.dtype, program.size, program.state
    (2, 'float32', 2, (('float32', ()),))
    >>> same = Program.from_dict(program.to_dict())
    >>> same.digest == program.digest
    True
    >>> run = same.function()
    >>> print(run(np.array([1, 2], np.float32), same.leaves(np.float32(3))))
    [3. 6.]
    """

    text: str
    jax: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or len(self.text) > MOST_TEXT:
            raise QueryError(f"Expected at most {MOST_TEXT} letters of JSON. {NOTHING}")
        if not isinstance(self.jax, str) or len(self.jax) > 40:
            raise QueryError(f"Expected the version of JAX as a short text. {NOTHING}")
        rebuilt(self.text)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def columns(self) -> int:
        """The number of columns in a row."""
        return self._inputs[0][1][0]

    @property
    def dtype(self) -> str:
        """The type of a row and of the results, "float32" or "float64"."""
        return self._inputs[0][0]

    @property
    def state(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The type and shape of each array of the public state."""
        return self._inputs[1:]

    @property
    def size(self) -> int:
        """The number of results for one row."""
        return int(self._rebuilt.jaxpr.out_avals[0].shape[0])

    @property
    def loops(self) -> bool:
        """Whether it has loops whose length depends on the data: then rows must run one by one."""
        return self._rebuilt.loops

    @property
    def largest(self) -> int:
        """The number of numbers in the largest intermediate value of one row."""
        return self._rebuilt.largest

    @property
    def work(self) -> int:
        """About how many numbers are computed for one row, at most."""
        return self._rebuilt.work

    def precision(self) -> AbstractContextManager[None]:
        """A context in which JAX computes with the precision of this program.

        Compile and run the function inside it. Elsewhere, a process without `jax_enable_x64`
        would turn rows of float64 into float32.
        """
        import jax

        return jax.enable_x64(self.dtype == "float64")

    def function(self) -> Callable[[Any, Any], Any]:
        """The function of a row and the arrays of a state; can be mapped, compiled, derived.

        Equal programs have one function, so that what JAX compiled of it is found again.
        Derivatives are those of the listed operations: rules of `jax.custom_jvp` are not kept.
        """
        return _function(self)

    def leaves(self, state: Any) -> tuple[np.ndarray, ...]:
        """The arrays of a state of the traced form, in the program's types."""
        found = leaves_of(state)
        shapes = tuple((np.dtype(name).kind, shape) for name, shape in self.state)
        if tuple((leaf.dtype.kind, leaf.shape) for leaf in found) != shapes:
            expected = ", ".join(f"{name}{list(shape)}" for name, shape in self.state[:8])
            raise QueryError(
                f"Expected a state like the one that was traced ({expected or 'no arrays'}), "
                f"got {len(found)} arrays that differ. {NOTHING}"
            )
        return tuple(leaf.astype(name) for leaf, (name, _) in zip(found, self.state))

    def to_dict(self) -> dict[str, Any]:
        """The program as JSON."""
        return {**json.loads(self.text), "jax": self.jax}

    @classmethod
    def from_dict(cls, value: Any) -> Program:
        """A program from JSON, which may be anyone's: it is checked as a whole, and never run."""
        if not isinstance(value, dict):
            raise QueryError(f"Expected a program in the format {FORMAT!r}. {NOTHING}")
        return cls(canonical({k: v for k, v in value.items() if k != "jax"}), value.get("jax", ""))

    @cached_property
    def _inputs(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        avals = self._rebuilt.jaxpr.in_avals
        return tuple((str(a.dtype), tuple(int(side) for side in a.shape)) for a in avals)

    @property
    def _rebuilt(self) -> Rebuilt:
        return rebuilt(self.text)


@lru_cache(maxsize=256)
def _function(program: Program) -> Callable[[Any, Any], Any]:
    from jax.extend.core import jaxpr_as_fun

    expected = ((program.dtype, (program.columns,)), *program.state)
    run = jaxpr_as_fun(rebuilt(program.text).jaxpr)

    def of_row(row: Any, leaves: Any) -> Any:
        given = tuple((str(value.dtype), tuple(value.shape)) for value in (row, *leaves))
        if given != expected:
            raise QueryError(
                f"Expected a row of {program.columns} numbers of type {program.dtype} and "
                "program.leaves(state), inside program.precision()."
            )
        with program.precision():
            return run(row, *leaves)[0]

    return of_row


def trace(
    function: Callable[[Any, Any], Any], columns: int, state: Any, *, blocks: Blocks | None = None
) -> Program:
    """A program that computes what `function` does, traced without data.

    Parameters
    ----------
    function
        `function(row, state)` in JAX. It returns an array, or a mapping from the names of the
        blocks to arrays.
    columns
        The number of columns in a row.
    state
        A public state: an array, or nested tuples, lists and dicts of arrays. Its shapes and types
        are kept, its numbers are not. Arrays that the function refers to become constants.
    blocks
        Names and shapes of the results, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> trace(lambda row, theta: row @ theta, 3, np.zeros(3)).size
    1
    """
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        raise QueryError("A program needs JAX: pip install 'tacit[jax]'.") from None
    if not is_whole(columns, 1, MOST_TEXT):
        raise QueryError(f"Expected columns={columns!r} >= 1. {NOTHING}")
    dtype = np.float64 if jax.config.jax_enable_x64 else np.float32
    leaves, tree = leaves_of(state), jax.tree.structure(state)
    if tree.num_leaves != len(leaves):
        raise _unusable_state(state)

    def flat(row: Any, *leaves: Any) -> Any:
        result = function(row, jax.tree.unflatten(tree, leaves))
        if not isinstance(result, Mapping):
            parts = [jnp.ravel(result)]
        elif blocks is None or set(result) != {name for name, _ in blocks}:
            names = "an array" if blocks is None else ", ".join(name for name, _ in blocks)
            raise QueryError(f"Expected the function to return {names}. {NOTHING}")
        else:
            parts = [jnp.ravel(result[name]) for name, _ in blocks]
        return jnp.concatenate(parts).astype(row.dtype)

    types = [jax.dtypes.canonicalize_dtype(leaf.dtype) for leaf in leaves]
    avals = [jax.ShapeDtypeStruct(leaf.shape, leaf_type) for leaf, leaf_type in zip(leaves, types)]
    traced = jax.make_jaxpr(flat)(jax.ShapeDtypeStruct((columns,), dtype), *avals)
    size = int(traced.out_avals[0].shape[0])
    numbers = size if blocks is None else sum(int(np.prod(shape)) for _, shape in blocks)
    if size != numbers:
        raise QueryError(f"Expected the function to return {numbers} numbers, got {size}.")
    return Program(canonical({"format": FORMAT, "size": size, **scope(traced)}), jax.__version__)


def leaves_of(state: Any) -> tuple[np.ndarray, ...]:
    """The arrays in a state, copied, in the order in which JAX flattens it; without JAX.

    Examples
    --------
    >>> leaves_of({"b": 2.0, "a": (1, None)})
    (array(1), array(2.))
    """
    if state is None:
        return ()
    container = type(state)
    if container in (dict, defaultdict):
        try:
            parts = [state[key] for key in sorted(state)]
        except TypeError:
            raise _unusable_state(state) from None
    elif container is OrderedDict:
        parts = list(state.values())
    elif container in (tuple, list) or (isinstance(state, tuple) and hasattr(state, "_fields")):
        parts = list(state)
    else:
        try:
            array = np.array(state)
        except (TypeError, ValueError):
            raise _unusable_state(state) from None
        if array.dtype.kind not in "biufc":
            raise _unusable_state(state)
        return (array,)
    return tuple(leaf for part in parts for leaf in leaves_of(part))


def _unusable_state(state: Any) -> QueryError:
    return QueryError(
        "Expected a state of arrays of numbers in tuples, lists and dicts, got "
        f"{type(state).__name__}; of a random key, write jax.random.key_data(key). {NOTHING}"
    )
