"""Any log-likelihood as what chains compare: programs for its values at several points."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from tacit.models.jax_density import Density, synthetic_rows
from tacit.spec.programs import Program, trace
from tacit.spec.schema import Schema
from tacit.spec.walks import Frame, Gradients, Walk

_IMPOSSIBLE = -1e6  # the log-likelihood of a record that the model can make nothing of
_PRIOR_STEPS, _ROUNDS, _PRIOR_POINTS = 4000, 4, 1000


def density_walk(
    density: Density,
    schema: Schema,
    gradients: Gradients,
    frame: Frame,
    prior_scale: float | None,
) -> Walk:
    """The walk of the coordinates of a frame.

    `prior_scale` is the standard deviation of normal priors around 0; None for another prior, from
    which a public chain draws.
    """
    import jax
    import jax.numpy as jnp

    size, real = density.start.size, np.dtype(jax.dtypes.canonicalize_dtype(float))
    start, basis = frame.origin.astype(real), frame.basis.astype(real)

    def raw(theta: Any) -> Any:
        return start + basis @ theta

    def at_points(row: Any, points: Any) -> Any:
        values = jax.vmap(lambda at: density.log_likelihood(raw(at), row))(points)
        return jnp.where(jnp.isfinite(values), values, _IMPOSSIBLE)

    @cache
    def program(points: int, numbers: int, lifted: bool) -> Program:
        def of_row(row: Any, state: Any) -> Any:
            found = state[1] @ at_points(row, state[0]) + state[2]
            return found - jnp.min(found) if lifted else found

        given = ((points, size), (numbers, points), (numbers,))
        state = tuple(np.zeros(shape, real) for shape in given)
        return trace(of_row, len(density.columns), state)

    def combinations(
        points: np.ndarray, coefficients: np.ndarray, constants: Any = 0.0, *, lifted: bool = False
    ) -> tuple[Program, Any]:
        added = np.broadcast_to(constants, len(coefficients))
        state = tuple(part.astype(real) for part in (points, coefficients, added))
        return program(len(points), len(coefficients), lifted), state

    rows = jnp.asarray(synthetic_rows(density.columns, schema), real)
    every = jax.jit(jax.vmap(at_points, in_axes=(0, None)))

    def log_likelihoods(points: np.ndarray) -> np.ndarray:
        return np.asarray(every(rows, jnp.asarray(points, real)), float)

    @jax.jit
    def log_priors(points: Any) -> Any:
        return jax.vmap(lambda theta: density.log_prior(raw(theta)))(points)

    def log_prior(points: np.ndarray) -> np.ndarray:
        flat = jnp.asarray(points.reshape(-1, size), real)
        return np.asarray(log_priors(flat), float).reshape(points.shape[:-1])

    def draw_prior(rng: np.random.Generator, count: int) -> np.ndarray:
        if prior_scale is not None:
            return frame.coordinates(rng.normal(0, prior_scale, (count, size)))
        return frame.coordinates(prior_chain(density, rng, count))

    (bound,) = gradients.question.bounds
    return Walk(
        columns=density.columns,
        combinations=combinations,
        log_likelihoods=log_likelihoods,
        max_gradient=bound.clip / schema.max_rows_per_unit,
        curvature=gradients.curvature,
        start=np.zeros(size),
        scale=float(draw_prior(np.random.default_rng(0), _PRIOR_POINTS).std(axis=0).max()),
        log_prior=log_prior,
        draw_prior=draw_prior,
    )


def prior_chain(density: Density, rng: np.random.Generator, count: int) -> np.ndarray:
    """Vectors (count, parameter) from a public random walk in the prior.

    Its proposals are scaled by what earlier rounds found, one standard deviation a parameter.
    """
    import jax
    import jax.numpy as jnp

    size = density.start.size

    @jax.jit
    def walked(start: Any, scale: Any, key: Any) -> Any:
        def step(at: Any, key: Any) -> Any:
            vector, log = at
            jump, coin = jax.random.split(key)
            there = vector + scale * jax.random.normal(jump, (size,))
            new = density.log_prior(there)
            go = jnp.log(jax.random.uniform(coin)) < new - log
            at = jnp.where(go, there, vector), jnp.where(go, new, log)
            return at, at[0]

        keys = jax.random.split(key, _PRIOR_STEPS)
        return jax.lax.scan(step, (start, density.log_prior(start)), keys)[1]

    at, scale = jnp.asarray(density.start, jnp.float32), np.ones(size)
    found: list[np.ndarray] = []
    for turn in range(_ROUNDS + math.ceil(count / _PRIOR_POINTS)):
        key = jax.random.key(int(rng.integers(2**31)))
        jumps = jnp.asarray(2.4 * scale / math.sqrt(size), jnp.float32)
        path = np.asarray(walked(at, jumps, key), float)
        at = jnp.asarray(path[-1], jnp.float32)
        if turn < _ROUNDS:
            scale = np.maximum(path[len(path) // 2 :].std(axis=0), 1e-3 * scale)
        else:
            found.append(path)
    every = np.concatenate(found)
    return every[np.linspace(0, len(every) - 1, count).round().astype(int)]
