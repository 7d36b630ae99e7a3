"""Programs: the rebuilt function gives the same bits, and the same function the same text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

from tacit.spec.errors import QueryError
from tacit.spec.primitives import operations
from tacit.spec.programs import Program, leaves_of, trace
from tests.spec.program_cases import CASES, ROWS, traced

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402


def _other(leaf: np.ndarray) -> np.ndarray:
    if leaf.dtype.kind != "f":
        return leaf
    return (np.cos(np.arange(leaf.size) * 1.3 + 1) * 2).reshape(leaf.shape).astype(leaf.dtype)


def _over_rows(function: Any, loops: bool) -> Any:
    if loops:
        return jax.jit(lambda rows, state: lax.map(lambda row: function(row, state), rows))
    return jax.jit(jax.vmap(function, in_axes=(0, None)))


def _through_json(program: Program) -> Program:
    return Program.from_dict(json.loads(json.dumps(program.to_dict())))


@pytest.mark.parametrize("name", CASES)
def test_same_bits(name: str) -> None:
    function, state = CASES[name]
    program = _through_json(traced(name))

    def flat(row: Any, state: Any) -> Any:
        return jnp.ravel(function(row, state)).astype(row.dtype)

    here, there = _over_rows(flat, program.loops), _over_rows(program.function(), program.loops)
    for some in (state, jax.tree.map(lambda leaf: _other(np.asarray(leaf)), state)):
        rebuilt = np.asarray(there(ROWS, program.leaves(some)))
        assert rebuilt.shape == (64, program.size)
        assert np.asarray(here(ROWS, some)).tobytes() == rebuilt.tobytes()


def test_every_listed_operation_is_tried() -> None:
    used: set[str] = set()

    def collect(scope: dict[str, Any]) -> None:
        for name, parameters, *_ in scope["equations"]:
            used.add(name)
            for value in parameters.values():
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, dict):
                        collect(part)

    for name in CASES:
        collect(traced(name).to_dict())
    assert set(operations()) - used == set()


def test_numpyro_model() -> None:
    numpyro = pytest.importorskip("numpyro")
    import numpyro.distributions as dist

    import tacit

    def model(x: Any, y: Any) -> None:
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        coef = numpyro.sample("coef", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.StudentT(4.0, x @ coef, scale), obs=y)

    schema = tacit.Schema(
        *(tacit.Real(name, -2, 2) for name in ("a", "b", "y")), neighbours="replace_one"
    )
    density = tacit.LogDensity(model, x=["a", "b"], y="y").density(schema)
    start = density.start.astype(np.float32)

    def gradient(row: Any, theta: Any) -> Any:
        return jax.grad(density.log_likelihood)(theta, row)

    program = _through_json(trace(gradient, 3, start))
    rows = ROWS[:, :3].copy()
    for theta in (start, start + np.float32(0.3)):
        here = _over_rows(gradient, program.loops)(rows, theta)
        there = _over_rows(program.function(), program.loops)(rows, program.leaves(theta))
        assert np.asarray(here).tobytes() == np.asarray(there).tobytes()


def test_blocks_are_flattened_in_their_order() -> None:
    blocks = (("sum", (2,)), ("count", ()))

    def function(row: Any, _: Any) -> Any:
        return {"count": 1.0, "sum": row}

    program = trace(function, 2, None, blocks=blocks)
    assert program.size == 3
    run = program.function()
    np.testing.assert_array_equal(run(np.array([4, 5], np.float32), ()), [4, 5, 1])
    with pytest.raises(QueryError, match=r"^Expected the function to return sum, other\. Nothing"):
        trace(function, 2, None, blocks=(("sum", (2,)), ("other", ())))
    with pytest.raises(QueryError, match="to return 4 numbers, got 3"):
        trace(function, 2, None, blocks=(("sum", (3,)), ("count", ())))


@pytest.mark.parametrize("name", ["logistic", "scan", "matrices", "keys"])
def test_double_precision_without_x64(name: str) -> None:
    function, state = CASES[name]
    state = jax.tree.map(lambda leaf: _double(np.asarray(leaf)), state)
    rows = ROWS.astype(np.float64) + 1e-9
    with jax.enable_x64(True):
        program = trace(function, 6, state)
        flat = _over_rows(lambda row, s: jnp.ravel(function(row, s)), program.loops)
        expected = np.asarray(flat(rows, state))
    program = _through_json(program)
    assert program.dtype == "float64"
    assert not jax.config.jax_enable_x64
    with program.precision():
        over_rows = _over_rows(program.function(), program.loops)
        found = np.asarray(over_rows(rows, program.leaves(state)))
    assert found.dtype == np.float64
    assert found.tobytes() == expected.tobytes()
    with pytest.raises(QueryError, match=r"inside program\.precision\(\)"):
        _over_rows(program.function(), program.loops)(rows, program.leaves(state))
    one = np.asarray(program.function()(rows[0], program.leaves(state)))
    np.testing.assert_allclose(one, expected[0], rtol=1e-13)


def _double(leaf: np.ndarray) -> np.ndarray:
    return leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf


def test_single_precision_with_x64() -> None:
    function, state = CASES["Student"]
    program = traced("Student")
    expected = np.asarray(_over_rows(function, False)(ROWS, state))
    with jax.enable_x64(True):
        again = _through_json(program)
        with again.precision():
            found = _over_rows(again.function(), False)(ROWS, again.leaves(state))
    assert np.asarray(found).tobytes() == expected.tobytes()


def test_loops_that_data_end_are_flagged() -> None:
    flagged = {name for name in CASES if traced(name).loops}
    assert flagged == {"while", "loops", "Hessian"}  # of Student's t: polygamma


def test_endless_loop_ends() -> None:
    def endless(row: Any, _: Any) -> Any:
        return lax.while_loop(lambda c: c < jnp.inf, lambda c: c * 0 + row[0], row[0])

    assert np.asarray(trace(endless, 1, None).function()(np.zeros(1, np.float32), ())) == 0


_WILD = """
import jax, numpy as np
from tests.spec.program_cases import CASES, traced
from jax import lax, numpy as jnp
from tacit.spec.programs import trace

def matrices(row, _):
    a = jnp.eye(3) + jnp.outer(row[:3], row[3:])
    b = a.at[0, 0].add(1 / (row[0] - 0.25))
    return jnp.stack([sum(jnp.sum(part) for part in lax.linalg.svd(b)), jnp.linalg.norm(a, 2),
                      lax.linalg.svd(b, compute_uv=False).sum()])

values = [np.inf, -np.inf, np.nan, 3.4e38, 1e-45, 0.0, 0.25, 1.0]
rng = np.random.default_rng(0)
rows = rng.choice(values, size=(300, 6)).astype(np.float32)
programs = [(trace(matrices, 6, None), ())]
programs += [(traced(name), traced(name).leaves(CASES[name][1])) for name in CASES]
for program, state in programs:
    with program.precision():
        jax.block_until_ready(jax.jit(lambda r: lax.map(lambda x: program.function()(x, state), r))(
            rows[:, : program.columns].astype(program.dtype)))
"""


def test_no_operation_prints_or_hangs_whatever_the_row() -> None:
    """LAPACK printed two lines for each infinite matrix, and did not return for some."""
    done = subprocess.run(
        [sys.executable, "-c", _WILD], capture_output=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_numbers_that_are_not_finite_become_nan_in_foreign_routines() -> None:
    program = trace(lambda row, _: jnp.linalg.cholesky(row[None])[0], 1, None)  # a root
    found = jax.vmap(lambda row: program.function()(row, ()))(np.float32([[4], [np.inf], [9]]))
    np.testing.assert_array_equal(np.asarray(found).ravel(), [2, np.nan, 3])


def test_same_function_same_digest() -> None:
    def make(scale: float) -> Program:
        table = np.array([1.0, scale], np.float32)
        return trace(lambda row, t: jnp.sin(row * table) @ t, 2, np.zeros(2))

    assert make(2.0) == make(2.0)
    assert make(2.0).digest == make(2.0).digest == _through_json(make(2.0)).digest
    assert hash(make(2.0)) == hash(_through_json(make(2.0)))
    assert make(2.0).function() is _through_json(make(2.0)).function()
    assert make(2.0).digest != make(2.5).digest
    other = trace(lambda row, t: jnp.sin(row * np.array([1, 2], np.float32)) @ t, 2, np.ones(2))
    assert other.digest == make(2.0).digest  # names and numbers of the state do not matter
    elsewhere = {**make(2.0).to_dict(), "jax": "0.11.0"}
    assert Program.from_dict(elsewhere).digest == make(2.0).digest


def test_digest_in_another_process() -> None:
    code = (
        "import numpy as np, jax.numpy as jnp; from tacit.spec.programs import trace; "
        "print(trace(lambda row, t: jnp.tanh(row @ t['w']), 3, {'w': np.zeros(3)}).digest)"
    )
    run = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)]
    here = trace(lambda row, t: jnp.tanh(row @ t["w"]), 3, {"w": np.zeros(3)})
    assert run[0].stdout.strip() == here.digest


Pair = namedtuple("Pair", "second first")
STATES = [
    None,
    1.5,
    np.arange(3),
    {"b": 1, "a": {"z": 2.0, "c": [np.ones(2), None, (3,)]}},
    OrderedDict(b=1, a=2.0),
    Pair(np.zeros(2), (True, np.float32(3))),
    [jnp.arange(2), np.uint32(4)],
]


@pytest.mark.parametrize("state", STATES)
def test_leaves_in_the_order_of_jax(state: Any) -> None:
    theirs, ours = jax.tree.leaves(state), leaves_of(state)
    assert len(theirs) == len(ours)
    for one, other in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


@pytest.mark.parametrize("state", ["text", {"a": object()}, {1: 2.0, "b": 1.0}, [["x"]], b"x"])
def test_states_that_are_not_numbers(state: Any) -> None:
    with pytest.raises(QueryError, match=r"^Expected a state of arrays of numbers .* Nothing was"):
        leaves_of(state)


def test_state_of_another_form() -> None:
    program = trace(lambda row, s: row * s["a"] + s["b"], 2, {"a": 1.0, "b": np.zeros(2)})
    found = program.leaves({"a": np.float64(2), "b": np.ones(2)})
    assert [leaf.dtype for leaf in found] == [np.float32, np.float32]
    for wrong in ({"a": 1.0, "b": np.zeros(3)}, {"a": 1, "b": np.zeros(2)}, None, {"a": 1.0}):
        with pytest.raises(QueryError, match=r"^Expected a state like the one that was traced"):
            program.leaves(wrong)
