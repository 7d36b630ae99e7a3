"""Texts behind the wall: read in batches, counted by a public vocabulary, kept on disk.

What is kept are the counts, in files without a name that only this process can reach. Maps read
them as memory that the system fills from disk, so that a corpus need not fit.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import IO

import numpy as np

from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.spec.texts import check_words, word_counts
from tacit.wall._columns import text
from tacit.wall._documents import Documents, bounded
from tacit.wall._rows import bounded_rows, count_units
from tacit.wall._source import Source

_AT_ONCE = 10_000  # texts that are in memory


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
            cell = text(rows[self.table.name_of(self.column.name)])
            order = [] if self.schema.unit is None else ["person", "place"]
            rows = rows.select(*order, first=rows["first"], text=cell)
            rows = rows.order_by(order) if order else rows
            for batch in rows.to_pyarrow_batches(chunk_size=_AT_ONCE):
                firsts.append(batch.column("first").to_numpy(zero_copy_only=False))
                place, word, counts = word_counts(batch.column("text"), self.column.vocabulary)
                lengths.append(np.bincount(place, minlength=len(firsts[-1])).astype(np.int64))
                shares = bounded(counts.astype(float), lengths[-1], self.column.max_length)
                words.write(word.astype(np.int32).tobytes())
                weights.write(shares.tobytes())
        offsets = np.cumsum(np.concatenate(lengths))
        starts = np.flatnonzero(np.concatenate(firsts) == 1)
        starts = np.append(starts, len(offsets) - 1).astype(np.int64)
        for array in (offsets, starts):
            array.setflags(write=False)
        return offsets, starts


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
