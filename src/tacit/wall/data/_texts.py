"""Texts behind the wall: read in batches, counted by a public vocabulary, kept on disk.

What is kept are the counts, in files without a name that only this process can reach. Maps read
them as memory that the system fills from disk, so that a corpus need not fit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.spec.texts import check_words, word_counts
from tacit.wall.data._columns import letters
from tacit.wall.data._documents import Documents, bounded
from tacit.wall.data._rows import bounded_rows, count_units
from tacit.wall.data._source import Source

_TEXTS, _LETTERS = 10_000, 2 * 10**8  # that are in memory at once
_COUNTED = 2**23  # letters to count the words of at once, which takes many times their room


@dataclass(frozen=True)
class TextSource:
    """A table with a column of texts that has been checked but not read."""

    table: Source
    schema: Schema
    column: Tokens

    def units(self) -> int:
        """How many units there are."""
        return count_units(self.table, self.schema)

    def read(self) -> Documents:
        """Each unit's texts side by side, at most as many as the schema allows."""
        with tempfile.TemporaryFile() as words, tempfile.TemporaryFile() as weights:
            offsets, starts = self._spooled(words, weights)
            size = int(offsets[-1])
            return Documents(
                offsets, _mapped(words, np.int32, size), _mapped(weights, np.float64, size), starts
            )

    def _spooled(self, words: IO[bytes], weights: IO[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Write what the texts contain; where each text begins, and each unit."""
        lengths, firsts = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
        with self.table.read() as table:
            rows = bounded_rows(table, self.table, self.schema)
            cell = letters(self.column, rows[self.table.name_of(self.column.name)])
            order = [] if self.schema.unit is None else ["person", "place"]
            rows = rows.select(*order, first=rows["first"], text=cell)
            rows = rows.order_by(order) if order else rows
            most = max(1, min(_TEXTS, _LETTERS // self.column.max_letters))
            for batch in rows.to_pyarrow_batches(chunk_size=most):
                firsts.append(batch.column("first").to_numpy(zero_copy_only=False))
                for texts in _slices(batch.column("text").cast(pa.large_string())):
                    place, word, counts = word_counts(texts, self.column.vocabulary)
                    lengths.append(np.bincount(place, minlength=len(texts)).astype(np.int64))
                    shares = bounded(counts.astype(float), lengths[-1], self.column.max_length)
                    words.write(word.astype(np.int32).tobytes())
                    weights.write(shares.tobytes())
        offsets = np.cumsum(np.concatenate(lengths))
        starts = np.flatnonzero(np.concatenate(firsts) == 1)
        starts = np.append(starts, len(offsets) - 1).astype(np.int64)
        for array in (offsets, starts):
            array.setflags(write=False)
        return offsets, starts


def _slices(texts: pa.Array) -> Iterator[pa.Array]:
    """Some texts after the other: a few letters, or a single text."""
    ends = np.cumsum(pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False))
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + _COUNTED, side="right")))
        yield texts.slice(first, stop - first)
        first = stop


def open_texts(table: Source, schema: Schema) -> TextSource:
    """Check that texts are all there is to read, and that the vocabulary can be found in them."""
    if len(schema.columns) != 1:
        raise SourceError("Expected a schema with a single Tokens column, beside its unit.")
    (column,) = schema.columns
    assert isinstance(column, Tokens)
    check_words(column.vocabulary)
    return TextSource(table, schema, column)


def _mapped(file: IO[bytes], dtype: type, size: int) -> np.ndarray:
    """What was written, as an array that is read from disk where it is looked at."""
    file.flush()
    if size == 0:
        empty: np.ndarray = np.zeros(0, dtype)
        empty.setflags(write=False)
        return empty
    return np.asarray(np.memmap(file, dtype, "r", shape=(size,)))
