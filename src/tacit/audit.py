"""Attack the mechanisms: an empirical lower bound on epsilon that must stay below the claim.

Each game runs a mechanism many times on two neighbouring data sets that are worst for it and asks
which one it was. The best answer is a threshold on the log-likelihood ratio; how often it is right
bounds epsilon from below. Every game has a broken twin, a mistake that people make, and the same
attack must catch it. Passing is no proof: those are in wall/PROOFS.md.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv

from tacit.accounting import epsilon as steps_epsilon
from tacit.audit_draws import ExactGame, draw_games, sampled
from tacit.spec.columns import Categorical, Real
from tacit.spec.draws import BallRegression, ConjugateDraw
from tacit.spec.maps import NumbaMap
from tacit.spec.mechanisms import Exponential, Gaussian, Laplace
from tacit.spec.moments import Moments
from tacit.spec.plan import Geometry, Plan, Poisson, Steps, Subsampling, WithoutReplacement
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Noise
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import BoundedSum
from tacit.wall._draw import regression_law, resolve_draw
from tacit.wall._evaluate import calibrated, open_data, resolve
from tacit.wall._noise import draw
from tacit.wall._public import Public

CONFIDENCE = 1 - 1e-5
# What Gaussian noise promises holds at every delta, and an attack sees most at a large one.
DELTA = 0.05
Scores = tuple[np.ndarray, np.ndarray]
Table = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Game:
    """A claim, the mechanism that makes it, and a twin that does not deserve it.

    `honest` and `broken` play so many times on both data sets and return the log-likelihood
    ratios of the outputs.
    """

    name: str
    epsilon: float
    delta: float
    honest: Callable[[int], Scores]
    mistake: str
    broken: Callable[[int], Scores]
    pace: int = 1  # quick games are played more often


@dataclass(frozen=True)
class Verdict:
    """What a game showed: lower bounds on epsilon for the mechanism and for its broken twin."""

    game: Game | ExactGame
    runs: int
    bound: float
    twin: float

    @property
    def passed(self) -> bool:
        return self.bound <= self.game.epsilon

    @property
    def caught(self) -> bool:
        return self.twin > self.game.epsilon

    @property
    def cells(self) -> tuple[str, ...]:
        """One line of a table with `COLUMNS`."""
        return (
            self.game.name,
            f"{self.game.epsilon:.3f}",
            f"{self.game.delta:g}",
            f"{self.bound:.3f} {'holds' if self.passed else 'BROKEN'}",
            self.game.mistake,
            f"{self.twin:.3f} {'caught' if self.caught else 'MISSED'}",
        )


COLUMNS = ("mechanism", "claimed epsilon", "delta", "shown", "broken twin", "shown")


def play(game: Game | ExactGame, runs: int = 10_000) -> Verdict:
    """Play on both data sets so many times, with the mechanism and with its twin."""
    if isinstance(game, ExactGame):
        return Verdict(game, runs, game.honest(runs), game.broken(runs))
    runs *= game.pace
    bounds = (lower_bound(*side(runs), game.delta) for side in (game.honest, game.broken))
    return Verdict(game, runs, *bounds)


def lower_bound(
    here: np.ndarray, there: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> float:
    """The largest epsilon that two samples of scores rule out (0 if none).

    A threshold is chosen on one half of each sample and certified on the other half by
    Clopper and Pearson's intervals, in both directions. With probability `confidence` no private
    mechanism gets a bound above its epsilon.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bound = lower_bound(rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000), 0.0)
    >>> 0.75 < bound < 1
    True
    """
    alarm = (1 - confidence) / 4  # two rates in each of two directions
    found = [0.0]
    for low, high in ((here, there), (-there, -here)):
        train = [np.sort(side[::2]) for side in (low, high)]
        test = [np.sort(side[1::2]) for side in (low, high)]
        candidates = np.unique(np.quantile(np.concatenate(train), np.linspace(0, 1, 400)))
        best = max(candidates, key=lambda cut: _certified(*train, cut, delta, alarm))
        found.append(_certified(*test, best, delta, alarm))
    return max(found)


def _certified(low: np.ndarray, high: np.ndarray, cut: float, delta: float, alarm: float) -> float:
    """log((P(high >= cut) - delta) / P(low >= cut)) with both rates at their worst."""
    hits = len(high) - np.searchsorted(high, cut)
    misses = len(low) - np.searchsorted(low, cut)
    rate = betaincinv(hits, len(high) - hits + 1, alarm) if hits else 0.0
    false = betaincinv(misses + 1, len(low) - misses, 1 - alarm) if misses < len(low) else 1.0
    return float(np.log((rate - delta) / false)) if rate > delta else -math.inf


def markdown(verdicts: Sequence[Verdict], runs: int) -> str:
    """The result as a page."""
    lines = (COLUMNS, ("---",) * len(COLUMNS), *(verdict.cells for verdict in verdicts))
    rows = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return _PAGE.format(runs=runs, day=dt.date.today(), rows=rows)


_PAGE = """# Attacks on the mechanisms

For each mechanism an adversary who knows everything but one unit guesses, from the output, which
of two worst neighbouring data sets it came from. The best guess is a threshold on the
log-likelihood ratio; how often it is right bounds epsilon from below (Clopper and Pearson,
confidence 1 - 1e-5, the threshold chosen on other runs). Every mechanism has a broken twin, which
the same attack must catch. Steps are real steps of a lease. A single statistic is computed by the
wall once and noised again, 20 times as often. Gaussian noise, steps and draws of coefficients are
attacked at a large delta, where most can be shown. The density of other draws is known: what is
shown is the largest log-ratio over all data sets of up to six rows and the worst one of a thousand
(for a mean without bounds, the exact epsilon at its delta), and the draws are tested to have that
density (Kolmogorov and Smirnov, false-alarm rate 1e-6).

`tacit audit --runs {runs}`, {day}.

{rows}
"""


# Releases of one statistic


def _release_game(
    name: str,
    schema: Schema,
    query: Query,
    mechanism: Laplace | Gaussian,
    tables: tuple[Table, Table],
    mistake: str,
    *,
    narrow: float = 1.0,
    noise_of: Schema | None = None,
    rows_of: Schema | None = None,
) -> Game:
    """The wall's statistic on both tables, and its noise many times.

    The twin has noise `narrow` times as wide, or calibrated for another schema, or its
    statistic bounded as another schema says.
    """
    noise = calibrated(mechanism, resolve(query, schema)).noise

    def sampler(laws: tuple[Noise, ...], bounded: Schema) -> Callable[[int], Scores]:
        resolved = resolve(query, bounded)
        steps = [resolved.evaluate(open_data(table, bounded), noise).steps for table in tables]
        sizes = [block.size for block in resolved.blocks]
        grids = np.repeat([law.grid for law in noise], sizes)
        means = [side * grids for side in steps]

        def scores(runs: int) -> Scores:
            return tuple(  # type: ignore[return-value]
                _ratio(mean + _noise(laws, sizes, runs), means, laws, sizes) for mean in means
            )

        return scores

    other = noise if noise_of is None else calibrated(mechanism, resolve(query, noise_of)).noise
    other = tuple(_narrowed(law, narrow) for law in other)
    cost = calibrated(mechanism, resolve(query, schema)).cost
    return Game(
        f"{name}, {schema.neighbours}",
        float(cost.epsilon),
        float(cost.delta),
        sampler(noise, schema),
        mistake,
        sampler(other, rows_of or schema),
        pace=20,
    )


def _narrowed(law: Noise, factor: float) -> Noise:
    if law.family == "discrete_laplace":
        return replace(law, scale=law.scale * factor)
    return replace(law, scale=round(law.scale * factor / law.grid) * law.grid)


def _noise(laws: tuple[Noise, ...], sizes: list[int], runs: int) -> np.ndarray:
    parts = [
        draw(law, size * runs).reshape(runs, size) * law.grid
        for law, size in zip(laws, sizes, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def _ratio(
    values: np.ndarray, means: list[np.ndarray], laws: tuple[Noise, ...], sizes: list[int]
) -> np.ndarray:
    """The log-likelihood ratio of the second data set against the first."""
    scale = np.repeat([law.scale for law in laws], sizes)
    from_first, from_second = ((values - mean) / scale for mean in means)
    if laws[0].family == "discrete_laplace":
        return (np.abs(from_first) - np.abs(from_second)).sum(axis=1)
    return (from_first**2 - from_second**2).sum(axis=1) / 2


# Draws of coefficients


def _coefficient_games() -> list[Game]:
    rest = {"x": [0.0], "y": [0.0]}
    joined = {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    moved = {"x": [0.0, 1.0], "y": [0.0, -1.0]}
    return [
        _coefficient_game("add_remove", (rest, joined)),
        _coefficient_game("replace_one", (joined, moved)),
    ]


def _coefficient_game(neighbours: Neighbours, tables: tuple[Table, Table]) -> Game:
    """A prior that is narrow in its ball, where the claim is nearly attained."""
    schema = Schema(Real("x", -1, 1), Real("y", -1, 1), neighbours=neighbours)
    law = BallRegression("y", ("x",), sd=0.1, scale=0.05, radius=0.2)
    calibration = resolve_draw(ConjugateDraw(law), schema).calibrate(Exponential(1, DELTA))
    several = resolve_draw(ConjugateDraw(law, draws=1000), schema)

    def sampler(temperature: float) -> Callable[[int], Scores]:
        def scores(runs: int) -> Scores:
            sides = [several.evaluate(open_data(table, schema), ()) for table in tables]
            laws = [
                regression_law(several.query, several.moments(side), temperature) for side in sides
            ]
            found = []
            for side in sides:
                x = law.radius * sampled(several, side, temperature, runs)
                logs = [
                    -0.5 * np.einsum("ni,ij,nj->n", x - mean, precision, x - mean)
                    for mean, precision in laws
                ]
                found.append(logs[1] - logs[0])
            return found[0], found[1]

        return scores

    temperature = calibration.noise[0].scale
    return Game(
        f"draw of coefficients, {neighbours}",
        float(calibration.cost.epsilon),
        float(calibration.cost.delta),
        sampler(temperature),
        "half the temperature",
        sampler(temperature / 2),
        pace=20,
    )


# Steps of a lease


def _lease_game(
    name: str,
    neighbours: Neighbours,
    geometry: Geometry,
    sampling: Subsampling,
    tables: tuple[Table, Table],
    mistake: str,
    *,
    multiplier: float,
    steps: int,
    broken_multiplier: float | None = None,
    broken_sampling: Subsampling | None = None,
) -> Game:
    """Real steps of a lease, several to a game; the twin runs another plan than was paid for."""
    fixed = isinstance(sampling, WithoutReplacement)
    claim = steps_epsilon(
        noise_multiplier=multiplier,
        steps=steps,
        sampling_rate=sampling.rate,
        delta=DELTA,
        neighbours=neighbours,
        sampling="wor" if fixed else "poisson",
        geometry=geometry,
    )
    schema = Schema(Real("x", -1, 1), Real("y", -1, 1), neighbours=neighbours)
    query = BoundedSum(NumbaMap(_itself), ["x", "y"], size=2, clip=1.0, geometry=geometry)

    def sampler(z: float, way: Subsampling) -> Callable[[int], Scores]:
        def side(table: Table, runs: int) -> np.ndarray:
            several = Steps(runs * steps, Gaussian(noise_multiplier=z), way, geometry, numbers=2)
            lease = Public(table, schema).prepay(Plan(several, delta=DELTA))
            values = np.array([lease.release(query).value for _ in range(runs * steps)])
            logs = [_batch_log_density(values, t, z, way, geometry) for t in tables]
            return (logs[1] - logs[0]).reshape(runs, steps).sum(axis=1)

        return lambda runs: (side(tables[0], runs), side(tables[1], runs))

    return Game(
        f"{name}, {neighbours}",
        claim,
        DELTA,
        sampler(multiplier, sampling),
        mistake,
        sampler(broken_multiplier or multiplier, broken_sampling or sampling),
    )


def _itself(row: np.ndarray, state: Any, out: np.ndarray) -> None:
    out[0] = row[0]
    out[1] = row[1]


def _batch_log_density(
    values: np.ndarray, table: Table, sigma: float, sampling: Subsampling, geometry: Geometry
) -> np.ndarray:
    """The density of a step's output: a mixture over batches, up to a constant."""
    points = np.column_stack([table["x"], table["y"]]).astype(float)
    if geometry != "free":
        points = np.maximum(points, 0)
    n = len(points)
    batches = [np.array([i >> j & 1 for j in range(n)], bool) for i in range(2**n)]
    if isinstance(sampling, WithoutReplacement):
        batches = [b for b in batches if b.sum() == sampling.size]
        weights = np.full(len(batches), 1 / len(batches))
    else:
        rate = sampling.rate
        weights = np.array([rate ** b.sum() * (1 - rate) ** (n - b.sum()) for b in batches])
    means = np.array([points[b].sum(axis=0) for b in batches])
    means, which = np.unique(means[weights > 0], axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), weights[weights > 0])
    squares = ((values[:, None, :] - means[None]) ** 2).sum(axis=2)
    exponents = np.log(weights) - squares / (2 * sigma**2)
    top = exponents.max(axis=1)
    return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))


def games() -> list[Game | ExactGame]:
    """All games: one for each mechanism, relation and geometry that can go wrong by itself."""
    return [
        *_count_games(),
        *_sum_games(),
        *_moment_games(),
        *_step_games(),
        *_coefficient_games(),
        *draw_games(),
    ]


def _count_games() -> list[Game]:
    def schema(neighbours: Neighbours, rows: int | None = None) -> Schema:
        column = Categorical("kind", ["a", "b"])
        unit = None if rows is None else "who"
        return Schema(column, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)

    add, swap = schema("add_remove"), schema("replace_one")
    nobody, someone = {"kind": ["b"]}, {"kind": ["b", "a"]}
    moved = ({"kind": ["b", "a"]}, {"kind": ["b", "b"]})
    three = {"kind": ["a"] * 5, "who": [1, 2, 2, 2, 2]}, {"kind": ["a"], "who": [1]}
    query = Counts("kind")
    return [
        _release_game(
            "counts, Laplace", add, query, Laplace(1), (nobody, someone), "half the noise",
            narrow=0.5,
        ),
        _release_game(
            "counts, Laplace", swap, query, Laplace(1), moved, "sensitivity of add_remove",
            noise_of=add,
        ),
        _release_game(
            "counts, Gaussian", add, query, Gaussian(1, DELTA), (nobody, someone),
            "half the noise", narrow=0.5,
        ),
        _release_game(
            "counts, Gaussian", swap, query, Gaussian(1, DELTA), moved, "half the noise",
            narrow=0.5,
        ),
        _release_game(
            "counts, three rows a unit", schema("add_remove", 3), query, Laplace(1), three,
            "noise for one row a unit", noise_of=schema("add_remove", 1),
        ),
    ]  # fmt: skip


def _sum_games() -> list[Game]:
    def schema(neighbours: Neighbours, rows: int | None = None) -> Schema:
        unit = None if rows is None else "who"
        columns = Real("x", -1, 1), Real("y", -1, 1)
        return Schema(*columns, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)

    def query(**bound: Any) -> BoundedSum:
        return BoundedSum(NumbaMap(_itself), ["x", "y"], size=2, clip=1.0, **bound)

    add, swap = schema("add_remove"), schema("replace_one")
    nobody, someone = {"x": [0.0], "y": [0.0]}, {"x": [0.0, 1.0], "y": [0.0, 0.0]}
    turned = ({"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]})
    across = ({"x": [1.0], "y": [0.0]}, {"x": [0.0], "y": [1.0]})
    often = (
        {"x": [0.0], "y": [0.0], "who": [1]},
        {"x": [0.0, 1.0, 1.0, 1.0], "y": [0.0] * 4, "who": [1, 2, 2, 2]},
    )
    return [
        _release_game(
            "sum, Laplace", swap, query(norm="l1"), Laplace(1), turned,
            "sensitivity of add_remove", noise_of=add,
        ),
        _release_game(
            "sum, Gaussian, free", add, query(), Gaussian(1, DELTA), (nobody, someone),
            "half the noise", narrow=0.5,
        ),
        _release_game(
            "sum, Gaussian, free", swap, query(), Gaussian(1, DELTA), turned,
            "sensitivity of add_remove", noise_of=add,
        ),
        _release_game(
            "sum, Gaussian, nonnegative", swap, query(geometry="nonnegative"), Gaussian(1, DELTA),
            across, "the square root of 2 forgotten", noise_of=add,
        ),
        _release_game(
            "sum, Gaussian, three rows a unit", schema("add_remove", 3), query(),
            Gaussian(1, DELTA), often, "rows clipped, not units", rows_of=add,
        ),
    ]  # fmt: skip


def _moment_games() -> list[Game]:
    def schema(neighbours: Neighbours, default: float | None = None) -> Schema:
        columns = Real("x", -1, 1, default), Real("y", -1, 1, default)
        return Schema(*columns, neighbours=neighbours)

    def corner(query: Moments, mechanism: Laplace | Gaussian) -> tuple[Table, Table]:
        """A row of ones, and the row t (1, ..., 1) that is furthest from it by this noise."""
        noise, d = calibrated(mechanism, resolve(query, total)).noise, len(query.columns)
        t, scale = np.linspace(-1, 1, 2001)[:, None], np.array([law.scale for law in noise])
        gaps = np.where(np.arange(len(noise)) < d, 1 - t, 1 - t**2) / scale
        norm = 1 if isinstance(mechanism, Laplace) else 2
        worst = float(t[np.linalg.norm(gaps, norm, axis=1).argmax(), 0])
        return {"x": [1.0], "y": [1.0]}, {"x": [worst], "y": [worst]}

    add, swap, total = schema("add_remove"), schema("replace_one"), schema("replace_one", 0.0)
    line, square, sums = Moments("x"), Moments(["x", "y"]), Moments("x", split=(9, 1, 9))
    nobody, someone = {"x": [0.0], "y": [0.0]}, {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    turned = ({"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]})
    by_l1, by_l2, forgotten = Laplace(1), Gaussian(1, DELTA), "sensitivity of add_remove"
    return [
        _release_game(
            "moments, Laplace", add, square, by_l1, (nobody, someone), "half the noise", narrow=0.5,
        ),
        _release_game(
            "moments, Laplace", total, line, by_l1, corner(line, by_l1), "half the noise",
            narrow=0.5,
        ),
        _release_game(
            "moments of two columns, Laplace", total, square, by_l1, corner(square, by_l1),
            "half the noise", narrow=0.5,
        ),
        _release_game("moments, Laplace", swap, sums, by_l1, turned, forgotten, noise_of=add),
        _release_game(
            "moments, Gaussian", total, line, by_l2, corner(line, by_l2), "half the noise",
            narrow=0.5,
        ),
        _release_game("moments, Gaussian", swap, sums, by_l2, turned, forgotten, noise_of=add),
    ]  # fmt: skip


def _step_games() -> list[Game]:
    base, zero = [-1.0] * 7, [0.0] * 7
    turned = ({"x": [1.0], "y": [0.0]}, {"x": [-1.0], "y": [0.0]})
    across = ({"x": [1.0], "y": [0.0]}, {"x": [0.0], "y": [1.0]})
    joined = ({"x": [0.0], "y": [0.0]}, {"x": [1.0, 0.0], "y": [0.0, 0.0]})
    among = ({"x": [*base, -1.0], "y": [*zero, 0.0]}, {"x": [*base, 1.0], "y": [*zero, 0.0]})
    return [
        _lease_game(
            "10 steps, Poisson", "add_remove", "free", Poisson(0.2), joined,
            "everyone takes part", multiplier=1.0, steps=10, broken_sampling=Poisson(1.0),
        ),
        _lease_game(
            "10 steps, Poisson, free", "replace_one", "free", Poisson(0.2), turned,
            "half the noise", multiplier=1.5, steps=10, broken_multiplier=0.75,
        ),
        _lease_game(
            "10 steps, Poisson, nonnegative", "replace_one", "nonnegative", Poisson(0.2), across,
            "half the noise", multiplier=1.2, steps=10, broken_multiplier=0.6,
        ),
        _lease_game(
            "10 steps, fixed size", "replace_one", "free", WithoutReplacement(1, 8), among,
            "half the noise", multiplier=2.0, steps=10, broken_multiplier=1.0,
        ),
        _lease_game(
            "10 steps, Poisson", "replace_one", "free", Poisson(0.125), among,
            "fixed size at the price of Poisson", multiplier=1.0, steps=10,
            broken_sampling=WithoutReplacement(1, 8),
        ),
    ]  # fmt: skip
