"""Documents behind the wall: a sparse matrix of counts, and who wrote which."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from tacit.sources import tables
from tacit.sources.opening import check_column
from tacit.sources.storage import forget, pieces
from tacit.sources.units import owner, units_of
from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class Documents:
    """Document i has the words from `offsets[i]` to `offsets[i + 1]`; a unit's lie side by side.

    No array can be written to.
    """

    offsets: np.ndarray = field(repr=False)
    words: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        for array in self.arrays:
            array.setflags(write=False)

    @property
    def units(self) -> int:
        return len(self.starts) - 1

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.offsets, self.words, self.weights, self.starts

    def part(self, first: int, stop: int) -> Documents:
        """Some units that follow one another."""
        begin, end = self.starts[[first, stop]]
        offsets = self.offsets[begin : end + 1]
        words = slice(offsets[0], offsets[-1])
        starts = self.starts[first : stop + 1] - begin
        return Documents(offsets - offsets[0], self.words[words], self.weights[words], starts)

    def pieces(self, units: int) -> int:
        """In how many pieces to look at so many units, so that each takes little memory."""
        return pieces(self.weights, units)

    def forget(self, units: np.ndarray) -> None:
        """Give back the memory that the words of these units, in order, take."""
        if units.size:
            first, stop = self.offsets[self.starts[[units[0], units[-1] + 1]]]
            for array in (self.words, self.weights):
                forget(array, first, stop)

    @property
    def several(self) -> bool:
        """Whether any unit has more than one document."""
        return bool(np.diff(self.starts).max(initial=0) > 1)


@dataclass(frozen=True)
class DocumentSource:
    """A matrix that has been checked but not looked into."""

    matrix: Any = field(repr=False)
    owners: Any = field(repr=False)
    column: Tokens
    most: int
    declared: ClassVar[dict[str, Any]] = {}  # what a table would call its version

    def snapshot(self) -> nullcontext[DocumentSource]:
        """The matrix itself, which has one version."""
        return nullcontext(self)

    def units(self) -> int:
        """How many units there are."""
        if self.owners is None:
            return int(self.matrix.shape[0])
        return len(_grouped(self.owners, self.most)[1]) - 1

    def read(self) -> Documents:
        """Whole, non-negative counts; at most `most` documents of each owner."""
        matrix = _sound(self.matrix)
        matrix.sum_duplicates()
        counts = np.floor(np.nan_to_num(matrix.data, posinf=0.0, neginf=0.0))
        matrix.data = bounded(counts, np.diff(matrix.indptr), self.column.max_length)
        matrix.eliminate_zeros()
        starts = np.arange(matrix.shape[0] + 1)
        if self.owners is not None:
            kept, starts = _grouped(self.owners, self.most)
            matrix = matrix[kept]
        offsets, words = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
        return Documents(offsets, words, matrix.data, starts.astype(np.int64))


def _sound(matrix: Any) -> csr_matrix:
    """A copy in rows, entries outside the matrix set to 0: its arrays may hold anything."""
    compressed = {"csr": 0, "csc": 1}.get(matrix.format)
    if compressed is None:
        row, word = (np.asarray(part).astype(np.int64) for part in (matrix.row, matrix.col))
        size = min(len(matrix.data), row.size, word.size)
        row, word = row[:size], word[:size]
    else:
        count = matrix.shape[compressed]
        size = min(len(matrix.data), len(matrix.indices))
        starts = np.zeros(count + 1, np.int64)
        given = np.asarray(matrix.indptr)[: count + 1].astype(np.int64)
        starts[: given.size] = given
        starts = np.clip(np.maximum.accumulate(starts), 0, size)
        starts[0], size = 0, int(starts[-1])
        inner = np.asarray(matrix.indices)[:size].astype(np.int64)
        outer = np.repeat(np.arange(count), np.diff(starts))
        row, word = (inner, outer) if compressed else (outer, inner)
    data = np.asarray(matrix.data)[:size].astype(np.float64)
    outside = (row < 0) | (row >= matrix.shape[0]) | (word < 0) | (word >= matrix.shape[1])
    data[outside], row[outside], word[outside] = 0.0, 0, 0
    if compressed == 0:  # by rows already: to sort them again would take several times as long
        return csr_matrix((data, word, starts), shape=matrix.shape)
    return csr_matrix((data, (row, word)), shape=matrix.shape)


def bounded(counts: np.ndarray, lengths: np.ndarray, most: int) -> np.ndarray:
    """Counts of documents that have `lengths` of them, none longer than `most` words.

    A document that is too long is weighted down to the longest that is allowed.
    """
    counts = np.clip(counts, 0.0, float(most))
    document = np.repeat(np.arange(len(lengths)), lengths)
    total = np.bincount(document, weights=counts, minlength=len(lengths))
    return counts * np.minimum(1.0, most / np.maximum(total, 1.0))[document]


def open_documents(matrix: Any, schema: Schema, owners: Any) -> DocumentSource:
    """Check the shape against the schema. No entry is looked at."""
    if len(schema.columns) != 1 or not isinstance(schema.columns[0], Tokens):
        raise SourceError("Expected a schema with a single Tokens column for a sparse matrix.")
    column = schema.columns[0]
    words = len(column.vocabulary)
    if matrix.ndim != 2 or matrix.shape[1] != words:
        raise SourceError(
            f"Expected a column for each of the {words} words of {column.name!r}, "
            f"got a matrix with {matrix.shape[-1]}."
        )
    if matrix.format not in ("csr", "csc", "coo"):
        raise SourceError(f"Expected matrix.tocsr() instead of a matrix in {matrix.format} format.")
    if np.dtype(matrix.dtype).kind not in "biuf":
        raise SourceError(f"Expected a matrix of counts, got {matrix.dtype}.")
    if (owners is None) != (schema.unit is None):
        raise SourceError(
            f"Expected owners= with {schema.unit!r} of each document."
            if owners is None
            else 'Expected unit="..." and max_rows_per_unit in the schema beside owners=.'
        )
    if owners is not None:
        check_column(str(schema.unit), owners, schema)
        if len(owners) != matrix.shape[0]:
            raise SourceError("Expected one entry of owners= for each document.")
    return DocumentSource(matrix, owners, column, schema.max_rows_per_unit)


def _grouped(owners: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Which documents to keep, owner by owner, and where each owner's begin."""
    names = [owner(cells) for (cells,) in tables.batches([owners])]
    kept, first = units_of(names, (), most)
    return kept, np.append(np.flatnonzero(first), kept.size)
