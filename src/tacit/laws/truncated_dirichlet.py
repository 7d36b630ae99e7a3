"""The Dirichlet law on probabilities that are all at least some a0: density and exact sampler.

Drawing one coordinate after another is not exact: what is left for the later ones matters (for
Dirichlet(1, 1, 1) and a0 = .1 the first would have mean .375). Here all but the coordinate with
the largest concentration A are proposed, independently, from x^(a-1) e^(-l x) on [a0, 1], and

    (1 - S)^(A-1) e^(l S),  S their sum,  relative to its largest value,

is the probability to accept. Any l >= 0 is exact; the one that matches the mean of S to the largest
value wastes least. The logarithm has curvature along a single direction, so that about one proposal
in the square root of K is accepted, unless all concentrations are far below one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.laws.uniform import Array, Uniform, by_rejection, exponential

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(24)
_DEPTH = 40.0  # densities e^-40 below the largest are left out of integrals
_CHUNK = 2**15
_AT_ONCE = 2**17  # numbers proposed together, where few are accepted


def log_kernel(probability: Array, concentration: Array) -> Array:
    """The density up to its normaliser, along the last axis."""
    return ((concentration - 1) * np.log(probability)).sum(axis=-1)


def sample(concentration: Array, truncation: float, uniform: Uniform) -> Array:
    """One draw for each row of concentrations, shape (rows, levels)."""
    rows, levels = concentration.shape
    order = np.argsort(concentration, axis=1)
    ordered = np.take_along_axis(concentration, order, axis=1)
    small, largest = ordered[:, :-1], ordered[:, -1]
    low, high = math.log(truncation), math.log1p(-(levels - 1) * truncation)
    rate = _rate(small, largest, truncation)
    peak = _peak(rate, largest, truncation, levels)

    def propose(left: Array, times: int) -> tuple[Array, Array]:
        tried = np.repeat(left, times)
        law = LogGamma.of(small[tried], rate[tried, None], low, high)
        x = np.exp(law.sample(uniform))
        rest = 1 - x.sum(axis=1)
        beyond = (1 - rest) - peak[tried]
        with np.errstate(divide="ignore", invalid="ignore"):
            shrunk = np.log1p(-beyond / (1 - peak[tried]))
            log_probability = (largest[tried] - 1) * shrunk + rate[tried] * beyond
            accepted = (rest >= truncation) & (np.log(uniform(tried.size)) <= log_probability)
        x = np.column_stack([x, rest]).reshape(left.size, times, levels)
        return x, accepted.reshape(left.size, times)

    drawn = by_rejection((rows, levels), propose, _AT_ONCE // levels)
    out = np.empty_like(drawn)
    np.put_along_axis(out, order, drawn, axis=1)
    return out


def _peak(rate: Array, largest: Array, truncation: float, levels: int) -> Array:
    """The sum S at which (A - 1) log(1 - S) + l S is largest."""
    with np.errstate(divide="ignore", over="ignore"):
        free = 1 - (largest - 1) / rate
    return np.clip(free, (levels - 1) * truncation, 1 - truncation)


def _rate(small: Array, largest: Array, truncation: float) -> Array:
    """The l at which proposals have their mean sum at the peak, by bisection."""
    levels = small.shape[1] + 1
    low, high = math.log(truncation), math.log1p(-(levels - 1) * truncation)
    room = 1 - levels * truncation
    total = small.sum(axis=1) + largest
    # Without a truncation it would be the total less one.
    first = np.log(np.maximum(total - 1, 0.01) / 8)
    last = np.log(4 * (total + levels) / room)
    # The sum must be met within its own spread, which falls with the square root of the counts.
    for _ in range(9 + math.ceil(math.log2(largest.max() + 1) / 2)):
        middle = (first + last) / 2
        rate = np.exp(middle)
        mean = LogGamma.of(small, rate[:, None], low, high).mean().sum(axis=1)
        above = mean > _peak(rate, largest, truncation, levels)
        first, last = np.where(above, middle, first), np.where(above, last, middle)
    return np.exp(last)


def log_normaliser(a: Array, b: Array, truncation: float) -> Array:
    """log of the integral of x^(a-1) (1-x)^(b-1) from a0 to 1 - a0.

    In the log-odds the integrand is log-concave for all a, b > 0; Gauss and Legendre's rule is
    put where it matters, so that the far tails of large counts are as accurate as its middle.
    """
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    flat_a, flat_b = a.ravel(), b.ravel()
    parts = [
        _log_integral(flat_a[i : i + _CHUNK], flat_b[i : i + _CHUNK], truncation)
        for i in range(0, flat_a.size, _CHUNK)
    ]
    return np.concatenate(parts).reshape(a.shape)


def _log_integral(a: Array, b: Array, truncation: float) -> Array:
    edge = math.log1p(-truncation) - math.log(truncation)
    top = np.clip(np.log(a) - np.log(b), -edge, edge)
    share, other = 1 / (1 + np.exp(-top)), 1 / (1 + np.exp(top))

    law = np.stack([a, b, share, other])

    def log(d: Array, a: Array, b: Array, share: Array, other: Array) -> Array:
        """a d - (a + b) log(share e^d + other), on the side where nothing overflows."""
        moved = np.where(d < 0, np.log1p(share * np.expm1(np.minimum(d, 0))), 0.0)
        back = np.where(d > 0, np.log1p(other * np.expm1(-np.maximum(d, 0))), 0.0)
        return np.where(d < 0, a * d - (a + b) * moved, -b * d - (a + b) * back)

    ends = []
    for limit in (-edge - top, edge - top):
        near, far = np.zeros_like(top), limit
        for _ in range(50):
            middle = (near + far) / 2
            deep = log(middle, *law) < -_DEPTH
            near, far = np.where(deep, near, middle), np.where(deep, middle, far)
        ends.append(far)
    half = (ends[1] - ends[0]) / 2
    d = ((ends[1] + ends[0]) / 2)[:, None] + half[:, None] * _NODES
    integral = np.log((_WEIGHTS * np.exp(log(d, *law[:, :, None]))).sum(axis=1)) + np.log(half)
    return integral + a * np.log(share) + b * np.log(other)


@dataclass(frozen=True)
class LogGamma:
    """Logarithms z of truncated gamma variables: exp(shape z - rate e^z) for low <= z <= high.

    The density is log-concave for every shape > 0 and rate >= 0. Around its highest point a concave
    logarithm lies under a constant and under any two of its tangents, so draws are by rejection
    from an envelope of three pieces. Relative to that point `top`, z = top + d and the logarithm
    of the density is shape d - scaled_rate (e^d - 1), where scaled_rate = rate e^top.
    """

    shape: Array
    top: Array
    scaled_rate: Array
    left: Array  # the ends of the interval, relative to the top
    right: Array

    @classmethod
    def of(cls, shape: Array, rate: Array, low: float, high: float) -> LogGamma:
        shape, rate = np.broadcast_arrays(shape, rate)
        with np.errstate(divide="ignore"):
            free = np.log(shape) - np.log(rate)
        top = np.clip(free, low, high)
        # At an inner top the two are equal, and their difference must not be rounding.
        scaled_rate = np.where(top == free, shape, rate * np.exp(top))
        return cls(shape, top, scaled_rate, low - top, high - top)

    def log(self, d: Array) -> Array:
        return self.shape * d - self.scaled_rate * np.expm1(d)

    def gradient(self, d: Array) -> Array:
        return (self.shape - self.scaled_rate) - self.scaled_rate * np.expm1(d)

    @property
    def touching(self) -> tuple[Array, Array]:
        """Where the tangents touch: the density has fallen by a factor of about e."""
        steep = np.abs(self.shape - self.scaled_rate)
        fall = 2 / (steep + np.sqrt(steep**2 + 2 * self.scaled_rate))
        with np.errstate(divide="ignore"):
            return -(fall + 1 / self.shape), np.log1p(fall + 1 / self.scaled_rate)

    def mean(self) -> Array:
        """The mean of e^z, roughly: only the speed of a sampler depends on it."""
        first, last = self.touching
        left, right = np.maximum(self.left, 8 * first), np.minimum(self.right, 8 * last)
        half = ((right - left) / 2)[..., None]
        d = ((right + left) / 2)[..., None] + half * _FEW_NODES
        shape, scaled_rate = self.shape[..., None], self.scaled_rate[..., None]
        weight = _FEW_WEIGHTS * np.exp(shape * d - scaled_rate * np.expm1(d))
        ratio = (weight * np.exp(d)).sum(axis=-1) / weight.sum(axis=-1)
        return np.exp(self.top) * ratio

    def sample(self, uniform: Uniform) -> Array:
        """One z for each shape and rate."""
        law = LogGamma(*(np.ravel(v) for v in vars(self).values()))
        first, last = law.touching
        # The envelope rises up to `start`, is constant to `end`, and falls from there. Beyond the
        # interval no tangent is needed.
        first, last = np.maximum(first, law.left), np.minimum(last, law.right)
        with np.errstate(divide="ignore", invalid="ignore"):
            rise, fall = law.gradient(first), -law.gradient(last)
            start = np.where(first < 0, np.minimum(first - law.log(first) / rise, 0.0), law.left)
            end = np.where(last > 0, np.maximum(last + law.log(last) / fall, 0.0), law.right)
            before = np.where(first < 0, -np.expm1(-rise * (start - law.left)) / rise, 0.0)
            after = np.where(last > 0, -np.expm1(-fall * (law.right - end)) / fall, 0.0)
        envelope = np.stack([before, end - start, after, start, end, rise, fall])

        def propose(rows: Array, _: int) -> tuple[Array, Array]:
            piece, inside, coin = uniform(3 * rows.size).reshape(3, -1)
            before, flat, after, start, end, rise, fall = envelope[:, rows]
            piece = piece * (before + flat + after)
            is_left = piece < before
            is_right = ~is_left & (piece >= before + flat)
            some = LogGamma(*(v[rows] for v in vars(law).values()))
            rate = np.where(is_left, rise, fall)
            length = np.where(is_left, start - some.left, some.right - end)
            away = exponential(inside, rate, length)
            d = np.where(is_left, start - away, end + away)
            d = np.where(is_left | is_right, d, start + inside * (end - start))
            above = np.where(is_left | is_right, -rate * away, 0.0)
            return d[:, None], (np.log(coin) <= some.log(d) - above)[:, None]

        z = law.top + by_rejection(law.shape.shape, propose)
        return np.clip(z, law.top + law.left, law.top + law.right).reshape(self.shape.shape)


def width(levels: int, least: float) -> float:
    """The width of a level's log-probability where none is below `least`."""
    return math.log((1 - (levels - 1) * least) / least)
