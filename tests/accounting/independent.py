"""A second computation of every cost: plain quadrature and FFT, sharing no code with the library.

Losses are tabulated on a fine grid of outcomes, two-dimensional where two units move in different
directions, and rounded to a grid of losses without bias; nothing is pessimistic here.
"""

import itertools
import math
from functools import cache

import numpy as np
from scipy.stats import norm

FACTOR = {"free": 2.0, "box": 1.0}
FACTOR |= dict.fromkeys(("nonnegative", "simplex", "outer"), math.sqrt(2))


def epsilon(sampling, neighbours, geometry, z, rate, steps, delta):
    """Epsilon at delta for Gaussian steps, from the definitions."""
    swap = FACTOR[geometry] / z
    match sampling, neighbours, geometry:
        case "poisson", "add_remove", _:
            return both_ways(1 / z, rate, steps, delta)
        case "wor", "add_remove", _:
            return both_ways(swap, rate, steps, delta)
        case "poisson", "replace_one", "free":
            x, dx = line(1 / z)
            p = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - 1 / z)
            q = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x + 1 / z)
            return composed(p * dx, q * dx, steps, delta)
        case "poisson", "replace_one", _:
            along = composed(*orthogonal_pair(1 / z, rate), steps, delta)
            return min(along, gaussian(math.sqrt(steps) / z, delta)) if geometry == "box" else along
        case _:
            return from_curve(lambda e: exchange_curve(e, swap, rate), steps, delta)


@cache
def both_ways(mu, rate, steps, delta):
    p, q = mixture_pair(mu, rate)
    return max(composed(p, q, steps, delta), composed(q, p, steps, delta))


def line(mu, points=40001):
    x = np.linspace(-mu - 9, mu + 9, points)
    return x, x[1] - x[0]


def mixture_pair(mu, rate):
    x, dx = line(mu)
    base = norm.pdf(x) * dx
    return (1 - rate) * base + rate * norm.pdf(x - mu) * dx, base


def orthogonal_pair(mu, rate, points=1001):
    x, dx = line(mu, points)
    base, moved = norm.pdf(x) * dx, norm.pdf(x - mu) * dx
    p = (1 - rate) * np.outer(base, base) + rate * np.outer(moved, base)
    q = (1 - rate) * np.outer(base, base) + rate * np.outer(base, moved)
    return p.ravel(), q.ravel()


def composed(p, q, steps, delta, per_deviation=60):
    """Epsilon of `steps` independent outcomes with these masses."""
    loss = np.log(p / q)
    p = p / p.sum()
    mean = p @ loss
    deviation = math.sqrt(p @ (loss - mean) ** 2)
    width = max(deviation / per_deviation, (loss.max() - loss.min()) / 2**18)
    index = np.floor(loss / width).astype(int)
    share = loss / width - index
    first = index.min()
    masses = np.bincount(index - first, p * (1 - share), index.max() - first + 2)
    masses += np.bincount(index - first + 1, p * share, len(masses))
    return power_epsilon(masses, first, width, steps, delta)


def power_epsilon(masses, first, width, steps, delta, infinite=0.0):
    """FFT of the masses to the power `steps`, then bisection on delta(epsilon)."""
    index = np.arange(len(masses))
    mean = masses @ index
    deviation = math.sqrt(masses @ (index - mean) ** 2)
    need = len(masses) if steps == 1 else 2 * len(masses) + 24 * math.sqrt(steps) * deviation
    size = 2 ** math.ceil(math.log2(need))
    shift = round(mean)  # centre, so that nothing wraps around
    wrapped = np.zeros(size)
    np.add.at(wrapped, (index - shift) % size, masses)
    total = np.fft.irfft(np.fft.rfft(wrapped) ** steps, size)
    middle = round((mean - shift) * steps)
    places = (np.arange(size) - middle + size // 2) % size + middle - size // 2
    losses = (places + steps * (shift + first)) * width
    missing = -math.expm1(steps * math.log1p(-infinite))

    above = losses > 0
    order = np.argsort(-losses[above])
    falling, each = losses[above][order], total[above][order]
    under_p, under_q = np.cumsum(each), np.cumsum(each * np.exp(-falling))

    def delta_at(e):
        """Sum over losses above e of p - exp(e) q."""
        count = np.searchsorted(-falling, -e)
        return missing + (under_p[count - 1] - math.exp(e) * under_q[count - 1] if count else 0.0)

    low, high = 0.0, losses.max()
    if delta_at(0.0) <= delta:
        return 0.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (low, mid) if delta_at(mid) <= delta else (mid, high)
    return high


def exchange_curve(e, mu, rate):
    """delta(e) of sampling without replacement, as printed in the literature."""
    e = np.asarray(e, dtype=float)
    size = np.abs(e)
    x = np.log((np.expm1(size) + rate) / rate) / mu + mu / 2
    upper = (1 - rate) * norm.sf(x) + rate * norm.sf(x - mu) - np.exp(size) * norm.sf(x)
    return np.where(e >= 0, upper, 1 - np.exp(e) + np.exp(e) * upper)


def from_curve(curve, steps, delta, largest=25.0, points=100_001):
    """Masses by second differences of the curve in e^epsilon."""
    grid = np.linspace(-largest, largest, points)
    width = grid[1] - grid[0]
    d = curve(grid)
    slope = np.append(-np.diff(d) / np.diff(np.exp(grid)), 0.0)
    before = np.concatenate([[(1 - d[0]) / math.exp(grid[0])], slope[:-1]])
    masses = np.maximum(np.exp(grid) * (before - slope), 0.0)
    first = -(points // 2)
    return power_epsilon(masses, first, width, steps, delta, infinite=max(d[-1], 0.0))


def gaussian(mu, delta):
    """Epsilon of one Gaussian, by bisection on Balle and Wang's formula."""
    low, high = 0.0, 1e6
    for _ in range(200):
        e = (low + high) / 2
        d = norm.cdf(mu / 2 - e / mu) - np.exp(e + norm.logcdf(-mu / 2 - e / mu))
        low, high = (low, e) if d <= delta else (e, high)
    return high


def batch_density(x, units, size, z):
    """Density at x of the noisy sum over a batch of `size` of these numbers, all subsets alike."""
    sums = [sum(batch) for batch in itertools.combinations(units, size)]
    return np.mean([norm.pdf(x, s, z) for s in sums], axis=0)


def poisson_density(x, units, rate, z):
    """The same for a batch that each unit joins with probability `rate`."""
    total = np.zeros_like(x)
    for joins in itertools.product((0, 1), repeat=len(units)):
        weight = math.prod(rate if j else 1 - rate for j in joins)
        total += weight * norm.pdf(x, float(np.dot(joins, units)), z)
    return total


def hockey_stick(p, q, e, area):
    return np.maximum(p - math.exp(e) * q, 0.0).sum() * area
