"""Attacks on the steps of a lease: sums of rows, and expected statistics as VIPS asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from scipy.special import logsumexp

from tacit.accounting import epsilon as steps_epsilon
from tacit.audit.game import DELTA, Game, Scores, Table, attack, both_relations
from tacit.audit.statistics import outer_sum, xy_sum
from tacit.infer.belief_networks import BeliefNetwork
from tacit.models.lda import LDA
from tacit.models.sigmoid_belief_network import SigmoidBeliefNetwork
from tacit.public import Public
from tacit.spec.budget import Budget
from tacit.spec.columns import Categorical, Real, Tokens
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.plan import Everyone, Plan, Poisson, Steps, Subsampling, WithoutReplacement
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, Variational

_ALL = Everyone()
_HALF = "half the noise"
_HIDDEN, _VISIBLE = 2, 16


def step_games() -> list[Game]:
    add, swap = both_relations(Real("x", -1, 1), Real("y", -1, 1))
    free, nonnegative = xy_sum(), xy_sum(geometry="nonnegative")
    turned, across = (_xy(1.0), _xy(-1.0)), (_xy(1.0), {"x": [0.0], "y": [1.0]})
    joined = _xy(0.0), _xy(1.0, 0.0)
    among = [_xy(*[-1.0] * 7, last) for last in (-1.0, 1.0)]
    rare, one_in_8 = Poisson(0.2), WithoutReplacement(1, 8)
    # Few steps with little noise: caught at 4000 runs with 5 standard deviations to spare.
    game = partial(_game, steps=5)
    return [
        game("5 steps, Poisson", add, free, joined, rare, 1.0, "everyone takes part",
             Poisson(1.0)),
        game("5 steps, Poisson, free", swap, free, turned, rare, 1.0, _HALF, 0.5),
        game("5 steps, Poisson, nonnegative", swap, nonnegative, across, rare, 1.0, _HALF, 0.5),
        game("5 steps, Poisson, outer products", both_relations(Real("x", -1, 1))[1], outer_sum(),
             ({"x": [1.0]}, {"x": [-1.0]}), rare, 1.0, _HALF, 0.5),
        game("5 steps, fixed size", swap, free, among, one_in_8, 1.5, _HALF, 0.75),
        game("5 steps, Poisson", swap, free, among, Poisson(0.125), 0.6,
             "fixed size at the price of Poisson", one_in_8),
    ]  # fmt: skip


def variational_games() -> list[Game]:
    others = csr_matrix(np.random.default_rng(0).poisson(1.0, size=(5, 12)))
    half, other_half, pair, other_pair = (
        csr_matrix([np.eye(12)[list(words)].sum(axis=0) * 9])
        for words in (range(6), range(6, 12), (0, 1), (2, 3))
    )
    nothing = csr_matrix((1, 12))
    # Noise at which the root of 2 is seen best: 5 standard deviations at 16,000 runs.
    swap, topics = _topics("replace_one", noise := 1.6)
    add, batches = _topics("add_remove", 1.0)
    paper, root = "the paper's sensitivity, too small by the root of 2", noise / 2**0.5
    return [
        # A document about one thing is replaced by one about another: orthogonal contributions.
        _game("a step of VIPS, topics", swap, _question(topics),
              [vstack([others, last]) for last in (half, other_half)], _ALL, noise, paper, root,
              pace=4),
        _game("a pilot query of VIPS, pairs of words", swap, topics.pilots[1].question,
              [vstack([others, last]) for last in (pair, other_pair)], _ALL, noise, paper, root,
              pace=4),
        # A document that is there or not. Others are empty: who takes part must not change more.
        _game("5 steps of VIPS, topics, Poisson", add, _question(batches),
              [nothing, vstack([nothing, half])], Poisson(0.2), 1.0, _HALF, 0.5, steps=5),
        _network_game(),
    ]  # fmt: skip


def _xy(*x: float) -> Table:
    return {"x": list(x), "y": [0.0] * len(x)}


def _topics(neighbours: Neighbours, noise: float) -> tuple[Schema, Variational]:
    words = Tokens("words", [f"w{i}" for i in range(12)], max_length=50)
    schema = Schema(words, neighbours=neighbours)
    return schema, LDA(3).variational(schema, FitSetting(6, noise))


def _question(variational: Variational) -> BoundedSum:
    """A question of the form that steps ask."""
    return variational.preview or variational.question(_initial(variational))


def _initial(variational: Variational) -> Any:
    """Variational parameters before anything was asked."""
    sums = variational.start(np.random.default_rng(0))
    return (variational.initial or variational.maximise)(sums)


def _network_game() -> Game:
    """All levels on, or off, where either settles the hidden units: most numbers are 1, or 0."""
    names = [f"x{j}" for j in range(_VISIBLE)]
    schema = Schema(*(Categorical(n, ["no", "yes"]) for n in names), neighbours="replace_one")
    variational = SigmoidBeliefNetwork(_HIDDEN, names).variational(schema, FitSetting(1, 1.0))
    # Log odds of .8 or -.8: small, so that weights are near their largest, and yet together clear.
    mean = np.tile([-0.8, *[1.6 / _HIDDEN] * _HIDDEN], (_VISIBLE, 1))
    zero = np.zeros(_HIDDEN)
    network = BeliefNetwork(zero, zero, mean, np.zeros((_VISIBLE, _HIDDEN + 1, _HIDDEN + 1)))
    query = variational.question(network)
    worlds = [{name: [level] for name in names} for level in ("no", "yes")]
    name = "a step of VIPS, belief network"
    return _game(name, schema, query, worlds, _ALL, 1.0, _HALF, 0.5, pace=4)


def _game(
    name: str,
    schema: Schema,
    query: BoundedSum,
    worlds: Sequence[Any],
    sampling: Subsampling,
    noise: float,
    mistake: str,
    broken: float | Subsampling,
    *,
    steps: int = 1,
    pace: float = 1,
) -> Game:
    """Real steps of a lease, several to a game; the twin has other noise or batches than paid."""
    (bound,) = query.bounds
    claim = steps_epsilon(
        noise_multiplier=noise,
        steps=steps,
        sampling_rate=sampling.rate,
        delta=DELTA,
        neighbours=schema.neighbours,
        sampling="wor" if isinstance(sampling, WithoutReplacement) else "poisson",
        geometry=bound.geometry,
    )

    def answers(world: Any, count: int, law: Gaussian | Exact, sampling: Subsampling) -> np.ndarray:
        plan = Steps(count, law, sampling, bound.geometry, query.numbers)
        lease = Public(world, schema).prepay(Plan(plan, delta=DELTA))
        return np.array([lease.release(query).value for _ in range(count)])

    def scores(setting: tuple[float, Subsampling], runs: int) -> Scores:
        multiplier, sampling = setting
        contributions = [
            np.concatenate([answers(unit, 1, Exact(), _ALL) for unit in _units(world)])
            for world in worlds
        ]
        found = []
        for world in worlds:
            values = answers(world, runs * steps, Gaussian(noise_multiplier=multiplier), sampling)
            sd = multiplier * bound.unit_norm
            here, there = (_log_density(values / sd, c / sd, sampling) for c in contributions)
            found.append((there - here).reshape(runs, steps).sum(axis=1))
        return found

    twin = (broken, sampling) if isinstance(broken, float) else (noise, broken)
    cost, full = Budget(claim, DELTA), f"{name}, {schema.neighbours}"
    return attack(full, cost, scores, (noise, sampling), mistake, twin, pace=pace)


def _units(world: Any) -> list[Any]:
    """Each unit alone, of a table or of documents."""
    if not isinstance(world, dict):
        return list(world)
    count = len(next(iter(world.values())))
    return [{name: [cells[i]] for name, cells in world.items()} for i in range(count)]


def _log_density(values: np.ndarray, units: np.ndarray, sampling: Subsampling) -> np.ndarray:
    """The density of a step's output at noise 1: a mixture over batches, up to a constant."""
    batches = np.array(list(product((0, 1), repeat=len(units))))
    taken = batches.sum(axis=1)
    if isinstance(sampling, WithoutReplacement):
        weights = (taken == sampling.size) / (taken == sampling.size).sum()
    else:
        weights = sampling.rate**taken * (1 - sampling.rate) ** (len(units) - taken)
    means, which = np.unique(batches[weights > 0] @ units, axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), weights[weights > 0])
    return logsumexp(values @ means.T - (means**2).sum(axis=1) / 2, axis=1, b=weights)
