"""Logistic regressions behind the wall: Langevin chains, and minima with noise before or after.

`resolve_logistic` knows only what is public; `evaluate` reads the rows as vectors y x of norm at
most 1; `sample` fits them. What is computed in doubles is within a proven distance of what the
proofs speak of, and noise in multiples of a grid hides that distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tacit.accounting import Calibration
from tacit.accounting import logistic as cost
from tacit.accounting.draws import changed_rows
from tacit.laws.uniform import normals_from_bits as normals
from tacit.sources.rows import load_rows
from tacit.sources.source import Snapshot
from tacit.spec.columns import Categorical
from tacit.spec.design import Design
from tacit.spec.errors import BudgetError, QueryError
from tacit.spec.logistic import LogisticDraw, LogisticMinimum, assumed_curvature, ridge_of, units_of
from tacit.spec.mechanisms import Exponential, Gaussian, Laplace
from tacit.spec.release import Axis, Block, Noise
from tacit.spec.schema import Schema
from tacit.wall.noise import Entropy, noised
from tacit.wall.statistics.statistic import Statistic

_LIMIT = 2.0**61  # multiples of the grid, within 64 bits with the noise
POINT = (
    "one noisy point and not a posterior: its draws are all the same, and no error bar is honest"
)
CHAIN = (
    "the chain may not have come all the way to the tempered posterior: that is a matter of "
    "accuracy, and privacy does not depend on it"
)
LIMIT = "there are at most 16 times as many units as max_units says, or rounding might show"
_ROUNDS = 10**6  # never reached: steps that lower the objective come to an end


@dataclass(frozen=True)
class Schedule:
    """A Langevin chain: the prior's curvature, step sizes, initial sd, radius of its ball."""

    curvature: float
    sizes: np.ndarray
    start: float
    radius: float


@dataclass(frozen=True)
class LogisticAnswer:
    """A regression with what is public about its columns."""

    query: LogisticDraw | LogisticMinimum
    schema: Schema
    design: Design
    blocks: tuple[Block, ...]

    @property
    def assumptions(self) -> tuple[str, ...]:
        if self.chains:
            return (CHAIN,)
        return (POINT,) if self.schema.neighbours == "replace_one" else (POINT, LIMIT)

    def calibrate(self, mechanism: Exponential | Gaussian | Laplace) -> Calibration:
        size, known = self.design.size, 0
        if self.schema.neighbours == "add_remove":
            known = units_of(self.schema, None)
        match self.query, mechanism:
            case LogisticDraw(), Exponential():
                found = cost.calibrate_logistic_draw(mechanism, self.query, self.schema, size)
            case LogisticMinimum(), Gaussian():
                found = cost.calibrate_minimum(mechanism, self.query, self.schema, size)
            case _:
                fits = "Exponential" if self.chains else "Gaussian"
                raise BudgetError(
                    f"Expected tacit.{fits}(epsilon, delta) for this regression, got {mechanism!r}."
                )
        if known:  # what cannot be is refused before it is paid for
            check = {"draw": self._schedule, "objective": self._rounding}
            check.get(found.noise[0].family, self._ridge)(known, found.noise[0])
        return found

    def exact(self) -> tuple[Noise, ...]:
        """The posterior itself, as far as a chain gets; or the minimum."""
        grid = cost.theta_grid(self.query)
        return (Noise("draw", 1.0, grid),) if self.chains else (Noise("none", 0.0, grid),)

    @property
    def chains(self) -> bool:
        return isinstance(self.query, LogisticDraw)

    def bound(self, noise: Noise) -> dict[str, Any]:
        """What the noise is for, as the ledger records it."""
        if self.chains:
            return {"gradient": cost.gradient_gap(self.schema), "temper": 1 / noise.scale}
        return {"rows_changed": changed_rows(self.schema)}

    def evaluate(self, snapshot: Snapshot, noise: tuple[Noise, ...]) -> Statistic:
        """Vectors y x of all complete rows; or their minimum, where noise is yet to be added to it.

        A row with a missing value adds nothing.
        """
        query = self.query
        rows = load_rows(snapshot, self.schema, (*query.law.features, query.law.target))
        values = rows.values[rows.complete].astype(float)
        vectors = self.design.rows(values) * (2 * values[:, -1:] - 1)
        # proof: logistic-rows. Whatever rounding did, no row is longer than 1.
        vectors[~np.isfinite(vectors).all(axis=1)] = 0.0
        longest = np.sqrt((vectors**2).sum(axis=1, keepdims=True)) * (1 + 1e-13)
        vectors /= np.maximum(longest, 1.0)
        law, none = noise[0], np.zeros(self.design.size)
        if law.family in ("draw", "objective"):
            return Statistic(vectors, rows.units)
        assert isinstance(query, LogisticMinimum)
        if law.family == "none":
            ridge = query.regularizer or query.law.precision
            theta = minimum(vectors, ridge, none, 1e-6 + 1e-9 * len(vectors))
        else:
            ridge = self._ridge(units_of(self.schema, rows.units), law)
            # proof: logistic-output. The other half of the tolerance is for the product's rounding.
            tolerance = cost.TOLERANCE * self.schema.max_rows_per_unit / 2
            theta = ridge * minimum(vectors, ridge, none, tolerance)
        return _whole(theta, law.grid, rows.units)

    def sample(
        self, statistic: Statistic, noise: tuple[Noise, ...], entropy: Entropy
    ) -> np.ndarray:
        """Where Langevin chains end, the minimum of a tilted objective, or one with noise added."""
        law, vectors, units = noise[0], statistic.integers, statistic.units
        match law.family, self.query:
            case "draw", LogisticDraw(draws=draws):
                known = units_of(self.schema, units)
                schedule, hidden = self._schedule(known, law)
                weight = (1 / law.scale) * cost.row_weight(self.schema, known, len(vectors))
                theta = langevin(vectors, weight, schedule, draws, entropy).T
            case "objective", _:
                known = units_of(self.schema, units)
                off, hidden = self._rounding(known, law)
                tilt = law.scale * normals(entropy, self.design.size)
                theta = minimum(vectors, self._ridge(known, law), tilt, 2 * off)
            case _:
                return noised(statistic, noise, self.blocks, entropy)
        return noised(_whole(theta, law.grid, units), (hidden,), self.blocks, entropy)

    def _ridge(self, known: int, law: Noise) -> float:
        query, each = self.query, self.schema.max_rows_per_unit
        assert isinstance(query, LogisticMinimum)
        return ridge_of(query, known, self.design.size, law.scale, each)

    def _schedule(self, known: int, law: Noise) -> tuple[Schedule, Noise]:
        """A chain's schedule, and the noise that hides its rounding: by what is public alone."""
        query, size, temper = self.query, self.design.size, 1 / law.scale
        assert isinstance(query, LogisticDraw)
        most = cost.weighed_rows(self.schema, known)
        curvature = cost.prior_curvature(query, law.scale)
        sizes = cost.step_sizes(curvature, curvature + temper * most * cost.CURVATURE, most, size)
        wide = 2 * (math.sqrt(size) + 8) + math.sqrt(2 * temper * most * math.log(2))
        radius = wide / math.sqrt(curvature)
        # As wide as a posterior, by a public guess: far out the losses have little curvature.
        start = 1 / math.sqrt(curvature + temper * assumed_curvature(most, size))
        mu = cost.gradient_gap(self.schema) * temper / math.sqrt(curvature) * cost.SHARE
        off = cost.state_error(sizes, curvature, temper, most, size, radius)
        return Schedule(curvature, sizes, start, radius), cost.rounding_noise(
            off, mu, law.grid, size
        )

    def _rounding(self, known: int, law: Noise) -> tuple[float, Noise]:
        """How far doubles can move the gradient of the objective, and the noise that hides it."""
        size, sigma, ridge = self.design.size, law.scale, self._ridge(known, law)
        # A limit that was declared, and not counted, may be wrong.
        room = 1 if self.schema.neighbours == "replace_one" else 16
        most = room * self.schema.max_rows_per_unit * known
        # The norm of the random gradient, but for a probability of e^-128; and of the minimum then.
        tilt = sigma * (math.sqrt(size) + 16)
        radius = (tilt + math.sqrt(tilt**2 + 2 * ridge * most * math.log(2))) / ridge
        off = cost.gradient_error(most, size, radius) + sigma * cost.normal_error(size)
        off += 2.0**-48 * ridge * radius
        return off, cost.rounding_noise(3 * off / ridge, cost.SHARE / sigma, law.grid, size)


def resolve_logistic(query: LogisticDraw | LogisticMinimum, schema: Schema) -> LogisticAnswer:
    """Look up what is public. Opens no data."""
    law = query.law
    target = schema[law.target]
    if not isinstance(target, Categorical) or len(target.levels) != 2:
        raise QueryError(f"Expected the target {law.target!r} to be Categorical with two levels.")
    design = Design.of(law.features, schema)
    if schema.neighbours == "add_remove":
        units_of(schema, None)  # refuses what has no public limit
    draws = query.draws if isinstance(query, LogisticDraw) else 1
    block = Block("theta", (Axis("draw", range(draws)), Axis("feature", design.names)))
    return LogisticAnswer(query, schema, design, (block,))


def gradient(blocks: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The gradient of the sum of losses at each column of theta, from rows in blocks."""
    # proof: logistic-floats. Doubles are added up within blocks only.
    probability = expit(-(blocks @ theta))
    parts = blocks.transpose(0, 2, 1) @ probability
    high = np.rint(parts * 2.0**20) * 2.0**-20
    return -(high.sum(axis=0) + (parts - high).sum(axis=0))


def in_blocks(vectors: np.ndarray) -> np.ndarray:
    """Rows in blocks of one size, filled up with zeros, which have no gradient."""
    rows, size = vectors.shape
    count = max(-(-rows // cost.BLOCK), 1)
    blocks = np.zeros((count, min(cost.BLOCK, max(rows, 1)), size))
    blocks.reshape(-1, size)[:rows] = vectors
    return blocks


def langevin(
    vectors: np.ndarray, weight: float, schedule: Schedule, chains: int, entropy: Entropy
) -> np.ndarray:
    """The last states (coefficient, chain)."""
    blocks, shape, radius = in_blocks(vectors), (vectors.shape[1], chains), schedule.radius
    theta = schedule.start * normals(entropy, math.prod(shape)).reshape(shape)
    for step in schedule.sizes:
        # proof: logistic-langevin. A step back into the ball moves no two states apart.
        theta = theta / np.maximum(np.sqrt((theta**2).sum(axis=0)) / radius, 1.0)
        drift = schedule.curvature * theta + weight * gradient(blocks, theta)
        noise = normals(entropy, math.prod(shape)).reshape(shape)
        theta = theta - step * drift + math.sqrt(2 * step) * noise
    return theta / np.maximum(np.sqrt((theta**2).sum(axis=0)) / radius, 1.0)


def minimum(vectors: np.ndarray, ridge: float, tilt: np.ndarray, tolerance: float) -> np.ndarray:
    """Where the losses + ridge |theta|^2 / 2 + tilt'theta are least, up to a gradient of tolerance.

    By Newton's method, and for any rows: a step of length log(1 + d) instead of d lowers the
    objective, since no row's vector is longer than 1 (Sun and Tran-Dinh 2019, Theorem 2). A whole
    step is taken where it at least halves the least gradient so far: it can happen some 60 times.
    """  # proof: logistic-minimum
    blocks, size = in_blocks(vectors), len(tilt)

    def gradient_and_norm(theta: np.ndarray) -> tuple[np.ndarray, float]:
        total = gradient(blocks, theta[:, None])[:, 0] + ridge * theta + tilt
        return total, float(np.linalg.norm(total))

    theta = np.zeros(size)
    total, norm = gradient_and_norm(theta)
    least = norm
    for _ in range(_ROUNDS):
        length = float(np.linalg.norm(theta))
        off = cost.gradient_error(len(vectors), size, length) + 2.0**-48 * ridge * length
        # Rounding leaves more than the tolerance only where a declared limit was wrong.
        if norm + off <= tolerance or norm <= off:  # proof: logistic-floats
            break
        probability = expit(-(vectors @ theta))
        hessian = (vectors * (probability * (1 - probability))[:, None]).T @ vectors
        step = np.linalg.solve(hessian + ridge * np.eye(size), total)
        found = gradient_and_norm(theta - step)
        if found[1] <= least / 2:
            theta = theta - step
        else:
            distance = float(np.linalg.norm(step))
            theta = theta - math.log1p(distance) / distance * step
            found = gradient_and_norm(theta)
        total, norm = found
        least = min(least, norm)
    return theta


def _whole(values: np.ndarray, grid: float, units: int) -> Statistic:
    integers = np.clip(np.rint(values / grid), -_LIMIT, _LIMIT)
    return Statistic(integers.astype(np.int64).ravel(), units)
