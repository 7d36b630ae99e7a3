"""Draws from a posterior given row by row: exact among points, else where a chain ends.

Scores are bounded sums: whatever a row's log-likelihood is, a unit's contribution lies within the
width, and the sum is a whole number that does not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import calibrate_density, choice_range, density_bound
from tacit.draws.choice import ChoiceAnswer, choice_among
from tacit.draws.draw import FLOAT_DRAW, PER_ONE, Draw, exponential, uniforms
from tacit.laws import chains
from tacit.laws.regions import BallMap, BoxMap, log_volume
from tacit.laws.uniform import Uniform
from tacit.sources.data import AnySnapshot, Data, load
from tacit.spec.choice import Choice
from tacit.spec.density import Box, DensityDraw, Points
from tacit.spec.draws import GRID
from tacit.spec.errors import QueryError
from tacit.spec.kernels import Contribution, Kernel
from tacit.spec.programs import Program, trace
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.noise import Entropy
from tacit.wall.statistics.statistic import Statistic
from tacit.wall.steps.programs import refuse_debugging
from tacit.wall.steps.sums import BoundedSums, resolve_sum

LogPrior = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class DensityData(Statistic):
    """The rows that a chain will ask again and again."""

    data: Data = field(repr=False)
    gradient_data: Data | None = field(repr=False)


@dataclass(frozen=True)
class DensityAnswer(Draw):
    """A chain whose programs have been compiled: the score at one point, and its gradient."""

    scores: BoundedSums
    gradients: BoundedSums | None
    log_prior: LogPrior

    def calibrate(self, mechanism: Any) -> Calibration:
        return calibrate_density(exponential(mechanism), self.query, self.schema)

    def evaluate(self, snapshot: AnySnapshot, noise: tuple[Noise, ...]) -> Statistic:
        data = load(snapshot, self.schema, self.query.columns)
        gradient_data = None if self.gradients is None else data
        if self.gradients is not None and self.gradients.query.columns != self.query.columns:
            gradient_data = load(snapshot, self.schema, self.gradients.query.columns)
        return DensityData(np.zeros(0, np.int64), data.units, data, gradient_data)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        assert isinstance(statistic, DensityData)
        with np.errstate(all="ignore"):
            return self._chain(statistic, noise[0].scale, partial(uniforms, entropy))

    def _chain(self, loaded: DensityData, temperature: float, uniform: Uniform) -> np.ndarray:
        """Where a Metropolis chain ends, in multiples of the grid. Its path stays here."""
        query, region = self.query, self.query.region
        if isinstance(region, Box):
            onto: BoxMap | BallMap = BoxMap(np.array(region.low), np.array(region.high))
        else:
            onto = BallMap(region.size, region.radius)

        def log_density(u: np.ndarray) -> float:
            theta = onto.point(u)
            # proof: density-range. The data enter by this whole number alone.
            value = self.score(theta, loaded.data) / temperature + self.log_prior(theta)[0]
            return value + log_volume(u) if np.isfinite(value) else -np.inf

        def gradient(u: np.ndarray) -> np.ndarray:
            theta = onto.point(u)
            assert self.gradients is not None
            assert loaded.gradient_data is not None
            likelihood = _sum_at(self.gradients, theta, loaded.gradient_data) / temperature
            return onto.pullback_gradient(u, likelihood + self.log_prior(theta)[1])

        given = query.steps, query.draws, uniform
        if self.gradients is None:
            ends = chains.random_walk(log_density, region.size, *given)
        else:
            ends = chains.hamiltonian(log_density, gradient, region.size, *given)
        shares = np.array([onto.share(u) for u in ends])
        low = 0 if isinstance(region, Box) else -PER_ONE
        return np.clip(np.trunc(shares * PER_ONE), low, PER_ONE).astype(np.int64).ravel()

    def score(self, theta: np.ndarray, data: Data) -> float:
        """The sum over units of their log-likelihoods at theta, centred and bounded."""
        return float(_sum_at(self.scores, theta, data)[0])


def _sum_at(sums: BoundedSums, theta: np.ndarray, data: Data) -> np.ndarray:
    """A sum over all units at theta, which comes first in its state."""
    asked = sums.at((theta, *sums.query.state[1:]))
    noise = asked.exact()
    return asked.sum(data, np.arange(data.units), noise) * noise[0].grid


def resolve_density(query: DensityDraw, schema: Schema) -> ChoiceAnswer | DensityAnswer:
    """Check and compile the log-likelihood and the prior. Opens no data."""
    blocks, region = {"score": density_bound(query, schema)}, query.region
    each = Axis("draw", range(query.draws))
    if isinstance(region, Points):
        state: Any = (region.theta, np.array([query.width]), *query.constants)
        kernel = _scored(query.kernel, region.theta.shape)
        asked = BoundedSum(kernel, query.columns, state=state, blocks=blocks)
        choice = Choice(asked, region.log_weights.tolist())
        return choice_among(query, choice, Block("point", (each,)), schema)
    state = (region.centre, region.centre, np.array([query.lift, query.width]), *query.constants)
    asked = BoundedSum(_scored(query.kernel, None), query.columns, state=state, blocks=blocks)
    scores = resolve_sum(asked, schema)
    gradients = None if query.gradient is None else resolve_sum(query.gradient, schema)
    block = Block("theta", (each, Axis("parameter", range(region.size))))
    assumptions = scores.assumptions + (gradients.assumptions if gradients else ())
    assumed = tuple(dict.fromkeys((*assumptions, FLOAT_DRAW)))
    public = query, schema, (block,), choice_range(blocks["score"], schema), (GRID,), assumed
    return DensityAnswer(*public, scores, gradients, _log_prior(query))


def _log_prior(query: DensityDraw) -> LogPrior:
    """The log prior and its gradient: closed forms, or a traced program that cannot call back.

    It is called where a chain is, which is secret.
    """
    match query.prior:
        case None:
            return lambda at: (0.0, np.zeros_like(at))
        case float(scale):
            return lambda at: (-0.5 * float(at @ at) / scale**2, -at / scale**2)
        case Program() as program:
            pass
    size = query.region.size
    if (program.columns, program.size, len(program.state)) != (size, 1, 0):
        raise QueryError(f"Expected the prior to be a program of {size} parameters, one number.")
    refuse_debugging()
    import jax

    of_row = program.function()
    with program.precision():
        run = jax.jit(jax.value_and_grad(lambda theta: of_row(theta, ())[0]))

    def at(theta: np.ndarray) -> tuple[float, np.ndarray]:
        with program.precision():
            value, gradient = run(np.asarray(theta, program.dtype))
        return float(value), np.asarray(gradient, float)

    return at


@lru_cache(maxsize=64)
def _scored(kernel: Contribution, points: tuple[int, ...] | None) -> Contribution:
    """What a row adds to the scores, from 0 to the width: at points of a shape, or at one point.

    At points the row's best has the width, and what falls short by more has none; the state is
    (points, [width], constants...). One point is compared with the centre, and lifted; the state
    is (theta, centre, [lift, width], constants...). NaN counts as the worst.
    """  # proof: density-offset
    if isinstance(kernel, Kernel):
        return Kernel(f"{kernel.name}.{'at_points' if points else 'centred'}")
    if kernel.size != 1 or not kernel.state:
        raise QueryError(
            "Expected a program of one number, whose state begins with the parameters."
        )
    of_row, ((name, shape), *others) = kernel.function(), kernel.state

    def one(row: Any, at: Any, constants: Any) -> Any:
        return of_row(row, (at.astype(name), *constants))[0]

    def at_points(row: Any, state: Any) -> Any:
        import jax
        import jax.numpy as jnp

        values = jax.vmap(lambda at: one(row, at, state[2:]))(state[0])
        best = jnp.max(jnp.where(jnp.isnan(values), -jnp.inf, values))
        left = values - best + state[1][0]
        return jnp.where(left > 0, left, 0.0)

    def centred(row: Any, state: Any) -> Any:
        import jax.numpy as jnp

        here, there = (one(row, at, state[3:]) for at in state[:2])
        left = here - there + state[2][0]
        return jnp.where(left > 0, jnp.minimum(left, state[2][1]), 0.0)[None]

    # Only the types and shapes of a state are traced.
    shapes = (points, (1,)) if points else (shape, shape, (2,))
    types = (*((kernel.dtype, each) for each in shapes), *others)
    with kernel.precision():
        state = tuple(np.zeros(each, dtype) for dtype, each in types)
        return trace(at_points if points else centred, kernel.columns, state)
