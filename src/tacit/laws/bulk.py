"""Exact samplers, compiled: discrete Laplace and Gaussian, geometric skips, subsets.

Canonne, Kamath and Steinke (2020) for Laplace noise, strips for Gaussian noise, on
`bits`, an array of 32 random bits an entry; `discrete` has them in plain Python. A double decides a
coin or a floor only where it can do so with certainty, and reports a doubt elsewhere: that sample
is then computed by `discrete` from the same bits. A call that runs out of bits in the middle of a
sample leaves them for the next try, so that long samples are as likely as they should be.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.compile_cache import cached
from tacit.laws.discrete import FRACTION, STRIPS, TAIL

LARGEST_LAPLACE = 2**56  # forty scales must fit in 62 bits
SKIP_BITS = 32  # a unit's probability to be sampled is 1 - exp(-k / 2^32)
_EXP_1, _LOG_2 = math.exp(-1), math.log(2)
_MARGIN = 64.0  # of 2^32, a million times the error of a double's exp
_STRIP_MARGIN = 2.0**-30  # of a probability, a thousand times the error of a double's
_DOUBT = 2**62  # where the stream stands when a coin is in doubt
_HIGH_BITS, _LOW_BITS = np.uint64(FRACTION - 32), np.uint64(32)
_HIGH_MASK, _LOW_MASK = np.uint64(2 ** (FRACTION - 32) - 1), np.uint64(2**32 - 1)
_STRIP_MASK, _TAIL, _WHOLE = np.uint64(STRIPS - 1), np.uint64(TAIL), np.uint64(2**FRACTION)
_STRIP_UNIT = 2.0 ** (FRACTION + 32)

_compiled = cached(nogil=True, error_model="numpy")


@_compiled
def _next_32(bits, at):
    """The next 32 bits; past the end nothing that is computed will be used."""
    i = at[0]
    at[0] = i + 1
    return np.uint64(bits[i]) if i < bits.size else np.uint64(0)


@_compiled
def _below(n, bits, at):
    """A uniform integer from 0 to n - 1, for n up to 2^62."""
    if n <= np.uint64(1) << np.uint64(32):
        # Lemire (2019): the high half of a product, unless the low half betrays a bias.
        low_mask = np.uint64(0xFFFFFFFF)
        product = _next_32(bits, at) * n
        low = product & low_mask
        if low < n:
            threshold = ((np.uint64(1) << np.uint64(32)) - n) % n
            while low < threshold and at[0] <= bits.size:
                product = _next_32(bits, at) * n
                low = product & low_mask
        return product >> np.uint64(32)
    mask = n - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    while at[0] <= bits.size:
        high = _next_32(bits, at) << np.uint64(32)
        value = (high | _next_32(bits, at)) & mask
        if value < n:
            return value
    return np.uint64(0)


@_compiled
def _coin(probability, bits, at):
    """True with this probability, unless that is in doubt: then nothing will be used."""
    # proof: samplers
    first = float(_next_32(bits, at))
    if first < probability * 4294967296.0 - _MARGIN:
        return True
    if first < probability * 4294967296.0 + _MARGIN:
        at[0] = _DOUBT
    return False


@_compiled
def _laplace(t, shift, bits, at):
    """CKS Algorithm 2: P(x) proportional to exp(-|x| 2^shift / t)."""
    while at[0] <= bits.size:
        u = _below(t, bits, at)
        while not _coin(np.exp(-float(u) / float(t)), bits, at) and at[0] <= bits.size:
            u = _below(t, bits, at)
        v = np.uint64(0)
        while _coin(_EXP_1, bits, at) and at[0] <= bits.size:
            v += np.uint64(1)
        size = np.int64((u + t * v) >> np.uint64(shift))
        negative = _next_32(bits, at) >> np.uint64(31) == np.uint64(1)
        if not (negative and size == 0):
            return -size if negative else size
    return np.int64(0)


@_compiled
def fill_laplace(out, done, t, shift, bits):
    """Fill `out` from `done` on: how many are filled, how many entries that took, any doubt."""
    at = np.zeros(1, np.int64)
    used = 0
    while done < out.size:
        value = _laplace(t, shift, bits, at)
        if at[0] > bits.size:
            break
        out[done] = value
        done, used = done + 1, at[0]
    return done, used, at[0] >= _DOUBT


@_compiled
def fill_strips(out, done, s, left, width, sure, area, bits):
    """The discrete Gaussian by strips, 64 bits for a try: what is filled, used, any doubt."""
    # proof: strips
    at = used = 0
    while done < out.size and at + 2 <= bits.size:
        high, low = np.uint64(bits[at]), np.uint64(bits[at + 1])
        at += 2
        i = high >> _HIGH_BITS & _STRIP_MASK
        w = width[i]
        # 55 bits times w, in two halves; digits to come would add less than w.
        low_part = low * w
        high_part = (high & _HIGH_MASK) * w + (low_part >> _LOW_BITS)
        y = np.int64(left[i] + (high_part >> _HIGH_BITS))
        fraction = (high_part & _HIGH_MASK) << _LOW_BITS | low_part & _LOW_MASK
        negative = high >> np.uint64(31) == np.uint64(1)
        if not (fraction < sure[i] and y > 0):
            doublings = 0
            if i == _TAIL:
                while at < bits.size and bits[at] == 0:
                    doublings += 32
                    at += 1
                if at == bits.size:
                    break
                run = np.uint64(bits[at])
                at += 1
                while run >> np.uint64(31) == np.uint64(0):
                    run <<= np.uint64(1)
                    doublings += 1
                y += np.int64(s) * doublings
                doublings += 1
            if fraction + w > _WHOLE:
                return done, used, True
            z = float(y) / float(s)
            height = np.exp(-z * z / 2) * (2.0**doublings * (float(w) / float(area) * _STRIP_UNIT))
            # Written so that what is not a number decides nothing.
            if not float(fraction + w) <= height * (1 - _STRIP_MARGIN):
                if not float(fraction) >= height * (1 + _STRIP_MARGIN) + 1:
                    return done, used, True
                continue
            if y == 0 and negative:
                continue
        out[done] = -y if negative else y
        done, used = done + 1, at
    return done, used, False


@_compiled
def fill_skips(out, done, last, n, k, bits):
    """Append the units that a Poisson sample takes, each with probability p = 1 - exp(-k / 2^32).

    `last` is the unit taken last. As many as G are passed over, P(G >= j) = (1 - p)^j: the floor
    of -log(W) 2^32 / k for a uniform W, whose first 64 bits are two entries.
    """  # proof: poisson-skips
    used = 0
    per = 4294967296.0 / float(k)
    while last < n and done < out.size and used + 2 <= bits.size:
        w = float(np.uint64(bits[used]) << np.uint64(32) | np.uint64(bits[used + 1]))
        passed = (64 * _LOG_2 - np.log(w)) * per if w > 0.0 else 0.0
        # How far the bits that are not drawn, and the error of the logarithm, could move it.
        doubt = (1e-12 + 2.0 / w) * per + 1e-12 * passed if w > 0.0 else 1.0
        if not abs(passed - np.rint(passed)) > doubt:
            return done, last, used, True
        used += 2
        last += 1 + np.int64(min(passed, 4e18))
        if last < n:
            out[done] = last
            done += 1
    return done, last, used, False


@_compiled
def shuffle_front(order, done, m, bits):
    """Swap a uniform choice of the rest to each of the first m entries (Fisher and Yates)."""
    at = np.zeros(1, np.int64)
    used = 0
    while done < m:
        j = done + np.int64(_below(np.uint64(order.size - done), bits, at))
        if at[0] > bits.size:
            break
        order[done], order[j] = order[j], order[done]
        done, used = done + 1, at[0]
    return done, used
