"""From noisy gradients and Hessians to a posterior: the gradient of the log-likelihood as linear.

In the coordinates psi of a frame the gradient is about s - H psi near the origin. At the true
parameters it is a normal draw of variance H. So a gradient that was released with noise of variance
W has, given the true parameters, the law

    N(H psi, H + W),

an observation of psi in which sampling and privacy noise both count. With a prior this is a
posterior, however large the noise. The Hessian is released with noise too. It has a normal law
around a multiple of the identity a priori, about n, the number of units: coordinates are chosen
such that a record has a curvature of about 1, and the better that holds, the less is asked of the
noisy one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.spec.packing import packed_size, symmetric
from tacit.spec.walks import Frame

# The largest eigenvalue of the prior's deviation from the identity is about sqrt(2 * 0.3) = 0.8,
# whatever the size. (With 0.5 the 90% intervals of 21 coefficients cover 98% where noise swamps the
# Hessian, with 0.3 90 to 93%; with 6 coefficients both cover 89 to 91%.)
_DEVIATION = 0.3
_LEAST = 0.05  # smallest eigenvalue of a Hessian, as a share of n
_GAIN = 0.4  # by how much noise alone may move an eigenvalue where coordinates are adapted
_LOW, _LOWEST = 0.25, 0.02  # curvatures in one step, at least: where noise is large, where small
_LEVEL = 0.5  # standard deviation a priori of the mean curvature of a record
_LONGEST = 1.5  # step of a pilot query, in coordinates in which a record has a curvature of 1
_KEPT = 0.4  # of what earlier pilot queries said of the mode: noise averages out over a few of them
_MOST_DRAWN = 64  # Hessians that draws are made under
_MOST_BENT = 200  # draws at which contrasts are taken
_SILENT = 1e-5  # as a share of the largest, a contrast's derivative that counts as zero
_WARMUP = 300  # steps of NUTS
_STUCK = 0.05  # standard deviation of a chain, as a share of the others', below which it is stuck


@dataclass(frozen=True, eq=False)
class Observed:
    """Derivatives that were released at the origin of a frame, in its coordinates, over all rows.

    `gradient` and `rows`, how many there are, have normal noise of standard deviation `sd`;
    `hessian` has that times the root of its size on the diagonal, and over the root of 2 elsewhere.
    """

    frame: Frame
    gradient: np.ndarray
    hessian: np.ndarray
    rows: float
    sd: float

    @classmethod
    def of(cls, frame: Frame, value: np.ndarray, sd: float) -> Observed:
        """From a released gradient, a packed Hessian over the root of its size, and a count."""
        size = frame.origin.size
        hessian = symmetric(value[size:-1] * size**0.5, size)
        rows = float(value[-1])
        sd = max(sd, 1e-4 * max(rows, 1.0) ** 0.5)  # without noise there is still rounding
        return cls(frame, value[:size], hessian, rows, sd)

    @property
    def hessian_sd(self) -> float:
        return self.sd * len(self.gradient) ** 0.5


def adapted(observed: Observed, n: float) -> np.ndarray:
    """Return the curvature of a record as a step towards a noisy Hessian from the identity.

    Its mean over all directions is known best, and moves first. Noise alone moves that mean by no
    more than 0.4, and no eigenvalue by more than 0.4 of it: a curvature that is taken for too small
    makes for steps that are too long, and these for coordinates that are worse.
    """
    size, sd = len(observed.gradient), observed.hessian_sd / n
    identity = np.eye(size)
    mean = float(np.trace(observed.hessian)) / size / n
    edge = 2 * sd / size**0.5
    gain = min(1.0, _GAIN / edge)
    level = max(1 + gain * (mean - 1), _LOW if gain < 1 else max(_LOWEST, edge))
    edge = (2 * size) ** 0.5 * sd / level
    gain = min(1.0, _GAIN / edge)
    shape = identity + gain * (observed.hessian / n - mean * identity) / level
    return level * _floored(shape, _LOW if gain < 1 else max(_LOWEST, edge))


def overshot(curvature: np.ndarray, before: Observed, now: Observed, n: float) -> np.ndarray:
    """Return the curvature of a record, raised along a step that went past the mode.

    There it is at least what gradients at both ends of the step say, less three standard deviations
    of their noise. Clips shorten Hessians of records with long gradients, so that steps would go
    back and forth: the longest ones, in coordinates that do not contract.
    """
    step = -now.frame.coordinates(before.frame.origin)
    length = float(np.linalg.norm(step))
    along = step / max(length, 1e-300)
    turned = np.linalg.solve(before.frame.basis, now.frame.basis @ along)
    first, second = float(before.gradient @ turned), float(now.gradient @ along)
    if length == 0 or first < 0 or second > 0:
        return curvature
    noise = math.hypot(now.sd, before.sd * float(np.linalg.norm(turned)))
    secant = (first - second - 3 * noise) / (n * length)
    missing = max(secant - float(along @ curvature @ along), 0.0)
    return curvature + missing * np.outer(along, along)


def estimated(observed: Sequence[Observed], n: float) -> tuple[np.ndarray, float, float]:
    """Return the posterior mean of a record's curvature, and how well it is known.

    That is the standard deviation of its entries, and of its mean over all directions. All were
    observed in coordinates of one basis.
    """
    size = len(observed[0].gradient)
    weights = np.array([each.hessian_sd**-2.0 for each in observed])
    seen = np.tensordot(weights / weights.sum(), [each.hessian / n for each in observed], axes=1)
    noise, identity = 1 / weights.sum() / n**2, np.eye(size)
    average, error = float(np.trace(seen)) / size, noise / size
    known = _LEVEL**2 / (_LEVEL**2 + error)
    level = max(1 + known * (average - 1), _LEAST)
    prior = _DEVIATION / size * level**2
    shrunk = prior / (prior + noise)
    hessian = level * identity + shrunk * (seen - average * identity)
    return _floored(hessian, _LEAST), float((shrunk * noise) ** 0.5), float((known * error) ** 0.5)


def newton_step(
    law: Linearised,
    mean: np.ndarray,
    precision: np.ndarray,
    before: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the posterior's mode should be, and the precision with which gradients tell it.

    The prior is normal. `before` is the precision of earlier gradients, which led to the origin;
    they count less, since they were further from the mode. The step is at most 1.5 long, and short
    where the gradient is mostly noise.
    """
    basis, origin = law.frame.basis, law.frame.origin
    prior, pull = basis.T @ precision @ basis, basis.T @ precision @ (mean - origin)
    weight = np.linalg.solve(law.hessian + law.noise, law.hessian)  # (H + W)^-1 H
    known = law.hessian @ weight
    if before is not None:
        known, pull = known + _KEPT * before, (1 - _KEPT) * pull
    near = np.eye(len(origin)) / _LONGEST**2
    step = np.linalg.solve(known + prior + near, weight.T @ law.gradient + pull)
    length = float(np.linalg.norm(step))
    return step * min(1.0, _LONGEST / max(length, 1e-300)), known


@dataclass(frozen=True, eq=False)
class Linearised:
    """The law N(H psi, H + W) of a released gradient given the parameters psi of a frame.

    `gradient` is the log-likelihood's at psi = 0 with noise of covariance `noise`; `hessian` is H,
    known up to `hessian_sd` on its diagonal and that over the root of 2 elsewhere, its mean over
    all directions up to `level_sd`.
    """

    frame: Frame
    gradient: np.ndarray
    noise: np.ndarray
    hessian: np.ndarray
    hessian_sd: float
    level_sd: float

    @classmethod
    def of(cls, one: Observed, all_of_them: Sequence[Observed], n: float) -> Linearised:
        """From one released gradient, and the Hessians of all that were asked in its basis."""
        curvature, sd, level_sd = estimated(all_of_them, n)
        noise = one.sd**2 * np.eye(len(curvature))
        return cls(one.frame, one.gradient, noise, n * curvature, n * sd, n * level_sd)

    @classmethod
    def combined(cls, parts: Sequence[Linearised], frame: Frame) -> Linearised:
        """Return gradients of one Hessian and basis as one, weighted by the precision of each."""
        precisions = [np.linalg.inv(each.noise) for each in parts]
        noise = np.linalg.inv(sum(precisions))
        shifted = [each.at(frame) for each in parts]
        total = sum(p @ s for p, s in zip(precisions, shifted))
        return cls(
            frame, noise @ total, noise, parts[0].hessian, parts[0].hessian_sd, parts[0].level_sd
        )

    def at(self, frame: Frame) -> np.ndarray:
        """The gradient at the origin of another frame of the same basis, as the Hessian has it."""
        return self.gradient - self.hessian @ self.frame.coordinates(frame.origin)

    def hessians(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (draw, ...) of the Hessian."""
        size = len(self.gradient)
        n = float(np.trace(self.hessian)) / size
        identity = np.eye(size)

        def drawn() -> np.ndarray:
            off = symmetric(rng.normal(0, self.hessian_sd, packed_size(size)), size)
            level = rng.normal(0, self.level_sd) - float(np.trace(off)) / size
            return _floored(self.hessian + off + level * identity, _LEAST * n)

        return np.array([drawn() for _ in range(count)])

    def whitened(
        self, precision: np.ndarray, count: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `jacobians` and `offs` under draws of the Hessian, and a basis of coordinates u.

        The law is N(0, 1) of each entry of `off - jacobian @ u`. The parameters are the origin and
        basis @ u, and the posterior under a normal prior of this `precision` has unit scale.
        """
        hessians, basis = self.hessians(count, np.random.default_rng(seed)), self.frame.basis
        information = self.hessian @ np.linalg.solve(self.hessian + self.noise, self.hessian)
        root = inverse_root(information + basis.T @ precision @ basis)
        scales = [np.linalg.cholesky(np.linalg.inv(h + self.noise)).T for h in hessians]
        jacobians = np.array([scale @ h @ root for scale, h in zip(scales, hessians)])
        offs = np.array([scale @ self.gradient for scale in scales])
        return jacobians, offs, basis @ root

    def normal_draws(
        self,
        mean: np.ndarray,
        precision: np.ndarray,
        count: int,
        rng: np.random.Generator,
        *,
        aware: bool = True,
    ) -> np.ndarray:
        """Return draws (draw, parameter) of the parameters under a normal prior.

        Without `aware` the noise counts as zero and the Hessian as known.
        """
        basis, origin = self.frame.basis, self.frame.origin
        prior = basis.T @ precision @ basis
        linear = basis.T @ precision @ (mean - origin)
        hessians = self.hessians(min(count, _MOST_DRAWN), rng) if aware else self.hessian[None]
        noise = self.noise if aware else np.zeros_like(self.noise)
        draws = np.empty((count, len(mean)))
        for i, hessian in enumerate(hessians):
            weight = np.linalg.solve(hessian + noise, hessian)  # (H + W)^-1 H
            total = hessian @ weight + prior
            root = inverse_root(total)
            centre = root @ (root @ (weight.T @ self.gradient + linear))
            some = draws[i :: len(hessians)]
            some[:] = centre + rng.standard_normal(some.shape) @ root
        return self.frame.vectors(rng.permutation(draws))


def walked_draws(
    law: Linearised, precision: np.ndarray, log_prior: Any, count: int, seed: int, chains: int = 16
) -> tuple[np.ndarray, bool]:
    """Return draws (draw, parameter) under any prior, and whether a chain was stuck.

    They are of NUTS, each chain under its own Hessian. Chains walk in coordinates u that are of the
    posterior's scale by a normal prior of this `precision`: single precision is enough there. They
    begin at the origin of the frame, a point near the mode; where records say little, the gradient
    alone would lead to where the prior has no mass.
    """
    import jax

    jacobians, offs, basis = law.whitened(precision, chains, seed)
    keys = jax.random.split(jax.random.key(seed % 2**31), chains)
    place = law.frame.origin, basis
    u = np.asarray(_chains(log_prior, -(-count // chains))(keys, jacobians, offs, *place), float)
    spread = u.std(axis=1)  # of each chain
    stuck = bool(np.any(spread < _STUCK * np.median(spread, axis=0)) or not np.isfinite(u).all())
    flat = u.transpose(1, 0, 2).reshape(-1, len(basis))[:count]
    return law.frame.origin + flat @ basis.T, stuck


@lru_cache(maxsize=8)
def _chains(log_prior: Any, steps: int) -> Any:
    """Return chains of NUTS of `steps` steps, compiled: positions (chain, step, coordinate)."""
    import blackjax
    import jax
    import jax.numpy as jnp

    def chain(key: Any, jacobian: Any, off: Any, middle: Any, spread: Any) -> Any:
        def log_density(u: Any) -> Any:
            return log_prior(middle + spread @ u) - 0.5 * jnp.sum((off - jacobian @ u) ** 2)

        first, second = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, tuned), _ = adaptation.run(first, jnp.zeros(len(middle)), num_steps=_WARMUP)
        kernel = blackjax.nuts(log_density, **tuned)

        def one(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(second, steps))[1]

    return jax.jit(jax.vmap(chain, in_axes=(0, 0, 0, None, None)))


def bent(contrasts: Any, origin: np.ndarray, vectors: np.ndarray, precision: np.ndarray) -> float:
    """Return how far contrasts at draws are from linear, as a share of what they vary.

    `contrasts` are numbers that records know the parameters by, `vectors` draws (draw, parameter).
    Where contrasts do not move at the origin, records are to say nothing elsewhere: there draws are
    spread as the prior is, a normal of this `precision`. The share is one of median squared
    distances. It is infinite if a number is not finite.
    """
    scale = np.diag(precision) ** -0.5
    some = vectors[np.linspace(0, len(vectors) - 1, min(len(vectors), _MOST_BENT)).astype(int)]
    function, jacobian = _contrasted(contrasts)
    turned = np.asarray(jacobian(origin), float)  # (number, parameter)
    if not np.isfinite(turned).all() or not np.isfinite(some).all():
        return np.inf
    _, sizes, directions = np.linalg.svd(turned * scale, full_matrices=True)
    rank = int(np.sum(sizes > _SILENT * sizes[0]))
    silent = directions[rank:]
    away = np.random.default_rng(0).standard_normal((len(some), len(silent))) @ silent * scale
    along = (some - origin) @ turned.T
    moved = np.asarray(function(some + away), float) - np.asarray(function(origin[None]), float)
    off, size = np.sum((moved - along) ** 2, axis=1), np.sum(along**2, axis=1)
    share = float(np.median(off) / max(np.median(size), 1e-300))
    return share if np.isfinite(share) else np.inf


@lru_cache(maxsize=8)
def _contrasted(contrasts: Any) -> Any:
    """Return contrasts at several vectors, and their Jacobian at one."""
    import jax

    return jax.jit(jax.vmap(contrasts)), jax.jit(jax.jacfwd(contrasts))


def inverse_root(matrix: np.ndarray) -> np.ndarray:
    """Return the symmetric inverse square root of a positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.maximum(values, 1e-14 * values[-1]) ** -0.5 @ vectors.T


def _floored(matrix: np.ndarray, least: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.maximum(values, least) @ vectors.T
