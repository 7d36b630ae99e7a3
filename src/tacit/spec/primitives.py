"""The closed table of JAX's primitive operations that a program may use, and their parameters.

Each operation is listed with the name and type of every parameter. A parameter is written as JSON
and read back by its type (`written`, `read`), so that no value names a class, a function or an
attribute. An operation or a parameter that is not listed is refused: callbacks, printing,
collectives (`psum`), references (`get`), uncleared memory (`empty2`), randomness without a key
(`rng_uniform`) and series whose number of terms has no limit (`igamma`) are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tacit.spec.checks import is_whole
from tacit.spec.errors import QueryError

NOTHING = "Nothing was charged or read."
MOST_ROUNDS = 100_000
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
WIDE = ("int64", "uint64", "float64", "complex128")  # only with jax_enable_x64
MOST_INTEGERS, LARGEST_INTEGER = 10_000, 2**31
_SCATTER = "dimension_numbers:scatter indices_are_sorted:bool unique_indices:bool mode:mode"
_WINDOW = (
    "window_dimensions:ints window_strides:ints padding:ints base_dilation:ints "
    "window_dilation:ints"
)
# Parameters and their types, and the operations that have them. Of the type `none` are those that
# say how accurate or where to compute: they must be None, and are not written.
_TABLE = {
    "": """
        abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e ceil
        cholesky clamp clz complex cosh digamma div dynamic_update_slice eq eq_to erf
        erf_inv erfc floor ge gt imag is_finite le le_to
        lgamma lt lt_to lu max min mulhi ne neg nextafter not optimization_barrier or
        polygamma population_count pow random_fold_in random_unwrap real
        regularized_incomplete_beta rem select_n shift_left shift_right_arithmetic
        shift_right_logical sign sinh square stop_gradient sub threefry2x32 xor zeta
    """,
    "accuracy:none": "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh",
    "out_dtype:none": "mul",
    "axes:ints": "reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_xor",
    "axes:ints out_sharding:none": "reduce_sum",
    "axes:ints index_dtype:dtype": "argmax argmin",
    "axis:int": "stack unstack",
    "axis:int reverse:bool": "cumlogsumexp cummax cummin cumprod cumsum",
    "new_dtype:dtype": "bitcast_convert_type",
    "new_dtype:dtype weak_type:strong sharding:dropped": "convert_element_type",
    "shape:ints broadcast_dimensions:ints sharding:dropped": "broadcast_in_dim",
    "dimension:int": "concatenate",
    "input_dtype:dtype": "conj",
    "fft_type:fft fft_lengths:ints": "fft",
    "y:int": "integer_pow",
    "dtype:dtype shape:ints dimension:int sharding:dropped": "iota",
    "permutation_size:int": "lu_pivots_to_permutation",
    "padding_config:ints": "pad",
    "exponent_bits:int mantissa_bits:int": "reduce_precision",
    "new_sizes:ints dimensions:ints sharding:dropped": "reshape",
    "dimensions:ints": "rev squeeze",
    "rounding_method:rounding": "round",
    "start_indices:ints limit_indices:ints strides:ints": "slice",
    "slice_sizes:ints": "dynamic_slice",
    "dimension:int is_stable:bool num_keys:int": "sort",
    "sizes:ints axis:int": "split",
    "reps:ints": "tile",
    "k:int axis:int": "top_k",
    "permutation:ints": "transpose",
    "left_side:bool lower:bool transpose_a:bool conjugate_a:bool unit_diagonal:bool": (
        "triangular_solve"
    ),
    "perturb_singular:bool": "tridiagonal_solve",
    "pivoting:bool full_matrices:bool use_magma:none": "qr",
    "full_matrices:bool compute_uv:bool subset_by_index:none algorithm:none": "svd",
    "lower:bool sort_eigenvalues:bool subset_by_index:none algorithm:none": "eigh",
    "dimension_numbers:ints precision:precision preferred_element_type:dtype out_sharding:none": (
        "dot_general"
    ),
    (
        "window_strides:ints padding:ints lhs_dilation:ints rhs_dilation:ints "
        "dimension_numbers:convolution feature_group_count:int batch_group_count:int "
        "precision:precision preferred_element_type:dtype out_sharding:none"
    ): "conv_general_dilated",
    _WINDOW: "reduce_window_max reduce_window_min reduce_window_sum",
    (
        "dimension_numbers:gather slice_sizes:ints unique_indices:bool indices_are_sorted:bool "
        "mode:mode fill_value:number"
    ): "gather",
    f"update_jaxpr:none update_consts:dropped {_SCATTER}": "scatter",
    f"update_jaxpr:dropped update_consts:dropped {_SCATTER}": (
        "scatter-add scatter-max scatter-min scatter-mul scatter-sub"
    ),
    "bit_width:int shape:ints": "random_bits",
    "log_space:bool": "random_gamma",
    "impl:generator": "random_seed random_wrap",
    "shape:ints": "random_split",
    "branches:programs": "cond",
    "cond_nconsts:int cond_jaxpr:program body_nconsts:int body_jaxpr:program": "while",
    "reverse:bool length:int jaxpr:program num_consts:int num_carry:int unroll:int": "scan",
}
# Operations that XLA leaves to LAPACK.
FOREIGN = (*("cholesky", "eigh", "lu", "qr", "svd", "triangular_solve", "tridiagonal_solve"),)
# Loops whose length depends on the data, open or inside a function: side by side, whether a row has
# ended could depend on when the others do.
LOOPS = (*("while", "random_gamma", "zeta", "polygamma", "regularized_incomplete_beta"),)


@dataclass(frozen=True)
class Operation:
    """A listed primitive, the types of its parameters by name, and how it is applied."""

    name: str
    primitive: Any
    parameters: Mapping[str, str]
    apply: Callable[..., Any]


@cache
def operations() -> dict[str, Operation]:
    """The listed operations that the installed JAX has, by name."""
    from jax import lax, random
    from jax.extend.core import Primitive, primitives

    found = {
        p.name: p
        for p in (*vars(lax).values(), *vars(primitives).values())
        if isinstance(p, Primitive)
    }
    # Three that JAX does not export, taken from what its public functions are made of.
    key = np.zeros(2, np.uint32)
    for made in (
        _traced(lambda: random.key_data(random.wrap_key_data(key, impl="threefry2x32"))),
        _traced(lambda: lax.linalg.lu_pivots_to_permutation(np.zeros(2, np.int32), 2)),
    ):
        found |= {e.primitive.name: e.primitive for e in made}
    table = {}
    for parameters, names in _TABLE.items():
        types = dict(item.split(":") for item in parameters.split())
        for name in set(names.split()) & set(found):
            apply = _APPLIED.get(name, found[name].bind)
            if name in _INDICES:
                apply = _widened(apply, _INDICES[name])
            if name in FOREIGN:
                apply = _of_finite(apply)
            table[name] = Operation(name, found[name], types, apply)
    return table


@cache
def inlined() -> dict[Any, str]:
    """Calls, each with the parameter that holds what is called."""
    from jax.extend.core import primitives as p

    return {
        p.jit_p: "jaxpr",
        p.custom_jvp_call_p: "call_jaxpr",
        p.custom_vjp_call_p: "call_jaxpr",
        p.remat_p: "jaxpr",
        p.closed_call_p: "call_jaxpr",
        p.call_p: "call_jaxpr",
        p.linear_solve_p: "jaxprs",
    }


@cache
def identities() -> frozenset[Any]:
    """Operations that give what they are given."""
    from jax.extend.core import primitives as p

    return frozenset({p.device_put_p, p.copy_p, p.name_p})


@cache
def key_dtype() -> Any:
    """The type of the default generator's keys."""
    import jax

    return jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32")).dtype


def unknown(what: str) -> QueryError:
    return QueryError(f"Expected JAX's operations of one row alone, got {what}. {NOTHING}")


def _traced(function: Callable[[], Any]) -> list[Any]:
    import jax

    return list(jax.make_jaxpr(function)().eqns)


def _while(
    *values: Any, cond_nconsts: int, cond_jaxpr: Any, body_nconsts: int, body_jaxpr: Any
) -> Any:
    """A loop that ends after `MOST_ROUNDS` rounds at the latest, so that every program ends."""
    from jax import lax
    from jax.extend.core import jaxpr_as_fun

    if min(cond_nconsts, body_nconsts) < 0:
        raise ValueError
    split = cond_nconsts + body_nconsts
    fixed, moved, start = values[:cond_nconsts], values[cond_nconsts:split], values[split:]
    goes_on, body = jaxpr_as_fun(cond_jaxpr), jaxpr_as_fun(body_jaxpr)

    def again(carry: Any) -> Any:
        (more,) = goes_on(*fixed, *carry[1:])
        return lax.bitwise_and(more, carry[0] < MOST_ROUNDS)

    def round_(carry: Any) -> Any:
        return (carry[0] + np.int32(1), *body(*moved, *carry[1:]))

    return lax.while_loop(again, round_, (np.int32(0), *start))[1:]


def _scatter(name: str) -> Callable[..., Any]:
    def apply(*values: Any, update_jaxpr: None, update_consts: None, **parameters: Any) -> Any:
        from jax import lax

        return getattr(lax, name.replace("-", "_"))(*values, **parameters)

    return apply


def _widened(apply: Callable[..., Any], indices: slice) -> Callable[..., Any]:
    """Apply an operation with indices of 32 bits at least.

    In a loop over rows XLA may merge the row's index with the loop's and compute both in the type
    of the former: with 8 bits that came to other rows.
    """  # proof: programs

    def with_wide_indices(*values: Any, **parameters: Any) -> Any:
        from jax import lax

        given = list(values)
        given[indices] = [
            value
            if str(value.dtype) in ("int32", "int64")
            else lax.convert_element_type(value, np.int32)
            for value in values[indices]
        ]
        return apply(*given, **parameters)

    return with_wide_indices


def _of_finite(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Apply an operation to finite numbers; to others it gives NaN and is not applied.

    LAPACK prints a line for each matrix with an infinite number, and does not return for some.
    """  # proof: programs

    def of_finite(*values: Any, **parameters: Any) -> Any:
        import jax.numpy as jnp

        finite = jnp.array([jnp.all(jnp.isfinite(value)) for value in values]).all()
        results = apply(*(jnp.where(finite, v, jnp.zeros_like(v)) for v in values), **parameters)
        listed = list(results) if isinstance(results, (tuple, list)) else [results]
        made = [
            jnp.where(finite, value, jnp.full_like(value, jnp.nan))
            if jnp.issubdtype(value.dtype, jnp.inexact)
            else value
            for value in listed
        ]
        return made if isinstance(results, (tuple, list)) else made[0]

    return of_finite


_SCATTERS = ("scatter", *(f"scatter-{how}" for how in ("add", "max", "min", "mul", "sub")))
# JAX's public functions make what these primitives need besides.
_APPLIED: dict[str, Callable[..., Any]] = {
    "while": _while,
    **{name: _scatter(name) for name in _SCATTERS},
}
# Which operands of an operation are indices.
_INDICES = {
    "dynamic_slice": slice(1, None),
    "dynamic_update_slice": slice(2, None),
    **dict.fromkeys(("gather", *_SCATTERS), slice(1, 2)),
}


def written(type_name: str, value: Any, program: Callable[[Any], Any]) -> Any:
    """A parameter as JSON; raises ValueError or TypeError where its type does not allow it."""
    match type_name:
        case "none" | "dropped" | "strong":
            if type_name == "none" and value is not None:
                raise ValueError
            return None
        case "int" | "bool":
            return bool(value) if type_name == "bool" else int(value)
        case "number" if isinstance(value, (bool, int, np.integer)):
            return value if isinstance(value, bool) else int(value)
        case "program":
            return program(value)
        case "programs":
            return [program(part) for part in value]
        case _ if value is None:
            return None
        case "number":
            return float(value).hex()
        case "dtype":
            return dtype_name(value)
        case "ints" | "gather" | "scatter" | "convolution":
            return _lists(tuple(value) if type_name != "ints" else value)
        case "precision" if isinstance(value, tuple):
            return [_name(type_name, part) for part in value]
    return _name(type_name, value)


def read(type_name: str, value: Any, program: Callable[[Any], Any], x64: bool) -> Any:
    """A parameter from JSON; raises ValueError or TypeError where its type does not allow it."""
    match type_name, value:
        case (("none" | "dropped" | "strong"), _):
            return False if type_name == "strong" else None
        case (("bool" | "number"), bool()):
            return value
        case (("ints" | "number" | "dtype" | "precision"), None):
            return None
        case (("int" | "number"), int()):
            return _integer(value)
        case "number", str():
            return float.fromhex(value)
        case "ints", _:
            return _tuples(value)
        case "dtype", _:
            return dtype_of(value, x64)
        case "program", _:
            return program(value)
        case "programs", [_, *_]:
            return tuple(program(part) for part in value)
        case (("gather" | "scatter" | "convolution"), list()):
            return _named()[type_name](*_tuples(value))
        case "precision", [first, second]:
            return _named()[type_name][first], _named()[type_name][second]
        case (("generator" | "mode" | "precision" | "rounding" | "fft"), str()):
            return _named()[type_name][value]
    raise ValueError


def dtype_name(dtype: Any) -> str:
    if dtype == key_dtype():
        return "key"
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise ValueError
    return name


def dtype_of(name: Any, x64: bool, keys: bool = False) -> Any:
    """A type of numbers by its name; raises ValueError for any that is not listed."""
    if keys and name == "key":
        return key_dtype()
    if not isinstance(name, str) or name not in DTYPES or (name in WIDE and not x64):
        raise ValueError
    return np.dtype(name)


@cache
def _named() -> dict[str, Any]:
    """The classes of parameters with parts, and the values of those that have names."""
    from jax import lax, random

    key = np.zeros(2, np.uint32)
    wrapped, *_ = _traced(lambda: random.wrap_key_data(key, impl="threefry2x32"))
    return {
        "gather": lax.GatherDimensionNumbers,
        "scatter": lax.ScatterDimensionNumbers,
        "convolution": lax.ConvDimensionNumbers,
        "generator": {"threefry2x32": wrapped.params["impl"]},
        "mode": dict(lax.GatherScatterMode.__members__),
        "precision": dict(lax.Precision.__members__),
        "rounding": dict(lax.RoundingMethod.__members__),
        "fft": dict(lax.FftType.__members__),
    }


def _name(type_name: str, value: Any) -> str:
    return next(name for name, member in _named()[type_name].items() if member == value)


def _integer(value: Any) -> int:
    if not is_whole(value, -LARGEST_INTEGER, LARGEST_INTEGER):
        raise ValueError
    return int(value)


def _lists(value: Any) -> Any:
    if value is None or isinstance(value, (tuple, list)):
        return None if value is None else [_lists(part) for part in value]
    return int(value)


def _tuples(value: Any, depth: int = 3) -> Any:
    if not isinstance(value, list):
        return _integer(value)
    if not depth or len(value) > MOST_INTEGERS:
        raise ValueError
    return tuple(_tuples(part, depth - 1) for part in value)
