"""No function of the caller runs with, or beside, raw records: there is no place to put one."""

import ast
import dataclasses
import typing
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.kernels import KERNELS
from tacit.spec.mechanisms import MECHANISMS
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import QUERIES
from tacit.wall.steps import loops
from tacit.wall.steps.clip import LIMIT

SOURCE = Path(tacit.__file__).parent
ROOMS = ["wall", "draws", "sources", "kernels", "public.py"]
PLAIN = {int, float, str, bool, NoneType, np.ndarray, Decimal}


def parts_of(annotation: Any) -> list[Any]:
    """The classes that an annotation names."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal or annotation is Ellipsis:
        return []
    if origin in (typing.Union, UnionType, tuple):
        return [part for one in inside for part in parts_of(one)]
    return [origin or annotation]


def closure(kinds):
    """All classes that values of these can hold, from the annotations of their fields."""
    found, pending = set(), list(kinds)
    while pending:
        kind = pending.pop()
        if kind in found or kind in PLAIN:
            continue
        found.add(kind)
        assert dataclasses.is_dataclass(kind), f"{kind} is neither plain nor a dataclass"
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            for part in parts_of(hints[field.name]):
                assert part not in (Any, object, Callable, FunctionType), (kind, field.name)
                pending.append(part)
    return found


ASKED = closure([*QUERIES.values(), *MECHANISMS.values(), Plan, Steps])
FIELDS = {field.name for kind in ASKED for field in dataclasses.fields(kind)}


def test_no_part_of_a_question_can_be_a_function():
    """Every field of every query, mechanism and plan is a number, a text, an array, or such."""
    names = {kind.__name__ for kind in ASKED}
    assert names >= {*QUERIES, *MECHANISMS, "Plan", "Bound", "Kernel", "Program", "Points", "Panel"}
    assert {"kernel", "state", "prior", "region", "law"} <= FIELDS


def own_names(tree):
    """What a file imports or defines itself."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name


def questionable(function, own):
    """Whether what is called could be a field of a question: `query.kernel`, or `kernel` alone."""
    match function:
        case ast.Name(id=name):
            return name in FIELDS - own
        case ast.Attribute(value=holder, attr=name):
            holds = ast.unparse(holder).split(".")[-1].split("[")[0].split("(")[0]
            return name in FIELDS and holds in HOLDERS
        case ast.Subscript() | ast.Call(func=ast.Name(id="getattr")):  # query.state[0](...)
            return True
    return False


HOLDERS = FIELDS | {"query", "plan", "steps", "some", "mechanism", "asked", "self"}


def files():
    for room in ROOMS:
        at = SOURCE / room
        yield from [at] if at.is_file() else sorted(at.rglob("*.py"))


def test_trusted_code_calls_nothing_that_a_question_brought():
    called = set()
    for path in files():
        tree = ast.parse(path.read_text())
        own = set(own_names(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and questionable(node.func, own):
                called.add((f"{path.parent.name}/{path.name}", ast.unparse(node.func)))
    assert called == OWN


# What is called by the name of a field, and whence it is.
OWN = {
    ("draws/density.py", "kernel.precision"),  # a method of a program, not a precision
    ("steps/loops.py", "kernel"),  # of the registry, see below
    ("steps/sums.py", "self.start"),  # a method of the answer
    ("sources/cells.py", "getattr(pa.types, f'is_{name}')"),
}


def test_the_kernels_that_are_called_are_those_of_the_registry():
    """By their names: a function that is none of them has no way in."""

    def mine(row, state, out):
        raise AssertionError("called")

    limits = np.zeros(1, LIMIT)
    for run, more in ((loops.sum_rows, ()), (loops.sum_documents, (1,))):
        with pytest.raises(KeyError):
            run(mine, None, np.arange(3), (), limits, *more)
    assert all(k.function.__module__.startswith("tacit.kernels.") for k in KERNELS.values())


class Counting:
    """A function in JAX that may be called once."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments):
        self.calls += 1
        assert self.calls == 1, "called after it was traced"
        return self.function(*arguments)


DATA = {"x": np.linspace(-1, 1, 30), "who": np.arange(30) // 2}
DESCRIBED = tacit.Schema(
    tacit.Real("x", -1, 1), unit="who", max_rows_per_unit=2, neighbours="replace_one"
)


@pytest.mark.parametrize("road", ["wall", "public"])
def test_a_function_is_called_once_when_it_is_traced_and_never_again(road, tmp_path):
    """In sums and draws, releases and steps of leases, quotes and replays."""
    score = Counting(lambda row, theta: jnp.stack([row[0] * theta[0], 1.0]))
    likelihood = Counting(lambda row, theta: -((row[0] - theta[0]) ** 2))
    prior = Counting(lambda theta, _: -jnp.abs(theta[0]))
    total = tacit.queries.BoundedSum(score, "x", size=2, clip=1, geometry="box", state=np.zeros(1))
    region, of_row = tacit.queries.Box((-1,), (1,)), tacit.queries.trace(likelihood, 1, np.zeros(1))
    drawn = tacit.queries.DensityDraw(
        of_row, "x", region, width=1.0, steps=10, prior=tacit.queries.trace(prior, 1, None)
    )
    points = tacit.queries.DensityDraw(of_row, "x", tacit.queries.Points([0.0, 1.0]), width=1.0)
    traced = (score, likelihood, prior)
    assert [each.calls for each in traced] == [1, 1, 1]
    if road == "wall":
        budget = tacit.Budget(99, 0.1)
        home = tacit.Wall(DATA, DESCRIBED, budget=budget, ledger=tmp_path / "l.ledger")
    else:
        home = tacit.Public(DATA, DESCRIBED)
    for query, mechanism in (
        (total, tacit.Laplace(1)),
        (tacit.queries.Choice(total), tacit.queries.Exponential(1)),
        (drawn, tacit.queries.Exponential(1)),
        (points, tacit.queries.Exponential(1)),
    ):
        home.quote(query, mechanism)
        for name in (None, type(query).__name__ + str(query.columns if query is points else "")):
            for _ in range(2):
                home.release(query, mechanism, name=name)
    steps = tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=9.0), geometry="box")
    asked = tacit.queries.Plan(
        steps, tacit.queries.Steps(1, tacit.queries.Exponential(1)), delta=1e-6
    )
    for _ in range(2):
        lease = home.prepay(asked, name="loop")
        lease.release(total)
        lease.release(total.at(np.ones(1)))
        lease.release(tacit.queries.Choice(total))
    assert [each.calls for each in traced] == [1, 1, 1]


@pytest.mark.parametrize(
    "where",
    [
        "kernel",
        "gradient",
        "prior",
        "region",
        "scores",
    ],
)
def test_a_function_in_the_place_of_data_is_refused(where):
    """Queries check themselves, so what reaches a wall is data."""

    def mine(*arguments):
        raise AssertionError("called")

    program = tacit.queries.trace(lambda row, theta: row @ theta, 1, np.zeros(1))
    given = {
        "kernel": program,
        "columns": "x",
        "region": tacit.queries.Box((-1,), (1,)),
        "width": 1.0,
    }
    kind, given = (
        (tacit.queries.Choice, {}) if where == "scores" else (tacit.queries.DensityDraw, given)
    )
    with pytest.raises(tacit.errors.QueryError):
        kind(**given | {where: mine})
