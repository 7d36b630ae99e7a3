"""Maps in JAX: traced once, run over chunks of rows of one fixed shape.

The shape of a chunk follows from the query, and from the size of a batch where that is public. With
a shape that varied with the data, XLA could compute another unit's row differently in its last
bits. Callbacks and other effects are refused by
walking the traced program. JAX is imported when the first such map is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tacit.spec.errors import QueryError
from tacit.spec.maps import JaxMap
from tacit.wall.data._rows import Rows
from tacit.wall.sums._clip import add_rows

_CHUNK, _WIDE = 512, 2048
_CHUNK_NUMBERS = 2**22
# Beside JAX's public operations: what solving and random keys are made of.
_ALSO = ("lu_pivots_to_permutation_p", "random_wrap_p", "random_unwrap_p")
# Of the public ones: chance, memory that was not cleared, and what reaches beyond a row.
_REFUSED = ("rng_uniform_p", "empty2_p", "custom_lin_p", "get_p", "swap_p")
# Loops that end when the data say so, open or inside a function: side by side, whether a row has
# ended could depend on when the others do.
_LOOPS = ("while", "igamma", "random_gamma", "incomplete_beta", "zeta", "polygamma")


@dataclass(frozen=True)
class JaxKernel:
    """A compiled map over a chunk of rows; `at` finds the one for another state, and its arrays.

    A state is taken apart once, into arrays of the wall's own: what kind of object it was, and
    what its owner does to it later, make no difference.
    """

    run: Callable[[np.ndarray, Any], Any]
    chunk: int
    dtype: Any
    at: Callable[[Any], tuple[JaxKernel, tuple[Any, ...]]]
    widen: Callable[[], JaxKernel | None]
    assumptions = ("XLA computes a row alike at every place of a chunk (tried on made-up rows)",)

    def wide(self) -> JaxKernel:
        """The same with longer chunks, if these compute every row alike too."""
        return self.widen() or self

    def start(
        self, rows: Rows, units: np.ndarray, state: Any, limits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """Begin with the first chunk, and return what waits for the sum."""
        which, last = _rows_of(rows.starts, units)
        values = rows.cast(self.dtype)
        chunks = range(0, len(which), self.chunk)
        # In turns: what is mapped from one has been waited for before it is written to again.
        shape = self.chunk, values.shape[1]
        buffers = [_aligned(shape, self.dtype) for _ in chunks[:2]]

        def begun(begin: int) -> Any:
            some = which[begin : begin + self.chunk]
            chunk = buffers[begin // self.chunk % 2]
            np.take(values, some, axis=0, out=chunk[: len(some)], mode="clip")
            chunk[len(some) :] = 0.0
            return self.run(chunk, state)

        ahead = begun(0) if chunks else None

        def total() -> np.ndarray:
            size = int(limits[-1]["stop"])
            result, steps, sums = np.zeros(size, np.int64), np.zeros(size, np.int32), np.zeros(size)
            running = ahead
            for begin in chunks:
                here = slice(begin, begin + self.chunk)
                # The next chunk is mapped while this one is clipped and added.
                following = begun(begin + self.chunk) if begin != chunks[-1] else None
                mapped, running = np.asarray(running), following
                usable = rows.complete[which[here]]
                ends = last[begin : begin + len(usable) + 1]
                add_rows(mapped, usable, ends, sums, steps, limits, result)
            return result

        return total


def _aligned(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Memory that XLA can read without copying it."""
    size = shape[0] * shape[1] * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size].view(dtype).reshape(shape)


def _rows_of(starts: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of these units, one unit after the other, and a mark on the last of each.

    The first mark stands before all rows.
    """
    if starts[-1] == len(starts) - 1:  # one row each
        return units, np.ones(len(units) + 1, np.bool_)
    counts = starts[units + 1] - starts[units]
    ends = np.cumsum(counts)
    rows = ends[-1] if len(ends) else 0
    which = np.arange(rows) + np.repeat(starts[units] - ends + counts, counts)
    last = np.zeros(len(which) + 1, np.bool_)
    last[0] = last[ends] = True
    return which, last


@lru_cache(maxsize=64)
def jax_kernel(
    map_: JaxMap, columns: int, blocks: tuple[tuple[str, tuple[int, ...]], ...]
) -> Callable[[Any], tuple[JaxKernel, tuple[Any, ...]]]:
    """Trace and compile a map; what it returns checks a state and gives the kernel and arrays."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        raise QueryError("A JaxMap needs JAX: pip install 'tacit[jax]'.") from None
    numbers = sum(int(np.prod(shape)) for _, shape in blocks)
    chunk = max(8, min(_CHUNK, 2 ** int(np.log2(max(1, _CHUNK_NUMBERS // numbers)))))

    def flat(row: Any, state: Any) -> Any:
        result = map_.function(row, state)
        if isinstance(result, Mapping):
            if set(result) != {name for name, _ in blocks}:
                raise QueryError(f"Expected the map to return {', '.join(n for n, _ in blocks)}.")
            parts = [jnp.ravel(result[name]) for name, _ in blocks]
        else:
            parts = [jnp.ravel(result)]
        return jnp.concatenate(parts).astype(row.dtype)

    known: dict[Any, JaxKernel] = {}

    def for_state(state: Any) -> tuple[JaxKernel, tuple[Any, ...]]:
        _refuse_debugging()
        dtype = np.dtype(np.float64 if jax.config.jax_enable_x64 else np.float32)
        parts, tree = jax.tree.flatten(state)
        leaves = tuple(part if isinstance(part, jax.Array) else np.array(part) for part in parts)
        kind = (dtype, tree, *((leaf.shape, leaf.dtype) for leaf in leaves))
        if kind not in known:
            row = jax.ShapeDtypeStruct((columns,), dtype)
            whole = lambda row, leaves: flat(row, jax.tree.unflatten(tree, leaves))  # noqa: E731
            traced = jax.make_jaxpr(whole)(row, leaves)
            _refuse_effects(traced)
            if traced.out_avals[0].shape != (numbers,):
                raise QueryError(
                    f"Expected the map to return {numbers} numbers, "
                    f"got {traced.out_avals[0].shape[0]}."
                )
            # What was checked is what runs: the function itself is never called again.
            side_by_side, one_by_one = _compiled(traced)
            loops = any(part in op.name for op in _operations(traced.jaxpr) for part in _LOOPS)
            ways = (one_by_one,) if loops else (side_by_side, one_by_one)
            states = (leaves, tuple(_other(leaf) for leaf in leaves))

            def alike(way: Any, chunk: int) -> bool:
                return all(_alike(way, some, chunk, columns, dtype) for some in states)

            run = next((way for way in ways if alike(way, chunk)), None)
            if run is None:
                raise QueryError("XLA computes this map differently at different places.")

            @cache
            def widen() -> JaxKernel | None:
                longer = _WIDE if chunk == _CHUNK else chunk
                return replace(known[kind], chunk=longer) if alike(run, longer) else None

            known[kind] = JaxKernel(run, chunk, dtype, for_state, widen)
        return known[kind], leaves

    return for_state


def jax_prior(map_: JaxMap, size: int) -> Callable[[Any], tuple[float, np.ndarray]]:
    """A log prior and its gradient, traced once: it is called where a chain is, which is secret."""
    try:
        import jax
        import jax.numpy as jnp
        from jax.extend.core import jaxpr_as_fun
    except ImportError:
        raise QueryError("A JaxMap needs JAX: pip install 'tacit[jax]'.") from None
    _refuse_debugging()
    dtype = np.dtype(np.float64 if jax.config.jax_enable_x64 else np.float32)

    def log_prior(theta: Any) -> Any:
        return jnp.sum(jnp.ravel(jnp.asarray(map_.function(theta, None))))

    traced = jax.make_jaxpr(jax.value_and_grad(log_prior))(jax.ShapeDtypeStruct((size,), dtype))
    _refuse_effects(traced)
    run = jax.jit(jaxpr_as_fun(traced))

    def at(theta: Any) -> tuple[float, np.ndarray]:
        value, slope = run(np.asarray(theta, dtype))
        return float(value), np.asarray(slope, float)

    return at


def _refuse_debugging() -> None:
    import jax

    if jax.config.jax_debug_nans or jax.config.jax_debug_infs:
        raise QueryError("Expected jax_debug_nans and jax_debug_infs off: they look at rows.")


def _compiled(traced: Any) -> tuple[Any, Any]:
    """A traced program over rows, all at once or one after the other."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    program = jaxpr_as_fun(traced)

    def of_row(row: Any, leaves: tuple[Any, ...]) -> Any:
        return program(row, *leaves)[0]

    return (
        jax.jit(jax.vmap(of_row, in_axes=(0, None))),
        jax.jit(lambda rows, leaves: jax.lax.map(lambda row: of_row(row, leaves), rows)),
    )


def _alike(run: Any, state: Any, chunk: int, columns: int, dtype: Any) -> bool:
    """Whether made-up rows give the same bits at every place of a chunk and in any company."""
    grid = np.arange(chunk * columns, dtype=np.float64).reshape(chunk, columns)
    rows = (np.sin(grid * 1.7) * 3).astype(dtype)
    here = np.asarray(run(rows, state))
    for shift in (1, 3, chunk // 2 + 1):
        there = np.asarray(run(np.roll(rows, shift, axis=0), state))
        if np.roll(here, shift, axis=0).tobytes() != there.tobytes():
            return False
    for company in (0.0, 1e-30, 1e6, 3e37, np.inf, np.nan):
        others = np.full_like(rows, company)
        others[5:8] = rows[5:8]
        if np.asarray(run(others, state))[5:8].tobytes() != here[5:8].tobytes():
            return False
    return True


def _other(leaf: Any) -> Any:
    """Another state of the same kind: what holds at a start of zeros need not hold later."""
    array = np.asarray(leaf)
    if array.dtype.kind != "f":
        return leaf
    return (np.cos(np.arange(array.size) * 1.3 + 1) * 2).reshape(array.shape).astype(array.dtype)


def _refuse_effects(traced: Any) -> None:
    """Operations that are not JAX's own could do anything, whatever they are called."""
    allowed = _known()
    bad = sorted({p.name for p in _operations(traced.jaxpr) if p not in allowed})
    if bad or traced.effects:
        what = ", ".join(bad) or "a side effect"
        raise QueryError(
            f"A map may not call back into Python, print or batch rows itself: it uses {what}. "
            "Nothing was charged or read."
        )


@cache
def _known() -> frozenset[Any]:
    """JAX's operations of one row, by what they are and not by their names."""  # proof: maps-jax
    import jax
    from jax.extend.core import Primitive, primitives

    found = {**vars(jax.lax), **vars(primitives)}
    inside = [vars(m) for name, m in sys.modules.items() if name.startswith("jax._src.")]
    found |= {name: home[name] for name in _ALSO for home in inside if name in home}
    return frozenset(
        value
        for name, value in found.items()
        if isinstance(value, Primitive) and name not in _REFUSED
    )


def _operations(program: Any) -> Iterator[Any]:
    """All operations of a traced program, those inside loops and branches too."""
    for equation in program.eqns:
        yield equation.primitive
        for parameter in equation.params.values():
            for part in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from _operations(inner)
