"""Rows of numbers put aside: in memory while they are few, then in files of this process alone.

A file has no name, so that nobody else can open it and nothing of it is left when the process ends,
however it ends. Where it lies is the system's folder for temporary files (TMPDIR).
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import pyarrow as pa

from tacit.sources.units import shards_of

IN_MEMORY = 2**28  # bytes that are kept in memory
PIECE = 2**26  # bytes of a file to look at before their memory is given back
SHARDS = 64
_PAGE = mmap.ALLOCATIONGRANULARITY


class Spool:
    """An array that grows by rows, and then can be read but not written to."""

    def __init__(self, dtype: Any, width: int = 0) -> None:
        self._dtype, self._width = np.dtype(dtype), width
        self._blocks: list[np.ndarray] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def append(self, block: np.ndarray) -> None:
        block = np.ascontiguousarray(block, self._dtype)
        self._bytes += block.nbytes
        if self._file is None and self._bytes > IN_MEMORY:
            self._file = _file()
            for earlier in self._blocks:
                self._file.write(earlier.data)
            self._blocks = []
        if self._file is None:
            self._blocks.append(block)
        else:
            self._file.write(block.data)

    def cast(self, dtype: Any) -> Spool:
        """The rows so far in another precision, to be appended to in the place of this."""
        return self if dtype == self._dtype else cast(self.array(), dtype)

    def array(self) -> np.ndarray:
        """All rows; those of a file are read by the system where they are looked at."""
        shape = (-1, self._width) if self._width else (-1,)
        if self._file is None or not self._bytes:
            empty = np.zeros((0, *shape[1:]), self._dtype)
            return np.concatenate([empty, *self._blocks])
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), self._bytes, access=mmap.ACCESS_READ)
        self._file.close()
        return np.frombuffer(mapped, self._dtype).reshape(shape)


def blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The rows some at a time; the memory of those of a file is given back after each."""
    step = max(1, PIECE // max(1, array.strides[0]))
    for first in range(0, len(array), step):
        yield array[first : first + step]
        forget(array, first, min(first + step, len(array)))


def cast(array: np.ndarray, dtype: Any) -> Spool:
    """The rows in another precision."""
    spool = Spool(dtype, array.shape[1])
    for block in blocks(array):
        spool.append(block)
    return spool


def pieces(array: np.ndarray, rows: int) -> int:
    """In how many pieces to look at some rows, so that each takes little memory; 1 in memory."""
    # The system reads up to 16 pages where one is looked at.
    return 1 + min(array.nbytes, 16 * _PAGE * rows) // PIECE if _mapped(array) else 1


def forget(array: np.ndarray, first: int, stop: int) -> None:
    """Give back the memory that rows of a file take; they can be read again."""
    mapped = _mapped(array)
    if mapped is not None:
        offset, row = _address(array) - _address(np.frombuffer(mapped, np.uint8)), array.strides[0]
        begin, end = ((offset + at * row) // _PAGE * _PAGE for at in (int(first), int(stop)))
        if end > begin:
            mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _mapped(array: np.ndarray) -> mmap.mmap | None:
    base: Any = array
    while getattr(base, "base", None) is not None:
        base = base.base
    found = getattr(base, "obj", base)
    return found if isinstance(found, mmap.mmap) else None


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class ByUnit:
    """Rows and whose they are, all rows of a unit together in the same part."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._writers: list[tuple[IO[bytes], Any]] = []
        self._stack = ExitStack()

    def append(self, owners: pa.Array, columns: Sequence[np.ndarray]) -> None:
        names = [str(i) for i in range(len(columns) + 1)]
        batch = pa.RecordBatch.from_arrays([owners, *map(pa.array, columns)], names)
        self._held.append(batch.filter(owners.is_valid()))
        self._bytes += batch.nbytes
        if self._bytes > IN_MEMORY:
            self._write()

    def _write(self) -> None:
        """Append what is held to the files of its shards."""
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)  # of no rows, where all were nobody's
        columns = [column.combine_chunks() for column in table.columns]
        whole = pa.RecordBatch.from_arrays(columns, table.column_names)
        shard = shards_of(whole.column(0), SHARDS)
        order = np.argsort(shard, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(shard, minlength=SHARDS)))
        if not self._writers:
            files = [self._stack.enter_context(_file()) for _ in range(SHARDS)]
            self._writers = [(file, pa.ipc.new_stream(file, whole.schema)) for file in files]
        ordered = whole.take(pa.array(order))
        for i, (_, writer) in enumerate(self._writers):
            writer.write_batch(ordered.slice(ends[i], ends[i + 1] - ends[i]))
        self._held, self._bytes = [], 0

    def parts(self) -> Iterator[tuple[list[pa.Array], list[np.ndarray]]]:
        """Owners and columns, part by part; then nothing is left of them."""
        if not self._writers:
            if self._held:
                yield _columns(pa.Table.from_batches(self._held))
            return
        self._write()
        with self._stack:
            for file, writer in self._writers:
                writer.close()
                file.seek(0)
                yield _columns(pa.ipc.open_stream(file).read_all())


def _columns(table: pa.Table) -> tuple[list[pa.Array], list[np.ndarray]]:
    owners, *columns = table.columns
    return owners.chunks, [column.to_numpy() for column in columns]


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()
