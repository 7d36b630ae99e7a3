"""Texts behind the wall: read in batches, and counted by a public vocabulary.

What is kept are the counts, on disk where they are many, so that a corpus need not fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.sources.columns import digests, letters
from tacit.sources.documents import Documents, bounded
from tacit.sources.source import Snapshot
from tacit.sources.storage import Spool
from tacit.sources.units import owner, units_of
from tacit.spec.columns import Tokens
from tacit.spec.schema import Schema
from tacit.spec.texts import word_counts

_COUNTED = 2**23  # letters to count the words of at once, which takes many times their room
_MOVED = 2**20  # words to put in another order at once


def read_texts(table: Snapshot, schema: Schema, column: Tokens) -> Documents:
    """Each unit's texts side by side, at most as many as the schema allows."""
    words, weights = Spool(np.int32), Spool(np.float64)
    lengths, owners, contents = _spooled(table, schema.unit, column, words, weights)
    word, weight = words.array(), weights.array()
    if schema.unit is None:
        return _documents(lengths, word, weight, np.arange(lengths.size + 1))
    # proof: rows-per-unit. Which are kept is a matter of the unit's own texts alone.
    kept, first = units_of(owners, [contents], schema.max_rows_per_unit)
    offsets = np.append(0, np.cumsum(lengths))
    words, weights = Spool(np.int32), Spool(np.float64)
    for some in _groups(kept, lengths):
        where = _ranges(offsets[some], lengths[some])
        words.append(word[where])
        weights.append(weight[where])
    starts = np.append(np.flatnonzero(first), kept.size)
    return _documents(lengths[kept], words.array(), weights.array(), starts)


def _spooled(
    table: Snapshot, unit: str | None, column: Tokens, words: Spool, weights: Spool
) -> tuple[np.ndarray, list[pa.Array], np.ndarray]:
    """Append what the texts contain; their lengths, owners, and digests to put them in order."""
    lengths, owners, contents = [np.zeros(0, np.int64)], [], [np.zeros(0, "S32")]
    for text, *who in table.batches([column.name] + [unit] * (unit is not None)):  # type: ignore[list-item]
        found = letters(column, text)
        for cells in who:
            owners.append(owner(cells))
            contents.append(digests(found))
        for some in _slices(found):
            document, word, counts = word_counts(some, column.vocabulary)
            lengths.append(np.bincount(document, minlength=len(some)).astype(np.int64))
            shares = bounded(counts.astype(float), lengths[-1], column.max_length)
            words.append(word)
            weights.append(shares)
    return np.concatenate(lengths), owners, np.concatenate(contents)


def _documents(
    lengths: np.ndarray, words: np.ndarray, weights: np.ndarray, starts: np.ndarray
) -> Documents:
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return Documents(offsets, words, weights, starts.astype(np.int64))


def _slices(texts: pa.Array) -> Iterator[pa.Array]:
    """Some texts after the other: a few letters, or a single text."""
    ends = np.cumsum(pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False))
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + _COUNTED, side="right")))
        yield texts.slice(first, stop - first)
        first = stop


def _groups(kept: np.ndarray, lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Documents in their order, a limited number of words at a time."""
    ends = np.cumsum(lengths[kept]) // _MOVED
    yield from np.split(kept, np.flatnonzero(np.diff(ends)) + 1)


def _ranges(first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """All indices from `first` on, `lengths` of them, one range after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(first - ends + lengths, lengths)
