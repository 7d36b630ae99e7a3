"""Programs that are refused: what is not listed, malformed or too large, in one sentence each."""

from __future__ import annotations

import base64
import copy
from typing import Any

import numpy as np
import pytest

from tacit.spec.errors import QueryError
from tacit.spec.programs import Program, trace
from tests.spec.program_cases import one_sentence, traced

jax = pytest.importorskip("jax")
from jax import lax  # noqa: E402


def _printing(row: Any, _: Any) -> Any:
    jax.debug.print("{}", row[0])
    return row


def _calling(row: Any, _: Any) -> Any:
    return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((2,), np.float32), row)


def _writing(row: Any, _: Any) -> Any:
    from jax.experimental import io_callback

    return io_callback(lambda x: x, jax.ShapeDtypeStruct((2,), np.float32), row)


def _random(row: Any, _: Any) -> Any:
    from jax.extend.core.primitives import rng_uniform_p

    return row + rng_uniform_p.bind(np.float32(0), np.float32(1), shape=(2,))


def _inside(row: Any, _: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        jax.debug.callback(print, x)
        return carry, x

    return lax.scan(body, 0.0, row)[1]


def _impostor(row: Any, _: Any) -> Any:
    from jax.extend.core import Primitive

    add = Primitive("add")
    add.def_abstract_eval(lambda x, y: x)
    return add.bind(row, row)


def _reference(row: Any, _: Any) -> Any:
    ref = jax.new_ref(row)
    ref[0] = 1.0
    return ref[...]


@pytest.mark.parametrize(
    "function",
    [_printing, _calling, _writing, _random, _inside, _impostor, _reference],
)
def test_refused_operations(function: Any) -> None:
    with pytest.raises(QueryError) as refusal:
        trace(function, 2, None)
    one_sentence(refusal.value)
    assert str(refusal.value).startswith("Expected JAX's operations of one row alone, got ")


@pytest.mark.parametrize(
    "name", ["psum", "all_gather", "axis_index", "rng_uniform", "get", "empty2", "jit"]
)
def test_refused_names(name: str) -> None:
    data = traced("no state").to_dict()
    data["equations"][0][0] = name
    with pytest.raises(QueryError, match=f"got '{name}'"):
        Program.from_dict(data)


def _array(scope: dict[str, Any], array: np.ndarray) -> None:
    text = base64.b64encode(array).decode()
    scope["constants"].append([array.dtype.name, list(array.shape), text])


def _malformed() -> dict[str, Any]:
    """Each changes one thing in a program of one operation, on a row of two and a state of two."""
    base = trace(lambda row, t: row * t, 2, np.zeros(2)).to_dict()
    nested = trace(
        lambda row, t: lax.scan(lambda c, x: (c + x, c * x), t, row)[1], 2, 0.0
    ).to_dict()
    found: dict[str, Any] = {}

    def case(name: str, change: Any, of: Any = base) -> None:
        data = copy.deepcopy(of)
        found[name] = change(data) or data

    case("version", lambda d: d.update(format="tacit-program/2"))
    case("no version", lambda d: {k: v for k, v in d.items() if k != "format"})
    case("more keys", lambda d: d.update(code="print()"))
    case("no row", lambda d: d.update(inputs=[]))
    case("row of integers", lambda d: d["inputs"][0].__setitem__(0, "int32"))
    case("row as a matrix", lambda d: d["inputs"][0].__setitem__(1, [2, 2]))
    case("64 bits in a program of 32", lambda d: d["inputs"][1].__setitem__(0, "float64"))
    case("objects", lambda d: d["inputs"][1].__setitem__(0, "object"))
    case("negative side", lambda d: d["inputs"][1].__setitem__(1, [-2]))
    case("wrong size", lambda d: d.update(size=3))
    case("forward reference", lambda d: d["equations"][0].__setitem__(2, [0, 2]))
    case("negative reference", lambda d: d["equations"][0].__setitem__(2, [0, -1]))
    case("too many inputs", lambda d: d["equations"][0].__setitem__(2, [0, 1, 1]))
    case("too few inputs", lambda d: d["equations"][0].__setitem__(2, [0]))
    case("wrong number of results", lambda d: d["equations"][0].__setitem__(3, 2))
    case("unknown parameter", lambda d: d["equations"][0].__setitem__(1, {"out_dtype": None}))
    case("unknown operation", lambda d: d["equations"][0].__setitem__(0, "__class__"))
    case("two outputs", lambda d: d.update(outputs=[2, 2]))
    case("truth values", lambda d: d["constants"].append(["bool", [1], "Ag=="]))
    case("too few bytes", lambda d: d["constants"].append(["float32", [2], "AAAAAA=="]))
    case("not base64", lambda d: d["constants"].append(["float32", [1], "AAAA AA="]))
    case("many numbers", lambda d: d["constants"].append(["int8", [10**6, 10**6], ""]))
    case("large text", lambda d: _array(d, np.zeros(3_100_000, np.int8)))
    case("many operations", lambda d: d.update(equations=d["equations"] * 10_001))
    case("many axes", lambda d: d["inputs"][1].__setitem__(1, [1] * 100))
    case("huge number", lambda d: d.update(size=10**400))
    case("no number", lambda d: d.update(size=float("nan")))
    case("objects of Python", lambda d: d.update(size={1, 2}))
    case("a list", lambda d: [d])
    case("long scan", lambda d: d["equations"][0][1].update(length=10**7), nested)
    case("unrolled scan", lambda d: d["equations"][0][1].update(unroll=10**6), nested)
    case("scan that does not fit", lambda d: d["equations"][0][1].update(num_carry=2), nested)
    case("scan of nothing", lambda d: d["equations"][0][1].update(jaxpr=None), nested)
    huge = ["broadcast_in_dim", {"shape": [1000, 2000, 2], "broadcast_dimensions": [2]}, [0], 1]
    product = {
        "dimension_numbers": [[[1, 2], [1, 2]], [[], []]],
        "precision": None,
        "preferred_element_type": None,
    }
    case("large values", lambda d: d["equations"].append(copy.deepcopy(huge)))
    found["large values"]["equations"][-1][1]["shape"] = [10**8, 1, 2]
    case("much work", lambda d: d["equations"].extend([huge, ["dot_general", product, [3, 3], 1]]))

    def deep(data: Any) -> None:
        for _ in range(10):
            inner = copy.deepcopy(data["equations"][0][1]["jaxpr"])
            inner["equations"] = [copy.deepcopy(data["equations"][0])]
            data["equations"][0][1]["jaxpr"] = inner

    case("deep", deep, nested)
    lists: Any = []
    for _ in range(100_000):
        lists = [lists]
    found["very deep"] = {**base, "inputs": lists}
    return found


MALFORMED = _malformed()


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_programs(name: str) -> None:
    with pytest.raises(QueryError) as refusal:
        Program.from_dict(MALFORMED[name])
    one_sentence(refusal.value)


def test_text_that_is_not_canonical() -> None:
    text = traced("no state").text
    for wrong in (" " + text, "", "[" * 100_000, "{}", text.replace("tacit", "\\u0074acit"), 3):
        with pytest.raises(QueryError) as refusal:
            Program(wrong)  # type: ignore[arg-type]
        one_sentence(refusal.value)


# Axes that are not the row's own, after `vmap` those of the records


def _operation(name: str, parameters: dict[str, Any], results: int = 1) -> dict[str, Any]:
    """A program that applies one operation to its row and returns the row."""
    return {
        "format": "tacit-program/1",
        "size": 3,
        "inputs": [["float32", [3]]],
        "constants": [],
        "equations": [[name, parameters, [0], results]],
        "outputs": [0],
    }


_ALONG = {
    "sort": {"dimension": 0, "is_stable": True, "num_keys": 1},
    "cumsum": {"axis": 0, "reverse": False},
    "cumlogsumexp": {"axis": 0, "reverse": False},
    "reduce_sum": {"axes": [0]},
    "reduce_max": {"axes": [0]},
    "argmax": {"axes": [0], "index_dtype": "int32"},
    "rev": {"dimensions": [0]},
    "concatenate": {"dimension": 0},
    "stack": {"axis": 0},
    "top_k": {"k": 1, "axis": 0},
    "transpose": {"permutation": [0]},
    "iota": {"dtype": "float32", "shape": [3], "dimension": 0},
}


@pytest.mark.parametrize("name", _ALONG)
@pytest.mark.parametrize("axis", [-1, -2, -3, -(2**31), 2, 7])
def test_an_axis_that_a_row_does_not_have_is_refused(name: str, axis: int):
    """Side by side, axis -2 of a row is the axis of the records: `sort` went along it."""
    good = _operation(name, _ALONG[name], 2 if name == "top_k" else 1)
    if name == "iota":
        good["equations"][0][2] = []
    Program.from_dict(good)
    bad = copy.deepcopy(good)
    key = next(k for k in bad["equations"][0][1] if k.startswith(("axis", "axes", "dim", "perm")))
    given = bad["equations"][0][1][key]
    bad["equations"][0][1][key] = [axis] if isinstance(given, list) else axis
    with pytest.raises(QueryError, match=f"that fit operation 0, '{name}'"):
        Program.from_dict(bad)


def test_loops_within_loops_end_in_time():
    """A loop counts as its 100,000 rounds, so that no row can keep an answer from coming out."""

    def nested(row: Any, _: Any) -> Any:
        def inner(x: Any) -> Any:
            return lax.while_loop(lambda y: y < row[0], lambda y: y + 1, x)

        return lax.while_loop(lambda x: x < row[1], inner, row[0])[None]

    with pytest.raises(QueryError, match="a while loop counts as 100000 rounds"):
        trace(nested, 2, None)


def test_scans_within_scans_are_not_unrolled_beyond_the_limit():
    def nested(depth: int, x: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return (nested(depth - 1, carry) if depth else jax.numpy.sin(carry)), None

        return lax.scan(body, x, None, length=64, unroll=32)[0]

    with pytest.raises(QueryError, match="at most 10000 operations"):
        trace(lambda row, _: nested(2, row), 2, None)


def test_rounds_that_compute_nothing_count() -> None:
    def turning(row: Any, _: Any) -> Any:
        def inner(carry: Any) -> Any:
            return lax.while_loop(lambda c: c[0], lambda c: (c[1], c[0]), carry)

        return lax.while_loop(lambda c: c[0], inner, (row[0] > 0, row[1] > 0))[0] * row[0]

    with pytest.raises(QueryError, match="numbers computed for one row") as refused:
        trace(turning, 2, None)
    one_sentence(refused.value)


def test_inputs_are_limited_together() -> None:
    state = tuple(np.zeros(4_000_000, np.float32) for _ in range(3))
    with pytest.raises(QueryError, match="in all inputs together"):
        trace(lambda row, state: row[0] + state[0][0] + state[1][0] + state[2][0], 1, state)
