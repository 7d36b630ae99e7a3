"""Metropolis chains for a law that is known up to a constant, over the whole space.

Both tune themselves in the first half of their steps and are then left as they are. They return
where they are after all steps, and again after each half as many.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from tacit.laws.uniform import Array, Uniform, normals

_LEAST_CURVATURE = 0.3
_APART = 1e-2  # of the gradients that a Hessian is taken from
_LONGEST = 16
_TRAJECTORY = 1.5  # about a quarter turn of a standard normal law
_RATE, _WALK_RATE = 0.8, 0.25  # of proposals that are accepted
LogDensity = Callable[[Array], float]
Gradient = Callable[[Array], Array]


def hamiltonian(
    log_density: LogDensity, gradient: Gradient, size: int, steps: int, draws: int, uniform: Uniform
) -> Array:
    """Hamiltonian Monte Carlo, in coordinates in which the law is round at its mode.

    The gradient steers proposals only: whatever it returns, the law is that of `log_density`.
    """
    centre, axes = _mode(log_density, gradient, size)
    z, at = np.zeros(size), log_density(centre)
    first, log_step, average, error = max(1, steps // 2), np.log(0.3), np.log(0.3), 0.0

    def force(z: Array) -> Array:
        return np.nan_to_num(axes.T @ gradient(centre + axes @ z), posinf=0.0, neginf=0.0)

    found = []
    for step in range(steps + (draws - 1) * first):
        step_size = float(np.exp(log_step)) * (0.8 + 0.4 * float(uniform(1)[0]))
        start = momentum = normals(size, uniform)
        there, count = z, int(np.clip(np.rint(_TRAJECTORY / step_size), 1, _LONGEST))
        momentum = momentum + 0.5 * step_size * force(there)
        for i in range(count):
            there = there + step_size * momentum
            momentum = momentum + (1.0 if i + 1 < count else 0.5) * step_size * force(there)
        then = log_density(centre + axes @ there)
        gain = then - at + 0.5 * float(start @ start - momentum @ momentum)
        probability = _acceptance(gain)
        if float(uniform(1)[0]) < probability:
            z, at = there, then
        if step < first:  # dual averaging (Hoffman and Gelman 2014)
            t = step + 1
            error += ((_RATE - probability) - error) / (t + 10)
            log_step = np.log(3.0) - np.sqrt(t) / 0.05 * error
            log_step = float(np.clip(log_step, -12.0, 0.7))
            average += t**-0.75 * (log_step - average)
            if t == first:
                log_step = average
        if step + 1 >= steps and (step + 1 - steps) % first == 0:
            found.append(centre + axes @ z)
    return np.array(found)


def random_walk(
    log_density: LogDensity, size: int, steps: int, draws: int, uniform: Uniform
) -> Array:
    """A random walk that learns the shape of the law (Vihola 2012), for few dimensions."""
    u, shape = np.zeros(size), np.eye(size) / np.sqrt(size)
    at, first = log_density(u), max(1, steps // 2)
    found = []
    for step in range(steps + (draws - 1) * first):
        noise = normals(size, uniform)
        there = u + shape @ noise
        then = log_density(there)
        probability = _acceptance(then - at)
        if float(uniform(1)[0]) < probability:
            u, at = there, then
        if step < first:
            gain = min(1.0, size * (step + 1) ** -0.66) * (probability - _WALK_RATE)
            along = shape @ noise / np.linalg.norm(noise)
            with suppress(np.linalg.LinAlgError):  # too flat for doubles: as it was
                shape = np.linalg.cholesky(shape @ shape.T + gain * np.outer(along, along))
        if step + 1 >= steps and (step + 1 - steps) % first == 0:
            found.append(u)
    return np.array(found)


def _acceptance(gain: float) -> float:
    """min(1, e^gain); 0 where the log density is not a number."""
    return float(np.exp(min(0.0, gain))) if gain > -np.inf else 0.0


def _mode(log_density: LogDensity, gradient: Gradient, size: int) -> tuple[Array, Array]:
    """Return the approximate mode, and an inverse root of the Hessian there."""
    from scipy.optimize import minimize  # takes longer than many a fit

    high = 1e300
    best = minimize(
        lambda u: -np.nan_to_num(log_density(u), nan=-high, posinf=high, neginf=-high),
        np.zeros(size),
        jac=lambda u: -np.nan_to_num(gradient(u), posinf=0.0, neginf=0.0),
        method="L-BFGS-B",
        bounds=[(-8.0, 8.0)] * size,
        options={"maxiter": 100, "maxfun": 200},
    )
    centre = best.x if np.isfinite(log_density(best.x)) else np.zeros(size)
    here, apart = gradient(centre), _APART * np.eye(size)
    hessian = np.array([(here - gradient(centre + step)) / _APART for step in apart])
    hessian = np.nan_to_num((hessian + hessian.T) / 2, posinf=0.0, neginf=0.0)
    curvatures, axes = np.linalg.eigh(hessian)
    return centre, axes / np.sqrt(np.maximum(curvatures, _LEAST_CURVATURE))
