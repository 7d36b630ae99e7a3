"""From a traced program of JAX to lists of numbered operations, as JSON.

Calls are inlined, what the result does not need is left out, and values are numbered in order:
inputs, constants, results of each operation. So the same trace gives the same text.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.spec.errors import QueryError
from tacit.spec.primitives import (
    NOTHING,
    dtype_name,
    identities,
    inlined,
    key_dtype,
    operations,
    unknown,
    written,
)

MOST_EQUATIONS = 10_000


def scope(program: Any) -> dict[str, Any]:
    """A closed jaxpr as inputs, constants, equations and outputs."""
    if program.effects:
        raise unknown("a side effect")
    jaxpr = program.jaxpr
    writer = _Writer(len(jaxpr.invars), len(jaxpr.invars))
    env: dict[Any, int] = {var: i for i, var in enumerate(jaxpr.invars)}
    outputs = writer.follow(jaxpr, program.consts, env)
    inputs = [_type(var.aval) for var in jaxpr.invars]
    return {"inputs": inputs, **writer.finished(outputs)}


@dataclass
class _Writer:
    """Variables are counted from 0, with the inputs first; constants are -1, -2, ...."""

    inputs: int
    variables: int
    constants: list[list[Any]] = field(default_factory=list)
    known: dict[tuple[Any, ...], int] = field(default_factory=dict)
    equations: list[tuple[str, dict[str, Any], list[int], list[int]]] = field(default_factory=list)

    def follow(self, jaxpr: Any, consts: Sequence[Any], env: dict[Any, int]) -> list[int]:
        """Write the equations of a jaxpr whose inputs `env` knows, and return its outputs."""
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            env[var] = self.constant(value, var.aval)

        def index_of(atom: Any) -> int:
            # Literals have a value and no index; they cannot be looked up.
            return self.constant(atom.val, atom.aval) if hasattr(atom, "val") else env[atom]

        for equation in jaxpr.eqns:
            name, params = equation.primitive.name, equation.params
            inputs = [index_of(atom) for atom in equation.invars]
            if name == "platform_index":  # the branches below know which of them is a CPU's
                results = [self.constant(0, equation.outvars[0].aval)]
            elif name == "cond" and "branches_platforms" in params:
                # The branch of a CPU: platforms are names, or None for all others.
                platforms = enumerate(params["branches_platforms"])
                at = next(i for i, some in platforms if some is None or "cpu" in some)
                branch = params["branches"][at]
                results = self.call(branch.jaxpr, branch.consts, inputs[1:])
            else:
                results = self.equation(equation, inputs)
            env.update(zip(equation.outvars, results, strict=True))
        return [index_of(atom) for atom in jaxpr.outvars]

    def call(self, jaxpr: Any, consts: Sequence[Any], inputs: list[int]) -> list[int]:
        return self.follow(jaxpr, consts, dict(zip(jaxpr.invars, inputs, strict=True)))

    def equation(self, equation: Any, inputs: list[int]) -> list[int]:
        primitive, params = equation.primitive, equation.params
        if primitive in identities():
            return inputs
        if primitive in inlined():
            inner = params[inlined()[primitive]]
            if primitive.name == "custom_linear_solve":
                lengths = params["const_lengths"]
                skipped, own = lengths.matvec + lengths.vecmat, lengths.solve
                first, inner = sum(lengths), inner.solve
                inputs = [*inputs[skipped : skipped + own], *inputs[first:]]
            elif params.get("differentiated"):
                inputs = self.barrier(params["prevent_cse"], inputs)
            return self.call(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        operation = operations().get(primitive.name)
        if operation is None or primitive is not operation.primitive or equation.effects:
            raise unknown(repr(primitive.name))
        values = {}
        for name, value in params.items():
            type_name = operation.parameters.get(name)
            try:
                if type_name is None:
                    raise ValueError
                found = written(type_name, value, scope)
            except QueryError:
                raise
            except Exception:  # noqa: BLE001 - whatever a value of any type raises
                what = f"{primitive.name!r} with {name}={type(value).__name__}"
                raise unknown(what) from None
            if type_name not in ("none", "dropped", "strong"):
                values[name] = found
        return self.add(primitive.name, values, inputs, len(equation.outvars))

    def add(self, name: str, values: dict[str, Any], inputs: list[int], count: int) -> list[int]:
        results = list(range(self.variables, self.variables + count))
        self.variables += count
        self.equations.append((name, values, inputs, results))
        if len(self.equations) > 10 * MOST_EQUATIONS:
            raise QueryError(f"Expected at most {MOST_EQUATIONS} operations. {NOTHING}")
        return results

    def barrier(self, prevented: Any, inputs: list[int]) -> list[int]:
        """What `jax.checkpoint` computes again is kept from being merged with the first time."""
        which = prevented if isinstance(prevented, tuple) else (prevented,) * len(inputs)
        barred = [i for i, bar in zip(inputs, which, strict=True) if bar]
        if not barred:
            return inputs
        fresh = iter(self.add("optimization_barrier", {}, barred, len(barred)))
        return [next(fresh) if bar else i for i, bar in zip(inputs, which, strict=True)]

    def constant(self, value: Any, aval: Any) -> int:
        if aval.dtype == key_dtype():
            from jax import random

            (key,) = self.add(
                "random_wrap",
                {"impl": "threefry2x32"},
                [self.constant(random.key_data(value), random.key_data(value))],
                1,
            )
            return key
        try:
            array = np.asarray(value, aval.dtype)
            content = array.dtype, array.shape, array.tobytes()
            if content not in self.known:
                little = array.astype(array.dtype.newbyteorder("<"))
                text = base64.b64encode(little.tobytes()).decode()
                self.constants.append([dtype_name(array.dtype), list(array.shape), text])
                self.known[content] = -len(self.constants)
        except (TypeError, ValueError):
            raise unknown(f"a constant of type {aval.dtype}") from None
        return self.known[content]

    def finished(self, outputs: list[int]) -> dict[str, Any]:
        """The equations that the outputs need, numbered anew."""
        needed, kept = set(outputs), []
        for equation in reversed(self.equations):
            if needed.intersection(equation[3]):
                kept.append(equation)
                needed.update(equation[2])
        used = [-1 - i for i in range(len(self.constants)) if -1 - i in needed]
        indices = {i: i for i in range(self.inputs)}
        indices |= {i: self.inputs + n for n, i in enumerate(used)}
        equations = []
        for name, values, inputs, results in reversed(kept):
            equations.append([name, values, [indices[i] for i in inputs], len(results)])
            start = len(indices)
            indices |= {i: start + n for n, i in enumerate(results)}
        return {
            "constants": [self.constants[-1 - i] for i in used],
            "equations": equations,
            "outputs": [indices[i] for i in outputs],
        }


def _type(aval: Any) -> list[Any]:
    try:
        return [dtype_name(aval.dtype), [int(side) for side in aval.shape]]
    except (TypeError, ValueError):
        raise unknown(f"a value of type {aval}") from None
