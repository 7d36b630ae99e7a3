"""A number that knows data again: equal for equal data in any order of units, and else different.

It is for a run that goes on later, and kept beside its answers alone, where only their owner reads:
it would confirm a guess of all of the data.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tacit.compile_cache import cached
from tacit.sources.documents import Documents
from tacit.sources.rows import Rows
from tacit.sources.storage import forget
from tacit.sources.units import mixed

_UNITS = 2**20  # to look at before memory is given back
_LANES = 2  # of 64 bits


def fingerprint(data: Any) -> str:
    """A digest of rows or documents unit by unit, and of counts in their order."""
    match data:
        case Rows(values=values, starts=starts):
            return _of_units((values, starts))
        case Documents(offsets=offsets, words=words, weights=weights, starts=starts):
            bounds = offsets[starts]
            return _of_units((words, bounds), (weights, bounds), (np.diff(offsets), starts))
    return hashlib.sha256(np.ascontiguousarray(data.integers, "<i8").tobytes()).hexdigest()


def _of_units(*parts: tuple[np.ndarray, np.ndarray]) -> str:
    """Sums of hashes of each unit's numbers, of arrays and where each unit's begin in them."""
    sums = np.zeros((len(parts), _LANES), np.uint64)
    for (array, starts), total in zip(parts, sums, strict=True):
        width = array.itemsize // 4 * int(np.prod(array.shape[1:]))
        words = array.view(np.uint32).reshape(len(array), width)
        for first in range(0, len(starts) - 1, _UNITS):
            bounds = starts[first : first + _UNITS + 1]
            _add(words, bounds, total)
            forget(words, bounds[0], bounds[-1])
    return sums.tobytes().hex()


@cached(nogil=True)
def _add(words, starts, total):
    for unit in range(starts.size - 1):
        for lane in range(total.size):
            found = np.uint64(lane)
            for i in range(starts[unit], starts[unit + 1]):
                for j in range(words.shape[1]):
                    found = mixed(found ^ np.uint64(words[i, j])) + np.uint64(0x9E3779B97F4A7C15)
            total[lane] += mixed(found)
