"""Documents behind the wall: a sparse matrix of counts, and who wrote which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import csr_matrix

from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.wall.data import _cells
from tacit.wall.data._columns import owner
from tacit.wall.data._source import scanned


@dataclass(frozen=True)
class Documents:
    """Document i has the words from `offsets[i]` to `offsets[i + 1]`; a unit's lie side by side."""

    offsets: np.ndarray = field(repr=False)
    words: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)

    @property
    def units(self) -> int:
        return len(self.starts) - 1

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.offsets, self.words, self.weights, self.starts

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

    def units(self) -> int:
        """How many units there are."""
        if self.owners is None:
            return int(self.matrix.shape[0])
        return len(_grouped(self.owners, self.most)[1]) - 1

    def read(self) -> Documents:
        """Whole, non-negative counts; at most `most` documents of each owner, the first ones."""
        matrix = _sound(self.matrix)
        matrix.sum_duplicates()
        counts = np.floor(np.nan_to_num(matrix.data, posinf=0.0, neginf=0.0))
        matrix.data = bounded(counts, np.diff(matrix.indptr), self.column.max_length)
        matrix.eliminate_zeros()
        starts = np.arange(matrix.shape[0] + 1)
        if self.owners is not None:
            kept, starts = _grouped(self.owners, self.most)
            matrix = matrix[kept]
        arrays = (
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int32),
            matrix.data,
            starts.astype(np.int64),
        )
        for array in arrays:
            array.setflags(write=False)
        return Documents(*arrays)


def _sound(matrix: Any) -> csr_matrix:
    """A copy in rows with all entries inside it, whatever was done to the arrays of a matrix.

    Nothing is believed of them, or a strange number would end the process: what lies outside is 0.
    """
    size = min(len(matrix.data), *(len(part) for part in _positions(matrix)))
    data = np.asarray(matrix.data)[:size].astype(np.float64)
    if matrix.format == "coo":
        row, word = (np.asarray(part)[:size].astype(np.int64) for part in _positions(matrix))
    else:
        compressed, other = (0, 1) if matrix.format == "csr" else (1, 0)
        count = matrix.shape[compressed]
        starts = np.zeros(count + 1, np.int64)
        given = np.asarray(matrix.indptr)[: count + 1].astype(np.int64)
        starts[: len(given)] = given
        starts = np.clip(np.maximum.accumulate(starts), 0, size)
        starts[0] = 0
        data, inner = data[: starts[-1]], np.asarray(matrix.indices)[: starts[-1]].astype(np.int64)
        if matrix.format == "csr":
            outside = (inner < 0) | (inner >= matrix.shape[other])
            data[outside], inner[outside] = 0.0, 0
            return csr_matrix((data, inner, starts), shape=matrix.shape)
        row, word = inner, np.repeat(np.arange(count), np.diff(starts))
    outside = (row < 0) | (row >= matrix.shape[0]) | (word < 0) | (word >= matrix.shape[1])
    data[outside], row[outside], word[outside] = 0.0, 0, 0
    return csr_matrix((data, (row, word)), shape=matrix.shape)


def _positions(matrix: Any) -> tuple[Any, ...]:
    return (matrix.row, matrix.col) if matrix.format == "coo" else (matrix.indices,)


def bounded(counts: np.ndarray, lengths: np.ndarray, most: int) -> np.ndarray:
    """Counts of documents that have `lengths` of them, none longer than `most` words.

    A document that is too long is weighted down to the longest that is allowed.
    """
    counts = np.clip(counts, 0.0, float(most))
    place = np.repeat(np.arange(len(lengths)), lengths)
    total = np.bincount(place, weights=counts, minlength=len(lengths))
    return counts * np.minimum(1.0, most / np.maximum(total, 1.0))[place]


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
            f"Expected units= with {schema.unit!r} of each document."
            if owners is None
            else 'Expected unit="..." and max_rows_per_unit in the schema beside units=.'
        )
    if owners is not None and len(owners) != matrix.shape[0]:
        raise SourceError("Expected one entry of units= for each document.")
    return DocumentSource(matrix, owners, column, schema.max_rows_per_unit)


def _grouped(owners: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Which documents to keep, owner by owner, and where each owner's begin."""
    with scanned(pa.table({"who": _cells.column(owners)})) as table:
        names = table.select(who=owner(table["who"])).to_pyarrow()["who"].to_pandas()
    group, _ = pd.factorize(names)  # -1: nobody's
    known = np.flatnonzero(group >= 0)
    known = known[np.argsort(group[known], kind="stable")]
    group = group[known]
    place = np.arange(group.size) - np.searchsorted(group, group, side="left")
    keep = place < most
    return known[keep], np.append(np.flatnonzero(place[keep] == 0), keep.sum())
