"""A choice among a few public options, each scored by a bounded sum over the units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.spec.checks import doubles, set_fields
from tacit.spec.errors import QueryError
from tacit.spec.sums import BoundedSum
from tacit.spec.wire import Record

MOST_OPTIONS = 10**5


@dataclass(frozen=True, eq=False)
class Choice(Record):
    """One option, drawn with probability proportional to exp(score / temperature + log weight).

    Parameters
    ----------
    scores
        A `BoundedSum` with one block of geometry "box": how much a unit speaks for each option,
        from 0 to its clip. Only differences between options matter.
    log_weights
        Log prior weights of the options. Default: uniform.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.spec.kernels import Kernel
    >>> votes = (np.eye(3), np.array([0]))  # (option, level), and the first level's number
    >>> scores = BoundedSum(
    ...     Kernel("table.scores"), "ward", size=3, clip=1, geometry="box", state=votes
    ... )
    >>> Choice(scores).log_weights
    (0.0, 0.0, 0.0)
    """

    scores: BoundedSum
    log_weights: tuple[float, ...]

    def __init__(self, scores: BoundedSum, log_weights: Sequence[float] | None = None) -> None:
        if not isinstance(scores, BoundedSum):
            raise QueryError("Expected scores as a BoundedSum.")
        if len(scores.blocks) != 1 or scores.bounds[0].geometry != "box":
            raise QueryError('Expected scores of one block with geometry="box": 0 to clip each.')
        options = scores.numbers
        if not 1 <= options <= MOST_OPTIONS:
            raise QueryError(f"Expected 1 to {MOST_OPTIONS} options, got {options}.")
        given = (0.0,) * options if log_weights is None else tuple(doubles(log_weights).tolist())
        if len(given) != options or not all(math.isfinite(w) and abs(w) <= 1e6 for w in given):
            raise QueryError(f"Expected {options} log_weights, finite and within 1e6.")
        set_fields(self, scores=scores, log_weights=given)
