"""From a program's JSON back to a traced program of JAX, trusting nothing in it.

The text may come from someone else. Its sizes, types and numbering are checked before JAX sees
any of it; then the listed operations are applied to abstract values, which computes nothing, and
what JAX makes of them is checked again. Whatever JAX raises becomes one sentence.
"""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.spec.checks import is_whole
from tacit.spec.errors import QueryError
from tacit.spec.primitives import (
    FOREIGN,
    LOOPS,
    MOST_ROUNDS,
    NOTHING,
    Operation,
    dtype_of,
    identities,
    inlined,
    operations,
    read,
    unknown,
)
from tacit.spec.program_writing import MOST_EQUATIONS

FORMAT = "tacit-program/1"
MOST_TEXT = 4_000_000
MOST_CONSTANTS = 1_000_000
MOST_NUMBERS = 10_000_000  # of one intermediate value of one row
MOST_WORK = 1_000_000_000  # numbers computed for one row
MOST_LENGTH, MOST_UNROLLED = 1_000_000, 64  # of a scan
DEEPEST, MOST_AXES, MOST_VALUES = 8, 16, 1_000
_PARTS = {"inputs", "constants", "equations", "outputs"}
# Integer parameters that may be negative. All others are axes, sizes and counts: after `vmap` a
# negative axis would be that of the records.
_SIGNED = {("integer_pow", "y"), ("pad", "padding_config"), ("conv_general_dilated", "padding")}
_SIGNED |= {(f"reduce_window_{how}", "padding") for how in ("max", "min", "sum")}
_AXES = {"axis", "axes", "dimension", "dimensions", "permutation"}


@dataclass(frozen=True)
class Rebuilt:
    """A checked program: the jaxpr, and what running it takes for one row."""

    jaxpr: Any
    loops: bool
    largest: int
    work: int


@dataclass
class _Reader:
    """What a program has used up of the limits so far."""

    x64: bool
    equations: int = 0
    numbers: int = 0
    work: int = 0
    largest: int = 1
    loops: bool = False

    def scope(self, data: Any, depth: int, times: int, copies: int) -> Any:
        """A closed jaxpr of inputs, constants, equations and outputs.

        It is run `times` for one row at the most, and compiled in `copies`.
        """
        import jax

        if depth > DEEPEST:
            raise _refused(f"at most {DEEPEST} levels of nested programs")
        if not isinstance(data, dict) or set(data) != _PARTS:
            raise _refused("inputs, constants, equations and outputs in each (nested) program")
        for part in _PARTS:
            if not isinstance(data[part], list):
                raise _refused(f"a list of {part}")
        if len(data["inputs"]) > MOST_VALUES or len(data["outputs"]) > MOST_VALUES:
            raise _refused(f"at most {MOST_VALUES} inputs and outputs")
        inputs = [self.type(item, keys=depth > 0) for item in data["inputs"]]
        if sum(math.prod(value.shape) for value in inputs) > MOST_NUMBERS:
            raise _refused(f"at most {MOST_NUMBERS} numbers in all inputs together")
        constants = [self.constant(item) for item in data["constants"]]
        known = len(inputs) + len(constants)
        steps = []
        for item in data["equations"]:
            step = self.equation(item, known, depth, times, copies)
            steps.append(step)
            known += step[3]
        outputs = _indices(data["outputs"], known)

        def run(*values: Any) -> list[Any]:
            found = [*values, *constants]
            for number, step in enumerate(steps):
                found += self.applied(number, step, [found[i] for i in step[2]], times)
            return [found[i] for i in outputs]

        made = jax.make_jaxpr(run)(*inputs)
        # A round hands on its results even where it computes nothing.
        self.count(times * (1 + sum(math.prod(value.shape) for value in made.out_avals)))
        return made

    def count(self, work: int) -> None:
        self.work += work
        if self.work > MOST_WORK:
            raise _refused(
                f"at most {MOST_WORK} numbers computed for one row, where a while loop counts as "
                f"{MOST_ROUNDS} rounds"
            )

    def equation(
        self, item: Any, known: int, depth: int, times: int, copies: int
    ) -> tuple[Operation, dict[str, Any], list[int], int]:
        """An operation, its parameters, where its inputs are, and how many results it has."""
        self.equations += copies
        if self.equations > MOST_EQUATIONS:
            raise _refused(f"at most {MOST_EQUATIONS} operations")
        if not isinstance(item, list) or len(item) != 4 or not isinstance(item[0], str):
            raise _refused("[name, parameters, inputs, number of results] for each operation")
        name, given, inputs, results = item
        operation = operations().get(name)
        if operation is None:
            raise unknown(repr(name[:40]))
        if not is_whole(results, 1, MOST_VALUES):
            raise _refused(f"a number of results of {name!r} from 1 to {MOST_VALUES}")
        types = operation.parameters
        written = {key for key in types if types[key] not in ("none", "dropped", "strong")}
        if not isinstance(given, dict) or set(given) != written:
            raise _refused(f"the parameters {', '.join(sorted(written)) or '(none)'} of {name!r}")
        if name == "scan":
            if not is_whole(given["length"], 0, MOST_LENGTH):
                raise _refused(f"a scan of at most {MOST_LENGTH} rounds")
            if not is_whole(given["unroll"], 1, MOST_UNROLLED):
                raise _refused(f"a scan unrolled at most {MOST_UNROLLED} times")
            times, copies = times * max(1, given["length"]), copies * given["unroll"]
        if name == "while":
            times *= MOST_ROUNDS  # proof: programs. Every program ends, whatever the row.
        self.loops |= name in LOOPS
        params = {}
        for key, type_name in types.items():
            try:
                params[key] = read(
                    type_name,
                    given.get(key),
                    lambda part: self.scope(part, depth + 1, times, copies),
                    self.x64,
                )
            except QueryError:
                raise
            except Exception:  # noqa: BLE001 - whatever an unfit value raises
                raise _refused(f"a value of type {type_name} for {key} of {name!r}") from None
        return operation, params, _indices(inputs, known), results

    def applied(self, number: int, step: Any, values: list[Any], times: int) -> list[Any]:
        """The results of one operation on abstract values, within the limits."""
        operation, params, _, count = step
        name = operation.name
        try:
            _check_axes(name, operation.parameters, params, values)
            results = operation.apply(*values, **params)
            listed = list(results) if isinstance(results, (tuple, list)) else [results]
            shapes = [tuple(int(side) for side in value.shape) for value in listed]
            work = _work(name, params, [tuple(value.shape) for value in values], shapes)
        except Exception:  # noqa: BLE001 - whatever JAX raises
            raise _refused(f"inputs and parameters that fit operation {number}, {name!r}") from None
        if len(listed) != count:
            raise _refused(f"{len(listed)} results of operation {number}, {name!r}")
        largest = max(math.prod(shape) for shape in shapes)
        if largest > MOST_NUMBERS or max(len(shape) for shape in shapes) > MOST_AXES:
            raise _refused(f"at most {MOST_NUMBERS} numbers and {MOST_AXES} axes in {name!r}")
        self.largest = max(self.largest, largest)
        self.count(times * work)
        return listed

    def type(self, item: Any, keys: bool) -> Any:
        """An input as JAX's description of its shape and type."""
        import jax

        try:
            name, shape = item
            dtype = dtype_of(name, self.x64, keys)
        except (TypeError, ValueError):
            raise _refused("the type and shape of each value, types of 64 bits with x64") from None
        return jax.ShapeDtypeStruct(_shape(shape, MOST_NUMBERS), dtype)

    def constant(self, item: Any) -> np.ndarray:
        try:
            name, shape, text = item
            dtype = dtype_of(name, self.x64)
            sides = _shape(shape, MOST_CONSTANTS)
            self.numbers += math.prod(sides)
            if self.numbers > MOST_CONSTANTS:
                raise _refused(f"at most {MOST_CONSTANTS} numbers in constants")
            raw = base64.b64decode(text, validate=True)
            array = np.frombuffer(raw, dtype.newbyteorder("<")).reshape(sides).astype(dtype)
        except QueryError:
            raise
        except (TypeError, ValueError):
            raise _refused("the type, shape and bytes in base64 of each constant") from None
        if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise _refused("0 or 1 for each truth value")
        return array


def canonical(value: Any) -> str:
    """JSON with sorted keys and no blanks, the same for the same value."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise _refused("a program as plain JSON") from None


@lru_cache(maxsize=256)
def rebuilt(text: str) -> Rebuilt:
    """A program from its canonical JSON, checked as a whole."""
    try:
        import jax
    except ImportError:
        raise QueryError("A program needs JAX: pip install 'tacit[jax]'.") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _refused("a program as JSON") from None
    if canonical(data) != text:
        raise _refused("JSON with sorted keys and no blanks")
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise _refused(f"a program in the format {FORMAT!r}")
    size = data.pop("size", None)
    if not is_whole(size, 1, MOST_NUMBERS):
        raise _refused("the number of the program's results as its size")
    inputs = data.get("inputs")
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if not isinstance(first, list) or len(first) != 2 or first[0] not in ("float32", "float64"):
        raise _refused("a row of type float32 or float64 as the first input")
    if not isinstance(first[1], list) or len(first[1]) != 1:
        raise _refused("a row with one axis as the first input")
    reader = _Reader(first[0] == "float64")
    with jax.enable_x64(reader.x64):
        try:
            jaxpr = reader.scope(data, 0, 1, 1)
            _check(jaxpr, first[0], size, reader.loops)
        except QueryError:
            raise
        except Exception:  # noqa: BLE001 - whatever JAX raises
            raise _refused("operations that JAX can put together") from None
    return Rebuilt(jaxpr, reader.loops, reader.largest, reader.work)


def _check(program: Any, dtype: str, size: int, loops: bool) -> None:
    """What JAX made of a program: its operations, types, and whether XLA would take it."""
    import jax
    from jax.extend.core import check_jaxpr, jaxpr_as_fun

    allowed = {operation.primitive for operation in operations().values()}
    allowed |= {*inlined(), *identities()}
    found = set(_primitives(program.jaxpr))
    if not found <= allowed or program.effects:
        raise unknown(", ".join(sorted(p.name for p in found - allowed)) or "a side effect")
    outputs = [(str(aval.dtype), aval.shape) for aval in program.out_avals]
    if outputs != [(dtype, (size,))]:
        raise _refused(f"one vector of {size} results of type {dtype}")
    check_jaxpr(program.jaxpr)
    # Lowered for one row, where every axis is the row's own, and over rows side by side.
    row, *leaves = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.in_avals)
    of_row = jaxpr_as_fun(program)
    jax.jit(of_row).lower(row, *leaves)
    if not loops:
        of_row = jax.vmap(of_row, in_axes=(0, *(None for _ in leaves)))
        row = jax.ShapeDtypeStruct((8, *row.shape), row.dtype)
        jax.jit(of_row).lower(row, *leaves)


def _primitives(jaxpr: Any) -> Any:
    """All operations of a traced program, those inside loops and branches too."""
    from jax.extend.core import jaxprs_in_params

    for equation in jaxpr.eqns:
        yield equation.primitive
        for inner in jaxprs_in_params(equation.params):
            yield from _primitives(inner)


def _check_axes(
    name: str, types: Mapping[str, str], params: dict[str, Any], values: list[Any]
) -> None:
    """Refuse axes that the values do not have: side by side they could be the axis of records."""
    # proof: programs
    for key, value in params.items():
        if types[key] in ("int", "ints", "gather", "scatter", "convolution"):
            numbers = list(_integers(value))
            if (name, key) not in _SIGNED and min(numbers, default=0) < 0:
                raise ValueError("a negative axis, size or count")
            if key in _AXES and values:
                axes = values[0].ndim + (name == "stack")
                if max(numbers, default=0) >= max(axes, 1):
                    raise ValueError("an axis beyond the last")


def _integers(value: Any) -> Iterator[int]:
    """All integers in a parameter of nested tuples and named tuples."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _integers(part)
    elif hasattr(value, "__dict__"):
        yield from _integers(tuple(vars(value).values()))
    elif isinstance(value, int) and not isinstance(value, (bool, enum.Enum)):
        yield value


def _work(name: str, params: dict[str, Any], inputs: list[Any], outputs: list[Any]) -> int:
    """About how many numbers an operation computes."""
    sizes = [math.prod(shape) for shape in (*inputs, *outputs)]
    made = sum(math.prod(shape) for shape in outputs)
    if name == "dot_general":
        return made * math.prod(inputs[0][i] for i in params["dimension_numbers"][0][0])
    if name == "conv_general_dilated":
        return made * math.prod(inputs[1])
    if name.startswith("reduce_window"):
        return made * math.prod(params["window_dimensions"])
    if name in FOREIGN:
        return max(sizes) * max(inputs[0])
    return max(sizes)


def _shape(value: Any, most: int) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MOST_AXES:
        raise _refused(f"shapes with at most {MOST_AXES} axes")
    if not all(is_whole(side, 0, most) for side in value) or math.prod(value) > most:
        raise _refused(f"shapes of at most {most} numbers")
    return tuple(value)


def _indices(value: Any, known: int) -> list[int]:
    if not isinstance(value, list) or not all(is_whole(i, 0, known - 1) for i in value):
        raise _refused("inputs that were computed before they are used")
    return value


def _refused(what: str) -> QueryError:
    return QueryError(f"Expected {what}. {NOTHING}")
