"""For tests and simulations: releases that no wall made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.public import answered, law_of, seeded_entropy
from tacit.spec.mechanisms import Mechanism
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.wall.answers import TIERS, Answers
from tacit.wall.noise import os_entropy
from tacit.wall.statistics.statistic import Statistic


def simulated_release(
    schema: Schema,
    query: Query,
    mechanism: Mechanism,
    value: Sequence[float] | np.ndarray,
    units: int,
    *,
    seed: int | None = None,
) -> Release:
    """What a wall would release if the statistic were `value`: the same law, the same noise.

    `value` is in the order of `Release.value`; for a draw, counts of the levels or the integers of
    exact moments. The result is stamped "public data".
    """
    answer = Answers.of(TIERS).resolve(query, schema)
    noise = law_of(answer, mechanism)
    if noise[0].family == "draw":  # from the statistic itself
        statistic = Statistic(np.asarray(value, np.int64), units)
    else:
        grids = np.repeat([law.grid for law in noise], [block.size for block in answer.blocks])
        statistic = Statistic(np.rint(np.asarray(value) / grids).astype(np.int64), units)
    entropy = os_entropy if seed is None else seeded_entropy(str(seed))
    return answered(answer, noise, statistic, entropy)
