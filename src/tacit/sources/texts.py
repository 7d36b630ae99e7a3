"""Texts behind the wall: read in batches, counted by a public vocabulary, kept on disk.

What is kept are the counts, in files without a name that only this process can reach. Kernels read
them as memory that the system fills from disk, so that a corpus need not fit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.sources.columns import digests, letters
from tacit.sources.documents import Documents, bounded
from tacit.sources.rows import owner, units_of
from tacit.sources.source import Snapshot
from tacit.spec.columns import Tokens
from tacit.spec.schema import Schema
from tacit.spec.texts import word_counts

_COUNTED = 2**23  # letters to count the words of at once, which takes many times their room
_MOVED = 2**20  # words to put in another order at once


def read_texts(table: Snapshot, schema: Schema, column: Tokens) -> Documents:
    """Each unit's texts side by side, at most as many as the schema allows."""
    with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as weights:
        lengths, owners, contents = _spooled(table, schema.unit, column, words, weights)
        size = int(lengths.sum())
        word, weight = _mapped(words, np.int32, size), _mapped(weights, np.float64, size)
    if schema.unit is None:
        return _documents(lengths, word, weight, np.arange(lengths.size + 1))
    # proof: rows-per-unit. Which are kept is a matter of the unit's own texts alone.
    kept, first = units_of(owners, [contents], schema.max_rows_per_unit)
    offsets = np.append(0, np.cumsum(lengths))
    with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as weights:
        for some in _groups(kept, lengths):
            where = _ranges(offsets[some], lengths[some])
            words.write(word[where].tobytes())
            weights.write(weight[where].tobytes())
        size = int(lengths[kept].sum())
        word, weight = _mapped(words, np.int32, size), _mapped(weights, np.float64, size)
    starts = np.append(np.flatnonzero(first), kept.size)
    return _documents(lengths[kept], word, weight, starts)


def _spooled(
    table: Snapshot, unit: str | None, column: Tokens, words: IO[bytes], weights: IO[bytes]
) -> tuple[np.ndarray, list[pa.Array], np.ndarray]:
    """Write what the texts contain; their lengths, owners, and digests to put them in order."""
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
            words.write(word.astype(np.int32).tobytes())
            weights.write(shares.tobytes())
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


def _mapped(file: IO[bytes], dtype: type, size: int) -> np.ndarray:
    """What was written, as an array that is read from disk where it is looked at."""
    file.flush()
    return np.asarray(np.memmap(file, dtype, "r", shape=(size,))) if size else np.zeros(0, dtype)
