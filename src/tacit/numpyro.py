"""A release as an observation in a NumPyro model of your own. Importing it imports JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, logsumexp
from numpyro.distributions import constraints
from numpyro.primitives import _PYRO_STACK

from tacit.infer.noise import Law
from tacit.spec.errors import ModelError
from tacit.spec.release import Block, Noise, Release

__all__ = ["NoisyCounts", "NormalLaplace", "observe"]

_MOST_TERMS = 2**22  # of all sums over whole numbers: some tens of milliseconds a gradient
_DEEP = 4.0  # from here on a continued fraction beats a difference of large numbers
_DEPTH = 30  # of it: the rest is below 1e-16 there
_NARROWEST = 2.0**-10  # a normal law narrower than this, in scales of the noise, is none
_FARTHEST = 1e8  # standard deviations, whose squares single precision still holds


class NormalLaplace(dist.Distribution):
    """A normal number plus Laplace noise.

    With r the residual, v the normal variance and b the scale, its density is

        e^(v / 2b^2) / 2b * (e^(-r/b) Phi(r/s - s/b) + e^(r/b) Phi(-r/s - s/b)),   s = sqrt(v).

    The logarithm is computed without overflow or cancellation, and its gradient is finite at any
    residual. A variance below (b / 1024)^2, zero too, counts as that, which smooths the kink.
    """

    arg_constraints = {  # noqa: RUF012 - as NumPyro has it
        "loc": constraints.real,
        "normal_variance": constraints.nonnegative,
        "scale": constraints.positive,
    }
    support = constraints.real
    reparametrized_params = ["loc", "normal_variance", "scale"]  # noqa: RUF012

    def __init__(self, loc: Any, normal_variance: Any, scale: Any, *, validate_args: Any = None):
        given = loc, normal_variance, scale
        shape = jnp.broadcast_shapes(*map(jnp.shape, given))
        self.loc, self.normal_variance, self.scale = (jnp.broadcast_to(x, shape) for x in given)
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        b = self.scale
        v = jnp.maximum(self.normal_variance, (_NARROWEST * b) ** 2)
        s = jnp.sqrt(v)
        a = jnp.abs(value - self.loc) / s  # symmetric: the far term is the smaller one
        near, far = _one_side(a, s / b), _one_side(-jnp.minimum(a, _FARTHEST), s / b)
        return jnp.logaddexp(near, far) - jnp.log(2 * b)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Any:
        shape = (*sample_shape, *self.batch_shape)
        normal, laplace = jax.random.split(key)
        spread = jnp.sqrt(self.normal_variance) * jax.random.normal(normal, shape)
        return self.loc + spread + self.scale * jax.random.laplace(laplace, shape)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self.normal_variance + 2 * self.scale**2


def _one_side(a: Any, t: Any) -> Any:
    """log(e^(t^2/2 - a t) Phi(a - t)), all in standard deviations."""
    z = a - t
    deep = z < -_DEEP
    x = jnp.where(deep, -z, _DEEP)
    tail = x
    for k in range(_DEPTH, 0, -1):  # 1 / Mills' ratio = x + 1 / (x + 2 / (x + ...))
        tail = x + k / tail
    # There t^2/2 - a t + log Phi(z) = -a^2/2 + log Mills(x): the large squares cancel on paper.
    below = -0.5 * jnp.where(deep, a, 0.0) ** 2 - jnp.log(tail) - 0.5 * math.log(2 * math.pi)
    shallow, side = jnp.where(deep, 0.0, z), jnp.where(deep, 0.0, a)
    above = t * (0.5 * t - side) + log_ndtr(shallow)
    return jnp.where(deep, below, above)


class NoisyCounts(dist.Distribution):
    """A whole number with a law of your own, such as Binomial or Poisson, plus released noise.

    The whole number is summed out: over all values within reach of what was seen, where noise has
    not fallen by e^-40. Nothing is approximated beyond that.
    """

    support = constraints.real
    pytree_data_fields = ("law",)
    pytree_aux_fields = ("noise",)

    def __init__(self, law: dist.Distribution, noise: Noise, *, validate_args: Any = None):
        self.law, self.noise = law, noise
        super().__init__(batch_shape=law.batch_shape, validate_args=validate_args)

    @property
    def terms(self) -> int:
        """How many values are summed over for each number."""
        return 2 * math.ceil(Law.of(self.noise).reach) + 1

    def log_prob(self, value: Any) -> Any:
        support = self.law.support
        low = getattr(support, "lower_bound", -jnp.inf)
        high = getattr(support, "upper_bound", jnp.inf)
        reach = self.terms // 2
        steps = jnp.arange(-reach, reach + 1.0).reshape(-1, *[1] * len(self.batch_shape))
        # Noise can leave the support; then the values nearest to what was seen count.
        whole = jnp.clip(jnp.round(value), low, high) + steps
        inside = (whole >= low) & (whole <= high)
        log = self.law.log_prob(jnp.clip(whole, low, high)) + self._log_noise(value - whole)
        return logsumexp(jnp.where(inside, log, -jnp.inf), axis=0)

    def _log_noise(self, error: Any) -> Any:
        law, grid = Law.of(self.noise), self.noise.grid
        if law.none:
            return jnp.zeros_like(error)
        if law.heavy:
            return -jnp.abs(error) / law.scale - math.log(grid / math.tanh(grid / 2 / law.scale))
        step = max(grid, law.scale / 10)  # sums over finer grids are the same to 1e-16
        total = step * np.exp(-0.5 * (np.arange(-100, 101) * step / law.scale) ** 2).sum()
        return -0.5 * (error / law.scale) ** 2 - math.log(total)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Any:
        shape = (*sample_shape, *self.batch_shape)
        first, second, third = jax.random.split(key, 3)
        truth = self.law.sample(first, sample_shape)
        law, grid = Law.of(self.noise), self.noise.grid
        if law.none:
            return truth
        if law.heavy:  # the difference of two geometric numbers, which are exponential ones cut
            up, down = (
                jnp.floor(jax.random.exponential(at, shape) * law.scale / grid)
                for at in (second, third)
            )
            return truth + (up - down) * grid
        width = law.scale / grid
        if width < 10:  # so coarse a grid that a rounded normal number would have another law
            k = jnp.arange(-100, 101)
            chosen = jax.random.categorical(second, -0.5 * (k / width) ** 2, shape=shape)
            return truth + k[chosen] * grid
        return truth + jnp.round(jax.random.normal(second, shape) * width) * grid


def observe(
    name: str,
    release: Release,
    statistic: Any = None,
    *,
    mean: Any = None,
    variance: Any = None,
    covariance: Any = None,
) -> None:
    """Add the likelihood of a release to a NumPyro model. It spends nothing.

    Give the distribution of the *true* statistic in one of three forms; the law of the noise comes
    with the release.

    Parameters
    ----------
    name
        What the observed site is called; with tables by name, `name/table`.
    release
        Noisy `Counts`, `Moments` or a `BoundedSum`: from a wall, a file or `release_from_table`.
    statistic
        The law of each count, such as `dist.Binomial(n, p)` or `dist.Poisson(rate)`: whole numbers
        are summed out exactly. Or its value, if the model computes or samples that.
    mean, variance
        For a sum of many rows: each number is close to normal, independently of the others.
    mean, covariance
        For correlated numbers, jointly close to normal, such as a sum and a sum of squares. With
        Laplace noise this adds one site more, `name_noise`: a variance for each number, of which
        Laplace noise is the exact mixture.

    Notes
    -----
    Each of these has the shape of the release's table, (by..., column), or of `release.value` where
    there are several tables; or it is a mapping from names of tables, and tables that are not
    named are left out. Cells of missing values may be left out too: give the shape of the levels.
    A table whose two cells add up to a public n has one number, the second. Moments are sums of
    u = (x - middle) / half, scaled by the column's public bounds.

    A normal law takes noise as continuous. Noise on a grid g has a variance that is smaller by at
    most g^2 / 6, so this is cautious, and matters only for counts with a scale below one or two.
    There write `dist.Binomial` or `dist.Poisson`.

    JAX computes in single precision by default. From numbers of about 10^5 on call
    `numpyro.enable_x64()` first.

    Examples
    --------
    >>> import jax, numpyro, tacit, tacit.numpyro
    >>> import numpyro.distributions as dist
    >>> schema = tacit.Schema(
    ...     tacit.Categorical("smoker", ["no", "yes"], default="no"), neighbours="replace_one"
    ... )
    >>> release = tacit.release_from_table(
    ...     {"yes": 193}, schema=schema, query=tacit.queries.Counts("smoker"), noise="geometric",
    ...     scale=2.0, n=1000,
    ... )
    >>> def model(release):
    ...     p = numpyro.sample("p", dist.Beta(1, 1))
    ...     tacit.numpyro.observe("smokers", release, dist.Binomial(release.n, p))
    >>> mcmc = numpyro.infer.MCMC(
    ...     numpyro.infer.NUTS(model), num_warmup=200, num_samples=200, progress_bar=False
    ... )
    >>> mcmc.run(jax.random.key(0), release)
    >>> 0.15 < mcmc.get_samples()["p"].mean() < 0.24
    Array(True, dtype=bool)
    """
    if not isinstance(release, Release):
        raise ModelError(f"Expected a tacit.Release to observe, got {type(release).__name__}.")
    if any(isinstance(frame, numpyro.plate) for frame in _PYRO_STACK):
        raise ModelError("Expected observe() outside of plates: a release is one observation.")
    given = {
        "statistic": statistic,
        "mean": mean,
        "variance": variance,
        "covariance": covariance,
    }
    given = {what: value for what, value in given.items() if value is not None}
    if not any(isinstance(value, Mapping) for value in given.values()):
        return _observe(name, _seen(release), given)
    named = {what: set(v) if isinstance(v, Mapping) else None for what, v in given.items()}
    tables = next(keys for keys in named.values() if keys is not None)
    if any(keys != tables for keys in named.values()):
        raise ModelError(f"Expected the same tables in each of {', '.join(given)}.")
    known = [block.name for block in release.blocks]
    if not tables or not tables <= set(known):
        raise ModelError(f"Expected tables among {known}, got {sorted(map(str, tables))}.")
    for table in (table for table in known if table in tables):
        one = {what: value[table] for what, value in given.items()}
        _observe(f"{name}/{table}", _seen(release, table), one)
    return None


@dataclass(frozen=True)
class _Seen:
    """Released numbers side by side, with the noise of each."""

    value: np.ndarray
    noise: tuple[Noise, ...]  # one for all, or one for each number
    block: Block | None  # None for several tables in one row

    @property
    def law(self) -> Law:
        return Law.of(self.noise[0])

    @property
    def scale(self) -> np.ndarray:
        scales = np.array([law.scale for law in self.noise])
        return np.broadcast_to(scales.reshape(-1, *[1] * (self.value.ndim - 1)), self.value.shape)

    def cells(self, shape: tuple[int, ...]) -> _Seen:
        """The numbers that something of this shape is about."""
        whole = self.value.shape
        if self.block is not None:
            levels = tuple(len(a.labels) - (None in a.labels) for a in self.block.axes)
            if shape == levels != whole:  # the cell of missing values is the last
                return _Seen(self.value[tuple(map(slice, levels))], self.noise, self.block)
        try:
            if np.broadcast_shapes(shape, whole) == whole:
                return self
        except ValueError:
            pass
        raise ModelError(f"Expected the shape {whole} of {self._described()}, got {shape}.")

    def _described(self) -> str:
        if self.block is None:
            return "release.value, or a mapping from names of tables"
        axes = ", ".join(f"{axis.name} {list(axis.labels)}" for axis in self.block.axes)
        left = f", without {list(self.block.omitted)}: the rest of n" if self.block.omitted else ""
        return f"the table {self.block.name!r} ({axes}{left})" if axes else repr(self.block.name)


def _seen(release: Release, table: str | None = None) -> _Seen:
    if table is None and len(release.blocks) == 1:
        table = release.blocks[0].name
    if table is not None:
        block, value, noise = release.table(table)
        seen = _Seen(value, (noise,), block)
    else:
        sizes = [block.size for block in release.blocks]
        each = tuple(law for law, n in zip(release.noise, sizes, strict=True) for _ in range(n))
        seen = _Seen(release.value, each, None)
    families = {law.family for law in seen.noise}
    if "draw" in families:
        raise ModelError(
            "Expected a release of noisy counts or sums; this one holds draws, to which no noise "
            "was added. Ask for model.query() with tacit.Laplace or tacit.Gaussian instead."
        )
    if len(families) > 1:
        raise ModelError("Expected one type of noise; give a mapping from names of tables instead.")
    return seen


def _observe(name: str, seen: _Seen, given: Mapping[str, Any]) -> None:
    match given:
        case {"statistic": dist.Distribution() as law, **rest} if not rest:
            _observe_law(name, seen, law)
        case {"statistic": value, **rest} if not rest:
            if seen.law.none:
                raise ModelError(
                    "Expected the law of the statistic, such as dist.Binomial(n, p): this release "
                    "has no noise, so that the statistic itself is known."
                )
            seen = seen.cells(jnp.shape(value))
            family = dist.Laplace if seen.law.heavy else dist.Normal
            _sample(name, family(jnp.broadcast_to(value, seen.value.shape), seen.scale), seen.value)
        case {"mean": mean, "variance": variance, **rest} if not rest:
            seen = seen.cells(jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(variance)))
            mean = jnp.broadcast_to(mean, seen.value.shape)
            if seen.law.heavy:
                _sample(name, NormalLaplace(mean, variance, seen.scale), seen.value)
            else:
                spread = jnp.sqrt(variance + seen.scale**2)
                _sample(name, dist.Normal(mean, spread), seen.value)
        case {"mean": mean, "covariance": covariance, **rest} if not rest:
            _observe_together(name, seen.cells(jnp.shape(mean)), mean, covariance)
        case _:
            raise ModelError(
                "Expected observe(name, release, statistic), or mean= with variance= or with "
                f"covariance=, got {', '.join(given) or 'none of these'}."
            )


def _observe_law(name: str, seen: _Seen, law: dist.Distribution) -> None:
    plain = law
    while isinstance(plain, (dist.Independent, dist.ExpandedDistribution)):
        plain = plain.base_dist
    if isinstance(plain, dist.Normal):
        return _observe(name, seen, {"mean": law.mean, "variance": law.variance})
    if isinstance(plain, dist.MultivariateNormal) and law.batch_shape == ():
        moments = {"mean": plain.loc, "covariance": plain.covariance_matrix}
        return _observe(name, seen, moments)
    while isinstance(law, dist.Independent):
        law = law.base_dist
    if law.event_shape or not law.support.is_discrete:
        raise ModelError(
            f"Expected a law of each whole number by itself, or a normal one, got "
            f"{type(plain).__name__}. Say mean= and covariance= instead, or sample the statistic "
            "and hand over its value."
        )
    seen = seen.cells(law.batch_shape)
    if len(set(seen.noise)) > 1:
        raise ModelError("Expected a mapping from names of tables, whose noise differs.")
    noisy = NoisyCounts(law.expand(seen.value.shape), seen.noise[0])
    if noisy.terms * seen.value.size > _MOST_TERMS:
        raise ModelError(
            f"Expected noise that reaches fewer than {noisy.terms} whole numbers for each of "
            f"{seen.value.size} counts. Say mean= and variance= instead, which cost nothing."
        )
    _sample(name, noisy, seen.value)
    return None


def _observe_together(name: str, seen: _Seen, mean: Any, covariance: Any) -> None:
    size = seen.value.size
    if jnp.shape(covariance) != (size, size):
        raise ModelError(
            f"Expected covariance= of shape {(size, size)}, one row for each number of mean=, got "
            f"{jnp.shape(covariance)}."
        )
    mean = jnp.broadcast_to(mean, seen.value.shape).ravel()
    scale = seen.scale.ravel()
    added = scale**2
    if seen.law.heavy:  # Laplace noise is normal, with an exponential variance
        unit = numpyro.sample(f"{name}_noise", dist.Exponential(0.5).expand([size]).to_event(1))
        added = jnp.maximum(unit, 1e-6) * scale**2
    total = covariance + jnp.diag(added)
    spread = jnp.sqrt(jnp.diag(total))
    # As correlations, whose factor holds in single precision; counts that add up are singular.
    rounding = 4 * size * jnp.finfo(total.dtype).eps
    factor = jnp.linalg.cholesky(total / jnp.outer(spread, spread) + rounding * jnp.eye(size))
    law = dist.MultivariateNormal(mean, scale_tril=spread[:, None] * factor)
    numpyro.sample(name, law, obs=jnp.asarray(seen.value.ravel()))


def _sample(name: str, law: dist.Distribution, value: np.ndarray) -> None:
    numpyro.sample(name, law.to_event(value.ndim), obs=jnp.asarray(value))
