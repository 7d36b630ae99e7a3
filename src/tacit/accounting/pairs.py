"""Dominating pairs: for each type of step, the two laws that are hardest to keep apart.

A pair (P, Q) dominates a step when no two neighbouring data sets give a larger hockey-stick
divergence. Pairs compose, adaptively too (Zhu, Dong and Wang 2022), so an accountant needs to know
nothing but pairs. Noise has unit variance here: `mu` is a distance in standard deviations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeGuard

from tacit.accounting.calibrate import sensitivity_factor
from tacit.spec.plan import Geometry
from tacit.spec.schema import Neighbours

SamplingName = Literal["poisson", "wor"]


@dataclass(frozen=True)
class Mixtures:
    """(1-p) N(0) + p N(mu) against (1-q) N(0) + q N(-mu)."""

    mu: float
    p: float
    q: float


def shift(mu: float) -> Mixtures:
    """N(mu) against N(0): every unit takes part."""
    return Mixtures(mu, 1.0, 0.0)


def remove(mu: float, rate: float) -> Mixtures:
    """(1-q) N(0) + q N(mu) against N(0)."""
    return Mixtures(mu, rate, 0.0)


def add(mu: float, rate: float) -> Mixtures:
    """N(0) against (1-q) N(0) + q N(mu)."""
    return Mixtures(-mu, 0.0, rate)


def opposite(mu: float, rate: float) -> Mixtures:
    """(1-q) N(0) + q N(mu) against (1-q) N(0) + q N(-mu)."""
    return Mixtures(mu, rate, rate)


@dataclass(frozen=True)
class Exchange:
    """The losses > 0 of `remove`, mirrored, the rest of the mass at 0: both directions at once."""

    mu: float
    rate: float


@dataclass(frozen=True)
class Pure:
    """Randomised response with losses +-epsilon dominates all that is epsilon-private."""

    epsilon: float


@dataclass(frozen=True)
class Ranged:
    """The exponential mechanism: epsilon-private and of bounded range epsilon."""

    epsilon: float


Pair = Mixtures | Exchange | Pure | Ranged
Direction = Callable[[float, float], Mixtures]
Composition = tuple[tuple[Pair, int], ...]


@dataclass(frozen=True)
class GaussianStep:
    """Gaussian noise of `multiplier` times a unit's norm on the sum over a batch."""

    multiplier: float
    sampling: SamplingName
    rate: float
    geometry: Geometry


Part = tuple[GaussianStep | Pure | Ranged, int]


def compositions(parts: tuple[Part, ...], neighbours: Neighbours) -> list[list[Composition]]:
    """Bounds on all parts together: any item holds, at the worst of the compositions inside it.

    With add/remove neighbours the larger data set is the same in each step, so the two directions
    are composed apart. Replace-one pairs are symmetric.
    """  # proof: dominating-pairs
    sampled = [step for step, _ in parts if isinstance(step, GaussianStep) and step.rate < 1]
    one_sided = neighbours == "add_remove" and sampled
    directions = (remove, add) if one_sided else (remove,)
    boxes = any(step.geometry == "box" and step.sampling == "poisson" for step in sampled)
    whole_boxes = (False, True) if boxes and neighbours == "replace_one" else (False,)
    return [[_compose(parts, neighbours, side, w) for side in directions] for w in whole_boxes]


def _compose(
    parts: tuple[Part, ...], neighbours: Neighbours, side: Direction, whole_boxes: bool
) -> Composition:
    counts: Counter[Pair] = Counter()
    for step, count in parts:
        match step:
            case GaussianStep():
                for pair in _gaussian_pairs(step, neighbours, side, whole_boxes):
                    counts[pair] += count
            case Pure() | Ranged():
                counts[step] += count
    # Any number of plain Gaussians is one Gaussian.
    squares = [pair.mu**2 * count for pair, count in counts.items() if is_shift(pair)]
    merged: Composition = ((shift(math.sqrt(math.fsum(squares))), 1),) if squares else ()
    return merged + tuple(item for item in counts.items() if not is_shift(item[0]))


def is_shift(pair: Pair) -> TypeGuard[Mixtures]:
    return isinstance(pair, Mixtures) and pair.p == 1


def _gaussian_pairs(
    step: GaussianStep, neighbours: Neighbours, side: Direction, whole_boxes: bool
) -> tuple[Pair, ...]:
    """The pairs whose product dominates one step.

    Poisson, replace-one: given the other units the laws are (1-q) N(0) + q N(u) and the same with
    u'. Further coordinates make |u| = |u'| = 1 and keep <u, u'>; dropping them is post-processing.
    With (X, X') Gaussian under N(0), covariance proportional to <u, u'>, the hockey-stick
    divergence is E[(a + b e^X - c e^X')_+] with b, c >= 0. Its derivative in the covariance is the
    expectation of the mixed second derivative (Price), which is <= 0: the smallest inner product
    is the worst. That is -1 (free), or 0 (non-negative), where the two coordinates part into
    `remove` and `add`.
    """  # proof: poisson-replace-one
    unit, moved, rate = 1 / step.multiplier, moved_by(step, neighbours), step.rate
    if rate >= 1:
        return (shift(moved),)
    match step.sampling, neighbours, step.geometry:
        case "poisson", "add_remove", _:
            return (side(unit, rate),)
        case "poisson", "replace_one", "free":
            return (opposite(unit, rate),)
        case "poisson", "replace_one", "box" if whole_boxes:
            return (shift(moved),)  # not sampling at all leaks no less
        case "poisson", "replace_one", _:
            return (remove(unit, rate), add(unit, rate))
        case "wor", "replace_one", _:
            return (Exchange(moved, rate),)
        case _:
            # Given the rest, the smaller data set's batch is A and the larger one's is A or, with
            # probability q, a batch B that has one unit of A replaced.
            return (side(moved, rate),)


def moved_by(step: GaussianStep, neighbours: Neighbours) -> float:
    """How far neighbours can be apart once a batch is drawn, in standard deviations."""
    # In a batch of fixed size a unit that joins replaces another one.
    relation: Neighbours = "replace_one" if step.sampling == "wor" else neighbours
    return sensitivity_factor(step.geometry, relation) / step.multiplier
