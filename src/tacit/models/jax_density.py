"""A model of records as two functions of one vector: a record's log-likelihood, the log prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.compile_cache import keep_programs
from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tacit.spec.errors import ModelError
from tacit.spec.schema import Schema

_SYNTHETIC = 256  # rows
_POINTS, _TARGETS = 48, 3  # records that contrasts are of, and targets of each


@dataclass(frozen=True, eq=False)
class Density:
    """What a sampler needs of a model, in JAX and without bounds on its parameters.

    `row` holds the `columns` in their order, `targets` are those of them that it is a likelihood
    of. `spread` is about how wide the prior is around
    `start`, the standard deviation of each parameter. `values` turns vectors (..., parameter)
    into arrays by name on the model's own scale, and `vector` one set of such arrays into a vector.
    `log_likelihood_of` takes such arrays and a row. Where the law of the target is known, `outcome`
    takes a key too, and gives the target's mean and a draw of it. Of a NumPyro model `sites` is
    the program of its variables and their priors, and returns their vector.
    """

    columns: tuple[str, ...]
    start: np.ndarray
    spread: np.ndarray
    log_likelihood: Callable[[Any, Any], Any]
    log_prior: Callable[[Any], Any]
    values: Callable[[np.ndarray], dict[str, np.ndarray]]
    vector: Callable[[Mapping[str, Any]], np.ndarray]
    targets: tuple[str, ...]
    log_likelihood_of: Callable[[Any, Any], Any]
    outcome: Callable[[Any, Any, Any], Any] | None = None
    sites: Callable[[], Any] | None = None

    def contrasts(self, schema: Schema) -> Callable[[Any], Any]:
        """Return what the log-likelihoods of synthetic records say of their targets at a vector.

        They are those of records that are alike but for their targets, less their mean: numbers
        that parameters move in proportion where they are those of a generalised linear model.
        """
        import jax
        import jax.numpy as jnp

        rows = synthetic_rows(self.columns, schema, _POINTS * _TARGETS)
        points = rows.reshape(_POINTS, _TARGETS, -1)
        for i, name in enumerate(self.columns):
            if name not in self.targets:
                points[:, :, i] = points[:, :1, i]
        flat = jnp.asarray(points.reshape(len(rows), -1), jnp.float32)
        of_rows = jax.vmap(self.log_likelihood, in_axes=(None, 0))

        def found(vector: Any) -> Any:
            values = of_rows(vector, flat).reshape(_POINTS, _TARGETS)
            values = values - jnp.mean(values, axis=1, keepdims=True)
            # Records that the model can make nothing of say nothing.
            return jnp.where(jnp.isfinite(values), values, 0.0).ravel()

        return found


@dataclass(frozen=True)
class Layout:
    """Where each named array lies in the vector."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for _, shape in self.shapes)

    def arrays(self, vector: Any) -> dict[str, Any]:
        """The arrays in (..., parameter), NumPy's or JAX's."""
        found, start = {}, 0
        for name, shape in self.shapes:
            stop = start + math.prod(shape)
            found[name] = vector[..., start:stop].reshape(*vector.shape[:-1], *shape)
            start = stop
        return found

    def vector(self, arrays: Mapping[str, Any]) -> np.ndarray:
        parts = [np.ravel(np.asarray(arrays[name], float)) for name, _ in self.shapes]
        return np.concatenate(parts)


def need_jax() -> None:
    try:
        import jax
    except ImportError:
        raise ModelError("LogDensity needs JAX: pip install 'tacit[jax]'.") from None
    keep_programs(jax)


def number_of(column: Column, cell: Any) -> Any:
    """A cell of a row on the scale on which models see it: whole numbers and positions as such."""
    import jax.numpy as jnp

    return cell if isinstance(column, Real) else cell.astype(jnp.int32)


def synthetic_rows(columns: Sequence[str], schema: Schema, count: int = _SYNTHETIC) -> np.ndarray:
    """Rows drawn evenly from the public domain of each column. No data are looked at."""
    rng = np.random.default_rng(0)
    rows = np.empty((count, len(columns)))
    for i, name in enumerate(columns):
        match schema[name]:
            case Real(low=low, high=high):
                rows[:, i] = rng.uniform(low, high, count)
            case Integer(low=low, high=high):
                rows[:, i] = rng.integers(low, high, count, endpoint=True)
            case Categorical() | Time() as column:
                rows[:, i] = rng.integers(0, len(column.labels), count)
            case Tokens():
                raise ModelError(f"Expected no Tokens in LogDensity; {name!r} holds documents.")
    return rows


def function_density(model: Any, schema: Schema) -> Density:
    """The density of a function of one record: `model` is the `LogDensity` that holds it."""
    need_jax()
    import jax
    import jax.numpy as jnp

    layout = Layout(tuple(model.parameters.items()))
    inputs = len(model.x)
    target = None if model.y is None else schema[model.y]
    columns = model.x if model.y is None else (*model.x, model.y)

    def log_likelihood_of(arrays: Any, row: Any) -> Any:
        y = None if target is None else number_of(target, row[inputs])
        return _number(model.model(arrays, row[:inputs], y))

    def log_likelihood(vector: Any, row: Any) -> Any:
        return log_likelihood_of(layout.arrays(vector), row)

    def log_prior(vector: Any) -> Any:
        if model.log_prior is None:
            return -0.5 * jnp.sum((vector / model.prior_scale) ** 2)
        return _number(model.log_prior(layout.arrays(vector)))

    start = np.zeros(layout.size)
    row = jax.ShapeDtypeStruct((len(columns),), jnp.float32)
    tried(log_likelihood, (jnp.asarray(start), row), "log_likelihood(parameters, x, y)")
    tried(log_prior, (jnp.asarray(start),), "log_prior(parameters)")
    spread = np.full(layout.size, model.prior_scale)
    if model.log_prior is not None:
        curvature = -np.diag(np.asarray(jax.jit(jax.hessian(log_prior))(jnp.asarray(start)), float))
        gradient = np.asarray(jax.jit(jax.grad(log_prior))(jnp.asarray(start)), float)
        # Where it is flat or not concave at the start, a prior says little there.
        concave = curvature > spread**-2.0
        safe = np.where(concave, curvature, 1.0)
        start = np.where(concave, start + gradient / safe, start)
        spread = np.where(concave, safe**-0.5, spread)
    functions = log_likelihood, log_prior, layout.arrays, layout.vector
    targets = () if model.y is None else (model.y,)
    return Density(columns, start, spread, *functions, targets, log_likelihood_of)


def tried(function: Callable[..., Any], arguments: Sequence[Any], what: str) -> Any:
    """Trace a function of the user. No data are read."""
    import jax

    try:
        return jax.eval_shape(function, *arguments)
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        reason = str(error).strip().split("\n")[0]
        error_type = type(error).__name__
        raise ModelError(f"Expected {what} to run in JAX, got {error_type}: {reason}") from None


def _number(value: Any) -> Any:
    import jax.numpy as jnp

    array = jnp.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise ModelError(
            f"Expected one number from the function, got shape {array.shape} of {array.dtype}. "
            "Write it for a single record."
        )
    return array.reshape(())
