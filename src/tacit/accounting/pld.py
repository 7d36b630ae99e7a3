"""Privacy loss distributions on a grid, composed: the tightest accountant.

Each interval between two grid points keeps its mass under P and under Q, moved to its two ends
("connect the dots", Doroshenko et al. 2022), which only makes the pair easier to tell apart. The
masses come from the normal distribution directly, so that they are right in the far tails too.

Transforms of a density p err by about 1e-16, far too much where delta is small. So p(l) e^(theta l)
is composed in place of p, with theta such that its bulk lies at the epsilon in question: the error
becomes one relative to delta, is bounded, and is added to delta.
"""  # proof: loss-grid

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.accounting.gaussian import bisect, gaussian_epsilon
from tacit.accounting.pairs import Composition, Exchange, Mixtures, Pair, Pure, Ranged, remove

Array = NDArray[np.floating]

_LEAST = 1e-8  # loss of a step that doubles resolve well
_PER_DEVIATION = 20  # grid points to a standard deviation of the loss
_MOST_POINTS = 2.0**17  # of one step
_MOST_COMPOSED = 2.0**21  # of all steps
_LOST = 1e-15  # tail mass cut off at each composition
_ERROR = 2e-13  # of a transform, for each step; about ten times what is seen


@lru_cache(maxsize=4096)
def pld_epsilon(composition: Composition, delta: float) -> float:
    """The smallest epsilon at which the composition is (epsilon, delta)-private."""
    match composition:
        case ((Mixtures(mu=mu, p=1.0), 1),):
            return gaussian_epsilon(mu, delta)
    delta_at = privacy_profile(composition, delta)
    if delta_at(0.0) <= delta:
        return 0.0
    if delta_at(1e18) > delta:
        return math.inf
    return bisect(lambda epsilon: delta_at(epsilon) <= delta, 0.0, 1.0, 1e-9)


def privacy_profile(composition: Composition, delta: float) -> Callable[[float], float]:
    """delta as a function of epsilon, most exact where it is near the given `delta`.

    The law of the summed loss is masses times e^(log_scale - theta loss), with the theta at which
    Chernoff's bound on epsilon is the least.
    """
    from scipy.optimize import minimize_scalar
    from scipy.signal import fftconvolve

    composition = tuple((resolvable(pair), count) for pair, count in composition)
    steps = sum(count for _, count in composition)
    tail = math.sqrt(2 * math.log(1e4 * steps / delta))  # deviations kept of each normal law
    width, deviation = interval(composition, tail)
    grids = [(*discretise(pair, width, tail), count) for pair, count in composition]
    points = [width * (first + np.arange(len(masses))) for first, masses, *_ in grids]
    with np.errstate(divide="ignore"):
        logs = [np.log(masses) for _, masses, *_ in grids]
    counts = [count for *_, count in grids]

    def moments(theta: float) -> list[float]:
        return [_log_sum_exp(log + theta * loss) for log, loss in zip(logs, points)]

    def worst(log_theta: float) -> float:
        theta = math.exp(log_theta)
        cumulant = math.fsum(n * m for n, m in zip(counts, moments(theta)))
        return (cumulant - math.log(delta)) / theta

    widest = max(loss[-1] - loss[0] for loss in points)
    # Larger tilts are of no use and, where losses have a largest value, of no end.
    largest = min(4 * tail / deviation, 50 / width)
    limits = math.log(1e-3 / (widest * math.sqrt(steps))), math.log(largest)
    found = minimize_scalar(worst, bounds=limits, method="bounded", options={"xatol": 0.05})
    theta = math.exp(found.x)
    total, start, scale = np.ones(1), 0, moments(theta)
    for (first, _, _, count), log, loss, moment in zip(grids, logs, points, scale):
        tilted = np.exp(log + theta * loss - moment)
        tilted[tilted < 1e-200] = 0.0  # self_convolve divides by what is not zero
        offset, power = _power(tilted, count, _LOST)
        total = fftconvolve(total, power)
        start += first * count + offset
    losses = width * (start + np.arange(len(total)))
    log_scale = math.fsum(n * m for n, m in zip(counts, scale))
    infinite = -math.expm1(math.fsum(n * math.log1p(-lost) for *_, lost, n in grids))
    error = _ERROR * steps + 4 * _LOST * len(grids)

    def delta_at(epsilon: float) -> float:
        """An upper bound on the expectation of (1 - e^(epsilon - loss))_+."""
        first, last = np.searchsorted(losses, [epsilon, epsilon + 60 / theta])
        over = losses[first:last] - epsilon
        kept = np.exp(-theta * over) * -np.expm1(-over)
        sure = max(float(kept @ total[first:last]), 0.0) + error
        return infinite + math.exp(min(log_scale - theta * epsilon, 700.0)) * sure

    return delta_at


def _log_sum_exp(exponents: Array) -> float:
    top = exponents.max()
    return float(top + np.log(np.exp(exponents - top).sum()))


def _power(masses: Array, count: int, lost: float) -> tuple[int, Array]:
    """The sum of `count` draws, and the index at which its masses begin."""
    from dp_accounting.pld.common import self_convolve
    from scipy.signal import fftconvolve

    if count == 1:
        return 0, masses
    index = np.arange(len(masses))
    variance = float(masses @ (index - masses @ index) ** 2)
    # self_convolve's own bounds are wide for a sum far wider than one draw: then in two stages.
    if count * variance <= (8 * len(masses)) ** 2:
        offset, power = self_convolve(masses, count, lost)
        return offset, power
    root = math.isqrt(count)
    inner_offset, inner = _power(masses, root, lost / root)
    offset, power = _power(inner, root, lost)
    offset += inner_offset * root
    rest = count - root**2
    if rest:
        rest_offset, more = _power(masses, rest, lost)
        offset, power = offset + rest_offset, fftconvolve(power, more)
    return offset, power


def resolvable(pair: Pair) -> Pair:
    """The pair itself or, if doubles cannot tell its two laws apart, one that dominates it.

    Divergences grow with the distance (shrink and add noise: post-processing) and with the rate
    (joint convexity). The loss of a step is about rate * mu.
    """
    match pair:
        case Pure() | Ranged():
            return pair
        case Mixtures(mu=mu, p=p, q=q):
            rate = max(p, q)
        case Exchange(mu=mu, rate=rate):
            pass
    if rate * abs(mu) >= _LEAST:
        return pair
    rate = min(_LEAST / abs(mu), max(rate, 1e-3))
    mu = math.copysign(_LEAST / rate, mu)
    if isinstance(pair, Exchange):
        return Exchange(mu, rate)
    return Mixtures(mu, rate if pair.p else 0.0, rate if pair.q else 0.0)


def interval(composition: Composition, tail: float) -> tuple[float, float]:
    """A grid on which spreading mass adds < 0.1 % to the variance of the loss; its deviation."""
    shapes = [(*_shape(pair, tail), count) for pair, count in composition]
    deviation = math.sqrt(math.fsum(variance * count for _, _, variance, count in shapes))
    widest = max(high - low for low, high, _, _ in shapes)
    width = max(
        deviation / math.sqrt(sum(count for *_, count in shapes)) / _PER_DEVIATION,
        widest / _MOST_POINTS,
        20 * deviation / _MOST_COMPOSED,
    )
    atoms = [(p.epsilon * n, p.epsilon) for p, n in composition if isinstance(p, Pure | Ranged)]
    _, atom = max(atoms, default=(0.0, 0.0))
    if atom > width:  # atoms that the grid meets need not be spread
        width = atom / math.ceil(atom / width)
    return width, max(deviation, width)


def _shape(pair: Pair, tail: float) -> tuple[float, float, float]:
    """The least and the largest loss worth keeping, and the variance of the loss under P."""
    match pair:
        case Pure(epsilon=epsilon) | Ranged(epsilon=epsilon):
            return -epsilon, epsilon, epsilon**2 * (1 - math.tanh(epsilon / 2) ** 2)
        case Exchange(mu=mu, rate=rate):
            _, high, variance = _shape(remove(mu, rate), tail)
            return -high, high, variance
        case Mixtures(mu=mu, p=p, q=q):
            x = np.linspace(-abs(mu) - tail, abs(mu) + tail, 8001)
            weights = np.exp(log_densities(pair, x)[0])
            loss = _log_ratio(x, mu, p) - _log_ratio(x, -mu, q)
            weights /= weights.sum()
            kept = loss[x >= -tail]
            return kept.min(), kept.max(), float(weights @ (loss - weights @ loss) ** 2)


def _log_ratio(x: Array, mu: float, rate: float) -> Array:
    """log of (1-q) N(0) + q N(mu) over N(0), small values to full precision."""
    t = mu * x - mu**2 / 2
    if rate in (0.0, 1.0):
        return rate * t
    small = np.log1p(rate * np.expm1(np.minimum(t, 1.0)))
    return np.where(t < 1, small, np.logaddexp(math.log1p(-rate), math.log(rate) + t))


def log_densities(pair: Mixtures, x: Array) -> tuple[Array, Array]:
    """log P and log Q at x, up to a common term."""

    def mixture(mu: float, rate: float) -> Array:
        if rate in (0.0, 1.0):
            return -((x - rate * mu) ** 2) / 2
        return np.logaddexp(math.log1p(-rate) - x**2 / 2, math.log(rate) - (x - mu) ** 2 / 2)

    return mixture(pair.mu, pair.p), mixture(-pair.mu, pair.q)


def discretise(pair: Pair, width: float, tail: float) -> tuple[int, Array, float]:
    """Index of the first grid point, masses on the grid, and the mass at infinity."""
    low, high, _ = _shape(pair, tail)
    first, last = math.floor(low / width), math.ceil(high / width)
    losses = np.arange(first, last + 1) * width
    at_zero = 0.0
    cells: Array  # masses under P and under Q: below, between, and above the losses
    match pair:
        case Pure(epsilon=epsilon) | Ranged(epsilon=epsilon):
            more = 1 / (1 + math.exp(-epsilon))
            cells = np.zeros((2, len(losses) + 1))
            # The first and the last cell between losses hold -epsilon and epsilon.
            cells[:, 1], cells[:, -2] = (1 - more, more), (more, 1 - more)
        case Mixtures(mu=mu, p=1.0):
            cells = _masses(losses / mu + mu / 2, mu, 1.0)
        case Mixtures(mu=mu, p=rate, q=0.0):
            cells = _masses(_cut(losses, mu, rate), mu, rate)
        case Mixtures(mu=mu, p=0.0, q=rate):
            cells = _masses(_cut(-losses[::-1], -mu, rate), -mu, rate)[::-1, ::-1]
        case Mixtures(mu=mu, p=rate):
            x = _opposite_cut(losses, mu, rate)
            cells = np.stack([_masses(x, mu, rate)[0], _masses(x, -mu, rate)[0]])
        case Exchange(mu=mu, rate=rate):
            upper = _masses(_cut(losses[-first:], mu, rate), mu, rate)[:, 1:]
            cells = np.concatenate([upper[::-1, ::-1], upper], axis=1)
            at_zero = 1 - cells[0].sum()
    # Each cell's mass moves to its ends, so that it keeps its mass under P and under Q; where Q
    # underflows all goes up, which is safe.
    p, q = cells[0, 1:-1], cells[1, 1:-1]
    scaled = q * np.exp(np.minimum(losses[:-1], 700.0))
    up = np.clip((p - scaled) / -math.expm1(-width), 0.0, p)
    masses = np.zeros(len(losses))
    masses[1:] += up
    masses[:-1] += p - up
    masses[0] += cells[0, 0]
    masses[-first] += at_zero
    return first, masses, float(cells[0, -1])


def _masses(x: Array, mu: float, rate: float) -> Array:
    """Masses of (1-q) N(0) + q N(mu) and of N(0) between the cuts, the outer two unbounded."""
    edges = np.concatenate([[-np.inf], x, [np.inf]])
    base, moved = _between(edges), _between(edges - mu)
    return np.stack([(1 - rate) * base + rate * moved, base])


def _between(edges: Array) -> Array:
    # Differences of the smaller tail: no cancellation against 1.
    rising, falling = np.diff(ndtr(edges)), -np.diff(ndtr(-edges))
    return np.where(edges[:-1] > 0, falling, rising)


def _cut(losses: Array, mu: float, rate: float) -> Array:
    """x at which log(1 - q + q e^(mu x - mu^2/2)) equals each loss."""
    above = np.maximum(losses - math.log1p(-rate), 0.0)
    near = np.expm1(np.minimum(losses, 1.0)) / rate
    with np.errstate(divide="ignore"):
        far = losses + np.log(-np.expm1(-above)) - math.log(rate)
        scaled = np.where(np.abs(near) < 0.5, np.log1p(np.maximum(near, -0.5)), far)
    return scaled / mu + mu / 2


def _opposite_cut(losses: Array, mu: float, rate: float) -> Array:
    """x at which the log ratio of opposite mixtures is l: x mu = l/2 + asinh(k sinh(l/2))."""
    half = np.abs(losses) / 2
    log_k = math.log1p(-rate) - math.log(rate) + mu**2 / 2
    with np.errstate(divide="ignore"):
        log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
    t = log_k + log_sinh
    inverse = np.where(t > 20, t + math.log(2), np.arcsinh(np.exp(np.minimum(t, 20.0))))
    return np.sign(losses) * (half + inverse) / mu
