"""CSV and Parquet files: checked by their header, read in batches, and never refused for a cell."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet

from tacit.sources.cells import Raw
from tacit.sources.delimited import records
from tacit.sources.tables import BATCH, plain
from tacit.spec.errors import SourceError

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
_LONGEST_LINE = 2**20


def parquet_schema(path: Path) -> pa.Schema:
    try:
        return pyarrow.parquet.read_schema(path)
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a Parquet file')}.") from None
    except pa.ArrowException:
        raise SourceError(f"Cannot read {path}: not a Parquet file.") from None


def parquet_batches(path: Path, wanted: Sequence[str]) -> Iterator[list[Raw]]:
    """The wanted columns, batch by batch."""
    # Whether the file was written as text or as bytes: what lies in it is not decoded here.
    file = pyarrow.parquet.ParquetFile(path)
    for batch in file.iter_batches(BATCH, columns=list(wanted)):
        yield [plain(batch.column(name)) for name in wanted]


def delimiter_of(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def csv_header(path: Path) -> list[str]:
    """The column names, which are all that is looked at before a charge; none in an empty file."""
    try:
        with _opened(path) as file:
            line = file.readline(_LONGEST_LINE).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
            raise SourceError(f"Cannot read {path}: its lines do not end as those of a CSV do.")
    except (EOFError, OSError, zlib.error) as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a gzip file')}.") from None
    text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    try:
        names = next(csv.reader([text], delimiter=delimiter_of(path), strict=True), [])
    except csv.Error:
        raise SourceError(
            f"Cannot read {path}: a quotation mark in its first line, the header, is not closed or "
            "stands within a name, or a name is too long."
        ) from None
    if line and not names:
        raise SourceError(f"{path} has no header line; expected column names in its first line.")
    return names


def csv_batches(path: Path, header: Sequence[str], wanted: Sequence[str]) -> Iterator[list[Raw]]:
    """The wanted columns, batch by batch, as bytes."""
    where = [header.index(name) for name in wanted]
    with _opened(path) as file:
        yield from records(file, delimiter_of(path), len(header), where)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _reason(error: BaseException, otherwise: str) -> str:
    return getattr(error, "strerror", None) or otherwise
