"""Documents behind the wall: a sparse matrix of counts, and who wrote which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

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
        matrix = self.matrix.tocsr(copy=True)
        # Nothing is believed of the matrix: positions outside the vocabulary are no words.
        outside = (matrix.indices < 0) | (matrix.indices >= matrix.shape[1])
        matrix.indices[outside] = 0
        matrix.data = np.where(outside, 0.0, matrix.data.astype(np.float64))
        matrix.has_sorted_indices = matrix.has_canonical_format = False
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
