"""CSV and Parquet files: checked by their header, read in batches, and never refused for a cell."""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet

from tacit.spec.errors import SourceError
from tacit.wall.data._cells import (
    CARRIAGE_RETURN,
    TEXT,
    decoded,
    is_ordinary,
    safe_arrow,
    safe_type,
)

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
_BATCH = 2**16
_LONGEST_LINE = 2**20

csv.field_size_limit(2**31 - 1)  # for the whole process: raised once, so that no thread lowers it


def parquet_schema(path: Path) -> pa.Schema:
    try:
        return pyarrow.parquet.read_schema(path)
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a Parquet file')}.") from None
    except pa.ArrowException:
        raise SourceError(f"Cannot read {path}: not a Parquet file.") from None


def parquet_batches(path: Path, wanted: list[str], names: list[str]) -> pa.RecordBatchReader:
    """The wanted columns under internal names, batch by batch, in safe types."""
    file = pyarrow.parquet.ParquetFile(path)
    types = [safe_type(file.schema_arrow.field(name).type) for name in wanted]
    schema = pa.schema(list(zip(names, types, strict=True)))
    batches = (
        pa.record_batch([safe_arrow(batch.column(name)) for name in wanted], schema=schema)
        for batch in file.iter_batches(_BATCH, columns=wanted)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def delimiter_of(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def csv_header(path: Path) -> list[str]:
    """The column names, which are all that is looked at before a charge; none in an empty file."""
    try:
        with _opened(path) as file:
            line = file.readline(_LONGEST_LINE).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
            raise SourceError(f"Cannot read {path}: its lines do not end as those of a CSV do.")
    except (EOFError, OSError) as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a gzip file')}.") from None
    names = next(csv.reader([decoded(line.rstrip(b"\r\n"))], delimiter=delimiter_of(path)), [])
    if line and not names:
        raise SourceError(f"{path} has no header line; expected column names in its first line.")
    return names


def csv_is_plain(path: Path) -> bool:
    """Whether there is nothing in the file that two readers could read differently."""
    terminators = set()
    with _opened(path) as file:
        while chunk := file.read(2**22):
            chunk += file.readline()  # to the end of a line, so that nothing is cut in two
            if b'"' in chunk or chunk.count(b"\r") != chunk.count(b"\r\n"):
                return False
            if not is_ordinary(chunk) or max(map(len, chunk.split(b"\n"))) > _LONGEST_LINE:
                return False
            terminators.add((b"\r\n" in chunk, chunk.count(b"\n") != chunk.count(b"\r\n")))
    return len(terminators) <= 1 and (True, True) not in terminators


def csv_batches(path: Path, where: list[int], names: list[str]) -> pa.RecordBatchReader:
    """The wanted columns of any CSV at all: short rows are padded, long ones cut, none is lost."""
    schema = pa.schema([(name, TEXT) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        width = len(csv_header(path))
        with _opened(path) as file:
            rows = _records(file, delimiter_of(path))
            next(rows, None)
            while some := list(itertools.islice(rows, _BATCH)):
                # A blank line is no row, unless there is only one column to leave blank.
                kept = [
                    row if len(row) >= width else row + [""] * (width - len(row))
                    for row in some
                    if row or width == 1
                ]
                arrays = [pa.array([row[i] for row in kept], TEXT) for i in where]
                yield pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _records(file: IO[bytes], delimiter: str) -> Iterator[list[str]]:
    """The records of a CSV. Carriage returns stay what they are, but for one that ends a record."""
    line = b""

    def lines() -> Iterator[str]:
        nonlocal line
        for line in file:
            text = str(line, "ascii") if line.isascii() else decoded(line)
            yield text.replace("\r", CARRIAGE_RETURN) if "\r" in text else text

    for row in csv.reader(lines(), delimiter=delimiter):
        if row and line.endswith((b"\r\n", b"\r")):
            row[-1] = row[-1].removesuffix(CARRIAGE_RETURN)
            yield [] if row == [""] and not line.strip(b"\r\n") else row
        else:
            yield row


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _reason(error: BaseException, otherwise: str) -> str:
    return getattr(error, "strerror", None) or otherwise
