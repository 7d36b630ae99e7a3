"""For tests and simulations: releases of counts that were never in a table."""

from __future__ import annotations

import numpy as np

from tacit.spec.mechanisms import Mechanism
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.wall._evaluate import Statistic
from tacit.wall._public import answer


def simulated_release(
    schema: Schema, query: Query, mechanism: Mechanism, counts: np.ndarray, units: int
) -> Release:
    """What a wall would release if the statistic were `counts`: the same law, the same noise.

    `counts` are in the order of `Release.value`. The result is stamped "public data".
    """
    return answer(
        schema, query, mechanism, lambda _: Statistic(np.asarray(counts, np.int64), units)
    )
