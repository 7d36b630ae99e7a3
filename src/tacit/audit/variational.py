"""Attacks on a step of VIPS: real expected statistics of documents behind the wall."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_matrix

from tacit.accounting import epsilon as steps_epsilon
from tacit.audit.game import DELTA, Game, Scores
from tacit.models.lda import LDA
from tacit.spec.columns import Tokens
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.plan import Everyone, Plan, Steps
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Setting
from tacit.wall._public import Public

_WORDS = tuple(f"w{i}" for i in range(12))
_NOISE = 1.0
_MORE = 8  # times as many runs: the root of 2 is harder to see than half the noise


def variational_games() -> list[Game]:
    return [
        _topic_game("the paper's sensitivity, too small by the root of 2", _NOISE / 2**0.5),
    ]


def _topic_game(mistake: str, broken: float) -> Game:
    """A document about one thing is replaced by one about another: orthogonal contributions."""
    schema = Schema(Tokens("words", _WORDS, max_length=50), neighbours="replace_one")
    rng = np.random.default_rng(0)
    others = rng.poisson(1.0, size=(5, 12))
    worlds = [csr_matrix(np.vstack([others, np.repeat(half, 6)])) for half in ([9, 0], [0, 9])]
    variational = LDA(3).variational(schema, Setting(6, _NOISE))
    beliefs = variational.beliefs(variational.start(rng))
    query = variational.question(beliefs)
    exact = [_answers(world, schema, query, 1, None)[0] for world in worlds]
    apart = exact[1] - exact[0]
    middle = (exact[0] + exact[1]) / 2

    def sampler(noise: float) -> Callable[[int], Scores]:
        def side(world: csr_matrix, runs: int) -> np.ndarray:
            return (_answers(world, schema, query, runs, noise) - middle) @ apart

        return lambda runs: (side(worlds[0], _MORE * runs), side(worlds[1], _MORE * runs))

    claim = steps_epsilon(
        noise_multiplier=_NOISE, delta=DELTA, neighbours="replace_one", geometry="nonnegative"
    )
    return Game(
        "a step of VIPS, topics, replace_one", claim, DELTA, sampler(_NOISE), mistake,
        sampler(broken),
    )  # fmt: skip


def _answers(
    world: csr_matrix, schema: Schema, query: BoundedSum, runs: int, noise: float | None
) -> np.ndarray:
    """So many answers to the same question, by a lease."""
    law = Exact() if noise is None else Gaussian(noise_multiplier=noise)
    steps = Steps(runs, law, Everyone(), "nonnegative", query.numbers)
    lease = Public(world, schema).prepay(Plan(steps, delta=DELTA))
    return np.array([lease.release(query).value for _ in range(runs)])
