"""Parameters and types of a program's operations as JSON, by a closed list of types.

`written` and `read` raise ValueError, TypeError or another error for anything but what the type
allows; callers turn that into one sentence. Nothing that is read names a class or an attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tacit.spec.primitives import generator, key_dtype

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
WIDE = ("int64", "uint64", "float64", "complex128")  # only with jax_enable_x64
MOST_INTEGERS, LARGEST_INTEGER = 10_000, 2**31


def written(kind: str, value: Any, program: Callable[[Any], Any]) -> Any:
    """A parameter as JSON; raises ValueError or TypeError where the type does not allow it."""
    match kind:
        case "none" if value is not None:
            raise ValueError
        case "none" | "dropped" | "strong":
            return None
        case "int" | "bool":
            return bool(value) if kind == "bool" else int(value)
        case "ints":
            return _lists(value)
        case "number" if value is not None and not isinstance(value, (bool, int, np.integer)):
            return float(value).hex()
        case "number":
            return value if value is None or isinstance(value, bool) else int(value)
        case "dtype":
            return None if value is None else dtype_name(value)
        case "generator":
            if value != generator():
                raise ValueError
            return "threefry2x32"
        case "gather" | "scatter" | "convolution":
            return [_lists(part) for part in value]
        case "precision" if isinstance(value, tuple):
            return [_name(kind, part) for part in value]
        case "program":
            return program(value)
        case "programs":
            return [program(part) for part in value]
        case _:
            return None if value is None else _name(kind, value)


def read(kind: str, value: Any, program: Callable[[Any], Any], x64: bool) -> Any:
    """A parameter from JSON; raises ValueError or TypeError where the type does not allow it."""
    match kind:
        case "none" | "dropped" | "strong":
            return False if kind == "strong" else None
        case "int":
            return _integer(value)
        case "bool" if isinstance(value, bool):
            return value
        case "ints":
            return None if value is None else _tuples(value)
        case "number" if isinstance(value, str):
            return float.fromhex(value)
        case "number":
            return value if value is None or isinstance(value, bool) else _integer(value)
        case "dtype":
            return None if value is None else dtype_of(value, x64)
        case "generator" if value == "threefry2x32":
            return generator()
        case "gather" | "scatter" | "convolution" if isinstance(value, list):
            return _classes()[kind](*_tuples(value))
        case "precision" if isinstance(value, list):
            first, second = (_classes()[kind][part] for part in value)
            return first, second
        case "program":
            return program(value)
        case "programs" if isinstance(value, list) and value:
            return tuple(program(part) for part in value)
        case "mode" | "precision" | "rounding" | "fft" if isinstance(value, str):
            return _classes()[kind][value]
        case "precision" if value is None:
            return None
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
def _classes() -> dict[str, Any]:
    from jax import lax

    return {
        "gather": lax.GatherDimensionNumbers,
        "scatter": lax.ScatterDimensionNumbers,
        "convolution": lax.ConvDimensionNumbers,
        "mode": dict(lax.GatherScatterMode.__members__),
        "precision": dict(lax.Precision.__members__),
        "rounding": dict(lax.RoundingMethod.__members__),
        "fft": dict(lax.FftType.__members__),
    }


def _name(kind: str, value: Any) -> str:
    return next(name for name, member in _classes()[kind].items() if member is value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_INTEGER:
        raise ValueError
    return value


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
