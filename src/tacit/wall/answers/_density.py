"""Draws from a posterior that a map gives row by row: exact among points, else the end of a chain.

Scores are bounded sums, so whatever the map returns a unit's say lies within the width and the sum
is a whole number that does not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.accounting import Calibration
from tacit.accounting.draws import GRID
from tacit.accounting.ranges import calibrate_density, choice_range, density_bound
from tacit.laws import chains
from tacit.laws.regions import BallMap, BoxMap, log_volume
from tacit.spec.choice import Choice
from tacit.spec.density import Ball, Box, DensityDraw, Points
from tacit.spec.errors import QueryError
from tacit.spec.maps import JaxMap, NumbaMap
from tacit.spec.mechanisms import Exponential
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.answers._choice import ResolvedChoice, resolve_choice
from tacit.wall.answers._draw import FLOAT_DRAW
from tacit.wall.chance._noise import Statistic, Words, uniforms
from tacit.wall.data._documents import DocumentSource
from tacit.wall.data._source import Source
from tacit.wall.sums._jax import jax_prior
from tacit.wall.sums._sums import Data, ResolvedSum, load, resolve_sum

_STEPS = round(1 / GRID)
LogPrior = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Loaded(Statistic):
    """The rows that a chain will ask again and again."""

    data: Data = field(repr=False)
    slope_data: Data | None = field(repr=False)


@dataclass(frozen=True)
class ResolvedDensity:
    """A draw whose maps have been compiled. `scores` is a choice among points, or the score of
    one place for a chain."""

    query: DensityDraw
    schema: Schema
    blocks: tuple[Block, ...]
    scores: ResolvedChoice | ResolvedSum
    slopes: ResolvedSum | None
    log_prior: LogPrior

    @property
    def span(self) -> float:
        return choice_range(density_bound(self.query, self.schema), self.schema)

    @property
    def assumptions(self) -> tuple[str, ...]:
        slopes = () if self.slopes is None else self.slopes.assumptions
        if isinstance(self.scores, ResolvedChoice):
            return self.scores.assumptions
        return tuple(dict.fromkeys((*self.scores.assumptions, *slopes, FLOAT_DRAW)))

    def calibrate(self, mechanism: Exponential) -> Calibration:
        return calibrate_density(mechanism, self.query, self.schema)

    def at_temperature(self, heat: float) -> tuple[Noise, ...]:
        return (Noise("draw", heat, 1.0 if isinstance(self.scores, ResolvedChoice) else GRID),)

    def exact(self) -> tuple[Noise, ...]:
        """The posterior itself: temperature 1."""
        return self.at_temperature(1.0)

    def bound(self, noise: Noise) -> dict[str, Any]:
        return {"range": self.span, "draws": self.query.draws}

    def evaluate(self, source: Source | DocumentSource, noise: tuple[Noise, ...]) -> Statistic:
        if isinstance(self.scores, ResolvedChoice):
            return self.scores.evaluate(source, noise)
        data = load(source, self.schema, self.query.columns)
        slopes = None
        if self.slopes is not None:
            same = self.slopes.query.columns == self.query.columns
            slopes = data if same else load(source, self.schema, self.slopes.query.columns)
        return Loaded(np.zeros(0, np.int64), data.units, data, slopes)

    def sample(self, statistic: Statistic, noise: tuple[Noise, ...], words: Words) -> np.ndarray:
        if isinstance(self.scores, ResolvedChoice):
            return self.scores.several(statistic, noise, words, self.query.draws)
        assert isinstance(statistic, Loaded)
        with np.errstate(all="ignore"):
            return self._chain(statistic, noise[0].scale, lambda n: uniforms(words, n))

    def _chain(
        self, loaded: Loaded, heat: float, uniform: Callable[[int], np.ndarray]
    ) -> np.ndarray:
        """Where a Metropolis chain ends, as steps of the grid. Its path stays here."""
        query, region = self.query, self.query.region
        assert not isinstance(region, Points)
        onto = _onto(region)

        def log_density(u: np.ndarray) -> float:
            place = onto.place(u)
            # proof: density-range. The data enter by this whole number alone.
            value = self.score(place, loaded.data) / heat + self.log_prior(place)[0]
            return value + log_volume(u) if np.isfinite(value) else -np.inf

        def slope(u: np.ndarray) -> np.ndarray:
            place = onto.place(u)
            pull = self._slope(place, loaded.slope_data) / heat + self.log_prior(place)[1]
            return onto.pulled(u, pull)

        given = query.steps, query.draws, uniform
        if self.slopes is None:
            ends = chains.random_walk(log_density, region.size, *given)
        else:
            ends = chains.hamiltonian(log_density, slope, region.size, *given)
        shares = np.array([onto.share(u) for u in ends])
        low = 0 if isinstance(region, Box) else -_STEPS
        return np.clip(np.trunc(shares * _STEPS), low, _STEPS).astype(np.int64).ravel()

    def score(self, place: np.ndarray, data: Data) -> float:
        """The sum over units of what each says for a place, in log-likelihood."""
        assert isinstance(self.scores, ResolvedSum)
        asked = self.scores.at((place, *self.scores.query.state[1:]))
        noise = asked.exact()
        return int(asked.sum(data, np.arange(data.units), noise)[0]) * noise[0].grid

    def _slope(self, place: np.ndarray, data: Data | None) -> np.ndarray:
        assert self.slopes is not None
        assert data is not None
        asked = self.slopes.at(place)
        noise = asked.exact()
        return asked.sum(data, np.arange(data.units), noise) * noise[0].grid


def resolve_density(query: DensityDraw, schema: Schema) -> ResolvedDensity:
    """Compile the maps and the prior. Opens no data."""
    if not isinstance(query.map, JaxMap | NumbaMap):
        raise QueryError("Expected the map itself: a saved release keeps its name only.")
    bound, region = density_bound(query, schema), query.region
    blocks = {"score": bound}
    each = Axis("draw", range(query.draws))
    if isinstance(region, Points):
        state: Any = (region.theta, np.array([query.width]))
        sums = BoundedSum(_over_points(query.map), query.columns, state=state, blocks=blocks)
        choice = resolve_choice(Choice(sums, region.log_weights.tolist()), schema)
        return ResolvedDensity(query, schema, (Block("point", (each,)),), choice, None, _flat)
    state = (region.centre, region.centre, np.array([query.lift, query.width]))
    sums = BoundedSum(_centred(query.map), query.columns, state=state, blocks=blocks)
    slopes = None if query.slopes is None else resolve_sum(query.slopes, schema)
    block = Block("theta", (each, Axis("parameter", range(region.size))))
    scores, prior = resolve_sum(sums, schema), _log_prior(query)
    return ResolvedDensity(query, schema, (block,), scores, slopes, prior)


def _onto(region: Box | Ball) -> BoxMap | BallMap:
    if isinstance(region, Box):
        return BoxMap(np.array(region.low), np.array(region.high))
    return BallMap(region.size, region.radius)


def _log_prior(query: DensityDraw) -> LogPrior:
    """The log prior and its gradient: closed forms, or a traced program that cannot call back."""
    match query.prior:
        case None:
            return _flat
        case float(scale):
            return lambda at: (-0.5 * float(at @ at) / scale**2, -at / scale**2)
        case JaxMap() as given:
            return jax_prior(given, query.region.size)
        case _:
            raise QueryError("Expected the prior itself: a saved release keeps its name only.")


def _flat(at: np.ndarray) -> tuple[float, np.ndarray]:
    return 0.0, np.zeros_like(at)


@lru_cache(maxsize=64)
def _over_points(map_: JaxMap | NumbaMap) -> JaxMap | NumbaMap:
    """A row at all points: its best has the width, and what falls short by more has none.

    The state is (points, [width]). Compared so that NaN counts as the worst.
    """  # proof: density-offset
    one: Any = map_.function
    if isinstance(map_, JaxMap):

        def points_in_jax(row: Any, state: Any) -> Any:
            import jax
            import jax.numpy as jnp

            values = jax.vmap(lambda at: jnp.sum(jnp.asarray(one(row, at))))(state[0])
            best = jnp.max(jnp.where(jnp.isnan(values), -jnp.inf, values))
            left = values - best + state[1][0]
            return jnp.where(left > 0, left, 0.0)

        return JaxMap(points_in_jax)

    def points(row, state, out):  # type: ignore[no-untyped-def]
        value = np.zeros(1)
        best = -np.inf
        for j in range(out.size):
            value[0] = 0.0
            one(row, state[0][j], value)
            out[j] = value[0]
            if value[0] > best:  # noqa: PLR1730 - max may return NaN
                best = value[0]
        for j in range(out.size):
            left = out[j] - best + state[1][0]
            out[j] = left if left > 0 else 0.0

    return NumbaMap(points)


@lru_cache(maxsize=64)
def _centred(map_: JaxMap | NumbaMap) -> JaxMap | NumbaMap:
    """A row at one place against the centre, lifted and cut to the width.

    The state is (place, centre, [lift, width]).
    """  # proof: density-offset
    one: Any = map_.function
    if isinstance(map_, JaxMap):

        def centred_in_jax(row: Any, state: Any) -> Any:
            import jax.numpy as jnp

            here, there = (jnp.sum(jnp.asarray(one(row, at))) for at in state[:2])
            left = here - there + state[2][0]
            return jnp.where(left > 0, jnp.minimum(left, state[2][1]), 0.0)[None]

        return JaxMap(centred_in_jax)

    def centred(row, state, out):  # type: ignore[no-untyped-def]
        there = np.zeros(1)
        one(row, state[0], out)
        one(row, state[1], there)
        left = out[0] - there[0] + state[2][0]
        out[0] = min(left, state[2][1]) if left > 0 else 0.0

    return NumbaMap(centred)
