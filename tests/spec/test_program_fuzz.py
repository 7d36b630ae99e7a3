"""Programs with random changes: each loads or is refused in one sentence, and nothing else."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import pytest

from tacit.spec.errors import QueryError
from tacit.spec.primitives import operations
from tacit.spec.programs import Program, trace
from tests.spec.program_cases import CASES, THETA, one_sentence

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402


def _small(row: Any, theta: Any) -> Any:
    def body(carry: Any, x: Any) -> Any:
        kept = lax.cond(x > 0, jnp.sin, lambda y: y * 2, carry)
        return kept + x, kept[0]

    total, parts = lax.scan(body, theta[:2], row)
    done = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, total))[1]
    return jnp.concatenate([done, parts])


VALUES = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 10**6, 2**31, 10**30, 1.5, 1e300, "", "add", "float64"),
    *("__init__", "key", "bool", [], [[]], [0], [1, 2], {}, {"a": 1}, [0] * 50, "x" * 1000),
)


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here] if here else []
    if not isinstance(value, (dict, list)):
        return found
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        found += _paths(part, (*here, key))
    return found


def _mutate(data: Any, rng: np.random.Generator) -> Any:
    """Delete, duplicate, replace, wrap, shift or swap a few values anywhere in a program."""
    data = copy.deepcopy(data)
    names = list(operations())
    for _ in range(int(rng.integers(1, 4))):
        paths = _paths(data)
        *parents, last = paths[rng.integers(len(paths))]
        home = data
        for key in parents:
            home = home[key]
        old = home[last]
        match int(rng.integers(8)):
            case 0:
                del home[last]
            case 1 if isinstance(home, list):
                home.insert(int(last), copy.deepcopy(old))
            case 2 if isinstance(old, int):
                home[last] = int(old) + int(rng.integers(-3, 4))
            case 3 if isinstance(old, str):
                home[last] = names[rng.integers(len(names))]
            case 4:
                home[last] = [old]
            case 5:
                other = data
                for key in paths[rng.integers(len(paths))]:
                    other = other[key]
                home[last] = copy.deepcopy(other)
            case _:
                home[last] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    return data


def _bend(data: Any, rng: np.random.Generator) -> Any:
    """Change a few operations so that their form stays right: this gets as far as JAX."""
    data, table = copy.deepcopy(data), operations()
    for _ in range(int(rng.integers(1, 4))):
        scope = data
        while True:
            item = scope["equations"][rng.integers(len(scope["equations"]))]
            flat = [p for v in item[1].values() for p in (v if isinstance(v, list) else [v])]
            inner = [part for part in flat if isinstance(part, dict) and part["equations"]]
            if not inner or rng.random() < 0.3:
                break
            scope = inner[rng.integers(len(inner))]
        types = table[item[0]].parameters
        paths = [path for path in _paths(item[1]) if not isinstance(_at(item[1], path), dict)]
        match int(rng.integers(5)):
            case 0:
                alike = [name for name, other in table.items() if other.parameters == types]
                item[0] = alike[rng.integers(len(alike))]
            case 1 if item[2]:
                places = item[2]
                places[rng.integers(len(places))] = int(rng.integers(max(places) + 1))
            case 2:
                where = scope["inputs"] + scope["constants"]
                if where:
                    where[rng.integers(len(where))][0] = ("int32", "bool", "key")[rng.integers(3)]
            case _ if paths:
                *parents, last = paths[rng.integers(len(paths))]
                home = _at(item[1], parents)
                old = home[last]
                if isinstance(old, bool):
                    home[last] = not old
                elif isinstance(old, int):
                    home[last] = old + int(rng.integers(-2, 3))
                elif isinstance(old, list) and old:
                    home[last] = old[1:] if rng.random() < 0.5 else [*old, copy.deepcopy(old[0])]
                elif isinstance(old, str):
                    words = ("int32", "bool", "float16", "complex64", "CLIP", "FILL_OR_DROP")
                    home[last] = words[rng.integers(len(words))]
    return data


def _at(value: Any, path: Any) -> Any:
    for key in path:
        value = value[key]
    return value


def fuzz(data: Any, count: int, seed: int, change: Any) -> list[Program]:
    """The programs that load; whatever else happens than one sentence is an error."""
    rng = np.random.default_rng(seed)
    loaded = []
    for _ in range(count):
        try:
            loaded.append(Program.from_dict(change(data, rng)))
        except QueryError as error:
            one_sentence(error)
    return loaded


@pytest.mark.parametrize("change", [_mutate, _bend])
@pytest.mark.parametrize("name", ["logistic", "small", "indices"])
def test_mutated_programs_load_or_are_refused(name: str, change: Any) -> None:
    function = _small if name == "small" else CASES[name][0]
    data = trace(function, 6, THETA).to_dict()
    began = time.perf_counter()
    count = 1000 if change is _mutate else 200
    assert 0 < len(fuzz(data, count, 1, change)) < count
    assert time.perf_counter() - began < 300
