"""Attacks on VIPS: real expected statistics of documents and rows behind the wall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from tacit.accounting import epsilon as steps_epsilon
from tacit.audit.game import DELTA, Game, Scores
from tacit.infer.belief_networks import BeliefNetwork
from tacit.models.lda import LDA
from tacit.models.sigmoid_belief_network import SigmoidBeliefNetwork
from tacit.public import Public
from tacit.spec.columns import Categorical, Tokens
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.plan import Everyone, Plan, Poisson, Steps
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Setting, Variational

_WORDS = tuple(f"w{i}" for i in range(12))
_NOISE = 1.0
_ROOT = _NOISE / 2**0.5
_ALL = Everyone()
_MORE = 8  # times as many runs: the root of 2 is harder to see than half the noise
_HIDDEN, _VISIBLE = 2, 16


def variational_games() -> list[Game]:
    others = np.random.default_rng(0).poisson(1.0, size=(5, 12))
    none, halves = np.zeros(12), [np.repeat(half, 6) for half in ([9, 0], [0, 9])]
    pairs = [np.repeat(pair, 2) for pair in ([9, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0])]
    swap, topics = _topics("replace_one")
    add, batches = _topics("add_remove")
    paper = "the paper's sensitivity, too small by the root of 2"
    return [
        # A document about one thing is replaced by one about another: orthogonal contributions.
        _game(
            "a step of VIPS, topics", swap, _question(topics),
            [csr_matrix(np.vstack([others, half])) for half in halves], paper, _ROOT, more=_MORE,
        ),
        _game(
            "a pilot query of VIPS, pairs of words", swap, topics.pilots[1].question,
            [csr_matrix(np.vstack([others, pair])) for pair in pairs], paper, _ROOT, more=_MORE,
        ),
        # A document that is there or not. Others are empty: who takes part must not change more.
        _game(
            "5 steps of VIPS, topics, Poisson", add, _question(batches),
            [csr_matrix([none]), csr_matrix([none, halves[0]])], "half the noise", _NOISE / 2,
            sampling=Poisson(0.2), steps=5,
        ),
        _network_game("half the noise", _NOISE / 2),
    ]  # fmt: skip


def _topics(neighbours: Neighbours) -> tuple[Schema, Variational]:
    schema = Schema(Tokens("words", _WORDS, max_length=50), neighbours=neighbours)
    return schema, LDA(3).variational(schema, Setting(6, _NOISE))


def _question(variational: Variational) -> BoundedSum:
    """A question of the form that steps ask."""
    if variational.preview is not None:
        return variational.preview
    return variational.question(_initial(variational))


def _initial(variational: Variational) -> Any:
    """Variational parameters before anything was asked."""
    sums = variational.start(np.random.default_rng(0))
    return (variational.initial or variational.maximise)(sums)


def _network_game(mistake: str, broken: float) -> Game:
    """All levels on, or off, where either settles the hidden units: most numbers are 1, or 0."""
    names = [f"x{j}" for j in range(_VISIBLE)]
    schema = Schema(*(Categorical(n, ["no", "yes"]) for n in names), neighbours="replace_one")
    variational = SigmoidBeliefNetwork(_HIDDEN, names).variational(schema, Setting(1, _NOISE))
    # Log odds of .8 or -.8: small, so that weights are near their largest, and yet together clear.
    mean = np.tile([-0.8, *[1.6 / _HIDDEN] * _HIDDEN], (_VISIBLE, 1))
    zero = np.zeros(_HIDDEN)
    network = BeliefNetwork(zero, zero, mean, np.zeros((_VISIBLE, _HIDDEN + 1, _HIDDEN + 1)))
    seen = _initial(variational)
    query = variational.question(seen._replace(network=network))
    worlds = [{name: [level] for name in names} for level in ("no", "yes")]
    name = "a step of VIPS, belief network"
    return _game(name, schema, query, worlds, mistake, broken, more=4)


def _game(
    name: str,
    schema: Schema,
    query: BoundedSum,
    worlds: list[Any],
    mistake: str,
    broken: float,
    *,
    sampling: Everyone | Poisson = _ALL,
    steps: int = 1,
    more: int = 1,
) -> Game:
    """Real steps of a lease, several to a game; the twin has other noise than was paid for."""
    exact = [_answers(world, schema, query, 1, Exact())[0] for world in worlds]
    apart = exact[1] - exact[0]
    (bound,) = query.bounds

    def sampler(noise: float) -> Callable[[int], Scores]:
        def side(world: Any, runs: int) -> np.ndarray:
            law = Gaussian(noise_multiplier=noise)
            values = _answers(world, schema, query, runs * steps, law, sampling) - exact[0]
            here = (values @ apart - apart @ apart / 2) / (noise * bound.unit_norm) ** 2
            # The ratio of densities where the one unit takes part, and 1 where it does not.
            logs = np.log1p(sampling.rate * np.expm1(here))
            return np.asarray(logs.reshape(runs, steps).sum(axis=1))

        return lambda runs: (side(worlds[0], more * runs), side(worlds[1], more * runs))

    claim = steps_epsilon(
        noise_multiplier=_NOISE,
        steps=steps,
        sampling_rate=sampling.rate,
        delta=DELTA,
        neighbours=schema.neighbours,
        geometry=bound.geometry,
    )
    full = f"{name}, {schema.neighbours}"
    return Game(full, claim, DELTA, sampler(_NOISE), mistake, sampler(broken))


def _answers(
    world: Any,
    schema: Schema,
    query: BoundedSum,
    count: int,
    law: Gaussian | Exact,
    sampling: Everyone | Poisson = _ALL,
) -> np.ndarray:
    """So many answers to the same question, by a lease."""
    (bound,) = query.bounds
    steps = Steps(count, law, sampling, bound.geometry, query.numbers)
    lease = Public(world, schema).prepay(Plan(steps, delta=DELTA))
    return np.array([lease.release(query).value for _ in range(count)])
