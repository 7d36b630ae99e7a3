"""Any model with gradients: a log-likelihood of one record in JAX, or a NumPyro model.

It holds code, so no study file can name it: it stands outside MODELS, and what is saved of it is
the function's name and the digest of the program that its log-likelihood was traced into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Unpack

import numpy as np

from tacit.models.checks import MOST_WHITENED, number, refuse_draws
from tacit.models.density_walk import density_walk
from tacit.models.jax_density import Density, function_density, synthetic_rows
from tacit.models.numpyro_density import numpyro_density
from tacit.posterior import DensityPosterior, Posterior
from tacit.spec.density import DensityDraw, Likelihood
from tacit.spec.errors import ModelError
from tacit.spec.programs import Program, trace
from tacit.spec.release import Release
from tacit.spec.sampling import SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.walks import Derivatives, Frame, Gradients, Walk


@dataclass(frozen=True, eq=False)
class LogDensity:
    """A model by its log-likelihood, fitted by samplers that use noisy gradients.

    Parameters
    ----------
    model
        Either a function `log_likelihood(parameters, x, y)` of one record, written in JAX: `x` is
        the vector of the x columns, `y` a number (None without y=), and it returns one number. Or,
        where `parameters` is left out, a NumPyro model with one plate over the records and all its
        variables outside of it. An argument named like a column gets that column, `x` the matrix
        of the x columns and `y` the target.
    x, y
        Columns. Numbers are passed as they are, in the units of the data; levels and periods as
        positions from 0. Columns of whole numbers and levels are integers, save in the matrix `x`.
    parameters
        The shape of each parameter, such as `{"coef": (5,), "intercept": ()}`.
    log_prior
        A function of the parameters in JAX. Default: independent normals of `prior_scale`.
    prior_scale
        The standard deviation of that default.
    clip
        The largest norm of one unit's contribution, in coordinates in which a record has a
        curvature of about 1 in each direction. A record with more counts for less. Default, where
        pilot queries find such coordinates: the root of the number of parameters, times that of 2
        where the Hessian is asked too, plus 6 or 7, and up to four times as much where privacy
        noise is small; else, in coordinates that synthetic records suggest, the root plus 2. All
        of it times the root of the rows that a unit may have.

    Examples
    --------
    >>> def log_likelihood(parameters, x, y):
    ...     return -0.5 * (y - parameters["slope"] * x[0]) ** 2
    >>> LogDensity(log_likelihood, x="dose", y="effect", parameters={"slope": ()}).x
    ('dose',)
    """

    model: Callable[..., Any]
    x: tuple[str, ...]
    y: str | None
    parameters: Mapping[str, tuple[int, ...]] | None
    log_prior: Callable[[Any], Any] | None
    prior_scale: float
    clip: float | None

    def __init__(
        self,
        model: Callable[..., Any],
        x: str | Sequence[str] = (),
        y: str | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        log_prior: Callable[[Any], Any] | None = None,
        prior_scale: float | None = None,
        clip: float | None = None,
    ) -> None:
        if not callable(model):
            raise ModelError(
                "Expected LogDensity(log_likelihood, parameters={...}) or LogDensity(numpyro_model)"
                f", got {model!r}."
            )
        names = (x,) if isinstance(x, str) else tuple(x)
        both = names if y is None else (*names, y)
        if len(set(both)) < len(both) or not all(isinstance(n, str) and n for n in both):
            raise ModelError(f"Expected names of columns, each once, got x={x!r}, y={y!r}.")
        if parameters is None and (log_prior is not None or prior_scale is not None):
            raise ModelError(
                "Expected parameters={name: shape} beside log_prior or prior_scale; a NumPyro "
                "model has its own priors."
            )
        if parameters is not None and not both:
            raise ModelError("Expected the columns of a record: x=[...] or y=....")
        if log_prior is not None and (not callable(log_prior) or prior_scale is not None):
            raise ModelError("Expected a function for log_prior, and then no prior_scale.")
        scale = 10.0 if prior_scale is None else number(prior_scale, "prior_scale", above=0)
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "x", names)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "parameters", None if parameters is None else _shapes(parameters))
        object.__setattr__(self, "log_prior", log_prior)
        object.__setattr__(self, "prior_scale", scale)
        clipped = None if clip is None else number(clip, "clip", above=0)
        object.__setattr__(self, "clip", clipped)

    def density(self, schema: Schema) -> Density:
        """The model as functions of one vector, traced and checked. Opens no data."""
        return _whitened(self, schema).density

    def derivatives(self, schema: Schema) -> Derivatives | None:
        """Return gradient and Hessian in any coordinates, or None for too many parameters."""
        return _whitened(self, schema).derivatives

    def gradients(self, schema: Schema) -> Gradients:
        """The question that samplers ask, on a scale that public knowledge has evened out."""
        return _whitened(self, schema).gradients

    def likelihood(self, schema: Schema) -> Likelihood:
        """Return the query's parts for draws on a bounded region of the unbounded parameters."""
        return _whitened(self, schema).likelihood

    def walk(self, schema: Schema) -> Walk:
        """The log-likelihoods that chains compare, on the scale of the samplers."""
        return _walk(self, schema)

    def walk_posterior(self, release: Release, at: np.ndarray) -> Posterior:
        """The posterior of points (draw, parameter) on the scale of the samplers."""
        density = self.density(release.schema)
        frame = Frame(density.start, _basis(density, release.schema)[0])
        return self.vector_posterior(release, frame.vectors(at)[None])

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """Return the plug-in posterior of released draws."""
        refuse_draws(sampling)
        if not isinstance(release.query, DensityDraw):
            raise ModelError(f"This release answers {release.query}, not a DensityDraw.")
        return self.vector_posterior(release, release.query.parameters(release)[None])

    def vector_posterior(
        self, release: Release, vectors: np.ndarray, noise: str = "tempered"
    ) -> Posterior:
        """The posterior of draws (chain, draw, parameter) of the parameters as one vector."""
        density = self.density(release.schema)
        draws = density.values(vectors)
        dims = {
            name: tuple(f"{name}_dim_{i}" for i in range(part.ndim - 2))
            for name, part in draws.items()
        }
        coords = {
            dim: tuple(range(draws[name].shape[i + 2]))
            for name, some in dims.items()
            for i, dim in enumerate(some)
        }
        return DensityPosterior(
            draws={name: np.asarray(part, float) for name, part in draws.items()},
            dims=dims,
            coords=coords,
            model=self._described(release.schema),
            releases=(release,),
            noise=noise,
            density=density,
        ).coded()

    def _described(self, schema: Schema) -> dict[str, Any]:
        shapes = None
        if self.parameters is not None:
            shapes = {name: list(shape) for name, shape in self.parameters.items()}
        return {
            "model": "LogDensity",
            "function": getattr(self.model, "__qualname__", type(self.model).__name__),
            "digest": _whitened(self, schema).digest,
            "x": list(self.x),
            "y": self.y,
            "parameters": shapes,
        }


@dataclass(frozen=True, eq=False)
class Whitened:
    """A density, and its gradients on a scale on which a synthetic record has a curvature of 1."""

    density: Density
    derivatives: Derivatives | None
    gradients: Gradients
    likelihood: Likelihood

    @property
    def digest(self) -> str:
        """The digest of the log-likelihood's program."""
        assert isinstance(self.likelihood.kernel, Program)
        return self.likelihood.kernel.digest


@lru_cache(maxsize=16)
def _whitened(model: LogDensity, schema: Schema) -> Whitened:
    build = numpyro_density if model.parameters is None else function_density
    density = build(model, schema)
    basis, curvature = _basis(density, schema)
    size = density.start.size
    prior = _prior_precision(density, basis)
    clip = model.clip
    if clip is None:
        clip = (math.sqrt(size) + 2) * math.sqrt(schema.max_rows_per_unit)
    derivatives = None
    if size <= MOST_WHITENED:
        derivatives = _derivatives(model, schema, density, basis)
        gradients = derivatives.gradients(derivatives.frame, clip, curvature, prior)
    else:
        gradients = _gradients(model, density, np.diag(basis), clip, curvature, prior)
    return Whitened(density, derivatives, gradients, _likelihood(model, schema, density))


@lru_cache(maxsize=16)
def _walk(model: LogDensity, schema: Schema) -> Walk:
    density, gradients = model.density(schema), model.gradients(schema)
    frame = Frame(density.start, _basis(density, schema)[0])
    plain = model.parameters is not None and model.log_prior is None
    return density_walk(density, schema, gradients, frame, model.prior_scale if plain else None)


def _derivatives(
    model: LogDensity, schema: Schema, density: Density, basis: np.ndarray
) -> Derivatives:
    import jax
    import jax.numpy as jnp

    size = density.start.size
    first, second = np.triu_indices(size)
    packing = np.where(first == second, 1.0, 2**0.5).astype(_real()) / math.sqrt(size)

    def gradient(row: Any, state: Any) -> Any:
        vector, basis = state
        value, found = jax.value_and_grad(density.log_likelihood)(vector, row)
        # A record that the model can make nothing of contributes nothing, whatever its gradient.
        return jnp.where(jnp.isfinite(value), basis.T @ found, 0.0)

    def both(row: Any, state: Any) -> Any:
        vector, basis, clip = state[0], state[1], state[2][0]

        def near(psi: Any) -> Any:
            return density.log_likelihood(vector + basis @ psi, row)

        value, found = jax.value_and_grad(near)(jnp.zeros(size, vector.dtype))
        hessian = -jax.hessian(near)(jnp.zeros(size, vector.dtype))
        # The gradient goes first: what is clipped of it moves the posterior, while the Hessian
        # sets its width, and has the heavier tails.
        packed, one = hessian[first, second] * packing, jnp.ones(1, vector.dtype)
        room = jnp.maximum(clip**2 - found @ found - 1, clip**2 / 16)
        packed = packed * jnp.minimum(1.0, jnp.sqrt(room / jnp.maximum(packed @ packed, room)))
        parts = jnp.concatenate([found, packed, one])
        return jnp.where(jnp.isfinite(value) & jnp.all(jnp.isfinite(parts)), parts, 0.0)

    columns = len(density.columns)
    state = density.start.astype(_real()), np.eye(size, dtype=_real())
    plain = model.parameters is not None and model.log_prior is None
    return Derivatives(
        trace(gradient, columns, state),
        trace(both, columns, (*state, np.ones(1, _real()))),
        density.columns,
        Frame(density.start, basis),
        prior_mean=density.start,
        prior_precision=np.diag(density.spread**-2.0),
        log_prior=None if plain else density.log_prior,
        log_prior_gradient=_log_prior_gradient(model, density),
        posterior=model.vector_posterior,
        parameters=lambda posterior: _vector_of(density, posterior),
        clip=model.clip,
        contrasts=density.contrasts(schema) if density.targets else None,
        sites=density.sites,
    )


def _likelihood(model: LogDensity, schema: Schema, density: Density) -> Likelihood:
    import jax
    import jax.numpy as jnp

    def of_row(row: Any, vector: Any) -> Any:
        return density.log_likelihood(vector, row)

    def gradient(row: Any, vector: Any) -> Any:
        value, gradient = jax.value_and_grad(density.log_likelihood)(vector, row)
        return jnp.where(jnp.isfinite(value), gradient, 0.0)

    def log_prior(vector: Any, nothing: Any) -> Any:
        return density.log_prior(vector)

    size, columns = density.start.size, density.columns
    start = np.zeros(size, _real())
    plain = model.parameters is not None and model.log_prior is None
    # Gradients only guide a chain: theirs is a bound that hardly ever clips.
    _, synthetic = _synthetic_gradients(density, schema)
    largest = float(np.abs(np.where(np.isfinite(synthetic), synthetic, 0.0)).max())
    clip = max(largest * math.sqrt(size) * 10, 1.0)
    gradients = BoundedSum(gradient, columns, size=size, clip=clip, state=start)
    prior = model.prior_scale if plain else trace(log_prior, size, None)
    return Likelihood(trace(of_row, len(columns), start), columns, size, prior, gradients)


def _real() -> np.dtype:
    """The type of the numbers in a program: single precision, unless JAX is told otherwise."""
    import jax

    return np.dtype(jax.dtypes.canonicalize_dtype(float))


def _synthetic_gradients(density: Density, schema: Schema) -> tuple[Any, np.ndarray]:
    """Return synthetic records, and their gradients at the middle of the prior."""
    import jax
    import jax.numpy as jnp

    rows = jnp.asarray(synthetic_rows(density.columns, schema), jnp.float32)
    of_rows = jax.jit(jax.vmap(jax.grad(density.log_likelihood), in_axes=(None, 0)))
    return rows, np.asarray(of_rows(jnp.asarray(density.start, jnp.float32), rows), float)


def _gradients(
    model: LogDensity,
    density: Density,
    scale: np.ndarray,
    clip: float,
    curvature: float,
    prior_precision: float,
) -> Gradients:
    """The gradients of many parameters in theta, where vector = start + scale * theta."""
    import jax
    import jax.numpy as jnp

    start, spread = density.start.astype(_real()), scale.astype(_real())

    def of_row(row: Any, theta: Any) -> Any:
        value, gradient = jax.value_and_grad(density.log_likelihood)(start + spread * theta, row)
        # A record that the model can make nothing of contributes nothing, whatever its gradient.
        return jnp.where(jnp.isfinite(value), spread * gradient, 0.0)

    log_prior_gradient = _log_prior_gradient(model, density)
    return Gradients(
        question=BoundedSum(
            of_row, density.columns, size=scale.size, clip=clip, state=np.zeros(scale.size, _real())
        ),
        log_prior_gradient=lambda theta: scale * log_prior_gradient(density.start + scale * theta),
        start=np.zeros(scale.size),
        curvature=curvature,
        prior_precision=prior_precision,
        posterior=lambda release, theta: model.vector_posterior(
            release, density.start + theta * scale
        ),
        parameters=lambda posterior: (_vector_of(density, posterior) - density.start) / scale,
    )


def _vector_of(density: Density, posterior: Posterior) -> np.ndarray:
    return density.vector({name: posterior.mean(name) for name in posterior.draws})


def _log_prior_gradient(model: LogDensity, density: Density) -> Callable[[np.ndarray], np.ndarray]:
    """The gradient of the log prior; the default in closed form, as compiled code costs more."""
    import jax
    import jax.numpy as jnp

    if model.parameters is not None and model.log_prior is None:
        return lambda vector: vector / -(model.prior_scale**2)
    compiled = jax.jit(jax.grad(density.log_prior))
    return lambda vector: np.asarray(compiled(jnp.asarray(vector, jnp.float32)), float)


def _prior_precision(density: Density, basis: np.ndarray) -> float:
    """The largest curvature of the log prior at the start, on the scale of a basis."""
    import jax
    import jax.numpy as jnp

    hessian = np.asarray(jax.jit(jax.hessian(density.log_prior))(jnp.asarray(density.start)), float)
    if not np.all(np.isfinite(hessian)):
        return 1.0
    return float(np.abs(np.linalg.eigvalsh(basis.T @ hessian @ basis)).max())


def _basis(density: Density, schema: Schema) -> tuple[np.ndarray, float]:
    """Return the scale of the samplers, and the largest curvature of a synthetic record on it."""
    import jax
    import jax.numpy as jnp

    start = jnp.asarray(density.start, jnp.float32)
    rows, gradients = _synthetic_gradients(density, schema)
    usable = np.all(np.isfinite(gradients), axis=1)
    if not usable.any():
        raise ModelError(
            "Expected finite gradients at the middle of the prior for some record within the "
            "schema's bounds, got none: see where it takes logs, roots or quotients, or write "
            "narrower bounds in the schema."
        )
    rows = rows[usable]

    def mean(vector: Any) -> Any:
        return jnp.mean(jax.vmap(density.log_likelihood, in_axes=(None, 0))(vector, rows))

    hessian = -np.asarray(jax.jit(jax.hessian(mean))(start), float)
    size = len(hessian)
    if not np.all(np.isfinite(hessian)) or not np.any(hessian):
        return np.eye(size), 1.0
    if size > MOST_WHITENED:
        scale = _floored(np.diag(hessian)) ** -0.5
        return np.diag(scale), float(np.linalg.eigvalsh(scale[:, None] * hessian * scale)[-1])
    values, vectors = np.linalg.eigh(hessian)
    # Symmetric, so that each coordinate stays close to one parameter.
    return vectors * _floored(values) ** -0.5 @ vectors.T, 1.0


def _floored(curvatures: np.ndarray) -> np.ndarray:
    """Return sizes of curvatures, at least a ten-thousandth of the largest."""
    sizes = np.abs(curvatures)
    return np.maximum(sizes, 1e-4 * sizes.max())


def _shapes(parameters: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    if not isinstance(parameters, Mapping) or not parameters:
        raise ModelError('Expected parameters={name: shape}, such as {"coef": (5,), "scale": ()}.')
    found = {}
    for name, shape in parameters.items():
        sides = (shape,) if isinstance(shape, int) else shape
        if not isinstance(name, str) or not isinstance(sides, (tuple, list)):
            raise ModelError(f"Expected a shape such as (5,) or () for {name!r}, got {shape!r}.")
        if not all(isinstance(s, int) and not isinstance(s, bool) and s > 0 for s in sides):
            raise ModelError(f"Expected a shape such as (5,) or () for {name!r}, got {shape!r}.")
        found[name] = tuple(sides)
    return found
