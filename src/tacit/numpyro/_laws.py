"""What a released number looks like, given the law of the true one: noise is integrated out."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, logsumexp
from numpyro.distributions import constraints

from tacit.infer.noise import Law
from tacit.spec.release import Noise

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
